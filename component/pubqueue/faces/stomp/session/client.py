"""One client that has logged in, as the parts of its session share it: its requests, and its pending answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from pubqueue.faces.stomp.codec import write
from pubqueue.faces.stomp.session.answers import Answers

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.table import Request
    from pubqueue.faces.stomp.codec import Frame, Version
    from pubqueue.faces.stomp.problems import Problem
    from pubqueue.faces.stomp.session.answers import Owed
    from pubqueue.faces.stomp.session.subscription import Subscription
    from pubqueue.faces.stomp.wire import Wire
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Jid, Millis, Principal
    from pubqueue.model.notices import Notice

OVERHEAD: Final = 512
"""Bytes that a frame costs here in addition to its body, until it is answered."""


class Receiver(Protocol):
    """Receives deliveries to a client."""

    @property
    def has_room(self) -> bool:
        """Whether more can be delivered now."""

    def send_notice(self, one: Subscription, notice: Notice) -> bool:
        """Send a notice to a subscription; return false for a delivery that could not be made."""


class Backend(Protocol):
    """The interface that all sessions of a face share."""

    max_subscriptions: int
    late_is_error: bool
    auto_creates: bool

    def submit(self, by: Jid, request: Request, size: int, answer: Callable[[Reply], None]) -> None:
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
        return self.answers.add(frame.headers.get("receipt"), OVERHEAD + len(frame.body))

    def ask(self, by: Jid, request: Request, owed: Owed, answer: Callable[[Reply], None]) -> None:
        """Have a request for a frame decided, and note when it is."""

        def answered(reply: Reply) -> None:
            answer(reply)
            self._on_progress()

        self.backend.submit(by, request, owed.size, answered)
