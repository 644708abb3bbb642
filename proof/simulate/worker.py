"""A worker, as the library makes it: it subscribes again and again, works, and settles until it is answered.

What is delivered twice it works once. One that is `careful` knows the tokens of its locks, and names the lock that it
means; the others are workers of plain XEP-0254. A careful one may have what it settles remembered, one lock at a time
or several in a request, as workers of protocols without a stream do.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.batches.facts import who
from harness.batches.queue_requests import joins, settles_each, touches
from msgspec.structs import replace

from proof.judge.history import digest
from proof.simulate.client import Client
from pubqueue.model.decision import Refusal, Refused, SettledEach
from pubqueue.model.notices import Deliver, Purged, Retracted, Unlocked
from pubqueue.model.records import MAX_SETTLED_REMEMBERED
from pubqueue.model.replies import Subscribed
from pubqueue.rules.presence import Arrive
from pubqueue.rules.settle import Outcome, Settle, Verb
from pubqueue.rules.settle_each import SettleEach

if TYPE_CHECKING:
    from random import Random

    from proof.judge.history import History, Result
    from proof.simulate.network import Network
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import ItemId, Jid, NodeName
    from pubqueue.model.notices import Notice

REFRESH: Final = 60.0
"""Seconds of silence after which it subscribes again, in case it has been forgotten."""

TIMEOUT: Final = 300.0
"""Seconds for one retract or unlock in all."""

WORK: Final = 3.0
"""Seconds that an item takes, in the mean; now and then one takes as long as LONG."""

LONG: Final = 90.0

RETRACT: Final = (Verb.RETRACT, Outcome.RELEASE)

ENDS: Final = (
    *(RETRACT,) * 20,
    *((Verb.UNLOCK, Outcome.FAILED),) * 2,
    (Verb.UNLOCK, Outcome.RELEASE),
    (Verb.UNLOCK, Outcome.REJECT),
)
"""How work ends."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker is there for: a queue, and how it subscribes to it."""

    node: NodeName
    window: int
    careful: bool
    subscriber: Jid
    remembers: bool = False
    """Whether what it settles is to be remembered."""
    each: bool = False
    """Whether it settles in one request all that it is unsure of."""
    lock_timeout: int | None = None
    """Seconds for which it wants its locks, if that is less than the queue's."""


class Worker(Client):
    """Works on the items of one queue, up to a window full at a time; when `diligent`, quickly and well."""

    def __init__(
        self, jid: Jid, network: Network, random: Random, history: History, work: Work
    ) -> None:
        super().__init__(jid, network, random, history)
        self.diligent = False
        self._node, self._window, self._careful = work.node, work.window, work.careful
        joining = joins(jid, work.window, node=work.node)
        options = joining.options and replace(joining.options, lock_timeout=work.lock_timeout)
        self._subscribe = replace(joining, jid=work.subscriber, options=options)
        self._remember = MAX_SETTLED_REMEMBERED if work.remembers else None
        self._each = work.each
        self._held: dict[ItemId, int] = {}
        self._settled: dict[ItemId, int] = {}
        self._unsure: dict[ItemId, Settle] = {}
        self._joining = asyncio.Event()

    async def live(self) -> None:
        """Be subscribed."""
        self._held.clear()
        self._settled.clear()
        self._unsure.clear()
        self.connected()
        while True:
            await self._joining.wait()
            self._joining.clear()
            subscribed = isinstance(await self.ask(self._subscribe), Subscribed)
            loop = asyncio.get_running_loop()
            loop.call_later(REFRESH if subscribed else 1, self._joining.set)

    def connected(self) -> None:
        """Say that it is there, and subscribe."""
        self.say(Arrive(self.jid))
        self._joining.set()

    def hear(self, notice: Notice) -> None:
        """Take a delivery, or that a lock has ended."""
        match notice:
            case Deliver():
                self._deliver(notice)
            case Retracted() | Unlocked():
                for item in notice.ids:
                    self._held.pop(item, None)
            case Purged():
                self._held.clear()
            case _:
                pass

    def _deliver(self, delivery: Deliver) -> None:
        self.take(delivery.item.id, delivery.item.token, delivery.payload)

    def take(self, item: ItemId, token: int, payload: bytes) -> None:
        """Begin to work on an item under this token, unless that is done or under way."""
        got = {"digest": digest(payload), "token": token, "attempt": token}
        self.history.deliver(self._node, item, **got)
        if self._careful and token <= self._settled.get(item, 0):
            if item in self._unsure:
                self.do(self._settle(self._unsure[item]))
            return
        known = self._held.get(item, 0)
        self._held[item] = max(known, token)
        if not known:
            self.do(self._work(item))

    async def _work(self, item: ItemId) -> None:
        """Work on an item, and say what has come of it; now and then one that is lost meanwhile is settled all the same."""
        slow = not self.diligent and self.random.random() < 0.05
        await self.pause(LONG if slow else WORK)
        if slow and self._held.get(item):
            await self.ask(touches(self.jid, item, node=self._node))
            await self.pause(WORK)
        verb, outcome = RETRACT if self.diligent else self.random.choice(ENDS)
        token = self._held.get(item)
        if token is None and (self.diligent or self.random.random() < 0.5):
            return
        said = Settle(
            *(who(self.jid), self._node, (item,), verb),
            outcome=outcome,
            token=token if self._careful else None,
            remember=None if token is None else self._remember,  # what is remembered is a lock
        )
        await self._settle(said)

    async def _settle(self, said: Settle) -> None:
        """Ask until there is an answer that counts, or patience is at its end."""
        (item,) = said.ids
        kinds = {RETRACT: "retract", (Verb.UNLOCK, Outcome.REJECT): "reject"}
        kind = kinds.get((said.verb, said.outcome), "release")
        settling = self.history.begin(kind, self._node, item, token=said.token)
        result: Result = "unknown"
        if said.token is not None:
            self._settled[item] = max(said.token, self._settled.get(item, 0))
            self._unsure[item] = said
        end = asyncio.get_running_loop().time() + TIMEOUT
        attempts = 0
        while asyncio.get_running_loop().time() < end:
            asked = self._asked(said)
            reply = await self.ask(asked)
            if reply is not None:
                result = _result(said, asked, reply, is_first=not attempts)
                self._unsure.pop(item, None)
                break
            attempts += 1
            await self.pause(1)
        settling.end(result)
        if said.token is None or self._held.get(item, 0) <= said.token:
            self._held.pop(item, None)

    def _asked(self, said: Settle) -> Settle | SettleEach:
        """Return what is asked: this lock, or with it all that have ended so and are not answered.

        What names no lock is not to be remembered, and a request is for all its locks: so it is asked alone.
        """
        if not self._each or said.token is None:
            return said
        how = said.verb, said.outcome
        alike = [one for one in self._unsure.values() if (one.verb, one.outcome) == how]
        return settles_each(said, *((one.ids[0], one.token) for one in alike))


def _result(said: Settle, asked: Settle | SettleEach, reply: Reply, *, is_first: bool) -> Result:
    """Return what the client knows by an answer: that an earlier attempt was refused, it does not know."""
    mine: Reply | None = reply
    if isinstance(asked, SettleEach) and isinstance(reply, SettledEach):
        answers = dict(zip((lock.id for lock in asked.locks), reply.answers, strict=True))
        mine = answers.get(said.ids[0])  # None: it was settled by another request meanwhile
    if mine is None or isinstance(mine, Refused):
        is_sure = mine is not None and is_first and mine.refusal is not Refusal.STORE_FAILED
        return "fail" if is_sure else "unknown"
    return "ok"
