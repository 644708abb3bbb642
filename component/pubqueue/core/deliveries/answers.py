"""An answer to a delivery that this instance has not sent: a server may route it to any instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.changes import PutRow
from pubqueue.core.decision import Decision, Done, Unanswered
from pubqueue.core.deliveries.again import has_answer, is_held
from pubqueue.core.deliveries.answered import Answered
from pubqueue.core.model import later, seconds
from pubqueue.core.notices import Deliver

if TYPE_CHECKING:
    from pubqueue.core.model import Item, Jid, Millis

UNTIMED: int = 3600
"""Seconds for which an answer to a lock without a deadline is remembered."""


class NoteDeliveryAnswer(Struct, frozen=True, gc=False):
    """The JID has answered the delivery of this lock: it has arrived, or else its bytes were received."""

    jid: Jid
    seq: int
    token: int
    arrived: bool


class DeliveryAnswerFacts(Struct, frozen=True, gc=False):
    """The item, the answer that is known, and the id of the holder's subscription."""

    now: Millis
    item: Item | None
    answered: Answered | None = None
    subid: str = ""


def note_answer(request: NoteDeliveryAnswer, facts: DeliveryAnswerFacts) -> Decision:
    """Note the answer for the instance that waits for it; nothing is stored if the lock is over, or is another's.

    If bytes were received, the instance that got the answer sends `deliver`: the reply has what it needs for that.
    """
    item = facts.item
    if item is None or not is_held(item, request.jid, request.token):
        return Decision(Done())
    if has_answer(facts.answered, received=request.arrived):
        return Decision(Done())
    until = item.deadline or later(facts.now, seconds(UNTIMED))
    note = PutRow(Answered(request.token, request.arrived, until))
    next_step = Deliver(request.jid, item, b"", again=True, subid=facts.subid)
    return Decision(Done() if request.arrived else Unanswered(next_step), (note,))
