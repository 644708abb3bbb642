"""Ask once, on the driver and before any task starts, whether publishing would work at all.

A wrong password or a misspelt node then fails the job once, with a sentence, and not in every task.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from slixmpp.exceptions import IqError, IqTimeout

from pubqueue_spark import refusals, session
from pubqueue_spark.errors import OptionError, ServiceError
from pubqueue_xeps import ns
from pubqueue_xeps.client import LoginFailed, login, logout

if TYPE_CHECKING:
    from pubqueue_spark.options import Settings
    from pubqueue_xeps.client import Client

DISCO: Final = "http://jabber.org/protocol/disco#info"


def check(settings: Settings) -> None:
    """Log in, ask the service and the node what they are, log out.

    Raises OptionError when an option names what is not there, ServiceError when the service cannot
    be reached or does not let the account in.
    """
    asyncio.run(_check(settings))


async def _check(settings: Settings) -> None:
    client = session.account(settings).client(session.resource("driver"))
    try:
        await login(client)
    except LoginFailed as error:
        raise ServiceError(
            f"option jid={settings.jid}: {str(error).rstrip('.')} (options jid, {settings.secret.option},"
            " host, port, tls)."
        ) from None
    try:
        await _check_service(client, settings)
        if settings.node is not None:
            await _check_node(client, settings, settings.node)
    finally:
        await logout(client)


async def _check_service(client: Client, settings: Settings) -> None:
    found = await _features(client, settings, None)
    if isinstance(found, refusals.Refusal):
        raise ServiceError(
            f"option service: {settings.service} does not answer as a service should: {found}."
        )
    if ns.QUEUEING not in found:  # XEP-0254 3: a service that has queues says so
        raise OptionError(
            f"option service: {settings.service} has no work queues (feature {ns.QUEUEING});"
            " give the JID of a pubqueue service."
        )


async def _check_node(client: Client, settings: Settings, node: str) -> None:
    found = await _features(client, settings, node)
    if isinstance(found, refusals.Refusal):
        raise OptionError(f"option node: {settings.service} answers for {node!r}: {found}.")
    if ns.QUEUEING not in found:
        raise OptionError(
            f"option node: {node!r} is no work queue; its owner turns one on with"
            " x-queueing#enabled in the node configuration."
        )


async def _features(
    client: Client, settings: Settings, node: str | None
) -> frozenset[str] | refusals.Refusal:
    """Return the features of the service or of a node (XEP-0030), or why it does not tell."""
    ask = client.make_iq_get(queryxmlns=DISCO, ito=settings.service)
    query = ask.xml.find(f"{{{DISCO}}}query")
    assert query is not None
    if node is not None:
        query.set("node", node)
    try:
        sent = ask.send(timeout=settings.progress_timeout)  # type: ignore[no-untyped-call]  # slixmpp
        answer = await sent
    except IqError as error:
        return refusals.read(error.iq.xml)
    except IqTimeout:
        raise ServiceError(
            f"option service: no answer from {settings.service} within"
            f" {settings.progress_timeout:g} seconds; is it running?"
        ) from None
    return frozenset(f.get("var", "") for f in answer.xml.iter(f"{{{DISCO}}}feature"))
