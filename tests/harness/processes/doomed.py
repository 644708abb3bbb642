"""`python doomed.py POINT PASSAGE serve ...`: pubqueue, which kills itself when it passes a point.

The points are the steps of a batch. Each is a function of the program with a wrapper around it, put there when the
program starts, so that the program itself knows nothing of it. Passages count only in batches with a publish, a
settle, a take or a commit: PASSAGE 3 is the third of these. With POINT@CommitVersion they count only in batches with a
request of that kind; with POINT@MoveWinners every commit goes in slices of one winner; with POINT@NotifyFormer two
subscribers are a crowd, and one is a page.
"""

from __future__ import annotations

import os
import signal
import sys
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from pubqueue.cli import main
from pubqueue.engine import batch
from pubqueue.engine.batch import Committer
from pubqueue.engine.broker import Broker
from pubqueue.engine.changes import ChangeApplier
from pubqueue.engine.facts import managing as crowd_facts
from pubqueue.engine.facts import publishing, transactions
from pubqueue.engine.sending import Sender
from pubqueue.engine.working_set import WorkingSet
from pubqueue.faces.stomp.client import Wire
from pubqueue.faces.xmpp import XmppFace
from pubqueue.model.notices import Deliver
from pubqueue.rules import audience
from pubqueue.rules.commit import CommitVersion
from pubqueue.rules.messages import DeliverMessage, KeepMessage
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle
from pubqueue.rules.settle_each import SettleEach
from pubqueue.rules.staging import AbortVersion, StagePublish
from pubqueue.rules.take import Take
from pubqueue.rules.together import Together
from pubqueue.rules.waits import Hold, Signal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.model.decision import Decision


class Doom:
    """Counts the passages of one point."""

    def __init__(self, point: str, passage: int, request: str = "") -> None:
        self.point = point
        self._request = request
        self._left = passage
        self._working = False
        self.is_idle = False
        """Whether the outcome of the last batch was given to the faces, and no other has begun."""

    def batch_begins(self, requests: Sequence[object]) -> None:
        """Note whether this batch has any work."""
        self.is_idle = False
        kinds = (type(request).__name__ for request in requests)
        self._working = (
            self._request in kinds
            if self._request
            else any(isinstance(request, WORK) for request in requests)
        )

    def passes(self, point: str) -> None:
        """Pass a point; it may be the end."""
        if self._working and point == self.point:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)


def _watch(place: Any, name: str, doom: Doom, *, after: str) -> None:
    """Make the function `name` of `place` pass the point `after` when it has returned."""
    original = getattr(place, name)

    @wraps(original)
    def watched(*given: Any, **named: Any) -> Any:
        result = original(*given, **named)
        doom.passes(after)
        return result

    setattr(place, name, watched)


def _watch_begin(doom: Doom) -> None:
    original = Committer.work_in

    def work_in(self: Committer, requests: Any, *others: Any) -> Any:
        doom.batch_begins(requests)
        doom.passes("begun")
        return original(self, requests, *others)

    Committer.work_in = work_in


def _watch_commit(doom: Doom) -> None:
    """For any store: the point is where its transaction has returned."""
    original = Broker.start

    def start(self: Broker) -> None:
        _watch(self.committer.store, "transact", doom, after="committed")
        original(self)

    Broker.start = start


WIRES: Final[WeakSet[Wire]] = WeakSet()
"""The output for each client of STOMP."""


def flush(sender: Sender) -> None:
    """Let the faces write their pending output."""
    for face in sender.outbox.faces:
        if isinstance(face, XmppFace):
            face.component.flush()
    for wire in WIRES:
        wire.flush()


def _note_wires() -> None:
    original = Wire.put

    def put(self: Wire, data: bytes) -> None:
        WIRES.add(self)
        original(self, data)

    Wire.put = put


def _watch_speech(doom: Doom) -> None:
    """Deliveries are sent last: earlier messages are then on the wire, or they are too."""
    original, answering = Sender.send, Sender.answer

    def answer(self: Sender, taken: Any, decisions: Sequence[Decision], **how: Any) -> None:
        for decision in decisions:
            if not decision.notices:  # the others pass by `say`
                doom.passes("answering")
        answering(self, taken, decisions, **how)
        doom.is_idle = True

    def send(self: Sender, notices: Sequence[Any]) -> None:
        delivering = any(isinstance(notice, Deliver) for notice in notices)
        doom.passes("answering")
        if delivering:
            flush(self)
            doom.passes("answered")
        original(self, notices)
        if delivering:
            flush(self)
            doom.passes("delivered")

    Sender.send, Sender.answer = send, answer
    _note_wires()
    if doom.point in {"answered", "delivered"}:  # the modules are large
        _watch_http(doom)
        _watch_grpc(doom)


def _watch_http(doom: Doom) -> None:
    """Here an answer is a delivery or not; it has been handed to the connection when `write_eof` is over."""
    from aiohttp.web import StreamResponse  # noqa: PLC0415

    original = StreamResponse.write_eof

    async def write_eof(self: Any, data: bytes = b"") -> None:
        request = self._req
        await original(self, data)
        if request is None or request.method != "POST" or not doom.is_idle:
            return  # it was over, or was only looked at, or is not the last
        said = f"{self.headers} {getattr(self, 'body', b'')!r}"
        doom.passes("delivered" if "acknowledgement" in said or "ackId" in said else "answered")

    StreamResponse.write_eof = write_eof


def _watch_grpc(doom: Doom) -> None:
    """As with HTTP: a call is over when its answer has been handed to the connection."""
    from pubqueue.faces.grpc.server import Answering  # noqa: PLC0415

    original = Answering.unary

    def unary(self: Answering, method: Any, handle: Any, **named: Any) -> Any:
        point = ContextVar("point", default="answered")  # of the call, which is a task

        async def watched(*given: Any) -> Any:
            message = await handle(*given)
            if getattr(message, "received_messages", ()):
                point.set("delivered")
            return message

        answering = original(self, method, watched, **named)

        async def answer(requests: object, context: Any) -> Any:
            data = await answering(requests, context)
            passed = point.get()
            context.add_done_callback(lambda _: doom.is_idle and doom.passes(passed))
            return data

        return answer

    Answering.unary = unary


WORK: Final = (
    Publish
    | Settle
    | SettleEach
    | Take
    | Together
    | StagePublish
    | CommitVersion
    | AbortVersion
    | KeepMessage
    | DeliverMessage
    | Hold
    | Signal
)

SLICES: Final = {"LookAtWinners", "MoveWinners"}

CROWDS: Final = {"NotifyFormer", "ReviewSubscribers"}

POINTS: Final[dict[str, Callable[[Doom], None]]] = {
    "begun": _watch_begin,
    "decided": lambda doom: _watch(batch.Batch, "decide", doom, after="decided"),
    "applied": lambda doom: _watch(ChangeApplier, "make", doom, after="applied"),
    "dispatched": lambda doom: _watch(batch, "hand_out", doom, after="dispatched"),
    "written": lambda doom: _watch(WorkingSet, "flush", doom, after="written"),
    "committed": _watch_commit,
    "answering": lambda _doom: None,
    "answered": lambda _doom: None,
    "delivered": _watch_speech,
}
"""In the order of a batch: after BEGIN, ..., before COMMIT, after it, and while its outcome is sent."""


if __name__ == "__main__":
    _, place, passage, *command = sys.argv
    point, _, request = place.partition("@")
    doom = Doom(point, int(passage), request)
    assert point in POINTS
    if request in SLICES:
        transactions.MAX_WINNERS, transactions.SLICE = 0, 1
    if request in CROWDS:
        publishing.CROWD = 1
        for place in (crowd_facts, audience, audience):
            place.PAGE = 1
    for watch in POINTS.values():
        watch(doom)
    main(command)
