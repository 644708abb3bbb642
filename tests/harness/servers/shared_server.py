"""A stub server to which several instances of a component are connected, as ejabberd lets them be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.servers.stub_server import StubServer

if TYPE_CHECKING:
    import asyncio
    from random import Random


class SharedServer(StubServer):
    """Gives each text to one of the connected instances, chosen at random; receives the stanzas of each.

    There is no order between the stanzas of two of them.
    """

    def __init__(self, random: Random, **how: Any) -> None:
        super().__init__(**how)
        self._random = random
        self._writers: list[asyncio.StreamWriter] = []

    async def send(self, text: str) -> None:
        """Give `text` to one of them."""
        assert self._writers, "no component is connected"
        writer = self._random.choice(self._writers)
        writer.write(text.encode())
        await writer.drain()

    async def _report(self, **news: Any) -> None:
        if news.get("writer"):
            self._writers.append(news["writer"])
        if news.get("lost") in self._writers:
            self._writers.remove(news["lost"])
        await super()._report(**news)
