"""Deliveries at a level: what an answer, an error or silence does to the item and to its subscriber."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.model.changes import NoteAble, NoteUnanswered, PutRow
from pubqueue.model.decision import Decision, Done, GivenUp, Read, Request, Unanswered
from pubqueue.model.entities import Level, State, account_of, later, seconds
from pubqueue.model.notices import Deliver
from pubqueue.model.records import Answered
from pubqueue.rules.give_back import release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.model.changes import Change
    from pubqueue.model.entities import Item, Jid, Millis, Node, NodeConfig, Subscription


# What an answer to a delivery, an error, or silence does to its item and to its subscriber: one table.
#
# An answer confirms that the delivery has arrived, never that work is done: that stays with the lock.


class Step(Enum):
    """What was sent last and is not answered."""

    ACKNOWLEDGED = auto()
    """The message, which is used when it is answered."""
    ASSURED = auto()
    """The message, which waits for `deliver`."""
    DELIVER = auto()
    """That the message may be used."""


class DeliveryAnswer(Enum):
    """What came back."""

    RESULT = auto()
    """A result without `received`."""
    RECEIVED = auto()
    """A result with `received` for this very message."""
    GONE = auto()
    """The address does not exist any more: its client or its server says so."""
    FAILED = auto()
    """Any other error: the address cannot take it now."""
    UNABLE = auto()
    """The client refuses the level: not-allowed, feature-not-implemented."""
    SILENCE = auto()
    """All attempts of the step are used up without an answer."""


class Then(Enum):
    """What happens to the delivery."""

    IGNORE = auto()
    """It is as if nothing had come."""
    END = auto()
    """It has arrived: the item stays locked, and nothing more is sent."""
    DELIVER = auto()
    """`deliver` is sent; the item stays locked."""
    MESSAGE = auto()
    """It is sent as a message, under the same token; so are later ones until the resource comes again."""
    BOUNCE = auto()
    """It has come back: the item is free, and others get it."""
    GIVE_UP = auto()
    """So have all that are unanswered by the subscriber."""


class Standing(Enum):
    """What happens to the subscription."""

    STAYS = auto()
    ENDS = auto()
    """It ends, as after a bounce."""
    PASSED_OVER = auto()
    """It gets nothing for a while."""
    SILENCED = auto()
    """It gets nothing until its worker shows itself (docs/decisions/0039)."""


class Outcome(Struct, frozen=True, gc=False):
    """What follows. The worker is never blamed: no failure of the item is counted."""

    then: Then
    standing: Standing = Standing.STAYS


IGNORED: Final = Outcome(Then.IGNORE)
ARRIVED: Final = Outcome(Then.END)
ERRORS: Final = {
    DeliveryAnswer.GONE: Outcome(Then.BOUNCE, Standing.ENDS),
    DeliveryAnswer.FAILED: Outcome(Then.BOUNCE, Standing.PASSED_OVER),
    DeliveryAnswer.UNABLE: Outcome(Then.MESSAGE),
    DeliveryAnswer.SILENCE: Outcome(Then.GIVE_UP, Standing.SILENCED),
}

OUTCOMES: Final = {
    (Step.ACKNOWLEDGED, DeliveryAnswer.RESULT): ARRIVED,
    (Step.ACKNOWLEDGED, DeliveryAnswer.RECEIVED): ARRIVED,
    (Step.ASSURED, DeliveryAnswer.RESULT): IGNORED,
    (Step.ASSURED, DeliveryAnswer.RECEIVED): Outcome(Then.DELIVER),
    (Step.DELIVER, DeliveryAnswer.RESULT): ARRIVED,
    (Step.DELIVER, DeliveryAnswer.RECEIVED): ARRIVED,
} | {(step, answer): outcome for step in Step for answer, outcome in ERRORS.items()}
"""Total: every step with every kind of answer."""

FIRST: Final = {Level.ACKNOWLEDGED: Step.ACKNOWLEDGED, Level.ASSURED: Step.ASSURED}
"""The first step of each level that has steps."""


class Repeating(Struct, frozen=True, gc=False):
    """How a step is repeated: sendings in all, seconds to the first repetition, and the longest pause."""

    attempts: int = 4
    first: float = 5.0
    longest: float = 60.0

    def pause(self, sendings: int) -> float:
        """Return the seconds to wait for an answer after so many sendings: each time twice as long."""
        doublings = min(sendings - 1, 30)
        return float(min(self.longest, self.first * (1 << doublings)))


USUAL: Final = Repeating()


# Read a delivery again that was not answered: its payload is not kept in memory until then.


class AskUnanswered(Read, frozen=True, gc=False):
    """Ask whether a delivery still waits for its answer: it was sent to this JID for the lock of this token, with this deadline.

    `received` means that its bytes have been received, and its `deliver` is not answered.
    """

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


# An answer to a delivery that this instance has not sent: a server may route it to any instance.

UNTIMED: int = 3600
"""Seconds for which an answer to a lock without a deadline is remembered."""


class NoteDeliveryAnswer(Request, frozen=True, gc=False):
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


# What the client of a full JID can do: asked for the queues whose setting depends on it.


class NoteFeatures(Request, frozen=True, gc=False):
    """The client of the JID has answered whether it has `urn:xmpp:qos`."""

    jid: Jid
    able: bool


class FeatureFacts(Struct, frozen=True, gc=False):
    """Whether the JID is here, and what is known of its client."""

    is_here: bool
    able: bool | None = None


def note_features(request: NoteFeatures, facts: FeatureFacts) -> Decision:
    """Note the answer of an address that is here; nothing is stored of others."""
    if not facts.is_here or facts.able is request.able:
        return Decision(Done())
    return Decision(Done(), (NoteAble(request.jid, request.able),))


# Deliveries that a worker leaves unanswered: its items are free, and no failure is counted.


class Lock(Struct, frozen=True, gc=False):
    """The lock of a delivery, with the deadline that was sent.

    `received` means that its bytes were received, and only its `deliver` is not answered.
    """

    seq: int
    token: int
    deadline: Millis | None
    received: bool = False


class GiveUpUnanswered(Request, frozen=True, gc=False):
    """Free the items of these locks: the JID has left all attempts of the first unanswered, and the others wait behind it."""

    to: Jid
    locks: tuple[Lock, ...]


class GiveUpFacts(Struct, frozen=True, gc=False):
    """The items that still wait for an answer, and the subscriptions of their holder to their nodes; none if the first does not wait."""

    now: Millis
    held: tuple[tuple[Item, Node], ...]
    subscriptions: tuple[Subscription, ...] = ()


def give_up(_request: GiveUpUnanswered, facts: GiveUpFacts) -> Decision:
    """Free the items without a failure; the subscriber gets nothing more until it shows itself.

    It counts as one delivery that came back (docs/decisions/0039). Its worker may be alive and lose its items by that: then a
    stanza of it, even a late answer, resumes deliveries.
    """
    changes: list[Change] = [release(item, node, facts.now) for item, node in facts.held]
    changes += [
        NoteUnanswered(one.node, one.jid, one.unanswered + 1, silenced=True)
        for one in facts.subscriptions
    ]
    return Decision(GivenUp(len(facts.held)), tuple(changes))


# The level of a delivery: that of the subscription, else that of the queue for clients that can answer.


def level_of(config: NodeConfig, one: Subscription, is_able: Callable[[Jid], bool | None]) -> Level:
    """Return the level of deliveries to a subscriber. A bare JID cannot answer, and gets messages.

    A worker that sets the option declares by it that its client can answer; for the setting of the queue the client is asked (`is_able`).
    """
    if account_of(one.jid) == one.jid:
        return Level.UNACKNOWLEDGED
    if one.qos is not None:
        return one.qos
    return config.qos if asks(config, one) and is_able(one.jid) else Level.UNACKNOWLEDGED


def asks(config: NodeConfig, one: Subscription) -> bool:
    """Return whether the level depends on what the client of the subscriber can do."""
    depends = config.queueing and config.qos is not Level.UNACKNOWLEDGED and one.qos is None
    return depends and account_of(one.jid) != one.jid


def levels_of(
    config: NodeConfig, line: Iterable[Subscription], is_able: Callable[[Jid], bool | None]
) -> dict[Jid, Level]:
    """Return the levels of subscribers that get something else than messages; most queues have none."""
    if config.qos is Level.UNACKNOWLEDGED:
        line = [one for one in line if one.qos is not None]
    found = {one.jid: level_of(config, one, is_able) for one in line}
    return {jid: level for jid, level in found.items() if level is not Level.UNACKNOWLEDGED}
