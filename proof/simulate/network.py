"""A server that gives each stanza for the service to one of its instances, and the streams to it.

Each stream keeps the order of what goes through it, however long that takes. What is under way when it is cut is lost,
and for a while neither end knows: what is written until then is lost as well.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from proof.simulate.words import Answer, Ask, ToClient, ToService, handed_out
from pubqueue.model.entities import account_of, mark_of
from pubqueue.model.notices import Deliver
from pubqueue.rules.presence import Bounce, Leave

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from pubqueue.model.entities import Item, Jid

S = TypeVar("S")
R = TypeVar("R")

USUAL: Final = 0.02
"""Seconds that a stanza takes from one end of a stream to the other, in the mean."""

BOUNCES: Final = 0.8
"""Of deliveries to nobody: the part that comes back. The rest is lost, as servers do now and then."""


class Pace:
    """How long stanzas take; a slow network is one whose `mean` is raised."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.mean = USUAL

    def draw(self) -> float:
        """Return the seconds that the next stanza takes."""
        return self._random.expovariate(1 / self.mean)


class Pipe(Generic[S]):
    """One direction of a stream: what is sent first arrives first."""

    def __init__(self, pace: Pace, receive: Callable[[S], None]) -> None:
        self._pace = pace
        self._receive = receive
        self._under_way: deque[S] = deque()
        self._last = 0.0

    def send(self, stanza: S) -> None:
        """Have it arrive, unless the pipe is cut before."""
        loop = asyncio.get_running_loop()
        self._last = max(self._last, loop.time() + self._pace.draw())
        self._under_way.append(stanza)
        loop.call_at(self._last, self._arrive, self._under_way)

    @property
    def is_behind(self) -> bool:
        """Whether what was sent when the network was slow is still under way."""
        return self._last > asyncio.get_running_loop().time() + 1

    async def emptied(self) -> None:
        """Wait until what was sent has arrived, or would have."""
        await asyncio.sleep(max(0.0, self._last - asyncio.get_running_loop().time()))

    def cut(self) -> None:
        """Lose what is under way."""
        self._under_way = deque()

    def _arrive(self, sent: deque[S]) -> None:
        if sent is self._under_way:
            self._receive(sent.popleft())


class Stream(Generic[S, R]):
    """Both directions between somebody, who says S and hears R, and the server."""

    def __init__(self, say: Pipe[S], deliver: Pipe[R]) -> None:
        self._say, self._incoming = say, deliver
        self.is_cut = False

    @property
    def is_behind(self) -> bool:
        """Whether what is said takes long to come to the server."""
        return self._say.is_behind

    def say(self, stanza: S) -> None:
        """Send to the server."""
        if not self.is_cut:
            self._say.send(stanza)

    def deliver(self, stanza: R) -> None:
        """Send from the server."""
        if not self.is_cut:
            self._incoming.send(stanza)

    async def close(self) -> bool:
        """End it in order, which the server confirms behind all that was said; say whether it has."""
        await self._say.emptied()
        return not self.is_cut

    def cut(self) -> None:
        """Lose what is under way, and whatever is sent from now on."""
        self.is_cut = True
        self._say.cut()
        self._incoming.cut()


class Network:
    """The server, and the streams that it takes for good, whether they are cut or not."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.pace = Pace(random)
        self.on_delivery: Callable[[Item], None] = lambda _item: None
        self._instances: list[InstanceStream] = []
        self._clients: dict[Jid, ClientStream] = {}

    # --- instances ---

    def attach(self, hear: Callable[[ToService], None]) -> InstanceStream:
        """Connect an instance."""
        stream = InstanceStream(Pipe(self.pace, self._to_client), Pipe(self.pace, hear))
        self._instances.append(stream)
        return stream

    def detach(self, stream: InstanceStream) -> None:
        """Notice that the stream of an instance has ended."""
        if stream in self._instances:
            self._instances.remove(stream)
        stream.cut()

    def restart(self) -> None:
        """Forget everybody who is connected; all their streams are cut."""
        for instance in self._instances:
            instance.cut()
        for client in self._clients.values():
            client.cut()
        self._instances.clear()
        self._clients.clear()

    # --- clients ---

    def connect(self, jid: Jid, hear: Callable[[ToClient], None]) -> ClientStream:
        """Connect a client; an earlier stream of its address ends."""
        self.notice_end(jid)
        stream = ClientStream(Pipe(self.pace, self._to_service), Pipe(self.pace, hear))
        self._clients[jid] = stream
        return stream

    def notice_end(self, jid: Jid, stream: ClientStream | None = None) -> None:
        """Notice that the stream of a client has ended, if it is still this one, and say so to the service."""
        known = self._clients.get(jid)
        if known is not None and stream in {None, known}:
            del self._clients[jid]
            known.cut()
            self._to_service(Leave(jid))

    # --- who gets what ---

    def _to_service(self, stanza: ToService) -> None:
        if self._instances:
            self._random.choice(self._instances).deliver(stanza)
        elif isinstance(stanza, Ask):
            self._to_client(Answer(stanza.by, stanza.number, None))

    def _to_client(self, stanza: ToClient) -> None:
        for item in handed_out(stanza):
            self.on_delivery(item)
        stream = self._stream_of(stanza.to)
        if stream is not None:
            stream.deliver(stanza)
        elif isinstance(stanza, Deliver) and self._random.random() < BOUNCES:
            item = stanza.item
            mark = mark_of(stanza.subid)
            back = Bounce(stanza.to, item.seq, item.token, gone=True, bounced=True, mark=mark)
            self._to_service(back)

    def _stream_of(self, address: Jid) -> ClientStream | None:
        """Return the stream of the address; of an account, that of one of its resources."""
        if address in self._clients:
            return self._clients[address]
        return next((it for jid, it in self._clients.items() if account_of(jid) == address), None)


InstanceStream = Stream[ToClient, ToService]
ClientStream = Stream[ToService, ToClient]
