"""One client: reads its frames, processes them, and sends the answers after the journal is synced."""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from pubqueue.curb.journal import MAX_LINE, DiskError, FullError, TooLargeError
from pubqueue.engine.connections import Reason
from pubqueue.faces.stomp import codec
from pubqueue.faces.stomp.codec import V12, Fault, Frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.curb.queue import Queue
    from pubqueue.faces.listener import ClientConnection

_MODES: Final = frozenset({"auto", "client", "client-individual"})
"""Values of the header `ack` in STOMP 1.2."""

SERVER: Final = "curb/idea.1.0 STOMP 1.2 subset"
COUNT: Final = "./count"
"""The one destination that is checked, in SUBSCRIBE only."""
BEATS: Final = codec.HeartBeats(10_000, 10_000)
STRANGERS: Final = codec.FrameBounds(headers=32, line=4 * 1024, head=4 * 1024, body=4 * 1024)
"""Before CONNECT."""
CLIENTS: Final = codec.FrameBounds(headers=128, line=8 * 1024, head=16 * 1024, body=MAX_LINE)
AT_ONCE: Final = 256
"""Frames of one client that are read in one turn."""
UNSENT: Final = 64 * 1024
"""Bytes of queued answers above which no more frames of a client are read."""
LINGER: Final = 2.0
"""Seconds that a client has to read our last frame and to close."""
LAST_WORDS: Final[Mapping[Reason, tuple[str, str]]] = MappingProxyType(
    {
        Reason.LOGIN: ("login timeout", "CONNECT has not come in time"),
        Reason.IDLE: ("no heart-beat", "nothing has come for longer than the heart-beat allows"),
        Reason.USER: ("too many connections", "there are too many connections"),
    }
)


class RefusedError(Exception):
    """A refused frame: the short message, a sentence, and more headers of the ERROR."""

    def __init__(self, message: str, sentence: str, **headers: str) -> None:
        super().__init__(message)
        self.message, self.sentence, self.headers = message, sentence, headers


SLOW: Final = RefusedError(
    "too slow", "this frame has waited longest to be whole, and all clients have begun too much"
)


class Turns(Protocol):
    """Syncs the journal for all clients that sent something, and then sends their answers."""

    counting: set[Client]
    """The clients that want the count."""

    def soon(self, client: Client) -> None:
        """Sync for this client, too."""

    def broken(self, problem: DiskError) -> None:
        """Stop, because the journal cannot be written."""


class Client(asyncio.Protocol):
    """The protocol of one connection."""

    def __init__(self, queue: Queue, turns: Turns, connection: ClientConnection) -> None:
        self._counting: str | None = None
        self._counted = -1
        self._queue, self._turns, self._connection = queue, turns, connection
        self._reader = codec.FrameReader(bounds=STRANGERS)
        self._answers = bytearray()
        self._subscription: str | None = None
        self._held: int | None = None
        self._is_open = self._is_ending = self._is_behind = self._has_eof = False
        self._has_ended = False
        """Whether the end of the stream was sent."""
        self._beat: asyncio.TimerHandle | None = None
        connection.last_words = last_words
        connection.on_given_up = self._give_up

    # --- from the listener ----------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Read frames, unless the last frame was sent."""
        if not self._is_ending:
            self._reader.receive(data)
            self._read()

    def eof_received(self) -> bool:
        """Answer what was read; then close."""
        self._has_eof = True
        self._turns.soon(self)
        return True

    def resume_writing(self) -> None:
        """Continue to read and to deliver."""
        if self._is_behind:
            self._read()
        self._turns.soon(self)

    def connection_lost(self, _problem: Exception | None) -> None:
        """Queue what it holds."""
        self._is_ending = True
        if self._beat is not None:
            self._beat.cancel()
        try:
            self._leave()
        except DiskError as problem:
            self._turns.broken(problem)
        self._turns.soon(self)

    # --- to the client --------------------------------------------------------------------------

    @property
    def is_free(self) -> bool:
        """Whether it may get a message: it has subscribed, holds none, and reads."""
        is_waiting = self._subscription is not None and self._held is None
        return is_waiting and not self._is_ending and not self._connection.is_full

    def deliver(self, number: int, body: bytes) -> None:
        """Send a message; the client holds it from now on."""
        assert self._subscription is not None
        self._held = number
        shown = f"{number:08}"
        headers = {
            "subscription": self._subscription,
            "message-id": shown,
            "ack": shown,
            "destination": ".",
        }
        self._connection.write(codec.write(Frame("MESSAGE", headers, body), V12))

    def send_count(self, serial: int, count: int) -> None:
        """Send the count, if the client wants it and does not have it yet."""
        is_waiting = self._counting is not None and self._counted != count
        if is_waiting and not self._is_ending and not self._connection.is_full:
            assert self._counting is not None
            self._counted = count
            headers = {
                "subscription": self._counting,
                "message-id": f"count-{serial}",
                "destination": COUNT,
            }
            self._connection.write(codec.write(Frame("MESSAGE", headers, b"%d" % count), V12))

    def fail(self, problem: Exception) -> None:
        """End after a fault of ours, or of the socket: others go on."""
        self._connection.fail(problem)

    def send(self) -> None:
        """Send the answers, because the journal is synced; then continue to read, or end."""
        if self._answers:
            self._connection.write(bytes(self._answers))
            self._answers.clear()
        if self._is_ending:
            self._end()
        elif self._is_behind and not self._connection.is_full:
            self._read()
        elif self._has_eof and not self._is_behind:
            self._connection.close()
        if self.is_free:
            self._queue.wait(self)

    def _end(self) -> None:
        """Send the end of the stream, and wait a little: if a socket with unread bytes is closed, the last frame is lost."""
        if self._has_eof:
            self._connection.close()
        elif not self._has_ended and self._connection.is_open:
            self._has_ended = True
            self._connection.end_sending()
            asyncio.get_running_loop().call_later(LINGER, self._connection.abort)

    def _keep_beating(self, seconds: float) -> None:
        """Send a heartbeat now and then; one that comes after other bytes does no harm."""
        if self._connection.is_open and not self._connection.unsent and not self._is_ending:
            self._connection.write(codec.BEAT)
        self._beat = asyncio.get_running_loop().call_later(seconds, self._keep_beating, seconds)

    # --- frames ---------------------------------------------------------------------------------

    def _read(self) -> None:
        """Process frames, some in each turn; stop reading from a client that does not read its answers."""
        self._is_behind = is_new = False
        for _ in range(AT_ONCE):
            if self._is_ending:
                break
            if len(self._answers) >= UNSENT or self._connection.is_full:
                self._is_behind = True
                break
            event = self._reader.next_event()
            if event is None:
                break
            self._take(event)
            is_new = True
        else:
            self._is_behind = True
        self._connection.keeps(self._reader.kept, is_new=is_new)
        (self._connection.pause_reading if self._is_behind else self._connection.resume_reading)()
        self._turns.soon(self)

    def _take(self, event: Frame | Fault) -> None:
        if isinstance(event, Fault):
            self._refuse(RefusedError(event.cause, event.sentence), event.receipt)
            return
        receipt = event.headers.get("receipt")
        try:
            self._do(event)
        except RefusedError as problem:
            self._refuse(problem, receipt)
        except DiskError as problem:
            self._is_ending = True
            self._turns.broken(problem)
        else:
            if receipt is not None and event.command not in {"CONNECT", "STOMP"}:
                self._answer(Frame("RECEIPT", {"receipt-id": receipt}))

    def _do(self, frame: Frame) -> None:
        if frame.command in {"CONNECT", "STOMP"}:
            if self._is_open:
                raise RefusedError("already connected", "CONNECT comes once")
            self._connect(frame)
            return
        if not self._is_open:
            raise RefusedError("not connected", "the first frame is CONNECT")
        act = self._ACTS.get(frame.command)
        if act is None or "transaction" in frame.headers:
            raise RefusedError("not supported", "there are no transactions")
        act(self, frame)

    def _connect(self, frame: Frame) -> None:
        if codec.best_of(frame.headers.get("accept-version"), [V12]) is None:
            raise RefusedError("unsupported version", "the one version here is 1.2", version="1.2")
        theirs = codec.heart_beats_of(frame.headers.get("heart-beat"))
        if theirs is None:
            raise RefusedError(
                "bad heart-beat", "heart-beat is two whole numbers with a comma between them"
            )
        self._connection.log_in("anybody")
        self._reader.agree(V12, CLIENTS)
        self._is_open = True
        self._answer(
            Frame("CONNECTED", {"version": "1.2", "server": SERVER, "heart-beat": BEATS.shown})
        )
        agreed = BEATS.agreed_with(theirs)
        if agreed.wants:
            self._connection.idle = agreed.wants / 1000 * 2 + 1
        if agreed.sends:
            seconds = agreed.sends / 1000 * 0.8
            self._beat = asyncio.get_running_loop().call_later(seconds, self._keep_beating, seconds)

    def _publish(self, frame: Frame) -> None:
        journal = self._queue.journal
        try:
            journal.append(frame.body)
        except FullError:
            raise RefusedError(
                "queue full", f"the journal has at most {journal.cap} bytes"
            ) from None
        except TooLargeError:
            sentence = f"a message has at most {journal.max_line} bytes as the journal has it"
            raise RefusedError("body too large", sentence) from None

    def _subscribe(self, frame: Frame) -> None:
        identity, mode = frame.headers["id"], frame.headers.get("ack", "auto")
        is_count = frame.headers["destination"] == COUNT
        if mode not in _MODES or (mode != "client-individual" and not is_count):
            raise RefusedError("bad header", "the one mode here is ack:client-individual")
        for word in ("browser", "selector"):
            if frame.headers.get(word, "false") not in {"", "false"}:
                sentence = f"{word}: a subscription takes each message of the queue in its turn"
                raise RefusedError("not supported", sentence)
        if is_count and self._counting is None and identity != self._subscription:
            self._counting, self._counted = identity, -1
            self._turns.counting.add(self)
        elif not is_count and self._subscription is None and identity != self._counting:
            self._subscription = identity
        else:
            raise RefusedError("already subscribed", "UNSUBSCRIBE comes before another SUBSCRIBE")

    def _unsubscribe(self, frame: Frame) -> None:
        if frame.headers["id"] == self._subscription:
            self._subscription = None
            self._queue.leave(self)
        elif frame.headers["id"] == self._counting:
            self._counting = None
            self._turns.counting.discard(self)
        else:
            raise RefusedError(
                "no such subscription", "this connection has no subscription of that id"
            )

    def _ack(self, frame: Frame) -> None:
        self._queue.finish(self._settled(frame))

    def _nack(self, frame: Frame) -> None:
        self._queue.release(self._settled(frame))

    def _settled(self, frame: Frame) -> int:
        number = self._held
        if number is None or frame.headers["id"] != f"{number:08}":
            raise RefusedError("no such message", "this connection holds no message of that id")
        self._held = None
        return number

    def _give_up(self) -> None:
        """End, because all clients together have too many incomplete frames, and this one began its frame first."""
        self._refuse(SLOW, None)
        self._turns.soon(self)

    def _disconnect(self, _frame: Frame) -> None:
        self._leave()
        self._is_ending = True

    def _leave(self) -> None:
        """Release its message."""
        self._subscription = self._counting = None
        self._drop()
        self._queue.leave(self)
        self._turns.counting.discard(self)
        if self._held is not None:
            number, self._held = self._held, None
            self._queue.release(number)

    def _refuse(self, problem: RefusedError, receipt: str | None) -> None:
        """Send the error; it is the last frame."""
        self._answers += error(problem.message, problem.sentence, receipt, **problem.headers)
        self._is_ending = True
        self._drop()

    def _drop(self) -> None:
        """Drop what it has received."""
        self._reader = codec.FrameReader(bounds=STRANGERS)
        self._connection.keeps(0)

    def _answer(self, frame: Frame) -> None:
        self._answers += codec.write(frame, V12)

    _ACTS: ClassVar[Mapping[str, Callable[[Client, Frame], None]]] = MappingProxyType(
        {
            "SEND": _publish,
            "SUBSCRIBE": _subscribe,
            "UNSUBSCRIBE": _unsubscribe,
            "ACK": _ack,
            "NACK": _nack,
            "DISCONNECT": _disconnect,
        }
    )
    """What frames do after CONNECT is answered."""


def error(message: str, sentence: str, receipt: str | None = None, **headers: str) -> bytes:
    """Return an ERROR."""
    fields = {"message": message, **headers}
    if receipt is not None:
        fields["receipt-id"] = receipt
    return codec.write(
        Frame("ERROR", {**fields, "content-type": "text/plain"}, sentence.encode()), V12
    )


def last_words(reason: Reason) -> bytes:
    """Return the ERROR for a connection that the listener ends."""
    return error(*LAST_WORDS.get(reason, ("try again later", "the server ends this connection")))
