"""Accepts clients at several addresses, and enforces the limits of their connections.

It does not use `loop.create_server`, because a server of uvloop closes itself when descriptors run out.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import structlog

from pubqueue.engine.connections import Connections, Reason
from pubqueue.faces.listener.budget import KEPT
from pubqueue.faces.listener.connection import TURN, Admission, Bounds, ClientConnection, door
from pubqueue.faces.listener.tls import Hello, hellos, listen, set_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pubqueue.faces.listener.budget import Budget
    from pubqueue.faces.listener.tls import Place, Tls


log = structlog.get_logger(__name__)

AT_ONCE: Final = 256
"""Clients to accept in one turn of the loop. That alone is cheap; their connections begin in turns, whatever the order in the system's queue."""

REST: Final = 1.0
"""Seconds until accepting resumes if no descriptor is left even to refuse a client; also seconds between two checks of timeouts."""

DAY: Final = 86_400.0

LEAVING: Final = 5.0
"""Seconds for the end of TLS, when a connection is closed."""

SHORTEST: Final = 0.05
"""Seconds that are left for a handshake at least, however long its first message took."""

_SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of `accept` when the system has no resources for another client; they occur even if no client waits."""


class CannotListenError(Exception):
    """An address cannot be listened on; the message is one sentence for the operator."""


class Listener:
    """Listens for a face. `make` returns a protocol for each connection; refused clients without TLS get the bytes `busy`.

    `is_shared` returns whether an address is that of many clients, to whom the limit for one address does not apply.

    `clock` returns seconds and is monotonic. `budget` bounds what all connections keep; it is that of the process.
    `descriptors` is how many each connection needs.
    """

    def __init__(
        self,
        face: str,
        make: Callable[[ClientConnection], asyncio.Protocol],
        bounds: Bounds = Bounds(),  # noqa: B008  # frozen
        *,
        busy: bytes = b"",
        is_shared: Callable[[str], bool] = lambda _: False,
        clock: Callable[[], float] = time.monotonic,
        budget: Budget = KEPT,
        descriptors: int = 1,
    ) -> None:
        self.counts = Connections(face)
        """Counters of connections."""
        self._make, self._busy, self._clock = make, busy, clock
        self._each = descriptors
        self._admission: Admission[ClientConnection] = Admission(
            self.counts, bounds, clock, is_shared, budget
        )
        self._sockets: dict[socket.socket, Place] = {}
        self._accepted: dict[ClientConnection, socket.socket] = {}
        """Those that count already, and wait for their turn to begin."""
        self._hellos: dict[ClientConnection, Hello] = {}
        """Those of them whose handshake has not come yet."""
        self._beginning: set[asyncio.Task[None]] = set()
        self._spare: Spare | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._reminded = 0.0
        self._accepts = False

    @property
    def bounds(self) -> Bounds:
        """The limits of this listener."""
        return self._admission.bounds

    @property
    def connections(self) -> frozenset[ClientConnection]:
        """The open connections."""
        return frozenset(self._admission.connections)

    @property
    def face(self) -> str:
        """The word of the face."""
        return self.counts.face

    def clients(self) -> Iterable[ClientConnection]:
        """Return the connections that have logged in and whose address the face knows."""
        return [one for one in tuple(self._admission.connections) if one.address]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each listening socket."""
        return [one.getsockname()[:2] for one in self._sockets]

    async def open(self, places: Iterable[Place], *, accepts: bool = True) -> None:
        """Start listening at these places; without `accepts` clients wait in the system's queue until `accept` is called.

        Raises:
            CannotListenError: a place is taken, or not on this machine. Then no place is open.

        """
        _PROMISED[self] = self._each * self._admission.bounds.connections
        provide(sum(_PROMISED.values()))
        for place in places:
            try:
                made = await listen(place)
            except OSError as problem:
                self.close()
                why = problem.strerror or problem
                raise CannotListenError(
                    f"{self.counts.face}: {place.shown} cannot be listened on ({why})"
                ) from None
            self._sockets |= dict.fromkeys(made, place)
        self._spare = Spare()
        if accepts or self._accepts:
            self.accept()
        self._reminded = self._clock()
        self._note_certificates()
        self._schedule_check()

    def accept(self) -> None:
        """Accept clients, from now on or as soon as it listens. Calling it twice does no harm."""
        self._accepts = True
        for one in self._sockets:
            self._accept_from(one)

    async def reload(self) -> None:
        """Reload the certificates. Open connections keep theirs."""
        for tls in self._certificates():
            await asyncio.to_thread(tls.reload)
        self._note_certificates()

    def close(self) -> None:
        """Stop accepting. Open connections stay."""
        _PROMISED.pop(self, None)
        for one in self._sockets:
            asyncio.get_running_loop().remove_reader(one)
            one.close()
        self._sockets.clear()
        if self._spare is not None:
            self._spare.close()
            self._spare = None

    async def stop(self, patience: float = 1.0) -> None:
        """Stop accepting, close all connections, and return when they have ended; after `patience` seconds cut the rest.

        Stopping twice does no harm.
        """
        self.close()
        for task in self._beginning:
            task.cancel()
        await asyncio.gather(*self._beginning, return_exceptions=True)
        for hello in self._hellos.values():
            hello.forget()
        self._hellos.clear()
        for connection, client in self._accepted.items():
            client.close()
            self._admission.leave(connection)
        self._accepted.clear()
        for one in tuple(self._admission.connections):
            one.close()
        await self.ended(patience)
        for one in tuple(self._admission.connections):
            one.abort()
        await self.ended(patience)
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def ended(self, patience: float) -> None:
        """Wait until all connections have ended, or until `patience` seconds have passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._admission.empty.wait()

    def adopt(self, peer: str) -> ClientConnection | None:
        """Return a connection for a client that was accepted elsewhere, or None if a limit refuses it.

        The caller passes the events of its transport to it, `connection_made` first.
        """
        reason = self._admission.refusal(peer)
        if reason is not None:
            self._admission.ended(reason, peer=peer)
            return None
        connection = ClientConnection(self._admission, peer, self._make)
        self._admission.enter(connection)
        return connection

    def refused(self, reason: Reason, *, peer: str) -> None:
        """Count and log that a client was refused by who accepted its connection."""
        self._admission.ended(reason, peer=peer)

    # --- accepting ------------------------------------------------------------------------------

    def _accept_from(self, listening: socket.socket) -> None:
        """Start accepting, unless the socket has been closed."""
        if listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Accept waiting clients, up to `AT_ONCE` in each turn."""
        for _ in range(AT_ONCE):
            try:
                client, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as problem:
                if problem.errno not in _SCARCE:
                    continue  # the client is already gone
                if not self._turn_away(listening):
                    return
                continue
            self._take(client, str(address[0]), self._sockets[listening])

    def _turn_away(self, listening: socket.socket) -> bool:
        """Accept a client without a free descriptor and close its connection; return whether others may be waiting."""
        assert self._spare is not None
        try:
            is_turned_away = self._spare.turn_away(listening)
        except OSError:
            self._pause_accepting(listening)
            return False
        if is_turned_away:
            self._admission.ended(Reason.DESCRIPTORS)
        return is_turned_away

    def _pause_accepting(self, listening: socket.socket) -> None:
        """Pause accepting, because the system has no resources and `accept` would fail again at once."""
        self._admission.ended(Reason.DESCRIPTORS)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        loop.call_later(REST, self._accept_from, listening)

    def _take(self, client: socket.socket, peer: str, place: Place) -> None:
        """Count an accepted client, and serve it when it is its turn; or refuse it."""
        few = are_few(client.fileno())
        reason = Reason.DESCRIPTORS if few else self._admission.refusal(peer)
        if reason is not None:
            self._admission.ended(reason, peer=peer)
            _refuse(client, b"" if place.tls else self._busy)
            return
        connection = ClientConnection(self._admission, peer, self._make)
        self._admission.enter(connection)
        self._accepted[connection] = client
        if place.tls is None:
            door().call(partial(self._start, connection, None), connection.whose)
        else:
            begins = partial(self._greeted, connection, place.tls)
            self._hellos[connection] = Hello(client, self._admission.bounds.handshake, begins)

    def _greeted(self, connection: ClientConnection, tls: Tls, *, in_time: bool) -> None:
        """Begin the handshake when it is its turn: its first message has come, or its time is over."""
        del self._hellos[connection]
        if in_time:
            hellos().call(partial(self._start, connection, tls), connection.whose)
            return
        self._accepted.pop(connection).close()
        self._admission.ended(Reason.HANDSHAKE, peer=connection.peer, why="TimeoutError")
        self._admission.leave(connection)

    def _start(self, connection: ClientConnection, tls: Tls | None) -> None:
        """Begin a connection, unless the listener has stopped."""
        if connection in self._accepted:
            beginning = asyncio.create_task(self._begin(connection, tls), name="client")
            self._beginning.add(beginning)
            beginning.add_done_callback(self._beginning.discard)

    async def _begin(self, connection: ClientConnection, tls: Tls | None) -> None:
        """Make the TLS handshake if the place has TLS; then the connection runs without the listener."""
        client = self._accepted.pop(connection)
        more: dict[str, Any] = {}
        if tls is not None:
            wait = self._admission.bounds.handshake
            more = {
                "ssl": tls.context,
                "ssl_handshake_timeout": max(SHORTEST, wait - connection.age) if wait else None,
                "ssl_shutdown_timeout": LEAVING,
            }
        begun = False
        try:
            client.setblocking(False)  # noqa: FBT003  # the socket's own
            set_options(client)
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: connection, client, **more)
            begun = True
        except OSError as problem:  # includes TLS errors
            why = getattr(problem, "reason", None) or type(problem).__name__
            self._admission.ended(Reason.HANDSHAKE, peer=connection.peer, why=why)
        except Exception as problem:  # the outermost boundary of its task
            self._admission.failed(problem)
            self._admission.ended(Reason.FAULT, peer=connection.peer)
        finally:
            if not begun:
                self._admission.leave(connection)
                client.close()

    # --- looking after them ---------------------------------------------------------------------

    def look(self) -> None:
        """Cut connections whose timeouts have passed. The listener calls this regularly."""
        now = self._clock()
        for one in tuple(self._admission.connections):
            one.look(now)
        if now - self._reminded >= DAY:
            self._reminded = now
            for tls in self._certificates():
                tls.remind()

    def _schedule_check(self) -> None:
        bounds = self._admission.bounds
        shortest = min(
            (time for time in (bounds.login, bounds.idle, bounds.unread) if time), default=REST
        )
        wait = min(REST, shortest / 4)
        self._looking = asyncio.get_running_loop().call_later(wait, self._check_again)

    def _check_again(self) -> None:
        self.look()
        self._schedule_check()

    def _certificates(self) -> Sequence[Tls]:
        """Return the TLS settings of all places, without duplicates."""
        found = {id(place.tls): place.tls for place in self._sockets.values()}
        return [tls for tls in found.values() if tls is not None]

    def _note_certificates(self) -> None:
        """Set the counters to the certificate that expires first."""
        ends = [tls.certificate.ends for tls in self._certificates()]
        self.counts.certificate_ends = min(ends, default=None)


def _refuse(client: socket.socket, words: bytes) -> None:
    """Send what can be sent of these bytes without waiting, and close."""
    with suppress(OSError):
        client.setblocking(False)  # noqa: FBT003  # the socket's own
        if words:
            client.send(words)
            client.shutdown(socket.SHUT_WR)
            client.recv(TURN)  # with unread data, closing would discard the bytes sent
    client.close()


# The file descriptors of the process: raises their limit at the start, and keeps the last ones from clients.
#
# The store and the stream to the server need descriptors too. When none are left, the listener still accepts: otherwise clients would wait
# in the kernel's queue without an answer.

RESERVE: Final = 64
"""Descriptors that are not given to clients."""

_PROMISED: Final[WeakKeyDictionary[Listener, int]] = WeakKeyDictionary()
"""How many the clients of each open listener may need. They all come out of one limit, the process's."""


def provide(descriptors: int) -> None:
    """Raise the limit so that all clients may have this many descriptors, as far as allowed; log if it stays too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = descriptors + 2 * RESERVE
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if resource.RLIM_INFINITY != soft < needed:
        log.warning("descriptors.few", limit=soft, needed=needed)


def are_few(descriptor: int) -> bool:
    """Return whether few descriptors are left, given the newest one; the system assigns the lowest free number."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft != resource.RLIM_INFINITY and descriptor >= soft - RESERVE


class Spare:
    """A spare descriptor, which is freed when there is no other, to accept a client and close its connection."""

    def __init__(self) -> None:
        self._kept: int | None = None
        self.renew()

    def renew(self) -> None:
        """Reserve a descriptor again, if one is free."""
        if self._kept is None:
            try:
                self._kept = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                self._kept = None

    def turn_away(self, listening: socket.socket) -> bool:
        """Accept a client and close its connection; return whether there was one.

        Raises:
            OSError: no descriptor is free even then.

        """
        self.renew()
        if self._kept is None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        self.close()
        try:
            client, _ = listening.accept()
        except BlockingIOError:
            return False
        else:
            client.close()
            return True
        finally:
            self.renew()

    def close(self) -> None:
        """Free the descriptor."""
        if self._kept is not None:
            os.close(self._kept)
            self._kept = None
