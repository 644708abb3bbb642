"""The pace of a face: long work in steps, large reads in turn, and waiting notices to many."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from pubqueue.engine.outbox import Backlog
from pubqueue.model.decision import Refusal, Refused
from pubqueue.rules.presence import TOGETHER, FreeConnections
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle
from pubqueue.rules.staging import StagePublish
from pubqueue.rules.together import Together

if TYPE_CHECKING:
    from collections.abc import Container, Generator

    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Jid, NodeName
    from pubqueue.rules.presence import Departure


def notified_nodes(request: object) -> tuple[NodeName, ...]:
    """Return the nodes whose subscribers may be notified as soon as the request is done."""
    if isinstance(request, StagePublish):
        return (request.publish.node,) if request.mark.immediate else ()
    if isinstance(request, Together):
        return tuple(dict.fromkeys([part.node for part in request.parts]))
    return (request.node,) if isinstance(request, Publish | Settle) else ()


_T = TypeVar("_T")


async def stepped(steps: Generator[None, None, _T]) -> _T:
    """Take the steps of long work, and return what it returns; others have their turn after each step."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: _T = end.value
            return found
        await asyncio.sleep(0)


def leave_together(
    submit: Callable[[FreeConnections, Callable[[Reply], None]], None],
    addresses: Sequence[Jid],
    how: Departure,
    call: Callable[[], None],
) -> None:
    """Have all addresses of a client that has gone freed, many in one request, and call once that is done.

    If a fault of ours keeps one from being freed, the others are freed without it.
    """
    left = 0

    def ask(jids: Sequence[Jid]) -> None:
        nonlocal left
        left += 1
        submit(FreeConnections(tuple(jids), how), partial(answered, jids))

    def answered(jids: Sequence[Jid], reply: Reply) -> None:
        nonlocal left
        is_fault = isinstance(reply, Refused) and reply.refusal is Refusal.INTERNAL_FAULT
        if is_fault and len(jids) > 1:
            half = len(jids) // 2
            ask(jids[:half])
            ask(jids[half:])
        left -= 1
        if not left:
            call()

    for at in range(0, len(addresses), TOGETHER):
        ask(addresses[at : at + TOGETHER])
    if not addresses:
        call()


# Runs read requests, whose answers may be large: a few at once, accounts in turn, as fast as the server accepts the answers.
#
# Waiting reads do not block requests that change something.

AT_ONCE: Final = 4
"""Reads in progress at once: the answer of each may be a MiB."""


class Reads:
    """Begins waiting reads while `has_room` returns true, which means that the server accepts the answers."""

    def __init__(self, has_room: Callable[[], bool]) -> None:
        self._has_room = has_room
        self._waiting: dict[Jid, deque[tuple[Callable[[], None], Callable[[], None]]]] = {}
        """Waiting reads by account, the account whose turn is next first."""
        self._under_way = 0
        self._ended = False
        self._going = False

    @property
    def waiting(self) -> int:
        """The number of reads that wait for their turn."""
        return sum(map(len, self._waiting.values()))

    def ask(self, account: Jid, begin: Callable[[], None], refuse: Callable[[], None]) -> None:
        """Call `begin` on the account's turn, or `refuse` if the service ends first. The caller calls `done` after the read."""
        if self._ended:
            refuse()
            return
        self._waiting.setdefault(account, deque()).append((begin, refuse))
        self.go_on()

    def done(self) -> None:
        """Note that a read has ended."""
        self._under_way -= 1
        self.go_on()

    def go_on(self) -> None:
        """Begin the next reads, up to the limit. A read may end at once."""
        if self._going:
            return
        self._going = True
        try:
            while self._waiting and self._under_way < AT_ONCE and self._has_room():
                account = next(iter(self._waiting))
                mine = self._waiting.pop(account)
                begin, _ = mine.popleft()
                if mine:
                    self._waiting[account] = mine
                self._under_way += 1
                begin()
        finally:
            self._going = False

    def end(self) -> None:
        """Refuse waiting and later reads."""
        self._ended = True
        left, self._waiting = self._waiting, {}
        for mine in left.values():
            for _, refuse in mine:
                refuse()


# Queues notices to many addresses until the server accepts them: a queue for each node, which send one message in turn.
#
# A publish of 200 kB to a thousand subscribers is one text and a thousand addresses. It is made into
# messages only as the socket accepts them, so that answers and notices of other nodes do not wait for
# them.

_ADDRESS: Final = 8
"""Bytes for each addressee: a reference, in case the audience is not shared."""


Own = Callable[["Jid"], "tuple[bytes, int] | None"]
"""Returns the text, and how much white space follows it, for an addressee whose message differs from the others."""


class _Notice:
    """One notice and its audience; the addresses before `at` have been notified."""

    __slots__ = ("at", "byte_count", "calls", "own", "text", "to", "white")

    def __init__(self, to: tuple[Jid, ...], text: bytes, white: int, own: Own | None) -> None:
        self.to = to
        self.text = text
        self.white = white
        self.own = own
        self.at = 0
        self.calls: list[Callable[[], None]] = []
        self.byte_count = len(text) + _ADDRESS * len(to)


class SendQueues:
    """Waiting notices by node, in order. `on_change` is that of its `Backlog`."""

    def __init__(self, on_change: Callable[[Container[NodeName] | None], None]) -> None:
        self._queues: dict[NodeName, deque[_Notice]] = {}
        self._backlog = Backlog(self._queues.keys(), on_change)

    def __bool__(self) -> bool:
        """Return whether notices wait."""
        return bool(self._queues)

    @property
    def byte_count(self) -> int:
        """The number of waiting bytes."""
        return self._backlog.byte_count

    def add(
        self, node: NodeName, to: tuple[Jid, ...], text: bytes, white: int, own: Own | None = None
    ) -> None:
        """Add a notice to each address: the text and this much white space, or the text that `own` returns for the address."""
        entry = _Notice(to, text, white, own)
        self._queues.setdefault(node, deque()).append(entry)
        self._backlog.count(entry.byte_count)

    def has(self, node: NodeName) -> bool:
        """Return whether notices of the node wait."""
        return node in self._queues

    def when_sent(self, node: NodeName, call: Callable[[], None]) -> None:
        """Run `call` once the notices that now wait for the node are sent or dropped. At least one has to wait."""
        self._queues[node][-1].calls.append(call)

    def next(self) -> tuple[Jid, bytes, int]:
        """Return the next addressee, the text and its white space, and move the node to the end of the line."""
        node = next(iter(self._queues))
        queue = self._queues.pop(node)
        entry = queue[0]
        to = entry.to[entry.at]
        entry.at += 1
        if entry.at == len(entry.to):
            queue.popleft()
            self._backlog.count(-entry.byte_count)
        if queue:
            self._queues[node] = queue
        if entry.at == len(entry.to):
            for call in entry.calls:
                call()
        text, white = (entry.own(to) if entry.own else None) or (entry.text, entry.white)
        return to, text, white

    def clear(self) -> None:
        """Drop all waiting notices, because the stream is lost."""
        queues = list(self._queues.values())
        self._queues.clear()
        self._backlog.count(-self.byte_count)
        for queue in queues:
            for entry in queue:
                for call in entry.calls:
                    call()
