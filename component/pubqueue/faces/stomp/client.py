"""One client: its output, the answers it waits for, its subscriptions."""

from __future__ import annotations

import asyncio
from collections import deque
from sys import getsizeof
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from pubqueue.faces.listener.budget import SMALL
from pubqueue.faces.stomp.codec import Frame, memory_of, write
from pubqueue.faces.stomp.frames import NONE_COPIED, Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.listener import ClientConnection
    from pubqueue.faces.stomp.codec import Version
    from pubqueue.faces.stomp.frames import Copied, Key, Wanted
    from pubqueue.faces.stomp.refusals import Problem
    from pubqueue.faces.stomp.settings import StompSettings
    from pubqueue.model.decision import Reply, Request
    from pubqueue.model.entities import ItemId, Jid, Millis, Principal
    from pubqueue.model.notices import Announce, Deliver, Notice


# The output to one client: one write in each turn of the loop, and a bounded amount that waits while the client does not read.
#
# Answers are always sent: as long as a client does not read, no more of its frames are read, so there are few. Messages wait here,
# up to `MAX_HELD` bytes; nothing is delivered to a client for which some wait. All that waits for one account is bounded as well:
# beyond that a large message goes to another worker, or stays in its queue until there is room, and the client is asked again.

MAX_HELD: Final = 1 << 20
"""Bytes of messages that wait for one client. One message alone may be larger."""

AT_ONCE: Final = 1 << 16
"""Bytes of messages that are passed to the socket before it has to report that they were sent."""

LOOK: Final = 0.05
"""Seconds until the next check of what the socket has sent."""

SELDOM: Final = 1.0
"""The same, if nothing depends on it but the count of what is kept."""


class Wire:
    """Sends to one client. `on_room` is called when messages can be sent again, and `on_kept` when much more or less waits."""

    def __init__(
        self,
        connection: ClientConnection,
        on_room: Callable[[], None],
        on_kept: Callable[[], None],
    ) -> None:
        self._connection, self._on_room, self._on_kept = connection, on_room, on_kept
        self._loop = asyncio.get_running_loop()
        self._parts: list[bytes] = []
        self._part_bytes = self._written = self._held_bytes = 0
        self._held: deque[tuple[bytes, Callable[[], None] | None]] = deque()
        self._leaving: deque[tuple[int, Callable[[], None]]] = deque()
        self._more = 0
        """Bytes of messages since it was last noted how much waits."""
        self._is_noted = False
        """Whether that was much."""
        self._refused = self._reserved = 0
        """The bytes of a message for which the account had no room, and those of one that may come now."""
        self._is_due = self._looks_soon = False
        self._looking: asyncio.TimerHandle | None = None
        self.last_written = self._loop.time()
        """When something was last sent."""

    @property
    def has_room(self) -> bool:
        """Whether messages can be sent now."""
        return not self._held and not self._refused and not self._connection.is_full

    @property
    def waiting(self) -> int:
        """Bytes that wait for the client to read, or for which room is kept."""
        here = self._part_bytes + self._held_bytes + self._reserved
        return here + self._connection.unsent

    def put(self, data: bytes) -> None:
        """Send an answer."""
        self._parts.append(data)
        self._part_bytes += len(data)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._flush_when_due)

    def offer(
        self, data: bytes, on_taken: Callable[[], None] | None = None, *, may_wait: bool = True
    ) -> bool:
        """Send a message, or keep it until the client reads; return false if too much is kept already.

        `on_taken` is called when the socket has taken it. A message that `may_wait` elsewhere is not taken if too much waits for
        the account.
        """
        self._reserved, size = 0, len(data)
        is_behind = bool(self._held) or self._connection.is_full or self._part_bytes > AT_ONCE
        if self._held and self._held_bytes + size > MAX_HELD:
            return False
        if may_wait and (is_behind or size > AT_ONCE) and not self._connection.may_keep(size):
            self._refused = size
            self._look_soon()
            return False
        if is_behind:
            self._held.append((data, on_taken))
            self._held_bytes += size
        else:
            self._message(data, on_taken)
        self._more += size
        if self._more > AT_ONCE:
            self._more, self._is_noted = 0, True
            self._on_kept()
        return True

    def flush(self) -> None:
        """Pass the collected bytes to the socket."""
        if not self._parts:
            return
        data = b"".join(self._parts) if len(self._parts) > 1 else self._parts[0]
        self._parts.clear()
        self._part_bytes = 0
        self._written += len(data)
        self.last_written = self._loop.time()
        self._connection.write(data)

    def release(self) -> None:
        """Send waiting messages, as the client reads."""
        if not self._held or self._connection.is_full:
            return
        while self._held and self._part_bytes <= AT_ONCE:
            data, on_taken = self._held.popleft()
            self._held_bytes -= len(data)
            self._message(data, on_taken)
        if not self._held:
            self._on_room()

    def drain(self, call: Callable[[], None]) -> None:
        """Forget waiting messages, and call when the socket has taken those before them."""
        self.flush()
        self._held.clear()
        self._held_bytes = self._refused = self._reserved = 0
        if self._leaving:
            self._leaving.append((self._leaving[-1][0], call))
            self._connection.expect_reading()
            self._look_soon()
        else:
            call()

    def note_taken(self) -> None:
        """Call for the messages that the socket has taken so far.

        A transport that was closed may have dropped what waited in it, so nothing more is known then.
        """
        if not self._connection.is_open:
            return
        taken = self._written - self._connection.unsent
        while self._leaving and self._leaving[0][0] <= taken:
            self._leaving.popleft()[1]()

    def drop(self) -> None:
        """Forget waiting messages, once it is noted what was taken: the client is gone, or has got its last frame."""
        self.note_taken()
        self._held.clear()
        self._leaving.clear()
        self._held_bytes = self._refused = self._reserved = 0

    def forget(self) -> None:
        """Forget answers, too."""
        self.drop()
        self._parts.clear()
        self._part_bytes = 0

    def _message(self, data: bytes, on_taken: Callable[[], None] | None) -> None:
        self.put(data)
        if on_taken is not None:
            self._leaving.append((self._written + self._part_bytes, on_taken))

    def _flush_when_due(self) -> None:
        self._is_due = False
        self.flush()
        if self._held:
            self._loop.call_soon(self.release)
        if self._leaving or self._is_noted or self._connection.unsent > SMALL:
            self._look_soon()

    def _look_soon(self) -> None:
        """Look in the next turn of the loop, also if it was to be done later: what was written now may be taken by then."""
        if not self._looks_soon:
            self._looks_soon = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Call for the messages that the socket has taken, note what waits, and take a message again that there is room for."""
        self._looks_soon = False
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        self.note_taken()
        self._reserved = 0
        if self._refused and self._connection.may_keep(self._refused):
            self._reserved, self._refused = self._refused, 0
        is_much = self.waiting > SMALL
        if is_much or self._is_noted:
            self._is_noted = is_much
            self._on_kept()
        if self._reserved:
            self._on_room()
        is_urgent = bool(self._leaving or self._refused or self._reserved)
        if (is_urgent or is_much) and not self._looks_soon and self._connection.is_open:
            self._looking = self._loop.call_later(LOOK if is_urgent else SELDOM, self._look)


# The pending answers of a client: each RECEIPT is sent when its frame is done, in the order of the frames.
#
# A frame that cannot be done has an ERROR in its place, and nothing is answered after it.


class Owed(Struct, gc=False, eq=False):
    """The answer to one frame. `receipt` is its header, if it has one; `size` is how many bytes it keeps here."""

    receipt: str | None
    size: int
    is_done: bool = False
    headers: dict[str, str] | None = None
    """Further headers of the RECEIPT."""
    problem: Problem | None = None
    then: Callable[[], None] | None = None
    """Called when the RECEIPT has been sent."""


class Answers:
    """The pending answers of one client. `send` gets each RECEIPT, and `fail` the first problem with the receipt of its frame."""

    def __init__(
        self, send: Callable[[Frame], None], fail: Callable[[Problem, str | None], None]
    ) -> None:
        self._send, self._fail = send, fail
        self.owed: deque[Owed] = deque()
        """Of the frames that wait for their answers."""
        self.size = 0
        """Bytes of memory of the frames that wait for their answers."""
        self.is_over = False
        """Whether there was a problem: nothing more is answered."""

    def add(self, receipt: str | None, size: int) -> Owed:
        """Note a frame that has arrived."""
        owed = Owed(receipt, size)
        self.owed.append(owed)
        self.size += size
        return owed

    def done(self, owed: Owed, headers: dict[str, str] | None = None) -> None:
        """Note that a frame is done, and send all answers that can be sent."""
        owed.is_done, owed.headers = True, headers
        self._answer()

    def refuse(self, owed: Owed, problem: Problem) -> None:
        """Note that a frame cannot be done."""
        owed.is_done, owed.problem = True, problem
        self._answer()

    def _answer(self) -> None:
        while self.owed and self.owed[0].is_done and not self.is_over:
            owed = self.owed.popleft()
            self.size -= owed.size
            if owed.problem is not None:
                self.is_over = True
                self._fail(owed.problem, owed.receipt)
                return
            if owed.receipt is not None:
                headers = {"receipt-id": owed.receipt, **(owed.headers or {})}
                self._send(Frame("RECEIPT", headers))
            if owed.then is not None:
                owed.then()


# One client that has logged in, as the parts of its session share it: its requests, and its pending answers.

OVERHEAD: Final = 512
"""Bytes that a frame costs here in addition to its headers and its body, until it is answered."""


def size_of(frame: Frame) -> int:
    """Return how many bytes of memory a frame costs."""
    return OVERHEAD + memory_of(frame.headers) + len(frame.body)


class Receiver(Protocol):
    """Receives deliveries to a client."""

    @property
    def has_room(self) -> bool:
        """Whether more can be delivered now."""

    def send_notice(self, one: Subscription, notice: Notice) -> bool:
        """Send a notice to a subscription; return false for a delivery that could not be made."""


class Backend(Protocol):
    """The interface that all sessions of a face share."""

    stomp: StompSettings
    auto_creates: bool

    def submit(
        self, by: Principal, request: Request, answer: Callable[[Reply], None], size: int = 0
    ) -> None:
        """Have a request decided; `answer` is called after the commit."""

    def by(self, address: Jid) -> Principal:
        """Return the principal of an address."""

    def now(self) -> Millis:
        """Return the time by which requests are judged."""

    def new_id(self) -> str:
        """Return an id that was never made before; later ones are higher."""

    def enter_subscription(self, subscription: Subscription, receiver: Receiver) -> None:
        """Deliver the items for the address of this subscription."""

    def forget(self, address: Jid) -> None:
        """Deliver nothing more to the address."""

    def reach_changed(self, address: Jid) -> None:
        """Check again whether the address can be reached."""


class Client:
    """`fail` sends the reason why it ends, with the receipt of the frame in question; `on_progress` is called when a request is decided."""

    def __init__(
        self,
        backend: Backend,
        address: Jid,
        version: Version,
        wire: Wire,
        *,
        fail: Callable[[Problem, str | None], None],
        on_progress: Callable[[], None],
    ) -> None:
        self.backend, self.address, self.version, self.wire = backend, address, version, wire
        self.fail, self._on_progress = fail, on_progress
        self.answers = Answers(self._send_frame, fail)
        self.has_left = False

    def _send_frame(self, frame: Frame) -> None:
        self.wire.put(write(frame, self.version))

    def owe(self, frame: Frame) -> Owed:
        """Note a frame that has arrived."""
        return self.answers.add(frame.headers.get("receipt"), size_of(frame))

    def ask(
        self, by: Principal, request: Request, owed: Owed, answer: Callable[[Reply], None]
    ) -> None:
        """Have a request for a frame decided, and note when it is."""

        def answered(reply: Reply) -> None:
            answer(reply)
            self._on_progress()

        self.backend.submit(by, request, answered, owed.size)


# A subscription of a connection: an address of its own, with a window and the messages that are not acknowledged yet.


class Handed(Struct, gc=False, eq=False):
    """A message that the client has to acknowledge."""

    subscription: Subscription
    item: ItemId
    token: int
    key: Key
    copied: Copied = NONE_COPIED
    """Words in its headers that are not the client's."""


class Subscription:
    """One SUBSCRIBE. It outlives its UNSUBSCRIBE as long as messages of it can be acknowledged."""

    def __init__(self, asked: Wanted, address: Jid) -> None:
        self.id = asked.id
        """The client's name for it."""
        self.mode, self.node, self.address = asked.mode, asked.destination.node, address
        self.is_queue = True
        self.handed: dict[ItemId, Handed] = {}
        """In the order in which they were sent."""
        self.early: list[Deliver | Announce] | None = []
        """Messages that have arrived before the RECEIPT of SUBSCRIBE was sent; None: it was."""
        self.size = getsizeof(asked.id)
        """Bytes of memory of its name, which may be long."""
        self.newest = 0
        """The highest token under which it was sent a message."""
        self.is_ended = False
        """Whether there was an UNSUBSCRIBE."""

    def up_to(self, last: Handed) -> list[Handed]:
        """Return the messages that an ACK of this one applies to."""
        if self.mode is not Mode.CLIENT:
            return [last]
        found = []
        for one in self.handed.values():
            found.append(one)
            if one is last:
                return found
        return [last]
