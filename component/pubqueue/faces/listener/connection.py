"""A client's connection, its limits, and how it is admitted."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from contextlib import contextmanager
from functools import lru_cache, partial
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

import structlog
from msgspec import Struct

from pubqueue.engine.connections import REFUSED, InTurns, Reason
from pubqueue.faces.listener.budget import KEPT, SMALL, Budget, Keeper
from pubqueue.faces.listener.tls import subject_of
from pubqueue.logs import fault

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Hashable, Iterator

    from pubqueue.engine.connections import Connections


# A client's connection: passes its events to the face's protocol, and enforces the limits.

HIGH: Final = 64 * 1024
"""Bytes waiting to be sent above which the client counts as not reading."""

TURN: Final = 64 * 1024
"""Bytes of a client after which the others have their turn: the loop would read up to 8 MiB of one before it looks at another."""

ENDS: Final = 32
"""Connections whose end is passed on in one turn of the loop: each ends a task, and releases what it holds."""

ENTRIES: Final = 16
"""Connections that begin, and pieces of what clients have sent that are read, in one turn of the loop: each may begin a request."""

SLICE: Final = 0.01
"""Seconds for these in one turn of the loop."""

_DOORS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, InTurns]] = WeakKeyDictionary()


def door() -> InTurns:
    """Return by whose turns the connections of all listeners of this loop begin and are read.

    The loop itself takes connections in the order in which they came, and reads all that can be read before anything else is done.
    """
    loop = asyncio.get_running_loop()
    if loop not in _DOORS:
        _DOORS[loop] = InTurns(ENTRIES, "connection.failed", SLICE)
    return _DOORS[loop]


class Unread:
    """What has come on a connection and waits for its turn. It counts beside what the face keeps."""

    __slots__ = ("_connection",)

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def give_up(self) -> None:
        """End the connection."""
        self._connection.give_up()


class ClientConnection(asyncio.Protocol):
    """A connection that was accepted. `make` returns the face's protocol for it, after the TLS handshake.

    The protocol gets the calls of an asyncio protocol. An exception in it ends only this connection. The face calls
    `log_in` when it knows the user, and sends with `write`.
    """

    __slots__ = (
        *("_admission", "_began", "_door", "_full_since", "_has_ended", "_held", "_is_given_up"),
        "_is_resting",
        *("_last_read", "_make", "_protocol", "_transport", "_unread", "_until", "_why"),
        *("address", "holdings", "idle", "last_words", "on_dismissed", "on_given_up", "peer"),
        *("quiet", "subscribed", "user", "waits", "whose"),
    )

    def __init__(
        self,
        admission: Admission[ClientConnection],
        peer: str,
        make: Callable[[ClientConnection], asyncio.Protocol],
    ) -> None:
        self.peer = peer
        """The address of the client."""
        self.user = ""
        """The user that has logged in, "" before."""
        self.whose: Hashable = admission.of(peer) or object()
        """Who shares its turns with it: its user, or before the login all of its address, unless that is of many clients."""
        self.address = ""
        """The address that operators see, once the face knows it."""
        self.quiet: bool | None = None
        """Its subscriptions can be quiet, not the connection."""
        self.holdings: Callable[[], tuple[int, int]] | None = None
        """Returns the number of subscriptions and of held items. Other threads call it too."""
        self.subscribed: Callable[[], tuple[str, ...]] | None = None
        """Returns the nodes with a subscription. Other threads call it too."""
        self.on_dismissed: Callable[[], None] | None = None
        """Ends the connection as the protocol requires."""
        self.on_given_up: Callable[[], None] | None = None
        """Forgets what is kept of the client, and ends the connection as the protocol requires."""
        self._began = admission.clock()
        self.idle = admission.bounds.idle
        """Seconds without a byte from the client after which the connection is cut; 0: never."""
        self.last_words: Callable[[Reason], bytes] | None = None
        """Returns the face's last bytes before the connection is cut, given the reason."""
        self._admission, self._make = admission, make
        self._protocol: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._last_read = admission.clock()
        self._until, self._why = math.inf, Reason.LOGIN
        self._full_since = math.inf
        self._has_ended = False
        """Whether the end of the stream was sent."""
        self._is_given_up = False
        """Whether nothing more of what it sends is wanted, because too much was kept."""
        self._is_resting = False
        """Whether reading goes on with the next turn of the loop, or of the connection."""
        self._door: InTurns
        self._held = b""
        self.waits = False
        """Whether something has come that waits for the connection's turn."""
        self._unread: Unread | None = None
        """Counts this, if it is much."""

    # --- for the face ---------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether data can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def age(self) -> float:
        """Seconds since it was accepted."""
        return self._admission.clock() - self._began

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes with a subscription, each once, by name."""
        return () if self.subscribed is None else self.subscribed()

    def holding(self) -> tuple[int, int]:
        """Return the number of subscriptions and of held items."""
        return (0, 0) if self.holdings is None else self.holdings()

    def dismiss(self) -> None:
        """End the connection for an administrator."""
        if self.on_dismissed is None:
            self.close()
        else:
            self._call(self.on_dismissed)

    @property
    def is_full(self) -> bool:
        """Whether the client reads too slowly: `pause_writing` was called."""
        return self._full_since != math.inf

    @property
    def unsent(self) -> int:
        """The number of bytes that wait to be sent."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def socket(self) -> socket.socket:
        """The socket, for options."""
        return cast("socket.socket", self._info("socket"))

    @property
    def is_private(self) -> bool:
        """Whether the connection uses TLS."""
        return self._info("ssl_object") is not None

    @property
    def subject(self) -> str:
        """The subject of the client's verified certificate, such as `CN=etl,O=example`; "" if it has none."""
        return subject_of(self._info("peercert") or {})

    @property
    def certificate(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """The subject of the client's verified certificate, as `ssl` has it; () if it has none."""
        found: tuple[tuple[tuple[str, str], ...], ...]
        found = (self._info("peercert") or {}).get("subject", ())
        return found

    def log_in(self, user: str) -> bool:
        """Assign the connection to the user, and end the login timeout; return false if the user has too many connections."""
        if self not in self._admission.connections or not self._admission.log_in(user):
            return False
        self.user, self.whose = user, ("user", user)
        self._until = math.inf
        return True

    def write(self, data: bytes) -> bool:
        """Send bytes; return false if the connection, or what is sent on it, has ended, or it is cut now because too many bytes wait."""
        transport = self._transport
        if transport is None or transport.is_closing() or self._has_ended:
            return False
        waiting = transport.get_write_buffer_size()
        if waiting and waiting + len(data) > self._admission.bounds.unsent:
            self.cut(Reason.UNREAD)
            return False
        transport.write(data)
        return True

    @contextmanager
    def counting_all(self) -> Iterator[None]:
        """Let a writer that waits for the client to read wait for the last byte, not only for all beyond `HIGH`.

        At the end all was given to the system. Over TLS up to 64 KiB may still be on the way to it.

        Raises:
            ConnectionResetError: the connection has ended before.

        """
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=int(self.is_private), low=0)
        yield
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError
        self._transport.set_write_buffer_limits(high=HIGH)

    def keeps(self, size: int, owner: str | None = None, *, is_new: bool = False) -> None:
        """Note how many bytes of the client are kept here now, in the budget of the process.

        They are those of its user, unless an `owner` is given. With `is_new` they are of something that has just begun. If
        there are too many, some connection is cut, maybe this one.
        """
        if self in self._admission.connections:
            whose = self.user if owner is None else owner
            self._admission.budget.note(self, whose, size, is_new=is_new)

    def may_keep(self, size: int) -> bool:
        """Return whether so much more can wait here for the user. If not, it may after what waits was sent."""
        return self._admission.budget.has_room(self.user, size)

    def give_up(self) -> None:
        """End the connection, because all clients together keep too many bytes, and those of this one began first."""
        self._is_given_up = True  # what still comes would count again, and end another one
        self._forget_held()
        self._go_on()
        if self.on_given_up is None:
            self.cut(Reason.MEMORY)
        else:
            self._admission.ended(Reason.MEMORY, peer=self.peer)
            self._call(self.on_given_up)

    @property
    def is_read(self) -> bool:
        """Whether what the client sends is read now."""
        return self.is_open and self._transport is not None and self._transport.is_reading()

    def pause_reading(self) -> None:
        """Stop reading. The client does not count as idle until reading resumes."""
        self._is_resting = False
        if self.is_open and self._transport is not None:
            self._transport.pause_reading()
            self._last_read = math.inf

    def resume_reading(self) -> None:
        """Continue reading."""
        self._is_resting = False
        if self.is_open and self._transport is not None:
            self._last_read = self._admission.clock()
            self._transport.resume_reading()

    def expect(self, seconds: float | None, why: Reason = Reason.IDLE) -> None:
        """Cut the connection for this reason after this many seconds, even if data arrives; None cancels that."""
        self._why = why
        self._until = math.inf if seconds is None else self._admission.clock() + seconds

    def close(self) -> None:
        """Close the connection after sending the waiting data, as long as the client reads it."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
        self.expect_reading()

    def expect_reading(self) -> None:
        """Cut the connection if the client does not read what waits for it, in the time that it has for that."""
        if self._admission.bounds.unread:
            self.expect(self._admission.bounds.unread, Reason.UNREAD)

    def end_sending(self) -> None:
        """Send the waiting data and then the end of the stream; data from the client can still be read.

        If a connection is closed with unread bytes, the last data sent may be lost. TLS cannot end one direction alone.
        """
        if self._transport is None or not self.is_open or not self._transport.can_write_eof():
            return
        self._has_ended = True
        try:
            self._transport.write_eof()
        except OSError:  # the client has closed without reading what was sent
            self.abort()

    def abort(self) -> None:
        """Close the connection at once, without sending the waiting data."""
        if self._transport is not None:
            self._transport.abort()

    def cut(self, reason: Reason) -> None:
        """Cut the connection for a reason, which is counted and logged; send `last_words` if the client may still read."""
        self._admission.ended(reason, peer=self.peer)
        if reason in (Reason.UNREAD, Reason.FAULT) or self.last_words is None or not self.is_open:
            self.abort()
            return
        self.idle = 0
        try:
            self.write(self.last_words(reason))
        except Exception as problem:  # the face's code may fail; the connection is cut anyway
            self._admission.failed(problem)
        self.close()

    def fail(self, problem: Exception) -> None:
        """Cut the connection because of an error, which is logged."""
        self._admission.failed(problem)
        self.cut(Reason.FAULT)

    # --- for the listener -----------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Cut the connection if a timeout has passed."""
        if self._transport is None:
            return
        bounds = self._admission.bounds
        if bounds.unread and now - self._full_since >= bounds.unread:
            self.cut(Reason.UNREAD)
        elif now >= self._until:
            self._until = math.inf
            self.cut(self._why)
        elif self.idle and now - self._last_read >= self.idle:
            self.cut(Reason.IDLE)

    # --- for asyncio ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Have the face make its protocol."""
        self._transport, self._door = cast("asyncio.Transport", transport), door()
        self._transport.set_write_buffer_limits(high=HIGH)
        if self._admission.bounds.login:
            self.expect(self._admission.bounds.login, Reason.LOGIN)
        try:
            self._protocol = self._make(self)
            self._protocol.connection_made(self._transport)
        except (
            Exception
        ) as problem:  # the boundary between connections: a fault in one ends only that one
            self.fail(problem)

    def data_received(self, data: bytes) -> None:
        """Pass on received data, if it is the turn of its user or address; of a client that was given up, none."""
        self._last_read = self._admission.clock()
        if self._is_given_up:
            return
        if len(data) > SMALL or self.waits or not self._door.enters():
            self._wait(data)
            return
        try:
            if self._protocol is not None:
                self._protocol.data_received(data)
        except Exception as problem:  # as above
            self.fail(problem)

    def _wait(self, data: bytes) -> None:
        """Have it passed on when it is its turn: at once, if no other client waits."""
        if self.waits:
            self._held += data
        else:
            self._held, self.waits = data, True
            self._door.call(self.enter, self.whose)
        if self.waits:
            self._rest()
            if len(self._held) > SMALL and self in self._admission.connections:
                self._unread = self._unread or Unread(self)
                self._admission.budget.note(self._unread, self.user, len(self._held))

    def enter(self) -> None:
        """Pass on what has waited: the connection has its turn."""
        if not self.waits:
            return
        data = self._held
        self._forget_held()
        if self._is_resting:
            self._go_on()
        try:
            if self._protocol is not None:
                self._protocol.data_received(data)
        except Exception as problem:  # as above
            self.fail(problem)
        if len(data) >= TURN and self._rest():
            asyncio.get_running_loop().call_soon(self._go_on)

    def _forget_held(self) -> None:
        self._held, self.waits = b"", False
        if self._unread is not None:
            self._admission.budget.forget(self._unread)
            self._unread = None

    def _rest(self) -> bool:
        """Read no more of the client for now, and return true, unless the protocol does not want to read anyway."""
        if self._transport is None or not self.is_read:
            return False
        self._is_resting = True
        self._transport.pause_reading()
        return True

    def _go_on(self) -> None:
        if self._is_resting:
            self._is_resting = False
            if self.is_open and self._transport is not None:
                self._transport.resume_reading()

    def eof_received(self) -> bool | None:
        """Pass on that the client sends no more; the connection ends unless the protocol returns true."""
        try:
            return self._protocol.eof_received() if self._protocol is not None else None
        except Exception as problem:  # as above
            self.fail(problem)
            return None

    def pause_writing(self) -> None:
        """Note that the client reads too slowly."""
        self._full_since = self._admission.clock()
        self._pass("pause_writing")

    def resume_writing(self) -> None:
        """Note that the client has caught up."""
        self._full_since = math.inf
        self._pass("resume_writing")

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on the end of the connection, when it is its turn: a thousand may end at once."""
        self._admission.ends.call(partial(self._end, exc))

    def _end(self, exc: Exception | None) -> None:
        """Pass on the end, and stop counting the connection. What waited for its turn is not read, as what waited at the system."""
        self._forget_held()
        self._admission.leave(self)
        self._pass("connection_lost", exc)
        self._protocol = self._transport = self.last_words = None  # no reference cycle
        self.holdings = self.subscribed = self.on_dismissed = self.on_given_up = None

    def _call(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (
            Exception
        ) as problem:  # the boundary between connections: a fault in one ends only that one
            self.fail(problem)

    def _pass(self, what: str, *given: object) -> None:
        try:
            if self._protocol is not None:
                getattr(self._protocol, what)(*given)
        except Exception as problem:  # as above
            self.fail(problem)

    def _info(self, name: str) -> Any:  # noqa: ANN401  # asyncio's
        return None if self._transport is None else self._transport.get_extra_info(name)


# Admits connections: counts them in total, for each peer and for each user.

log = structlog.get_logger(__name__)

QUIET: Final = 60.0
"""Seconds between two log lines about refused or cut connections for the same reason: a stranger can cause thousands."""

NETWORK: Final = 8
"""Bytes of an IPv6 address that identify a peer, because a host with one address usually has the whole network."""


class Admitted(Keeper, Protocol):
    """A connection that is counted: the address of the client, and the user, if one has logged in."""

    peer: str
    user: str


One = TypeVar("One", bound=Admitted)


class Admission(Generic[One]):
    """Counts connections against the limits. `clock` returns seconds and is monotonic."""

    def __init__(
        self,
        counts: Connections,
        bounds: Bounds,
        clock: Callable[[], float] = time.monotonic,
        is_shared: Callable[[str], bool] = lambda _: False,
        budget: Budget = KEPT,
    ) -> None:
        self.counts, self.bounds, self.clock, self._is_shared = counts, bounds, clock, is_shared
        self.budget = budget
        self.connections: set[One] = set()
        """The open connections."""
        self.ends = InTurns(ENDS, "connection.failed")
        """The ends of connections."""
        self.empty = asyncio.Event()
        """Set while there are no connections."""
        self.empty.set()
        self._peers: Counter[str] = Counter()
        self._users: Counter[str] = Counter()
        self._logged: dict[Reason, tuple[float, int]] = {}

    def refusal(self, peer: str) -> Reason | None:
        """Return the reason why the peer cannot have another connection, or None."""
        if len(self.connections) >= self.bounds.connections:
            return Reason.CONNECTIONS
        if self._peers[network_of(peer)] >= self.bounds.per_peer and not self._is_shared(peer):
            return Reason.PEER
        return None

    def of(self, peer: str) -> str:
        """Return what the connections of a peer have in common: its network; "" if the address is that of many clients."""
        return "" if self._is_shared(peer) else network_of(peer)

    def enter(self, connection: One) -> None:
        """Count a connection for which `refusal` returned None."""
        self._peers[network_of(connection.peer)] += 1
        self.connections.add(connection)
        self.empty.clear()
        self.counts.open = len(self.connections)

    def leave(self, connection: One) -> None:
        """Stop counting a connection. Calling twice does no harm."""
        if connection not in self.connections:
            return
        self.connections.remove(connection)
        self.budget.forget(connection)
        self.counts.open = len(self.connections)
        _less(self._peers, network_of(connection.peer))
        if connection.user:
            _less(self._users, connection.user)
        if not self.connections:
            self.empty.set()

    def log_in(self, user: str) -> bool:
        """Count a connection of the user and return true; return false if there are too many."""
        if self._users[user] >= self.bounds.per_user:
            self.ended(Reason.USER, user=user)
            return False
        self._users[user] += 1
        return True

    def failed(self, problem: Exception) -> None:
        """Log an internal error in a connection."""
        log.error("connection.failed", face=self.counts.face, **fault(problem))

    def ended(self, reason: Reason, **facts: object) -> None:
        """Count a connection that was refused or cut, and log the first in each minute."""
        self.counts.ended[reason] += 1
        now = self.clock()
        since, before = self._logged.get(reason, (-QUIET, 0))
        if now - since < QUIET:
            return
        count = self.counts.ended[reason]
        self._logged[reason] = (now, count)
        event = "connection.refused" if reason in REFUSED else "connection.cut"
        log.warning(event, face=self.counts.face, reason=reason, count=count - before, **facts)


@lru_cache(maxsize=4096)
def network_of(peer: str) -> str:
    """Return the network that counts as one peer: an IPv4 address, or an IPv6 network."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if not isinstance(address, IPv6Address):
        return peer
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(address.packed[:NETWORK] + bytes(NETWORK)))


def _less(counter: Counter[str], key: str) -> None:
    """Count down, and remove a key at zero, because strangers choose the number of keys."""
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]


# The limits of a listener: the number of connections, and their timeouts.


class Bounds(Struct, frozen=True, kw_only=True):
    """The limits of a listener. Times are in seconds; 0 means no limit."""

    connections: int = 2_000
    """Connections in total."""
    per_peer: int = 500
    """Connections from one IPv4 address, or from one /64 network of IPv6."""
    per_user: int = 100
    """Connections of one user, after login."""
    handshake: float = 10.0
    """Until the TLS handshake is complete."""
    login: float = 10.0
    """From then until a user has logged in."""
    idle: float = 0.0
    """Without a byte from the client. A face can set another time for a connection."""
    unread: float = 60.0
    """Until a client has read the data that waits to be sent to it."""
    unsent: int = 512 * 1024
    """Bytes that may wait to be sent to one client. A single larger message can be sent when nothing waits."""
