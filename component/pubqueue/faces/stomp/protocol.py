"""One connection: the actions for each frame in each stage, from CONNECT to its end."""

from __future__ import annotations

import asyncio
from enum import Enum, auto, unique
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from pubqueue.accounts.accounts import Proven
from pubqueue.accounts.credentials import Plain
from pubqueue.engine.connections import Reason
from pubqueue.faces.listener.budget import SMALL
from pubqueue.faces.stomp import codec
from pubqueue.faces.stomp.client import Backend, Client, Wire
from pubqueue.faces.stomp.refusals import Message, Problem, error, of_fault
from pubqueue.faces.stomp.session import StompSession
from pubqueue.rules.presence import Departure
from pubqueue.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.accounts.accounts import Accounts, Denied
    from pubqueue.engine.observe import Traffic
    from pubqueue.faces.listener import ClientConnection
    from pubqueue.faces.stomp.settings import StompSettings
    from pubqueue.model.entities import Jid, Principal


WORD: Final = "stomp"
"""The prefix of the resources of its addresses, and the word in `faces` of a user."""

BEFORE_LOGIN: Final = codec.FrameBounds(headers=32, line=2048, head=4096, body=4096)
"""The limits of a client that has not logged in."""

MAX_BYTES_BEFORE_LOGIN: Final = BEFORE_LOGIN.head + BEFORE_LOGIN.body
"""Bytes that may come behind CONNECT before it is answered."""

UNDER_WAY: Final = 256
"""Frames of a connection that are not answered; beyond this no more are read until there are fewer."""

BYTES_UNDER_WAY: Final = 1 << 20

LINGERING: Final = 2.0
"""Seconds for a client to disconnect after our last frame; bytes that it sends in that time are dropped."""

FAREWELLS: Final[Mapping[Reason, Problem]] = MappingProxyType(
    {
        Reason.LOGIN: Problem(Message.LOGIN_TIMEOUT, "CONNECT has to come whole, and in time"),
        Reason.IDLE: Problem(Message.NO_HEART_BEAT, "nothing has come for twice the time agreed"),
    }
)
"""The messages for connections that the listener closes."""
CUT: Final = Problem(Message.INTERNAL_ERROR, "the connection cannot be served")

NO_LOGIN: Final = Problem(Message.LOGIN_REFUSED, "login and passcode are not those of a user")
LOGIN_LATER: Final = Problem(
    Message.LOGIN_REFUSED, "too many logins were wrong; nothing more is looked at for a while"
)
TOO_MANY: Final = Problem(Message.TOO_MANY_CONNECTIONS, "the user has too many connections")
TOO_EARLY: Final = Problem(
    Message.NOT_CONNECTED,
    f"at most {MAX_BYTES_BEFORE_LOGIN} bytes may come before CONNECT is answered",
)
GIVEN_UP: Final = Problem(
    Message.TOO_MUCH_KEPT,
    "all clients together have too much here that is not whole, not committed or not read, this account has most of it,"
    " and this connection began first",
)
NOT_CONNECTED: Final = Problem(Message.NOT_CONNECTED, "the first frame has to be CONNECT")
CONNECTED: Final = Problem(Message.ALREADY_CONNECTED, "there was a CONNECT before")
DISMISSED: Final = Problem(Message.CONNECTION_ENDED, "an administrator has ended the connection")
USER_GONE: Final = Problem(Message.LOGIN_REFUSED, "the user is no more, or has another passcode")


class Served(Backend, Protocol):
    """The interface that all connections of a face share."""

    stomp: StompSettings
    accounts: Accounts
    traffic: Traffic
    is_stopping: bool
    """Whether nothing more is read from any client."""

    def has_to_wait(self, by: Principal) -> bool:
        """Return whether the account has too much under way to have another frame read."""

    def when_admitted(self, by: Principal, call: Callable[[], None]) -> None:
        """Call when the account may have another frame read."""

    def charge(self, by: Principal) -> None:
        """Charge a refused frame to its account."""

    def new_address(self, proven: Proven) -> Jid:
        """Return an address for a connection of the user."""

    def failed(self, problem: Exception) -> None:
        """Log a fault of ours that one connection has met."""

    def gone(self, protocol: StompProtocol) -> None:
        """Forget a connection."""


class StompProtocol(asyncio.Protocol):
    """The connection of a client to the face."""

    def __init__(self, face: Served, connection: ClientConnection) -> None:
        self.connection = connection
        self._face = face
        self.stage = Stage.NEW
        self._version = codec.V12
        self._reader = codec.FrameReader(bounds=BEFORE_LOGIN)
        self._wire = Wire(connection, self._on_room, self._count_kept)
        self.session: StompSession | None = None
        self.proven: Proven | None = None
        self._by: Principal | None = None
        self.address: Jid | None = None
        self._client: Client | None = None
        self._proving: asyncio.Task[None] | None = None
        self._beating: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._is_reading = self._is_held = self._is_waiting = self._is_counted = False
        connection.last_words = self._last_words
        connection.on_given_up = self._given_up

    # --- in -------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Read received bytes."""
        self._face.traffic.bytes_in += len(data)
        if self.stage is Stage.ENDING:
            return
        self._reader.receive(data)
        self.read_on()

    def _may_read(self) -> bool:
        if self.stage is Stage.NEW:
            return True
        client, session = self._client, self.session
        if self.stage is not Stage.OPEN or client is None or session is None:
            return False
        if session.subscriptions.is_busy or client.has_left:
            return False
        answers = client.answers
        few = len(answers.owed) < UNDER_WAY and answers.size < BYTES_UNDER_WAY
        return few and not self.connection.is_full and not self._face.is_stopping

    def read_on(self) -> None:
        """Process the frames that have arrived, as far as this client may proceed."""
        if self._is_reading:  # a frame may cause an immediate answer
            return
        self._is_reading, is_new = True, False
        try:
            while (
                self._reader.unread
                and self._may_read()
                and self._is_admitted()
                and (event := self._reader.next_event()) is not None
            ):
                if isinstance(event, codec.Fault):
                    self._refuse(of_fault(event), event.receipt)
                else:
                    self._take(event)
                    is_new = True
        finally:
            self._is_reading = False
        was_held = self._is_held
        is_ending = self.stage is Stage.ENDING
        self._is_held = not is_ending and (self._is_waiting or not self._may_read())
        if self._is_held:
            self.connection.pause_reading()
        elif was_held:
            self.connection.resume_reading()
        self._count_kept(is_new=is_new)

    def _count_kept(self, *, is_new: bool = False) -> None:
        """Note how much is kept for the client in the budget of the process. Usually that is little, and was."""
        size = self._reader.kept + self._wire.waiting
        if self.session is not None:
            size += self.session.kept
        elif self.stage is Stage.PROVING and size > MAX_BYTES_BEFORE_LOGIN:
            self.fail(TOO_EARLY)
            return
        if size > SMALL or self._is_counted:
            self._is_counted = size > SMALL
            self.connection.keeps(size, is_new=is_new)

    def _is_admitted(self) -> bool:
        """Return whether the account may have one more frame read; if not, reading goes on when it may."""
        if self._by is None or self._is_waiting:
            return not self._is_waiting
        if self._face.has_to_wait(self._by):
            self._is_waiting = True
            self._face.when_admitted(self._by, self._admitted)
        return not self._is_waiting

    def _admitted(self) -> None:
        self._is_waiting = False
        self.read_on()

    def _progressed(self) -> None:
        """Resume reading, if frames were left for later: a frame is answered. Usually none were."""
        if self._is_held:
            self.read_on()
        elif self._is_counted and self._client is not None and not self._client.answers.size:
            self._count_kept()

    def _take(self, frame: codec.Frame) -> None:
        match ACTS[self.stage][frame.command]:
            case Act.CONNECT:
                self._connect(frame)
            case Act.DO:
                assert self.session is not None
                self.session.take(frame)
            case Act.NOT_CONNECTED:
                self.fail(NOT_CONNECTED, frame.headers.get("receipt"))
            case Act.ALREADY_CONNECTED:
                self._refuse(CONNECTED, frame.headers.get("receipt"))
            case Act.NOTHING:
                pass

    def _refuse(self, problem: Problem, receipt: str | None) -> None:
        """End with this problem, once the earlier frames are answered."""
        if self._client is None:
            self.fail(problem, receipt)
        else:
            self._client.answers.refuse(self._client.answers.add(receipt, 0), problem)

    # --- logging in -----------------------------------------------------------------------------

    def _connect(self, frame: codec.Frame) -> None:
        greeted = greeting(frame, self._face.stomp)
        if isinstance(greeted, Problem):
            self.fail(greeted)
            return
        self._version = greeted.version
        self._reader.agree(greeted.version, codec.FrameBounds())
        self.stage = Stage.PROVING
        self._proving = asyncio.create_task(self._prove(greeted), name="login")

    async def _prove(self, greeted: Greeting) -> None:
        try:
            given = Plain(greeted.login, greeted.passcode)
            found = await self._face.accounts.prove(given, face=WORD, peer=self.connection.peer)
            if self.stage is Stage.PROVING and self.connection.is_open:
                self._open(greeted, found)
        except (
            Exception
        ) as problem:  # the outermost boundary of its task: a fault in one ends only that one
            self._face.failed(problem)
            self.fail(CUT)

    def _open(self, greeted: Greeting, found: Proven | Denied) -> None:
        if not isinstance(found, Proven):
            self.fail(LOGIN_LATER if found.wait else NO_LOGIN)
            return
        if not self._face.accounts.holds(found):
            self.fail(NO_LOGIN)
            return
        if not self.connection.log_in(found.account):
            self.fail(TOO_MANY)
            return
        self.address = address = self._face.new_address(found)
        self.proven, self.stage = found, Stage.OPEN
        self._by = self._face.by(address)
        self._client = Client(
            self._face,
            address,
            greeted.version,
            self._wire,
            fail=self.fail,
            on_progress=self._progressed,
        )
        self.session = StompSession(self._client, self._end)
        self.connection.holdings = self.session.subscriptions.holding
        self.connection.subscribed = self.session.subscriptions.nodes
        self.connection.on_dismissed = self._dismissed
        self.connection.address = address
        resource = address.partition("/")[2]
        self._wire.put(codec.write(connected(greeted, self._face.stomp, resource), greeted.version))
        self.connection.idle = greeted.silence
        if greeted.pause:
            self._beat(greeted.pause)
        self.read_on()

    # --- out ------------------------------------------------------------------------------------

    def _beat(self, pause: float) -> None:
        """Send a line end, if nothing was sent for so long; and check again when it is time."""
        loop = asyncio.get_running_loop()
        if self.stage is not Stage.OPEN:
            return
        if loop.time() - self._wire.last_written >= pause:
            self._wire.put(codec.BEAT)
            self._wire.flush()
        self._beating = loop.call_at(self._wire.last_written + pause, self._beat, pause)

    def pause_writing(self) -> None:
        """Deliver nothing more, and stop reading."""
        if self.session is not None:
            self.session.room_changed()
        self.read_on()

    def resume_writing(self) -> None:
        """Deliver and read again."""
        self._wire.release()
        self._on_room()
        self.read_on()

    def _on_room(self) -> None:
        if self.session is not None and self._wire.has_room:
            self.session.room_changed()

    # --- the end --------------------------------------------------------------------------------

    def fail(
        self, problem: Problem, receipt: str | None = None, how: Departure = Departure.LOST
    ) -> None:
        """Send the problem, and end: the client's items go to other workers."""
        if self.stage is Stage.ENDING:
            return
        if self._by is not None and how is Departure.LOST:
            self._face.charge(self._by)
        self._wire.flush()
        self._wire.drop()
        self._wire.put(error(problem, self._version, receipt))
        self._end(how)

    def _end(self, how: Departure = Departure.CLOSED) -> None:
        """Send no more, and drop received bytes until the client disconnects: it may not have read the last frame yet."""
        self.stage = Stage.ENDING
        self._wire.flush()
        self._reader.end()
        if self.session is not None:
            self.session.leave(how)
        self._count_kept()
        self.connection.idle = 0.0
        self.connection.end_sending()
        self.connection.resume_reading()
        loop = asyncio.get_running_loop()
        self._lingering = loop.call_later(LINGERING, self.connection.close)

    def _given_up(self) -> None:
        """Forget what is kept of the client, and end: with an ERROR, unless it does not read or has got its last frame."""
        self._wire.forget()
        if self.stage is Stage.ENDING or self.connection.unsent > SMALL:
            self.connection.abort()
        else:
            self.fail(GIVEN_UP)

    def _dismissed(self) -> None:
        self.fail(DISMISSED, how=Departure.CLOSED)

    def _last_words(self, reason: Reason) -> bytes:
        if self.stage is Stage.ENDING:
            return b""
        self._wire.flush()
        self._wire.note_taken()
        return error(FAREWELLS.get(reason, CUT), self._version)

    def eof_received(self) -> None:
        """Note what the client may have read: it sends no more, and the connection is closed."""
        self._wire.note_taken()

    def connection_lost(self, _problem: Exception | None) -> None:
        """Forget it; its items go to other workers."""
        self.stage = Stage.ENDING
        for timer in (self._beating, self._lingering):
            if timer is not None:
                timer.cancel()
        if self._proving is not None:
            self._proving.cancel()
        self._wire.drop()
        if self.session is not None:
            self.session.leave(Departure.LOST)
        self._face.gone(self)


# CONNECT and CONNECTED: the version, the heart-beats, and the credentials.

SERVER: Final = f"pubqueue/{__version__}"

MARGIN: Final = 1.0
"""Seconds beyond twice the interval after which a client that has promised beats is disconnected."""

EAGER: Final = 0.8
"""The part of the promised interval after which we send a beat if nothing else was sent."""


class Greeting(Struct, frozen=True):
    """The contents of a CONNECT. `beats` are ours, as agreed."""

    version: codec.Version
    beats: codec.HeartBeats
    login: str
    passcode: str
    request: str | None = None
    """The header `request-id`, which clients of ActiveMQ expect to get back."""

    def __repr__(self) -> str:
        """Show nothing of a passcode."""
        return f"Greeting({self.version.name})"

    @property
    def silence(self) -> float:
        """Seconds without a byte from the client after which it is disconnected; 0: never."""
        return 2 * self.beats.wants / 1000 + MARGIN if self.beats.wants else 0.0

    @property
    def pause(self) -> float:
        """Seconds after which we send a beat; 0: never."""
        return EAGER * self.beats.sends / 1000


def greeting(frame: codec.Frame, stomp: StompSettings) -> Greeting | Problem:
    """Return the contents of a CONNECT."""
    headers = frame.headers
    version = codec.best_of(headers.get("accept-version"), stomp.spoken)
    if version is None:
        return _no_version(stomp)
    offered = codec.heart_beats_of(headers.get("heart-beat"))
    if offered is None:
        words = "heart-beat has to be two whole numbers of milliseconds with a comma between them"
        return Problem(Message.BAD_HEART_BEAT, words)
    host = headers.get("host")
    if stomp.hosts and host is not None and host not in stomp.hosts:
        return Problem(Message.UNKNOWN_HOST, "the service does not have this name")
    beats = _ours(stomp).agreed_with(offered)
    login, passcode = headers.get("login", ""), headers.get("passcode", "")
    return Greeting(version, beats, login, passcode, headers.get("request-id"))


def connected(greeted: Greeting, stomp: StompSettings, session: str) -> codec.Frame:
    """Return the answer to a client that has logged in."""
    headers = {
        "version": greeted.version.name,
        "heart-beat": _ours(stomp).shown,
        "server": SERVER,
        "session": session,
    }
    if greeted.request is not None:
        headers["response-id"] = greeted.request
    return codec.Frame("CONNECTED", headers)


def _ours(stomp: StompSettings) -> codec.HeartBeats:
    return codec.HeartBeats(stomp.beat, stomp.beat)


def _no_version(stomp: StompSettings) -> Problem:
    names = [name for name, version in codec.VERSIONS.items() if version in stomp.spoken]
    return Problem(
        Message.UNSUPPORTED_VERSION,
        f"the service speaks STOMP {', '.join(names)}",
        (("version", ",".join(names)),),
    )


# The stages of a connection, and the action for each frame in each stage: a table that is total.


@unique
class Stage(Enum):
    """The stage of a connection."""

    __hash__ = object.__hash__  # an enumeration's own is a call in Python

    NEW = auto()
    """No client has logged in."""
    PROVING = auto()
    """CONNECT has come, and is not answered."""
    OPEN = auto()
    ENDING = auto()
    """The last frame was sent; received bytes are ignored."""


@unique
class Act(Enum):
    """The action for a frame."""

    CONNECT = auto()
    DO = auto()
    """The session processes it."""
    NOT_CONNECTED = auto()
    ALREADY_CONNECTED = auto()
    NOTHING = auto()
    """It is not read: the stage ends first, or nothing follows it."""


_OPENERS: Final = ("CONNECT", "STOMP")
CLIENTS: Final = tuple(
    name for name, row in codec.COMMANDS.items() if row.side is codec.Side.CLIENT
)
"""All frames of clients."""

ACTS: Final[Mapping[Stage, Mapping[str, Act]]] = MappingProxyType(
    {
        Stage.NEW: {
            name: Act.CONNECT if name in _OPENERS else Act.NOT_CONNECTED for name in CLIENTS
        },
        Stage.PROVING: dict.fromkeys(CLIENTS, Act.NOTHING),
        Stage.OPEN: {
            name: Act.ALREADY_CONNECTED if name in _OPENERS else Act.DO for name in CLIENTS
        },
        Stage.ENDING: dict.fromkeys(CLIENTS, Act.NOTHING),
    }
)
