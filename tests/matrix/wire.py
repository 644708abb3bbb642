"""Everybody's requests to the service, by a stub server; many at once, each answered by its id."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Final, Self

from harness.patience import TIMEOUT

from matrix.asks import DISCO

if TYPE_CHECKING:
    from harness.servers.stub_server import Stanza, StubServer
    from lxml.etree import _Element

IQ: Final = "{jabber:component:accept}iq"
PUBSUB_FEATURE: Final = "http://jabber.org/protocol/pubsub#"


WINDOW: Final = 48
"""Requests under way at a time; of those that read one account may have 64."""


class Wire:
    """Speaks for everybody behind the server."""

    def __init__(self, server: StubServer) -> None:
        self._server = server
        self._numbers = itertools.count(1)
        self._open: dict[str | None, asyncio.Future[_Element]] = {}
        self._window = asyncio.Semaphore(WINDOW)
        self._returning: set[asyncio.Task[None]] = set()
        self.features: set[str] = set()
        server.on_stanza = self._take

    async def opened(self) -> Self:
        """Ask what the service can do; return this."""
        info = await self.ask("somebody@localhost/desk", "get", f"<query xmlns='{DISCO}#info'/>")
        said = {it.get("var", "") for it in info.findall(".//{*}feature")}
        self.features = {it.removeprefix(PUBSUB_FEATURE) for it in said}
        return self

    async def ask(self, jid: str, kind: str, child: str) -> _Element:
        """Return the answer to an IQ; no more are under way than the service takes of one account."""
        async with self._window:
            return await self._ask(jid, kind, child)

    async def _ask(self, jid: str, kind: str, child: str) -> _Element:
        name = f"m{next(self._numbers)}"
        answer = self._open[name] = asyncio.get_running_loop().create_future()
        words = f"from='{jid}' to='{self._server.domain}' type='{kind}' id='{name}'"
        await self._server.send(f"<iq {words}>{child}</iq>")
        async with asyncio.timeout(TIMEOUT):
            return await answer

    def _take(self, stanza: Stanza) -> None:
        if (
            stanza.tree.get("to") == self._server.domain
        ):  # what the service says to itself comes back
            task = asyncio.create_task(self._server.send(stanza.raw))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)
        elif stanza.tree.tag == IQ:
            self._open.pop(stanza.tree.get("id")).set_result(stanza.tree)


def said(answer: _Element) -> str:
    """Write an answer as scenarios and `outcomes.txt` do: `result`, or the error."""
    if answer.get("type") == "result":
        return "result"
    (error,) = answer.findall("{*}error")
    condition, *rest = [it for it in error if not it.tag.endswith("}text")]
    text = f"{_name(condition)} ({error.get('type')})"
    for child in rest:
        text += f" with {_name(child)} {child.get('feature', '')}".rstrip()
    return text


def _name(element: _Element) -> str:
    return element.tag.rpartition("}")[2]
