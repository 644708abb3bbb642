"""Read a delivery again that was not answered: its payload is not kept in memory until then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.decision import Decision, Unanswered
from pubqueue.core.model import State
from pubqueue.core.notices import Deliver

if TYPE_CHECKING:
    from pubqueue.core.deliveries.answered import Answered
    from pubqueue.core.model import Item, Jid, Millis, Principal


class AskUnanswered(Struct, frozen=True, gc=False):
    """Ask whether a delivery still waits for its answer: it was sent to this JID for the lock of this token, with this deadline.

    `received` means that its bytes have been received, and its `deliver` is not answered.
    """

    by: Principal
    seq: int
    token: int
    deadline: Millis | None
    received: bool = False


class UnansweredFacts(Struct, frozen=True, gc=False):
    """The item with its payload, and the answer that has come to another instance."""

    item: Item | None
    payload: bytes = b""
    answered: Answered | None = None


def is_held(item: Item | None, to: Jid, token: int) -> bool:
    """Return whether the item is locked to exactly this JID under this token."""
    if item is None or item.state is not State.LOCKED:
        return False
    return item.holder == to and item.token == token


def has_answer(answered: Answered | None, *, received: bool) -> bool:
    """Return whether that answers the step."""
    return answered is not None and (answered.arrived or not received)


def ask_unanswered(request: AskUnanswered, facts: UnansweredFacts) -> Decision:
    """Return the delivery if it is to be repeated.

    A retract, unlock or touch of its holder is an answer too; a touch is seen by the deadline.
    """
    item = facts.item
    waits = item is not None and is_held(item, request.by.jid, request.token)
    if item is None or not waits or item.deadline != request.deadline:
        return Decision(Unanswered(None))
    if has_answer(facts.answered, received=request.received):
        return Decision(Unanswered(None))
    return Decision(Unanswered(Deliver(request.by.jid, item, facts.payload, again=True)))
