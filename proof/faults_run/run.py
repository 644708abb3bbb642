"""The run: server, component, publishers, workers, and what goes wrong with them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from harness.patience import until
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import component

from proof.faults_run.disks import refuse
from proof.faults_run.faces import ACCOUNTS, Faces
from proof.faults_run.notes import Notes
from proof.faults_run.plan import OF_DATABASES, Fault, Plan
from proof.faults_run.publisher import Publisher, XmppPublisher
from proof.faults_run.stores import STORES
from proof.faults_run.workers import PASSWORD, Workers
from proof.judge.history import History, judged
from pubqueue_demo.prosody import Prosody

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from harness.processes.program import Program
    from harness.stores.recount import Count

    from proof.judge.history import Judgement

SERVERS: Final = {"prosody": Prosody, "ejabberd": Ejabberd}
CLOSING: Final = 120.0
"""Seconds for the last read of the queue."""
LOOK: Final = 0.05
"""Seconds between two looks at what has been done."""

NODE: Final = """
[[node]]
name = "jobs"
queueing = true
owners = [{owners}]
publishers = [{publishers}]
members = [{members}]
[node.options]
"x-queueing#lock_timeout" = {lock_timeout}
"x-queueing#backoff_min" = 0
# no item of this run is to blame for what happens to its workers
"x-queueing#max_failures" = 1000
# a publish that is repeated after its item was done makes no new one
"x-queueing#dedup_window" = 3600
"x-queueing#event_log" = {log}

[qos]
retry_after = 0.5
"""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What has come of a run."""

    plan: Plan
    server: str
    seconds: float
    faults: Counter[Fault]
    confirmed: frozenset[str]
    repeated: int
    notes: Notes
    judgement: Judgement
    """What the judge says of the histories of all clients."""
    store: Count
    events: Sequence[tuple[object, ...]] = ()
    met: int = 0
    """How often refused writes have cost a batch."""

    @property
    def locked_twice(self) -> list[object]:
        """Items that were handed out while somebody held them, as far as the log tells."""
        held: set[object] = set()
        found = []
        for kind, item in self.events:
            if kind == "delivered":
                found += [item] if item in held else []
                held.add(item)
            elif kind in {"completed", "unlocked", "expired"}:
                held.discard(item)
        return found

    @property
    def good(self) -> bool:
        """Whether everything was published and done, and nothing is left, lost or wrong."""
        is_whole = len(self.confirmed) == self.plan.items
        are_done = self.confirmed <= self.notes.results.keys()
        wrong = self.locked_twice or self.store.items or self.store.wrong
        return is_whole and are_done and self.judgement.is_right and not wrong


class Run:
    """One run in `folder`; `show` hears of every fault and of the number of finished items."""

    def __init__(
        self, plan: Plan, server: str, folder: Path, show: Callable[[int, str], None]
    ) -> None:
        self._plan = plan
        self._server: Prosody | Ejabberd = SERVERS[server]()
        self._kind = server
        self._befallen: Counter[Fault] = Counter()
        self._met = 0
        self._store = STORES[plan.store](folder)
        self._folder = folder
        self._programs: list[Program] = []
        self._show = show
        self._random = Random(plan.seed)
        self._notes = Notes(folder)
        self._workers = Workers(self._server, plan, self._notes)
        self._faces = Faces(plan.faces, plan.instances)
        self._workers.serve(self._faces.places)
        self._locks = {place: asyncio.Lock() for place in ("component", "server")}

    async def run(self, patience: float) -> RunResult:
        """Publish and do all items, whatever happens; give up after `patience` seconds."""
        async with AsyncExitStack() as stack:
            stack.enter_context(self._store)
            await stack.enter_async_context(self._server)
            self._publishers = await self._hire()
            elsewhere = ACCOUNTS if self._plan.faces else ()
            senders = [f"etl{number}@localhost" for number in range(self._plan.publishers)]
            node = NODE.format(
                owners=_listed(elsewhere[1:]),
                publishers=_listed([*senders, *elsewhere]),
                members=_listed([*(f"{it}@localhost" for it in self._workers.names), *elsewhere]),
                lock_timeout=self._plan.lock_timeout,
                log=str(self._plan.log).lower(),
            )
            for number in range(self._plan.instances):
                folder = self._folder / f"instance{number}"
                folder.mkdir()
                settings = f"{node}{self._faces.settings(number)}"
                program = component(self._server, folder, settings, store=self._store.address)
                self._programs.append(await stack.enter_async_context(program))
            await asyncio.to_thread(self._faces.begin)
            begun = time.monotonic()
            await self._bring_through(patience)
            seconds = time.monotonic() - begun
            with suppress(TimeoutError):  # what nobody has read is lost, to the judge
                async with asyncio.timeout(CLOSING):
                    await self._reader.read_left()
            for program in self._programs:
                await program.stop()
            return self._result(seconds)

    def _result(self, seconds: float) -> RunResult:
        self._notes.read()
        return RunResult(
            plan=self._plan,
            seconds=seconds,
            server=self._kind,
            faults=self._befallen,
            confirmed=frozenset().union(*(it.confirmed for it in self._publishers)),
            repeated=sum(it.repeated for it in self._publishers),
            notes=self._notes,
            judgement=judged(self._notes.histories),
            store=self._store.recount(),
            events=self._store.events(),
            met=self._met,
        )

    async def _hire(self) -> list[Publisher]:
        server = self._server
        for name in self._workers.names:
            await server.account(name, PASSWORD)
        jids = [await server.account(f"etl{n}", PASSWORD) for n in range(self._plan.publishers)]
        address = {"host": server.host, "port": server.c2s_port, "service": server.component}

        def history(name: str) -> History:
            return History(self._notes.path(name), name)

        self._reader = XmppPublisher(history("reader"), jids[0], PASSWORD, **address)
        return [
            *(
                XmppPublisher(history(f"etl{n}"), jid, PASSWORD, **address, group=self._plan.group)
                for n, jid in enumerate(jids)
            ),
            *(self._faces.publisher(it, history(f"etl-{it}")) for it in self._plan.faces),
        ]

    async def _bring_through(self, patience: float) -> None:
        async with asyncio.TaskGroup() as group:
            for name in self._workers.all:
                group.create_task(self._workers.keep_running(name))
            reading = group.create_task(self._read_notes())
            try:
                async with asyncio.timeout(patience), asyncio.TaskGroup() as work:
                    for number, publisher in enumerate(self._publishers):
                        work.create_task(publisher.publish_all(self._plan.ids(number), self._room))
                    work.create_task(self._misfortunes(work))
                await self._emptied()
            except TimeoutError:
                self._show(self._done(), "patience is at its end")
            await self._workers.stop()
            reading.cancel()

    async def _misfortunes(self, group: asyncio.TaskGroup) -> None:
        for due, fault in self._plan.faults():
            await self._until(lambda due=due: self._done() >= due)
            self._show(self._done(), fault.value)
            group.create_task(self._befall(fault))

    async def _room(self) -> None:
        """Return when the backlog is short enough."""
        await self._until(lambda: self._confirmed() - self._done() < self._plan.backlog)

    def _confirmed(self) -> int:
        return sum(len(publisher.confirmed) for publisher in self._publishers)

    async def _emptied(self) -> None:
        """Return when the store has no items, seen from beside it."""
        async with asyncio.timeout(60 + 10 * self._plan.lock_timeout):
            await self._until(self._store.is_empty)

    async def _read_notes(self) -> None:
        while True:
            self._notes.read()
            self._store.look_after()
            self._show(self._done(), "")
            await asyncio.sleep(LOOK)

    async def _until(self, reached: Callable[[], bool]) -> None:
        """Look again and again, at files: nobody tells of what dies."""
        await until(reached, every=LOOK, within=None)

    def _done(self) -> int:
        return len(self._notes.results)

    async def _befall(self, fault: Fault) -> None:
        name = self._random.choice(self._workers.all)
        program = self._random.choice(self._programs)
        match fault:
            case Fault.WORKER:
                await self._workers.kill(name)
            case Fault.STALL:
                await self._workers.stall(name, self._plan.lock_timeout + 1)
            case Fault.COMPONENT:
                async with self._locks["component"]:
                    await program.kill()
                    await program.start()
            case Fault.COMPONENT_RESTART:
                async with self._locks["component"]:
                    await program.stop()
                    await program.start()
            case Fault.SERVER:
                async with self._locks["server"]:
                    await self._server.kill()
                    await self._server.start()
            case Fault.SERVER_RESTART:
                async with self._locks["server"]:
                    await self._server.restart()
            case Fault.FULL_DISK | Fault.FAILED_WRITE:
                async with self._locks["component"]:
                    await self._refuse_writes(fault)
            case _:
                assert fault in OF_DATABASES
                async with self._locks["component"]:  # a component does not start without its store
                    await self._until(self._store.is_used)
                    self._store.befall(fault, self._random)
        self._befallen[fault] += 1

    async def _refuse_writes(self, fault: Fault) -> None:
        """Refuse writes of the store until a batch has been lost by it."""
        await self._until(self._store.is_used)
        components = [program.pid for program in self._programs]
        lost = self._lost_batches()
        await refuse(
            lambda: self._store.writers(components),
            self._store.sizes,
            lambda: self._lost_batches() > lost,
            self._random if fault is Fault.FAILED_WRITE else None,
            self._store.user,
        )
        self._met += self._lost_batches() > lost

    def _lost_batches(self) -> int:
        return sum(program.log.count("batch.lost") for program in self._programs)


def _listed(accounts: Iterable[str]) -> str:
    """Write accounts as TOML."""
    return ", ".join(f'"{account}"' for account in accounts)
