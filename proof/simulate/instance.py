"""One instance of the service: what `pubqueue serve` puts together, with a face of the simulated network."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from harness.alarm import alarm

from proof.simulate.plan import COMMITTED
from proof.simulate.ticks import true_time
from proof.simulate.troubles import TroubledStore, Troubles
from proof.simulate.words import Answer, Ask, handed_out
from pubqueue.engine import ports
from pubqueue.engine.broker import ENDING, Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.reaper import OtherProcesses, Reaper
from pubqueue.model.entities import Millis
from pubqueue.model.notices import singly
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.presence import Bounce
from pubqueue.wiring.serving import CLOSING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from random import Random

    from proof.simulate.network import InstanceStream, Network
    from proof.simulate.oracle import Oracle
    from proof.simulate.places import Elsewhere, Place
    from proof.simulate.words import ToClient, ToService
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Item, Jid
    from pubqueue.model.notices import Notice, ToEach
    from pubqueue.model.schedules import Times, TimesWanted

PAUSE = 0.5
"""Seconds between two attempts to connect."""

RECENT = 4.0
"""Seconds before its end is noticed in which a stream may take along what is then said again; the service promises five."""

MAX_END = ENDING + 0.5
"""Seconds until what was asked of a process that ends is answered, or left; half a second of it for timers that come together."""

MAX_CALENDAR = 5.0
"""Seconds of processor time for the times of one schedule."""

SAID = 10_000
"""Items that were handed out to remember."""


class Instance:
    """A machine with a clock, and on it a process that is started, stopped and killed."""

    def __init__(self, place: Place, network: Network, oracle: Oracle, random: Random) -> None:
        self._place, self._network, self._oracle = place, network, oracle
        self.troubles = Troubles(random)
        self.ahead = 0.0
        self.skew = 0.0
        """Seconds by which the clock of the machine is wrong for good; `ahead` is what it is set by for a while."""
        self.gone_for = 0.0
        """Seconds from the end of the process to its next start."""
        self.process: Process | None = None
        self._left: list[TroubledStore] = []
        self._next_start: asyncio.TimerHandle | None = None
        self._starting: asyncio.Task[None] | None = None

    def clock(self) -> Millis:
        """Return the time by the clock of this machine."""
        return Millis(true_time() + round((self.ahead + self.skew) * 1000))

    @property
    def is_well(self) -> bool:
        """Whether the process can do all that it is there for."""
        stream = None if self.process is None else self.process.stream
        flows = stream is not None and not stream.is_cut and not stream.is_behind
        return flows and not self.troubles

    async def start(self) -> None:
        """Start the process, unless it runs, and connect it."""
        while self._left:
            await self._left.pop().close()
        if self.process is None:
            store = self._prepared(self._place)
            await store.open()
            await self._enter(store)

    async def wait_for_place(self, elsewhere: Elsewhere) -> TroubledStore:
        """Open the store at another place, as a process does that waits for its place at the server."""
        store = self._prepared(elsewhere)
        await store.open()
        return store

    async def have_place(self, store: TroubledStore) -> None:
        """Serve from a store that was opened before, unless it refuses that."""
        try:
            await self._enter(store)
        except ports.StoreError:
            store.kill()
            await store.close()

    def _prepared(self, place: Place | Elsewhere) -> TroubledStore:
        return TroubledStore(
            place.store(), self.troubles, self.die, self._oracle.look, machine=self.clock
        )

    async def _enter(self, store: TroubledStore) -> None:
        number = await store.instances.enter()
        self.process = Process(self, store, number, self._oracle)
        self.process.start()
        self.connect()

    def connect(self) -> None:
        """Connect the process, if there is one that has no stream."""
        process = self.process
        if process is not None and process.stream is None:
            process.up(self._network.attach(process.hear))

    def cut(self) -> InstanceStream | None:
        """Cut the stream; nobody notices yet."""
        stream = None if self.process is None else self.process.stream
        if stream is not None:
            stream.cut()
        return stream

    def notice_cut(self, stream: InstanceStream) -> None:
        """Notice in the process that its stream has ended, if it still has this one; connect again in a while."""
        self._network.detach(stream)
        process = self.process
        if process is not None and process.stream is stream:
            process.down()
            asyncio.get_running_loop().call_later(PAUSE, self.connect)

    def die(self) -> None:
        """Let the process end without a word; what it has said leaves or not, as chance will have it."""
        process, self.process = self.process, None
        self.troubles.dies_at = None
        if process is not None:
            process.kill()
            self._left.append(process.store)
            if process.stream is not None:
                self._network.detach(process.stream)
            self._next_start = asyncio.get_running_loop().call_later(
                self.gone_for, self._start_again
            )

    def lose_number(self) -> None:
        """Let the process count as one that has died, though it lives."""
        if self.process is not None:
            self.process.store.instances.take_away()

    def end(self) -> None:
        """Let the process end for good."""
        self.die()
        if self._next_start is not None:
            self._next_start.cancel()

    def _start_again(self) -> None:
        self._starting = asyncio.get_running_loop().create_task(self.start())

    async def stop(self) -> None:
        """End the process in order."""
        process = self.process
        if process is not None and await process.stop() and self.process is process:
            self.die()


class Process:
    """Broker, reaper and the look at other processes; and the face that the broker speaks through."""

    def __init__(
        self, instance: Instance, store: TroubledStore, number: ports.Instance, oracle: Oracle
    ) -> None:
        self.store = store
        self.stream: InstanceStream | None = None
        self._instance, self._oracle = instance, oracle
        self._dead = False
        self._said: deque[tuple[float, Item]] = deque(maxlen=SAID)
        self._taking = True
        clock = store.time
        self._reaper, self._others = Reaper(clock=clock, beside=_inline), OtherProcesses(store)
        self.broker = Broker(
            store,
            Terms(CreationPolicy.ANYONE),
            clock=clock,
            on_moment=self._reaper.on_moment,
            instance=number,
        )
        self.broker.outbox.attach(self)

    def start(self) -> None:
        """Begin as the wiring does."""
        self.broker.start()
        self.broker.task.add_done_callback(self._ended)
        self._reaper.start(self.broker)
        for task in self._others.start(self.broker):
            task.add_done_callback(self._fenced)

    def kill(self) -> None:
        """End at once: nothing is said, written or begun from now on."""
        self._dead = True
        self._forget_what_was_said()
        self.store.kill()
        self.broker.pause()
        tasks = (
            self.broker._task,
            self.broker.reader.task,
            self._reaper.task,
            *self._others.tasks,
        )
        for task in tasks:
            if task is not None and task.is_started:
                task.running.cancel()
        self._reads_no_more = asyncio.get_running_loop().create_task(self.broker.forwarding.stop())

    async def stop(self) -> bool:
        """Hand out nothing more, answer what was asked; say whether that came to its end."""
        self._taking = False
        self.broker.outbox.set_up(self, up=False)
        await self._in_time(self.broker.drain(1.5))
        if not self._dead and self.stream is not None and not await self.stream.close():
            self.broker.undelivered.stream_broke()
        if not self._dead and not self.broker.has_given_up:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSING):
                    await self.broker.undelivered.note_all_delivered()
        return not self._dead

    async def _in_time(self, end: Awaitable[None]) -> None:
        began = asyncio.get_running_loop().time()
        await end
        took = asyncio.get_running_loop().time() - began
        if not self._dead and took > MAX_END:
            self._oracle.broken(f"an end in order takes too long: {took:.1f} s")

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not self._dead and not task.cancelled():
            self._oracle.broken(f"a broker has ended: {task.exception()!r}")

    def _fenced(self, task: asyncio.Task[None]) -> None:
        """Begin again, as the wiring does."""
        if not self._dead and not task.cancelled():
            if not isinstance(task.exception(), ports.FencedError):
                self._oracle.broken(f"who looks at others has ended: {task.exception()!r}")
            self._instance.gone_for = PAUSE
            self._instance.die()

    # --- the face ---

    def up(self, stream: InstanceStream) -> None:
        """Have a stream."""
        self.stream = stream
        if self._taking:
            self.broker.outbox.set_up(self, up=True)

    def down(self) -> None:
        """Have none any more."""
        self.stream = None
        self._forget_what_was_said()
        self.broker.undelivered.stream_broke()
        self.broker.outbox.set_up(self, up=False)

    largest = 1 << 62

    def claims(self, address: Jid) -> bool:
        """Say yes: there is no other face."""
        return bool(address)

    def reaches(self, _address: Jid) -> bool:
        """Say whether there is a stream, and it serves."""
        return self.stream is not None and self._taking

    def hear(self, stanza: ToService) -> None:
        """Take what comes from the network."""
        if self._dead or not self._taking:
            return
        if isinstance(stanza, Ask):
            now = asyncio.get_running_loop().time()
            self._oracle.hears(stanza.request)
            self.broker.submit(stanza.request, partial(self._answer, stanza, now))
        else:
            self.broker.submit(stanza, _ignore)

    def send_notices(self, notices: Sequence[Notice | ToEach]) -> Sequence[Notice]:
        """Say what there is a stream for."""
        return [notice for notice in singly(notices) if not self._say(notice)]

    def _answer(self, asked: Ask, came: float, reply: Reply) -> None:
        if self._dead:
            return
        self._oracle.answers(asked.request, reply, came)
        answer = Answer(asked.by, asked.number, reply)
        if not self._say(answer):
            self._give_back(answer)

    def _give_back(self, answer: Answer) -> None:
        """Release what could not be said, as every face does whose client has gone meanwhile."""
        for item in handed_out(answer):
            self.broker.submit(Bounce(answer.to, item.seq, item.token, gone=False), _ignore)

    def _say(self, what: ToClient) -> bool:
        if self._dead:
            return True
        if self.stream is None:
            return False
        self._oracle.says(what)
        now = asyncio.get_running_loop().time()
        self._said.extend((now, item) for item in handed_out(what))
        self.stream.say(what)
        self._die_between_words()
        return True

    def _forget_what_was_said(self) -> None:
        """What was said into a stream for long before anybody noticed its end comes again with its lock's."""
        late = asyncio.get_running_loop().time() - RECENT
        for at, item in self._said:
            if at < late:
                self._oracle.excuses(item)
        self._said.clear()

    def _die_between_words(self) -> None:
        troubles = self._instance.troubles
        if troubles.dies_at is not None and troubles.dies_at > COMMITTED:
            troubles.dies_at -= 1
            if troubles.dies_at == COMMITTED:
                self._instance.die()


async def _inline(work: Callable[[TimesWanted], Times], wanted: TimesWanted) -> Times:
    """Work out the times of a schedule without a thread, which would bring chance in; what never ends fails."""
    with alarm(MAX_CALENDAR):
        return work(wanted)


def _ignore(_reply: Reply) -> None:
    """Nobody waits for it."""
