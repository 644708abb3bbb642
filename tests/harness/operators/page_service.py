"""A service without a server, whose page is tested: its broker, and the address of its page."""

import asyncio
import time
from contextlib import asynccontextmanager
from hashlib import sha256

from harness.operators.browser import CHANGE, LOOK

from pubqueue.accounts.accounts import Accounts
from pubqueue.accounts.credentials import Principals, Role, User
from pubqueue.config.settings import Settings
from pubqueue.engine.observe import Phase
from pubqueue.faces.checks import THIS_HOST
from pubqueue.faces.http import HttpHost
from pubqueue.faces.listener import Place
from pubqueue.model.entities import Jid, Principal
from pubqueue.monitor.page.logins import Logins
from pubqueue.monitor.server import Monitor
from pubqueue.wiring.serving import queue

SERVICE = Principal(Jid("queue.example"), admin=True)


def user(name, token, *roles):
    """Return a user that logs in with this token."""
    digest = sha256(token.encode()).hexdigest()
    return User(name, tokens=frozenset({digest}), roles=frozenset(roles))


BOTH = user("looker", LOOK, Role.VIEWER), user("changer", CHANGE, Role.OPERATOR)


class Face:
    """Reaches all addresses, and drops all notices."""

    largest = 262_144

    def claims(self, _address):
        return True

    reaches = claims

    def send_notices(self, _notices):
        return []

    def when_sent(self, _node, call):
        call()

    @classmethod
    def up(cls, broker):
        """Create one."""
        face = cls()
        broker.outbox.attach(face)
        broker.outbox.set_up(face, up=True)


class Shown:
    """A service with its page."""

    def __init__(self, broker, monitor, place, accounts):
        self.broker, self.monitor, self.place = broker, monitor, place
        self.accounts = accounts

    async def do(self, *requests):
        replies = [await self.broker.handle(request) for request in requests]
        await self.broker.settled()
        return replies

    async def do_all(self, requests):
        """Submit many requests, some hundred in a batch."""
        await asyncio.gather(*(self.broker.handle(request) for request in requests))


def _stands_still():
    """Be the clock of the accounts: a peer that has to wait does so for as long as a test takes."""
    return 0.0


@asynccontextmanager
async def shown(store="memory:", users=BOTH, proxies=()):
    settings = Settings(jid="queue.example", secret="s", store=store)
    admins = [Jid(f"{one.name}@{settings.jid}") for one in users if Role.ADMIN in one.roles]
    principals = Principals(admins=admins, home="example")
    accounts = Accounts(users, principals, settings.jid, _stands_still)
    logins = Logins(accounts, time.time, b"s")
    monitor = Monitor(SERVICE, version="1.0", logins=logins, proxies=proxies)
    async with (
        queue(settings) as broker,
        monitor.sampling(),
        HttpHost([monitor], proxies=lambda: (*THIS_HOST, *proxies)).serving(
            [Place("127.0.0.1", 0)]
        ) as [(_, port)],
    ):
        Face.up(broker)
        monitor.at_work(broker, ())
        yield Shown(broker, monitor, f"http://127.0.0.1:{port}", accounts)
        monitor.at_rest(Phase.STOPPING)
    accounts.close()
