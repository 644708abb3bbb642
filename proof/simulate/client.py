"""A client of the simulated network: it asks and is answered, hangs, dies, loses its stream and comes back."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Final

from proof.simulate.words import Answer, Ask
from pubqueue.model.decision import Refusal, Refused

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from random import Random

    from proof.judge.history import History
    from proof.simulate.network import ClientStream, Network
    from proof.simulate.words import ToClient
    from pubqueue.model.decision import Reply, Request
    from pubqueue.model.entities import Jid
    from pubqueue.model.notices import Notice
    from pubqueue.rules.presence import Arrive

TIMEOUT: Final = 5.0
"""Seconds until a question without an answer is asked again."""

_numbers = itertools.count(1)


class Client:
    """Somebody at an address. What it does are its tasks, which end when it dies; its history is what the judge hears of it."""

    def __init__(self, jid: Jid, network: Network, random: Random, history: History) -> None:
        self.jid = jid
        self.random = random
        self.history = history
        self.deaf = 0
        """How many of the next answers are lost."""
        self._network = network
        self._stream: ClientStream | None = None
        self._pending: dict[int, asyncio.Future[Reply | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._hung_until = 0.0
        self._unheard: list[ToClient] = []

    # --- what befalls it ---

    def start(self) -> None:
        """Come to life, unless it lives."""
        if self._tasks:
            return
        self.connect()
        self.do(self.live())

    def connect(self) -> None:
        """Connect; an earlier stream ends."""
        self._stream = self._network.connect(self.jid, self._take)

    def die(self, *, cut: bool = True) -> ClientStream | None:
        """Stop without a word, and forget everything. Nobody notices yet."""
        stream = self.cut() if cut else self._stream
        self._stream = None
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        self._pending.clear()
        self._unheard.clear()
        self._hung_until = 0.0
        return stream

    def cut(self) -> ClientStream | None:
        """Lose the stream; nobody notices yet."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.cut()
        return stream

    def leave(self) -> None:
        """Go in order: the server says so to the service at once."""
        self.notice_end(self.die(cut=False))

    def notice_end(self, stream: ClientStream | None) -> None:
        """Let the server notice that this stream has ended."""
        if stream is not None:
            self._network.notice_end(self.jid, stream)

    def come_back(self) -> None:
        """Connect again, or come to life again."""
        if not self._tasks:
            self.start()
        elif self._stream is None:
            self.connect()
            self.connected()

    def hang(self, seconds: float) -> None:
        """Do nothing for a while, and then go on as if no time had passed."""
        loop = asyncio.get_running_loop()
        self._hung_until = max(self._hung_until, loop.time() + seconds)
        loop.call_at(self._hung_until, self._wake)

    def recover(self) -> None:
        """Be as one wishes a client to be."""
        self.deaf = 0
        self._hung_until = 0.0
        self._wake()
        self.come_back()

    # --- what it does ---

    async def live(self) -> None:
        """Do what it is there for."""
        raise NotImplementedError

    def connected(self) -> None:
        """Learn that there is a new stream."""

    def hear(self, notice: Notice) -> None:
        """Take what the service says by itself."""

    def do(self, work: Coroutine[object, object, None]) -> None:
        """Do something beside the rest."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def say(self, what: Ask | Arrive) -> None:
        """Send, if there is a stream."""
        if self._stream is not None:
            self._stream.say(what)

    async def awake(self) -> None:
        """Wait until it does not hang."""
        # it may be told to hang longer meanwhile
        while (rest := self._hung_until - asyncio.get_running_loop().time()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(rest)  # it may be told to hang longer meanwhile

    async def pause(self, mean: float) -> None:
        """Let some time pass."""
        await asyncio.sleep(self.random.expovariate(1 / mean))
        await self.awake()

    async def ask(self, request: Request) -> Reply | None:
        """Ask once; None if there is no answer in time, or none that counts."""
        await self.awake()
        number = next(_numbers)
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        self.say(Ask(self.jid, number, request))
        try:
            async with asyncio.timeout(TIMEOUT):
                reply: Reply | None = await answer
        except TimeoutError:
            return None
        finally:
            self._pending.pop(number, None)
        await self.awake()
        if isinstance(reply, Refused) and reply.refusal is Refusal.STORE_FAILED:
            return None
        return reply

    # --- what it hears ---

    def _take(self, stanza: ToClient) -> None:
        if asyncio.get_running_loop().time() < self._hung_until:
            self._unheard.append(stanza)
        elif not isinstance(stanza, Answer):
            self.hear(stanza)
        elif self.deaf:
            self.deaf -= 1
        elif (answer := self._pending.get(stanza.number)) is not None and not answer.done():
            answer.set_result(stanza.reply)

    def _wake(self) -> None:
        if asyncio.get_running_loop().time() >= self._hung_until:
            unheard, self._unheard = self._unheard, []
            for stanza in unheard:
                self._take(stanza)
