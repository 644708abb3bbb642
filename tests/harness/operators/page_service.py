"""A service without a server, whose page is looked at: its broker, and where its page is."""

import asyncio
from contextlib import asynccontextmanager

from harness.operators.browser import CHANGE, LOOK

from pubqueue.app.watch.watching import Phase
from pubqueue.config.settings import Settings
from pubqueue.core.model import Jid, Principal
from pubqueue.monitor.page.logins import Tokens
from pubqueue.monitor.server import Monitor
from pubqueue.wiring import queue

SERVICE = Principal(Jid("queue.example"), admin=True)
BOTH = Tokens(LOOK, CHANGE)


class Face:
    """Reaches everybody, and lets everything get lost that is said."""

    def claims(self, _address):
        return True

    reaches = claims

    def speak(self, _notices):
        return []

    def when_sent(self, _node, call):
        call()

    @classmethod
    def up(cls, broker):
        """Let there be one."""
        face = cls()
        broker.outbox.attach(face)
        broker.outbox.set_up(face, up=True)


class Shown:
    """A service with its page."""

    def __init__(self, broker, monitor, place):
        self.broker, self.monitor, self.place = broker, monitor, place

    async def do(self, *requests):
        replies = [await self.broker.handle(request) for request in requests]
        await self.broker.settled()
        return replies

    async def do_all(self, requests):
        """Have many requests decided, some hundred in a batch."""
        await asyncio.gather(*(self.broker.handle(request) for request in requests))


@asynccontextmanager
async def shown(store="memory:", tokens=BOTH):
    settings = Settings(jid="queue.example", secret="s", store=store)
    monitor = Monitor(SERVICE, version="1.0", tokens=tokens)
    async with queue(settings) as broker, monitor.listening("127.0.0.1", 0) as port:
        Face.up(broker)
        monitor.at_work(broker, ())
        yield Shown(broker, monitor, f"http://127.0.0.1:{port}")
        monitor.at_rest(Phase.STOPPING)
