"""Everybody who takes part in a run, and what each fault does to them."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from harness.batches.facts import BOSS, JOBS, who
from harness.batches.queue_requests import a_queue
from msgspec.structs import replace

from proof.judge.history import History, digest
from proof.simulate import ticks
from proof.simulate.batch_publisher import BatchPublisher
from proof.simulate.feeds import DIGEST, LOST, NEWS, ORDERS, a_topic, kept_for
from proof.simulate.follower import Follower
from proof.simulate.instance import PAUSE, Instance
from proof.simulate.network import USUAL, Network
from proof.simulate.oracle import LASTS, UNDELIVERED
from proof.simulate.owner import Owner
from proof.simulate.plan import INSTANCES, FaultKind
from proof.simulate.publisher import Publisher
from proof.simulate.taker import Taker
from proof.simulate.ticks import true_time
from proof.simulate.worker import Work, Worker
from pubqueue.engine.ports import StoreError
from pubqueue.model.entities import Jid, NodeName, State
from pubqueue.model.replies import ItemPage
from pubqueue.rules.dead_letters import Redrive
from pubqueue.rules.read import ReadItems

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from proof.simulate.client import Client
    from proof.simulate.oracle import Oracle
    from proof.simulate.places import Place
    from proof.simulate.plan import Fault
    from pubqueue.model.entities import Millis

LOCK: Final = 30
SOONER: Final = 15
"""The lock timeout of a subscriber that has one of its own."""
PUBLISHERS: Final[dict[Jid, type[Publisher | BatchPublisher]]] = {
    Jid("etl@x/a"): Publisher,
    Jid("etl@x/b"): Publisher,
    Jid("etl@x/spark"): BatchPublisher,
}
FOLLOWER: Final = Jid("boss@x/screen")
TAKER: Final = Jid("gus@x/1")
DAY: Final = 86_400
DEAD: Final = {"dead_letter_node": LOST, "max_failures": 3}
KEPT: Final = {"source": NEWS, "keep_done": 1}


def _time() -> float:
    """Return the time that all clients share."""
    return asyncio.get_running_loop().time()


class World:
    """Instances on one store, a network, publishers and workers of two queues, a reader of the log, and the owner."""

    def __init__(self, seed: int, place: Place, oracle: Oracle, folder: Path) -> None:
        def random(name: str) -> Random:
            return Random(f"{seed}/{name}")

        def history(name: str) -> History:
            written = History(folder / f"{name.replace('/', '-')}.jsonl", name, _time)
            self._histories.append(written)
            return written

        self._histories: list[History] = []
        self.network = network = Network(random("network"))
        network.on_delivery = oracle.arrives
        self.instances = [Instance(place, network, oracle, random(n)) for n in INSTANCES]
        self.publishers: list[Publisher | BatchPublisher] = [
            kind(jid, network, random(jid), history(jid), nodes=(JOBS, ORDERS, NEWS), oracle=oracle)
            for jid, kind in PUBLISHERS.items()
        ]
        follower = Follower(FOLLOWER, network, random(FOLLOWER), history(FOLLOWER), oracle=oracle)

        def worker(
            name: str,
            node: NodeName,
            window: int,
            *,
            careful: bool = True,
            account: str = "",
            **more: int,
        ) -> Worker:
            jid, subscriber = Jid(name), Jid(account or name)
            mine = Work(node, window, careful=careful, subscriber=subscriber, **more)
            return Worker(jid, network, random(name), history(name), mine)

        self.workers = [
            worker("ann@x/1", JOBS, 1),
            worker("bob@x/1", JOBS, 3, remembers=True, lock_timeout=SOONER),
            worker("cat@x/phone", JOBS, 2, account="cat@x"),
            worker("dan@x/1", JOBS, 2, careful=False),
            worker("eva@x/1", ORDERS, 2, remembers=True, each=True),
            worker("dan@x/2", ORDERS, 3, careful=False),
            worker("fay@x/1", DIGEST, 2),
            Taker(
                *(TAKER, network, random(TAKER), history(TAKER)),
                Work(DIGEST, 2, careful=True, subscriber=TAKER),
            ),
        ]
        self.owner = Owner(BOSS, network, random(BOSS), history(BOSS), oracle=oracle)
        self.clients: list[Client] = [*self.workers, *self.publishers, follower, self.owner]
        self._tasks: set[asyncio.Task[None]] = set()
        self._place, self._oracle = place, oracle

    def time_if_well(self) -> Millis | None:
        """Return the time, if all clocks show it and there is an instance without trouble, that could hand out."""
        if any(instance.ahead for instance in self.instances) or self.network.pace.mean != USUAL:
            return None
        return true_time() if any(it.is_well for it in self.instances) else None

    def excused(self) -> set[str]:
        """Return what nobody has to mend now.

        Only those who have seen a clock set back know of locks that last too long, so for that all have to be well. Who has
        said something into a stream that is cut says it again when he knows; who is dead is spoken for by the others.
        """
        well = [instance.is_well for instance in self.instances]
        ailing = any(one.process and not one.is_well for one in self.instances)
        return ({LASTS} if not all(well) else set()) | ({UNDELIVERED} if ailing else set())

    async def begin(self) -> None:
        """Start everybody, on queues that are there."""
        await self.instances[0].start()
        process = self.instances[0].process
        assert process is not None
        times = {"lock_timeout": LOCK, "backoff_min": 1, "backoff_max": 20, "dedup_window": DAY}
        await process.broker.handle(a_topic())
        for name, settings in ((LOST, {}), (JOBS, {}), (ORDERS, DEAD), (DIGEST, KEPT)):
            await process.broker.handle(a_queue(name, event_log=1, **times, **settings))
        await ticks.begin(process.broker)
        for instance in self.instances[1:]:
            await instance.start()
        for client in self.clients:
            client.start()

    async def recover(self) -> None:
        """End all faults, and have everybody do well."""
        self.network.pace.mean = USUAL
        for instance in self.instances:
            instance.troubles.clear()
            instance.ahead = 0.0
            await instance.start()
        await asyncio.sleep(PAUSE)
        for instance in self.instances:
            stream = None if instance.process is None else instance.process.stream
            if stream is not None and stream.is_cut:
                instance.notice_cut(stream)
        for worker in self.workers:
            worker.diligent = True
        for publisher in self.publishers:
            publisher.finish()
        self.owner.finish()
        for client in self.clients:
            client.recover()

    async def redrive(self) -> None:
        """Have the owner give what is dead another life; of orders that is what had no place among the lost."""
        process = self.instances[0].process
        if process is not None:
            for node in (JOBS, ORDERS, DIGEST):
                await process.broker.handle(Redrive(who(BOSS), node))

    async def read(self) -> None:
        """Have the owner read all that is left, for the judge."""
        process = self.instances[0].process
        assert process is not None
        for node in (JOBS, ORDERS, DIGEST, LOST):
            left: dict[str, tuple[str, str]] = {}
            for state, word in ((None, "waiting"), (State.DEAD, "dead")):
                asked: ReadItems | None = ReadItems(who(BOSS, admin=True), node, state=state)
                while asked is not None:
                    page = await process.broker.handle(asked)
                    assert isinstance(page, ItemPage), page
                    for entry in page.entries:
                        left[entry.item.id] = digest(entry.payload or b""), word
                    asked = replace(asked, after=page.through) if page.more else None
            self.owner.history.read(kept_for(node), [(name, *it) for name, it in left.items()])

    def end(self) -> None:
        """Let everybody stop, without a word."""
        for client in self.clients:
            client.die()
        for instance in self.instances:
            instance.end()
        for history in self._histories:
            history.close()

    # --- faults ---

    def befall(self, fault: Fault) -> None:
        """Let a fault happen, and what ends it happen in its time."""
        match fault.kind:
            case FaultKind.SLOW:
                self.network.pace.mean = fault.size
                self._later(fault.span, partial(setattr, self.network.pace, "mean", USUAL))
            case FaultKind.SERVER:
                self._restart_server(fault)
            case FaultKind.POWER:
                self._power_fails(fault.span)
            case FaultKind.COPY:
                self._do(self._copy(fault))
            case FaultKind.PAUSE:
                self.owner.hold(NodeName(fault.whom))
                self._later(fault.span, partial(self.owner.resume, NodeName(fault.whom)))
            case FaultKind.PURGE:
                self.owner.purge(NodeName(fault.whom))
            case FaultKind.SEEK:
                self.owner.seek(NodeName(fault.whom), fault.size)
            case FaultKind.LOST:
                self.instances[INSTANCES.index(fault.whom)].lose_number()
            case (
                FaultKind.HANG | FaultKind.DEATH | FaultKind.LINE | FaultKind.DEAF | FaultKind.LEAVE
            ):
                self._befall_client(fault, self._client(fault.whom))
            case _:
                self._befall_instance(fault, self.instances[INSTANCES.index(fault.whom)])

    def _power_fails(self, span: float) -> None:
        for instance in self.instances:
            instance.gone_for = span
            instance.die()

    async def _copy(self, fault: Fault) -> None:
        """Stop all, copy the store to another place, at the second attempt, and start all there.

        One has waited for its place meanwhile, on what is to become the copy, and has it after the first attempt.
        """
        self._power_fails(fault.span + PAUSE)
        there = self._place.elsewhere()
        if there is None:
            return
        early = self.instances[INSTANCES.index(fault.whom)]
        store = await early.wait_for_place(there)
        try:
            there.copy(fault.size)
            await early.have_place(store)
            await asyncio.sleep(fault.span)
            self._power_fails(PAUSE)
            there.copy()
        except StoreError as problem:
            self._oracle.broken(f"a store cannot be copied to an empty one: {problem}")
        there.move()

    def _client(self, jid: str) -> Client:
        return next(client for client in self.clients if client.jid == jid)

    def _restart_server(self, fault: Fault) -> None:
        """Have the server die: all streams end, and nobody is told of those who were connected."""
        streams = [(instance, instance.cut()) for instance in self.instances]
        self.network.restart()
        for instance, stream in streams:
            if stream is not None:
                self._later(fault.size, partial(instance.notice_cut, stream))
        for client in self.clients:
            client.cut()
            self._later(fault.span, client.come_back)

    def _befall_instance(self, fault: Fault, instance: Instance) -> None:
        troubles = instance.troubles
        match fault.kind:
            case FaultKind.CRASH:
                if instance.process is not None:
                    troubles.dies_at, instance.gone_for = round(fault.size), fault.span
            case FaultKind.RESTART:
                instance.gone_for = fault.span
                self._do(instance.stop())
            case FaultKind.CUT:
                stream = instance.cut()
                if stream is not None:
                    self._later(fault.size, partial(self.network.detach, stream))
                    self._later(fault.span, partial(instance.notice_cut, stream))
            case FaultKind.SKEW:
                instance.skew = fault.size if self._place.has_clock else 0.0
                instance.gone_for = fault.span
                instance.die()
            case FaultKind.CLOCK:
                self._oracle.clocks_are_set = True
                instance.ahead = fault.size
                self._later(fault.span, partial(setattr, instance, "ahead", 0.0))
            case FaultKind.REFUSE | FaultKind.FULL | FaultKind.RACE | FaultKind.AWAY:
                begin, end = {
                    FaultKind.REFUSE: (troubles.refuse, troubles.accept),
                    FaultKind.FULL: (troubles.fill, troubles.make_room),
                    FaultKind.RACE: (troubles.race, troubles.win),
                    FaultKind.AWAY: (troubles.answers.clear, troubles.answers.set),
                }[fault.kind]
                begin()
                self._later(fault.span, end)
            case FaultKind.LATE:
                troubles.late = fault.size
                self._later(fault.span, partial(setattr, troubles, "late", 0.0))
            case _:
                raise ValueError(fault.kind)

    def _befall_client(self, fault: Fault, client: Client) -> None:
        match fault.kind:
            case FaultKind.HANG:
                client.hang(fault.span)
            case FaultKind.DEAF:
                client.deaf += round(fault.size)
            case FaultKind.LEAVE:
                client.leave()
                self._later(fault.span, client.come_back)
            case FaultKind.DEATH | FaultKind.LINE:
                stream = client.die() if fault.kind is FaultKind.DEATH else client.cut()
                self._later(fault.size, partial(client.notice_end, stream))
                self._later(fault.span, client.come_back)
            case _:
                raise ValueError(fault.kind)

    def _do(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    def _later(seconds: float, what: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, what)
