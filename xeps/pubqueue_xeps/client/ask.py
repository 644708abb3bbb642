"""Sends a request over any slixmpp client, and waits for the answer while one can come.

slixmpp's own `Iq.send` keeps waiting for an answer after the stream is lost, and cannot write an attribute with a
namespace. So a request is sent as text, in order with slixmpp's stanzas.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import TYPE_CHECKING, Any, Final

from slixmpp.exceptions import IqError
from slixmpp.jid import JID
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher.idsender import MatchIDSender

from pubqueue_xeps.errors import ServiceUnavailable
from pubqueue_xeps.wire import refusals
from pubqueue_xeps.wire.ns import CLIENT
from pubqueue_xeps.wire.xml_text import quote

if TYPE_CHECKING:
    from collections.abc import Callable
    from xml.etree.ElementTree import Element

    from slixmpp.xmlstream import StanzaBase

    from pubqueue_xeps.wire.refusals import Refusal
    from pubqueue_xeps.wire.requests import IqRequest


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


# IQ requests in flight on one stream, each until its answer or the end of the stream.

IQ: Final = f"{{{CLIENT}}}iq"


class Unanswered(Exception):  # noqa: N818 - it names what happened
    """No answer came. Unless the request was never `sent`, it is unknown whether the service received it."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__("There was no answer.")
        self.sent = sent


class Denied(Exception):  # noqa: N818 - as above
    """The answer is an error."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.summary)
        self.refusal = refusal


class PendingIqs:
    """Sends requests by `send`, which returns whether there was a stream, and reads incoming stanzas."""

    def __init__(self, send: Callable[[bytes], bool]) -> None:
        self._send = send
        self._ids = (f"{secrets.token_hex(4)}-{n}" for n in itertools.count(1))
        self._asked: dict[str, tuple[str, asyncio.Future[Element]]] = {}

    async def ask(self, service: str, question: IqRequest, timeout: float) -> Element:  # noqa: ASYNC109 - raises an error of its own
        """Return the answer. Raise Denied for an error, Unanswered if no answer can or does come."""
        name = next(self._ids)
        answer: asyncio.Future[Element] = asyncio.get_running_loop().create_future()
        start = f"<iq type='{question.kind}' id='{name}' to={quote(service)}>"
        if not self._send(start.encode() + question.body):
            raise Unanswered(sent=False)
        self._asked[name] = service, answer
        try:
            done, _ = await asyncio.wait({answer}, timeout=timeout)
        finally:
            del self._asked[name]
        if not done or answer.cancelled():
            raise Unanswered(sent=True)
        iq = answer.result()
        if iq.get("type") == "error":
            raise Denied(refusals.read(iq))
        return iq

    def read(self, stanza: Element) -> bool:
        """Read the answer to one of our requests; return False for any other stanza."""
        if stanza.tag != IQ or stanza.get("type") not in ("result", "error"):
            return False
        service, answer = self._asked.get(stanza.get("id", ""), ("", None))
        # without an address it is of our own account, whose answers a server may leave so (RFC 6120, 8.1.2.1)
        if answer is None or stanza.get("from", service) != service:
            return False
        if not answer.done():
            answer.set_result(stanza)
        return True

    def cut(self) -> None:
        """Stop waiting for answers: the stream is lost."""
        for _, answer in self._asked.values():
            answer.cancel()


# Waiting in one thread for a coroutine in another thread's event loop.
