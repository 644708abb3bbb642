"""Sends a request over any slixmpp client, and waits for the answer while one can come.

slixmpp's own `Iq.send` keeps waiting for an answer after the stream is lost, and cannot write an attribute with a
namespace. So a request is sent as text, in order with slixmpp's stanzas.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from slixmpp.exceptions import IqError
from slixmpp.jid import JID
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher.idsender import MatchIDSender

from pubqueue_xeps.errors import ServiceUnavailable
from pubqueue_xeps.wire import refusals
from pubqueue_xeps.wire.xml_escape import quote

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from slixmpp.xmlstream import StanzaBase

    from pubqueue_xeps.wire.requests.iq import IqRequest

TIMEOUT = 120
"""Seconds; slixmpp's."""


async def ask(
    client: Any,  # noqa: ANN401 - slixmpp's, whose stanzas mypy cannot follow
    service: str,
    question: IqRequest,
    timeout: float = TIMEOUT,  # noqa: ASYNC109 - raises a message of its own
) -> Element:
    """Return the answer; raise IqError for a refusal, ServiceUnavailable if no answer can come."""
    answered: asyncio.Future[StanzaBase] = asyncio.get_running_loop().create_future()
    name = client.new_id()

    def take(iq: StanzaBase) -> None:
        if not answered.done():
            answered.set_result(iq)

    def lose(_reason: object) -> None:
        answered.cancel()

    handler = f"pubqueue {name}"
    client.register_handler(Callback(handler, _answer_to(client, name, service), take))
    client.add_event_handler("disconnected", lose)
    try:
        address = f"id='{name}' to={quote(service)}"
        client.send(f"<iq type='{question.kind}' {address}>{question.body.decode()}")
        await asyncio.wait({answered}, timeout=timeout)
    finally:
        client.remove_handler(handler)
        client.del_event_handler("disconnected", lose)
    if answered.cancelled() or not answered.done():
        raise ServiceUnavailable(f"{service} does not answer.")
    reply = answered.result()
    if reply["type"] == "error":
        raise IqError(reply)  # type: ignore[no-untyped-call]  # untyped there
    return reply.xml


async def ask_about(
    client: Any,  # noqa: ANN401 - as above
    service: str,
    node: str,
    question: IqRequest,
    timeout: float = TIMEOUT,  # noqa: ASYNC109 - as above
) -> Element:
    """Return the answer to a request about a node; raise the exception that `refusals.failure` makes of a refusal."""
    try:
        return await ask(client, service, question, timeout)
    except IqError as error:
        raise refusals.failure(refusals.read(error.iq.xml), service, node) from None


def _answer_to(client: Any, name: str, service: str) -> MatchIDSender:  # noqa: ANN401 - as above
    return MatchIDSender({"id": name, "self": client.boundjid, "peer": JID(service)})
