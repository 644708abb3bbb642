"""Operations over XMPP: each is an ad-hoc command that is executed in one step (XEP-0050)."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from slixmpp.exceptions import IqError

from pubqueue.admin.session import About, Link, Page
from pubqueue.operations.model import moment, value_of
from pubqueue_xeps.client.ask import ask
from pubqueue_xeps.client.connection import PartialConnection, connection
from pubqueue_xeps.client.xmpp_client import login, logout
from pubqueue_xeps.wire import refusals
from pubqueue_xeps.wire.requests import commands

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from xml.etree.ElementTree import Element

    from pubqueue.operations.model import Operation, Value
    from pubqueue_xeps.client.xmpp_client import Client


class XmppLink(Link):
    """A session of an account with a service, over its server."""

    def __init__(self, client: Client, about: About, timeout: float) -> None:
        self.client, self.about = client, about
        self._timeout = timeout

    async def perform(self, operation: Operation, words: Mapping[str, tuple[str, ...]]) -> Page:
        """Execute the command of the operation."""
        question = commands.perform(operation.name, operation.label, words)
        try:
            answer = await ask(self.client, self.about.service, question, self._timeout)
        except IqError as error:
            raise self._refused(refusals.read(error.iq.xml), operation, words) from None
        return self._read(operation, answer)

    @property
    def tls(self) -> tuple[str, str, int] | None:
        """The TLS of the stream."""
        transport = self.client.transport
        secured = transport.get_extra_info("ssl_object") if transport else None
        if secured is None:
            return None
        name, _, bits = secured.cipher()
        return secured.version(), name, bits

    def _read(self, operation: Operation, answer: Element) -> Page:
        performed = commands.read(answer)
        if performed is None:
            raise self._unknown(operation)
        known = performed.known
        now = known.get("now", ())
        ends = {name: int(known[name][0]) for name in ("oldest", "newest") if known.get(name)}
        return Page(
            note=performed.note,
            rows=tuple(_row(operation, row) for row in performed.rows),
            through="".join(known.get("through", ())),
            more=known.get("more") == ("1",),
            now=moment(now[0]) if now else None,
            warns=performed.warns,
            **ends,
        )


def _row(operation: Operation, values: Mapping[str, tuple[str, ...]]) -> dict[str, Value]:
    """Return the cells of the known columns; a later version may have others."""
    return {
        column.name: value_of(column.cell, values.get(column.name, ()))
        for column in operation.columns
    }


@asynccontextmanager
async def linked(
    url: str | None,
    password: str | None = None,
    *,
    services: Sequence[str] = (),
    timeout: float = 30.0,  # noqa: ASYNC109  # a promise
) -> AsyncIterator[XmppLink]:
    """Log in with the URL or the environment's settings, and log out at the end; `services` is a list of one, if given.

    Raises:
        ConfigurationError: the account, the service or the password is not set, or several services are.
        LoginFailed: the server refuses the login.

    """
    given = PartialConnection(password=password, services=services or None)
    connected = connection(given, role="operator", url=url)
    about = About(connected.account, connected.service)
    client = connected.client()
    await login(client, timeout=timeout)
    try:
        yield XmppLink(client, about, timeout)
    finally:
        await logout(client)
