"""The task that pings workers that hold items and send nothing, and all that are noted as here; what is gone has left.

The server of a worker reports when the worker leaves, unless that server dies or the link to it breaks.
What to do about a holder is decided by `rules.presence`. Who holds nothing loses nothing by silence: of
these only the report of a server counts that they do not exist (docs/decisions/0142).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from pubqueue.engine.listings import Holders, KnownResources
from pubqueue.engine.ports import FencedError, StoreError
from pubqueue.engine.rows import Needs
from pubqueue.model.entities import Millis, account_of, connection, domain_of
from pubqueue.rules.presence import (
    AnsweredElsewhere,
    Departure,
    Leave,
    Silence,
    Step,
    pinged,
    step,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from pubqueue.engine.broker import Broker
    from pubqueue.engine.ports import Store, Transaction
    from pubqueue.model.entities import Jid


log = structlog.get_logger(__name__)

PAGE: Final = 500
"""Holders that are read, pinged or given up together; other work has its turn in between."""

MAX_WATCHED: Final = 50_000
"""Holders that are watched; the locks of further ones end by their timeout."""

OFTEN: Final = 6
"""How many times holders are looked for while one may be silent."""

MAX_PAUSE: Final = 5.0
"""Maximum seconds between two looks."""


ROUND: Final = 3600.0
"""Seconds from the end of a round in which all that are noted as here are asked to the next one."""


@dataclass
class Round:
    """A round is due at a time of the loop's clock, and has come to the address `after`."""

    due: float = 0.0
    after: Jid | None = None


class Pinger(Protocol):
    """A face that can ping."""

    def ping(self, jid: Jid) -> bool:
        """Send a ping, and return whether it was sent. `SilentWorkers.answered` is called for its answer."""


class SilentWorkers:
    """Watches the full JIDs that hold items, or for which their account does. `ping_after` is in seconds; 0 stops it.

    All that are noted as here are asked when a stream begins, and then each hour, whatever `ping_after` is.

    A face discards from `silent` each JID from which it receives a stanza, and calls the methods
    for answers. A ping that was not sent, while the stream is down, counts for nothing.
    """

    def __init__(self, ping_after: float) -> None:
        self.ping_after = ping_after
        self.silent: set[Jid] = set()
        """The watched JIDs from which nothing has come since the last look."""
        self._known: dict[Jid, Silence] = {}
        self._gone: set[Jid] = set()
        self._doubted: dict[Jid, None] = {}
        self._round = Round()
        self._broker: Broker | None = None
        self._pinger: Pinger | None = None

    async def run(self, broker: Broker, store: Store, pinger: Pinger) -> None:
        """Watch until cancelled."""
        self._broker, self._pinger = broker, pinger
        while True:
            pause = min(MAX_PAUSE, self.ping_after / OFTEN) if self.ping_after else MAX_PAUSE
            await asyncio.sleep(pause)
            try:
                if self.ping_after:
                    await self._look(broker, store, pinger)
                else:
                    self._forget()
                await self._go_round(broker, store)
            except FencedError:
                raise
            except StoreError as problem:
                log.warning("silence.unknown", why=str(problem))

    def answered(self, jid: Jid) -> None:
        """Note that the JID has answered a ping."""
        self.silent.discard(jid)
        self._doubted.pop(jid, None)

    def is_gone(self, jid: Jid) -> None:
        """Note that the JID does not exist any more: its server has answered in its place."""
        if jid in self._doubted and self._broker is not None:
            del self._doubted[jid]
            self._broker.submit(Leave(jid, self._broker.now()), lambda _reply: None)
        elif jid in self._known:
            self._gone.add(jid)

    def doubts(self, jid: Jid) -> bool:
        """Return whether an answer in the name of the JID matters."""
        return jid in self._doubted or jid in self._known

    def doubt(self, jids: Iterable[Jid]) -> None:
        """Ask addresses that are noted as here whether they are; if the server of one answers that it is not, it has left."""
        for jid in jids:
            self._doubted[jid] = None
            if len(self._doubted) > MAX_WATCHED:
                del self._doubted[next(iter(self._doubted))]
            if self._pinger is None or not self._pinger.ping(jid):
                return  # without a stream: all are asked when there is one

    def ask_all(self) -> None:
        """Begin a round: a stream is new, and what servers have reported before is lost."""
        self._doubted.clear()
        self._round = Round()

    async def _go_round(self, broker: Broker, store: Store) -> None:
        """Ask a page of those that are noted as here, if a round is due."""
        this, now = self._round, asyncio.get_running_loop().time()
        if now < this.due:
            return
        page = await store.read(partial(_noted, this.after))
        for jid in page:
            found = connection(jid, broker.service)  # earlier versions noted these, too
            if domain_of(jid) != broker.service:
                self.doubt([jid] if jid not in self._known else ())
            elif (
                found and found.instance == broker.instance.number and broker.is_from_before(found)
            ):
                await broker.handle(Leave(jid, how=Departure.INSTANCE_DIED))
        this.after = page[-1] if page else None
        if len(page) < PAGE:
            this.after, this.due = None, now + ROUND

    def answered_elsewhere(self, jid: Jid) -> None:
        """Note that the JID has answered a ping of another instance."""
        self.answered(jid)
        if self._broker is not None:
            self._broker.submit(AnsweredElsewhere(jid), lambda _reply: None)

    async def _look(self, broker: Broker, store: Store, pinger: Pinger) -> None:
        """Read the holders of items, and take the next step for each."""
        now = asyncio.get_running_loop().time()
        holders: dict[Jid, None] = {}
        async for page in _pages(broker, store):
            holders.update(dict.fromkeys(page))
        for jid in self._known.keys() - holders.keys():
            del self._known[jid]
        self._gone &= self._known.keys()
        for jid in list(holders)[:MAX_WATCHED]:
            if jid not in self._known or jid not in self.silent:
                self._known[jid] = Silence(now)
                self._gone.discard(jid)
        self.silent = set(self._known)
        gone = [jid for jid in self._known if self._ends(jid, now, pinger)]
        for start in range(0, len(gone), PAGE):
            await self._leave(broker, gone[start : start + PAGE], now)

    def _ends(self, jid: Jid, now: float, pinger: Pinger) -> bool:
        """Return whether the holder counts as gone; ping it if it is time."""
        known = self._known[jid]
        if jid in self._gone:
            return True
        match step(known, now, self.ping_after):
            case Step.GONE:
                return True
            case Step.PING if pinger.ping(jid):
                self._known[jid] = pinged(known, now)
            case _:
                pass
        return False

    async def _leave(self, broker: Broker, gone: Iterable[Jid], now: float) -> None:
        """Report holders as gone. One that is refused, or has answered another instance, is watched from now on."""
        waits = []
        for jid in gone:
            asked = self._known.pop(jid).asked or now
            self._gone.discard(jid)
            since = Millis(broker.now() - round((now - asked) * 1000))
            waits.append(broker.handle(Leave(jid, since, unanswered=since)))
        await asyncio.gather(*waits)

    def _forget(self) -> None:
        self._known.clear()
        self._gone.clear()
        self.silent = set()


async def _pages(broker: Broker, store: Store) -> AsyncIterator[list[Jid]]:
    """Yield the full JIDs of servers that hold items, or whose account holds some; accounts of the service are not pinged over XMPP."""
    last = None
    while (read := await store.read(partial(_page, last)))[0]:
        page, present = read
        last = page[-1]
        full = (jid for jid in page if account_of(jid) != jid)
        yield [jid for jid in (*full, *present) if domain_of(jid) != broker.service]


def _page(after: Jid | None, tx: Transaction) -> tuple[list[Jid], list[Jid]]:
    """Return the next holders, and who is present of those that are accounts."""
    page = tx.page(Holders(), after, PAGE)
    accounts = {jid for jid in page if account_of(jid) == jid}
    return page, tx.load(Needs(resources=accounts)).present if accounts else []


def _noted(after: Jid | None, tx: Transaction) -> list[Jid]:
    return tx.page(KnownResources(), after, PAGE)
