"""The frames of a client that has logged in, and deliveries to it."""

from __future__ import annotations

import asyncio
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, assert_never

from pubqueue.faces.stomp import frames
from pubqueue.faces.stomp.client import Handed
from pubqueue.faces.stomp.codec import write
from pubqueue.faces.stomp.frames import (
    OPTIONS,
    BadNumberError,
    Mode,
    copied_from,
    key_for,
    own_words,
    sent,
    span,
)
from pubqueue.faces.stomp.refusals import LOST, Message, Problem, unexpected
from pubqueue.faces.stomp.subscriptions import Subscriptions
from pubqueue.faces.stomp.unsettled import Transactions, Unsettled
from pubqueue.model.decision import Published, Refused, Signaled, Touched
from pubqueue.model.entities import NodeName, SubscriptionState
from pubqueue.model.notices import (
    Announce,
    ApprovalWanted,
    Configured,
    Deleted,
    Deliver,
    Purged,
    Retracted,
    SubscriptionChanged,
    Unlocked,
)
from pubqueue.rules.presence import Bounce, Departure
from pubqueue.rules.publication import Publish
from pubqueue.rules.unlock import Touch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.faces.stomp.client import Client, Owed, Subscription
    from pubqueue.faces.stomp.codec import Frame
    from pubqueue.model.decision import Reply
    from pubqueue.model.notices import Notice


# The frames of a client that has logged in, and deliveries to it. Nothing here knows sockets.
#
# Each frame is a request to the broker, in the order of the frames, and is answered after the commit that holds it
# (`answers`). A failure ends the session: STOMP has no other answer than an ERROR, and closes after it.

TOO_MUCH: Final = Problem(Message.TRY_LATER, "more news of topics wait than may")


class StompSession:
    """One client. `end` is called after the RECEIPT of DISCONNECT."""

    def __init__(self, client: Client, end: Callable[[], None]) -> None:
        self._client, self._end = client, end
        self.subscriptions = Subscriptions(client, self, self._begin)
        self.unsettled = Unsettled(client, self.subscriptions)
        self.transactions = Transactions(client, self.unsettled)
        self._taken: list[Handed] = []

    # --- in -------------------------------------------------------------------------------------

    @property
    def kept(self) -> int:
        """Bytes of memory of what is kept for the client: frames that are not answered, transactions, and names."""
        parts = self.subscriptions.size + self.unsettled.size + self.transactions.size
        return self._client.answers.size + parts

    def take(self, frame: Frame) -> None:
        """Process a frame."""
        owed = self._client.owe(frame)
        problem = HANDLERS[frame.command](self, frame, owed)
        if problem is not None:
            self._client.answers.refuse(owed, problem)

    def send(self, frame: Frame, owed: Owed) -> Problem | None:
        """Publish the item of a SEND, or send the signal."""
        if frame.headers[frames.DESTINATION].startswith(frames.SIGNALS):
            return signal(self._client, frame, owed)
        if "transaction" in frame.headers:
            return self.transactions.send(frame, owed)
        client = self._client
        found = sent(frame, client.backend.new_id, client.backend.now())
        if isinstance(found, Problem):
            return found
        by = client.backend.by(client.address)
        request = Publish(by, NodeName(found.node), (found.draft,), OPTIONS[found.kind])
        client.ask(by, request, owed, partial(self._sent, owed, len(found.draft.payload)))
        return None

    def _sent(self, owed: Owed, size: int, reply: Reply) -> None:
        answers = self._client.answers
        if isinstance(reply, Published):
            answers.done(owed, {"duplicate": "true"} if reply.known else None)
        else:
            answers.refuse(owed, unexpected(reply, size))

    def subscribe(self, frame: Frame, owed: Owed) -> Problem | None:
        """Do a SUBSCRIBE."""
        return self.subscriptions.subscribe(frame, owed)

    def unsubscribe(self, frame: Frame, owed: Owed) -> Problem | None:
        """Do an UNSUBSCRIBE."""
        return self.subscriptions.unsubscribe(frame, owed)

    def settle(self, frame: Frame, owed: Owed) -> Problem | None:
        """Do an ACK or a NACK."""
        if "transaction" in frame.headers:
            return self.transactions.settle(frame, owed)
        return self.unsettled.settle(frame, owed)

    def touch(self, frame: Frame, owed: Owed) -> Problem | None:
        """Do a TOUCH."""
        return touch(self._client, self.unsettled, frame, owed)

    def begin(self, frame: Frame, owed: Owed) -> Problem | None:
        """Do a BEGIN."""
        return self.transactions.begin(frame, owed)

    def commit(self, frame: Frame, owed: Owed) -> Problem | None:
        """Do a COMMIT."""
        return self.transactions.commit(frame, owed)

    def abort(self, frame: Frame, owed: Owed) -> Problem | None:
        """Do an ABORT."""
        return self.transactions.abort(frame, owed)

    def disconnect(self, _frame: Frame, owed: Owed) -> None:
        """Release all held items, without counting failures; then end.

        Messages that need no ACK and come before the RECEIPT are done: a client that gets the RECEIPT has got them.
        """
        owed.then = self._end
        self._client.has_left = True
        self.room_changed()
        done = partial(self._client.answers.done, owed)
        self._client.wire.drain(partial(self._release, Departure.CLOSED, done))

    def leave(self, how: Departure) -> None:
        """Release all held items, except those that were sent and need no ACK. Leaving twice does no harm."""
        self._client.has_left = True
        self._release(how)

    def _release(self, how: Departure, call: Callable[[], None] = lambda: None) -> None:
        """Release all held items, and call when that is done."""
        self._settle_taken()
        self.subscriptions.leave(how, call)
        self.unsettled.clear()
        self.transactions.clear()

    # --- out ------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether more can be delivered now."""
        return self._client.wire.has_room and not self._client.has_left

    def room_changed(self) -> None:
        """Have it checked again whether more can be delivered: the client has stopped reading, or reads again."""
        for one in self.subscriptions.by_address.values():
            if one.is_queue:
                self._client.backend.reach_changed(one.address)

    def send_notice(self, one: Subscription, notice: Notice) -> bool:
        """Send a notice to a subscription; return false for a delivery that could not be made."""
        match notice:
            case Retracted() | Unlocked():
                self.unsettled.lose(one, notice.ids)
            case _ if one.is_ended or self._client.has_left:
                return not isinstance(notice, Deliver)
            case Deliver() | Announce() if one.early is not None:
                one.early.append(notice)
            case Deliver():
                return self._deliver(one, notice)
            case Announce():
                self._announce(one, notice)
            case Deleted():
                self._client.fail(_ended("the node was deleted"), None)
            case SubscriptionChanged():
                if notice.about is None and notice.state is SubscriptionState.NONE:
                    self._client.fail(_ended("an owner has ended the subscription"), None)
            case Purged() | Configured() | ApprovalWanted():
                pass  # STOMP has no frame for it
            case _:
                assert_never(notice)
        return True

    def _begin(self, one: Subscription) -> None:
        """Send the messages that have arrived before the RECEIPT of SUBSCRIBE."""
        early, one.early = one.early or [], None
        backend = self._client.backend
        for notice in early:
            if not self.send_notice(one, notice) and isinstance(notice, Deliver):
                back = Bounce(notice.to, notice.item.seq, notice.item.token, gone=False)
                backend.submit(backend.by(one.address), back, _ignore)
        if early and one.is_queue:
            backend.reach_changed(one.address)

    def _deliver(self, one: Subscription, notice: Deliver) -> bool:
        item, is_auto = notice.item, one.mode is Mode.AUTO
        if self.unsettled.was_sent(one, item.id, item.token):
            return True
        version, ack = self._client.version, f"{notice.item.token}"
        frame = frames.of_delivery(notice, one.id, None if is_auto else ack)
        key = key_for(one.id, frame.headers["message-id"], ack, version)
        handed = Handed(one, item.id, item.token, key, copied_from(item.headers))
        on_taken = partial(self._was_taken, handed) if is_auto else None
        if not self._client.wire.offer(write(frame, version), on_taken):
            return False
        self.unsettled.add(handed, is_auto=is_auto)
        return True

    def _announce(self, one: Subscription, notice: Announce) -> None:
        """Send a message of a topic now, because there is no other time for it.

        A client that does not read is disconnected, so that others do not wait for it.
        """
        named = self.unsettled.next_news()
        ack = None if one.mode is Mode.AUTO else named
        frame = frames.of_news(notice, one.id, ack, self.unsettled.news)
        if not self._client.wire.offer(write(frame, self._client.version), may_wait=False):
            self._client.fail(TOO_MUCH, None)

    # --- messages that are done when they have been sent ------------------------------------------

    def _was_taken(self, handed: Handed) -> None:
        if not self._taken:
            asyncio.get_running_loop().call_soon(self._settle_taken)
        self._taken.append(handed)

    def _settle_taken(self) -> None:
        """Retract the messages that the socket has taken."""
        taken, self._taken = self._taken, []
        if taken:
            self.unsettled.retract(taken)


def _ignore(_reply: Reply) -> None:
    """Its result does not matter: the item is in its queue again, or was before."""


def _ended(why: str) -> Problem:
    return Problem(Message.SUBSCRIPTION_ENDED, why)


HANDLERS: Final[Mapping[str, Callable[[StompSession, Frame, Owed], Problem | None]]] = (
    MappingProxyType(
        {
            "SEND": StompSession.send,
            "SUBSCRIBE": StompSession.subscribe,
            "UNSUBSCRIBE": StompSession.unsubscribe,
            "ACK": StompSession.settle,
            "NACK": StompSession.settle,
            "TOUCH": StompSession.touch,
            "BEGIN": StompSession.begin,
            "COMMIT": StompSession.commit,
            "ABORT": StompSession.abort,
            "DISCONNECT": StompSession.disconnect,
        }
    )
)
"""The method for each frame of a client that has logged in."""


# Signals, an addition of ours: a SEND to their destination sends one to an item, which may be held for it.


def signal(client: Client, frame: Frame, owed: Owed) -> Problem | None:
    """Send a signal to the item that the frame names; the RECEIPT has the state of the item, and `duplicate` if it had the signal."""
    if "transaction" in frame.headers:
        return Problem(Message.NOT_SUPPORTED, "a signal is not part of a transaction")
    by = client.backend.by(client.address)
    request = frames.signal_of(frame, by, client.backend.new_id)
    if isinstance(request, Problem):
        return request

    def answer(reply: Reply) -> None:
        if isinstance(reply, Signaled):
            again = {"duplicate": "true"} if reply.again else {}
            client.answers.done(owed, {"state": reply.state.value, **again})
        else:
            client.answers.refuse(owed, unexpected(reply))

    client.ask(by, request, owed, answer)
    return None


# TOUCH, an addition of ours: a worker extends the lock of one message while the work goes on.


def touch(client: Client, unsettled: Unsettled, frame: Frame, owed: Owed) -> Problem | None:
    """Extend the lock of the message that the frame names, and of no other; the RECEIPT has the new deadline.

    A lock that is over is answered like a late ACK; a message of a topic has no lock to extend.
    """
    if "transaction" in frame.headers:
        return Problem(Message.NOT_SUPPORTED, "a TOUCH is not part of a transaction")
    found = unsettled.touched_by(frame, owed)
    if found is None or isinstance(found, Problem):
        return found
    try:
        seconds = own_words(frame.headers, found.copied).get("seconds")
        wanted = None if seconds is None else span(seconds)
    except BadNumberError as problem:
        return Problem(Message.BAD_HEADER, f"seconds has to be {problem}")
    one = found.subscription
    request = Touch(client.backend.by(one.address), one.node, (found.item,), wanted, found.token)

    def answer(reply: Reply) -> None:
        if isinstance(reply, Touched):
            client.answers.done(owed, {"deadline": f"{reply.entries[0][1]}"})
        elif isinstance(reply, Refused) and reply.refusal in LOST:
            if (problem := unsettled.late(owed)) is not None:
                client.answers.refuse(owed, problem)
        else:
            client.answers.refuse(owed, unexpected(reply))

    client.ask(request.by, request, owed, answer)
    return None
