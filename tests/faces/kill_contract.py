"""The contract of kills: whenever the service is killed, its word is kept at each face.

Publishers publish items in groups, each again until that is confirmed; workers take and settle what comes. Meanwhile the service is killed, and
started again. What was confirmed is on disk, what was confirmed as done does not come again, everything gets done, and groups keep their order
and their limit. At the end a judge who knows nothing of the service reads what all of them have written (`proof/judge`).

A class that inherits `KillContract` has a fixture `make_service`, a function that makes the service of a folder and of the address of a store, with
the node `NODE`; and `connect`, a context manager that connects a client, a `Hand`. A client whose service is gone raises `GoneError`.
`SharedKillContract` is for faces whose clients are connected to the instance itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

import pytest
from harness.patience import LOOK, TIMEOUT, until
from harness.processes import doomed
from harness.processes.killed_lives import killed_itself, killed_lives, start_doomed
from harness.stores.replay import WAITS
from proof.judge.history import History, Operation, digest, judged

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from harness.processes.program import Program
    from harness.stores.kept import Kept
    from harness.stores.recount import Count

NODE: Final = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@{0}", "dev@{0}"]
members = ["bee@{0}", "ann@{0}"]
[node.options]
"x-queueing#lock_timeout" = {1}
"x-queueing#lock_longest" = 600
"x-queueing#max_failures" = 1000
"x-queueing#backoff_min" = 0
"x-queueing#dedup_window" = 3600
"x-queueing#event_log" = true
"""

SOON: Final = 2
LATE: Final = 600
"""Seconds of a lock. Where it is the account's, its item comes again only at its end if the answer with it was lost: that is soon. Where it is
a connection's, the item comes again with the end of that, and a lock that ends by its time is one that a client was too slow for."""

GROUPS: Final = 4
FEW, EACH = 3, 6
"""Items of a group."""
PUBLISHERS: Final = 2
WORKERS, MORTALS = 2, 4
"""Workers that go on, or that die now and then."""
MORTAL: Final = 0.1
"""How often one of these dies with an item in hand."""

PASSAGE: Final = 3
SPOKEN: Final = {"answered", "delivered"}
"""Points that follow a whole batch, whatever was in it; each is passed as often as there is something to say."""


def jobs(service: str, lock_timeout: int = SOON) -> str:
    """Return the node of the contract, for people of this host."""
    return NODE.format(service, lock_timeout)


class GoneError(Exception):
    """The service has gone. Whether it has done what was asked last, nobody knows."""


class _OverError(Exception):
    """All is done."""


class Delivery(NamedTuple):
    """An item in hand. `key` is what it is known by for ever, `handle` what settles it."""

    text: str
    key: str
    handle: Any = None


class Hand(Protocol):
    """A client. Each function raises `GoneError` if the service goes."""

    async def publish(self, text: str, group: str) -> None:
        """Publish an item, under the same name each time; return when it is confirmed."""

    async def take(self) -> Delivery | None:
        """Return the next item, or None if none has come for a while."""

    async def settle(self, delivery: Delivery) -> bool:
        """Report that it is done; return whether that is confirmed: if not, it comes again."""


class Promise(NamedTuple):
    """What differs between faces."""

    is_once: bool = True
    """Whether a publish that is repeated is the same item; else there may be two."""
    holds: bool = False
    """Whether the handle of an item is good after the kill, so that it is settled again until there is an answer."""
    is_in_order: bool = True
    """Whether items have groups."""


def group_of(text: str) -> str:
    """Return the group of an item."""
    return text.partition("-")[0]


class Trade:
    """Publishers and workers: what they have asked, and what was confirmed."""

    def __init__(
        self, connect: Connect, promise: Promise, folder: Path, *, each: int, draw: Random | None
    ):
        self._connect, self._promise, self._draw = connect, promise, draw
        self._path = folder / "trade.jsonl"
        self._history = History(self._path, "trade")
        self._publishes: dict[str, Operation] = {}
        self.memory: dict[str, Any] = {}
        """What clients know of the service after it was killed."""
        self.items = [f"g{g}-{n:02}" for n in range(each) for g in range(GROUPS)]
        self.published: set[str] = set()
        self.repeated: set[str] = set()
        self.asked: set[str] = set()
        self.settled: set[str] = set()
        self.done: set[str] = set()
        self.order: dict[str, list[str]] = {group_of(text): [] for text in self.items}
        self._taken = 0
        self._begun: set[str] = set()
        self._keys: set[str] = set()
        self._left: list[Delivery] = []
        self._open: list[Delivery] = []
        """Items whose settlement has no answer, of this life; and before, of the lives before it."""
        self.over = asyncio.Event()

    async def run(self, service: Program) -> None:
        """Go on until the service is gone, or all is done."""
        self._left, self._open = [*self._left, *self._open], []
        workers = MORTALS if self._draw else WORKERS
        try:
            async with asyncio.timeout(TIMEOUT), asyncio.TaskGroup() as both:
                watching = both.create_task(self._watch())
                async with asyncio.TaskGroup() as people:
                    for number in range(PUBLISHERS):
                        people.create_task(self._publish(service, number))
                    for number in range(workers):
                        people.create_task(self._work(service, number))
                watching.cancel()
        except* _OverError:
            pass

    async def _watch(self) -> None:
        """Let all of them go home when all is done."""
        await self.over.wait()
        raise _OverError

    async def _publish(self, service: Program, number: int) -> None:
        """Publish every so-many-th group, each in its order."""
        with suppress(GoneError):
            async with self._connect(service, "etl", number, self.memory) as hand:
                for text in self.items:
                    if int(group_of(text)[1:]) % PUBLISHERS != number or text in self.published:
                        continue
                    if text in self._begun:
                        self.repeated.add(text)
                    self._begun.add(text)
                    publish = self._publishes_of(text)
                    await hand.publish(text, group_of(text))
                    publish.end("ok")
                    self.published.add(text)
                    self._look()

    def _publishes_of(self, text: str) -> Operation:
        """Return the publish of an item: the same at each attempt, if all attempts are one."""
        if not self._promise.is_once or text not in self._publishes:
            more: dict[str, Any] = {}
            if self._promise.is_in_order:
                more["group"] = group_of(text)
            if not self._promise.is_once:
                more["copies"] = True
            begun = self._history.begin("publish", "jobs", text, digest=digest(text), **more)
            self._publishes[text] = begun
        return self._publishes[text]

    async def _work(self, service: Program, number: int) -> None:
        with suppress(GoneError):
            while True:
                async with self._connect(service, "bee", number, self.memory) as hand:
                    await self._live(hand)

    async def _live(self, hand: Hand) -> None:
        """Work until the service is gone, or the worker dies."""
        while self._left:
            await self._settle(hand, self._left.pop())
        while True:
            done = frozenset(
                self._keys
            )  # what is done while it is asked may be in the answer, if another has settled it
            since = self._history.clock()
            delivery = await hand.take()
            if delivery is None:
                continue
            self._taken += 1
            got = {"digest": digest(delivery.text), "token": self._taken}
            self._history.deliver("jobs", delivery.text, since=since, **got)
            self._note(delivery, done)
            if self._draw and self._draw.random() < MORTAL:
                return
            await self._settle(hand, delivery)

    def _note(self, delivery: Delivery, done: frozenset[str]) -> None:
        text, key, _ = delivery
        assert key not in done, f"{text} was done, and has come again"
        came = self.order[group_of(text)]
        if text not in came:
            came.append(text)
        if self._promise.is_in_order:
            wanted = [one for one in self.items if group_of(one) == group_of(text)]
            assert came == wanted[: len(came)]

    async def _settle(self, hand: Hand, delivery: Delivery) -> None:
        self.asked.add(delivery.text)
        self._open.append(delivery)
        retract = self._history.begin("retract", "jobs", delivery.text, token=None)
        is_done = await hand.settle(delivery)
        retract.end("ok" if is_done else "fail")
        self._open.remove(delivery)
        if is_done:
            self._keys.add(delivery.key)
            self.settled.add(delivery.text)
            self._look()

    def _look(self) -> None:
        if self.published == self.settled | self.done == {*self.items}:
            self.over.set()

    def killed(self, found: Count, there: Counter[str], locked: Counter[str]) -> None:
        """Compare what is stored with what was confirmed. `locked` are the items in work."""
        assert found.wrong == ()
        assert self.published - self.asked <= there.keys(), "lost"
        self.compare(there)
        if self._promise.is_in_order:
            groups = Counter(map(group_of, locked.elements()))
            assert set(groups.values()) <= {1}, groups
        self.go_on(there)

    def go_on(self, there: Counter[str]) -> None:
        """Take it that what was asked and is not there was done, where nobody can ask again."""
        if not self._promise.holds:
            self.done |= self.asked - there.keys()
            self._open.clear()
            self._look()

    def compare(self, there: Counter[str]) -> None:
        """See that nothing is there that was done, and nothing twice; where a repetition may be an item of its own, only that."""
        again = set() if self._promise.is_once else self.repeated
        assert (self.settled & there.keys()) <= again, "came back"
        assert {text for text, count in there.items() if count > 1} <= again, "twice"

    def check(self, there: Counter[str]) -> None:
        """See that all is done."""
        assert self.over.is_set(), (self.published, self.settled)
        self.compare(there)
        assert there.keys() <= self.settled
        self._history.read("jobs", [(text, digest(text), "waiting") for text in there])
        self._history.close()
        judgement = judged([self._path])
        assert judgement.is_right, judgement.lines
        for group, came in self.order.items():
            if self._promise.is_in_order:
                assert came == [text for text in self.items if group_of(text) == group]


def texts(kept: Kept) -> tuple[Counter[str], Counter[str]]:
    """Return how often each item is in the queue, and which are in work."""
    bodies = {name: text_in(body) for name, body in kept.bodies("jobs").items()}
    locked = [bodies[row[0]] for row in kept.locks() if row[1] == "locked" and row[0] in bodies]
    return Counter(bodies.values()), Counter(locked)


def text_in(body: bytes) -> str:
    """Return the item of a payload, which may be an element that has it."""
    return body.decode().partition("</")[0].rpartition(">")[2]


class KillContract:
    """Killed at any step of any batch, a service keeps its word."""

    PROMISE: ClassVar = Promise()
    REQUESTS: ClassVar[tuple[str, ...]] = ("Publish", "Settle")
    """Kinds of requests in whose batches it is killed, one life after the other."""
    MANY: ClassVar = 20
    """Items of a group where workers die."""

    connect: Connect

    @pytest.fixture
    async def serve(self, make_service):
        """Return `make_service`; nothing that it makes is left behind."""
        made = []

        def serve(folder, address):
            made.append(make_service(folder, address))
            return made[-1]

        yield serve
        for service in made:
            await service.kill()

    def trade(self, folder: Path, each: int = EACH, draw: Random | None = None) -> Trade:
        """Return people who begin to trade; more workers, and mortal ones, if there is a draw."""
        return Trade(self.connect, self.PROMISE, folder, each=each, draw=draw)

    def also(self, trade: Trade, found: Count) -> None:
        """Check what a face promises besides, of the store after a death, and at the end."""

    async def look(self, trade: Trade, kept: Kept) -> None:
        """Compare the store of a dead service with what was confirmed."""
        await kept.abandoned()
        found = kept.recount()
        trade.killed(found, *texts(kept))
        self.also(trade, found)
        states = found.of("jobs")
        reported = {name: state if state == "locked" else WAITS for name, state in states.items()}
        assert await kept.replayed() == reported

    async def end(self, trade: Trade, service: Program, kept: Kept) -> None:
        """Trade to the end at a service that nobody kills, and see that all is done."""
        async with service:
            await trade.run(service)
        found = kept.recount()
        assert found.wrong == ()
        trade.check(texts(kept)[0])
        self.also(trade, found)

    async def killed_at(self, lives, serve, folder, kept, *, each: int = EACH) -> None:
        """Kill the service at each of these points and passages, and let it go on."""
        trade, service = self.trade(folder, each), serve(folder, kept.address)

        async def live():
            await trade.run(service)
            assert not trade.over.is_set(), "it was not killed"

        async for _ in killed_lives(service, lives, live):
            await self.look(trade, kept)
        await self.end(trade, service, kept)

    @pytest.mark.parametrize("kept", ["sqlite"], indirect=True)
    async def test_killed_when_it_has_answered_it_keeps_its_word(self, serve, tmp_path, kept):
        """With few items, at the point that shows most: this is for each day."""
        await self.killed_at([("answered", PASSAGE)], serve, tmp_path, kept, each=FEW)

    @pytest.mark.parametrize("point", doomed.POINTS)
    async def test_killed_at_each_step_it_keeps_its_word(self, point, serve, tmp_path, kept):
        lives = [(f"{point}@{kind}", PASSAGE) for kind in self.REQUESTS]
        if point in SPOKEN:
            lives = [(point, PASSAGE), (point, 2 * PASSAGE)]
        await self.killed_at(lives, serve, tmp_path, kept)

    async def test_killed_at_any_moment_while_workers_die_it_keeps_its_word(
        self, serve, tmp_path, kept
    ):
        draw = Random(7)
        trade, service = self.trade(tmp_path, self.MANY, draw), serve(tmp_path, kept.address)
        for part in (1, 2, 3):
            await service.start()
            trading = asyncio.create_task(trade.run(service))
            some = len(trade.items) * part // 4
            await until(lambda: trading.done() or len(trade.settled) >= some, every=LOOK)  # noqa: B023
            await service.kill()
            await trading
            await self.look(trade, kept)
        await self.end(trade, service, kept)


class SharedKillContract(KillContract):
    """Another instance goes on where one was killed."""

    @pytest.mark.parametrize("kept", ["postgres"], indirect=True)
    async def test_killed_the_other_instance_goes_on(self, serve, tmp_path, kept):
        trade, services = self.trade(tmp_path), []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            services.append(serve(tmp_path / name, kept.address))
        one, other = services
        async with other:
            for kind in self.REQUESTS[1:]:
                await start_doomed(one, f"committed@{kind}", PASSAGE)
                await trade.run(one)
                await killed_itself(one)
                trade.go_on(texts(kept)[0])
            await trade.run(other)
        trade.check(texts(kept)[0])
        assert kept.recount().wrong == ()


if TYPE_CHECKING:
    Connect = Callable[[Program, str, int, dict[str, Any]], AbstractAsyncContextManager[Hand]]
