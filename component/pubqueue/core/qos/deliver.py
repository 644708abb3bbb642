"""Deliver a kept message: what it asks is done, its bytes are dropped and its answer is remembered, all in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core import validity
from pubqueue.core.changes import Change, DropRow, PutRow
from pubqueue.core.decision import (
    Decision,
    Refusal,
    Refused,
    refuse,
)
from pubqueue.core.model import later
from pubqueue.core.nodes.subscriptions.pending import Answer, answer
from pubqueue.core.parts import DecidedInParts
from pubqueue.core.presence.bounce import Bounce, bounce
from pubqueue.core.qos.answers import answer_of, refused_of
from pubqueue.core.qos.keep import known, plus, summed, without
from pubqueue.core.qos.model import (
    MAX_REASON_LENGTH,
    KeptMessage,
    MessageChanged,
    MessageDelivered,
)
from pubqueue.core.queue.publication import Publish
from pubqueue.core.queue.publish import publish
from pubqueue.core.transactions.staging import StagePublish, stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.core.model import Millis, Principal
    from pubqueue.core.qos.model import MessageLimits, MessageTotal

Inner = Publish | StagePublish | Answer | Bounce
"""What a message can ask."""


class DeliverMessage(Struct, frozen=True, gc=False):
    """Do what the message of this id asks: `request`, which was read from bytes with this digest.

    If it asks nothing that can be done, `request` is None, and `otherwise` is the answer, in the words of the face. The digest is empty if
    no message was read; then a message that is held is answered with `MessageChanged`.
    """

    by: Principal
    msg_id: str
    digest: bytes = b""
    request: Inner | None = None
    otherwise: str = ""


class DeliverFacts(Struct, frozen=True, gc=False):
    """The message, the totals, and the facts of its request; `moved` is the URI of what has replaced the node, if it is gone.

    `oldest` are remembered answers of the account that have to make room for this one.
    """

    now: Millis
    found: KeptMessage | None
    own: MessageTotal
    all: MessageTotal
    limits: MessageLimits
    inner: Any = None
    moved: str = ""
    oldest: tuple[KeptMessage, ...] = ()


# fmt: off
RULES: Final[dict[type, tuple[Callable[[Any], Refused | None], Callable[[Any, Any], Decision]]]] = {
    Publish:      (validity.of_publish, publish),
    StagePublish: (validity.of_stage, stage),
    Answer:       (validity.of_node, answer),
    Bounce:       (lambda _bounce: None, bounce),
}
"""The bounds and the rule of each request."""

TRANSIENT: Final = frozenset({
    Refusal.PUBLISH_PAUSED, Refusal.LOCK_LOST, Refusal.TOO_MANY_SUBSCRIPTIONS, Refusal.TOO_MUCH_KEPT, Refusal.TOO_MANY_NODES,
    Refusal.TOO_MUCH_STAGED, Refusal.TOO_MANY_KEYS, Refusal.STILL_NOTIFYING, Refusal.WINDOW_FULL, Refusal.TOO_MANY_WAITING,
    Refusal.TOO_MUCH_HELD, Refusal.STORE_FAILED, Refusal.INTERNAL_FAULT,
})
"""Refusals after which a later attempt may succeed: the message stays held."""
# fmt: on


def is_due(request: DeliverMessage, found: KeptMessage | None, now: Millis) -> bool:
    """Return whether the message is held, and is the one that was read."""
    there = known(found, now)
    return there is not None and there.held and there.digest == request.digest


def deliver(request: DeliverMessage, facts: DeliverFacts) -> Decision:
    """Deliver the message, or return the answer that is remembered."""
    found = known(facts.found, facts.now)
    if found is None:
        return refuse(Refusal.UNKNOWN_MESSAGE)
    if not found.held:
        refused = refused_of(found.answer)
        return Decision(MessageDelivered(found.answer) if refused is None else refused)
    if found.digest != request.digest:
        return Decision(MessageChanged())
    if request.request is None:
        return _ended(request, facts, found, Decision(MessageDelivered(request.otherwise)))
    decision = _decided(request.request, facts)
    if isinstance(decision.reply, Refused) and decision.reply.refusal in TRANSIENT:
        return decision
    return _ended(request, facts, found, decision)


def _decided(request: Inner, facts: DeliverFacts) -> Decision:
    bounds, rule = RULES[type(request)]
    if (no := bounds(request)) is not None:
        return Decision(no)
    decision = rule(request, facts.inner)
    reply = decision.reply
    if facts.moved and isinstance(reply, Refused) and reply.refusal is Refusal.NODE_NOT_FOUND:
        return refuse(Refusal.MOVED, facts.moved)
    return decision


def _ended(
    request: DeliverMessage, facts: DeliverFacts, found: KeptMessage, decision: Decision
) -> Decision:
    """Add to a decision that the message is not held any more, and that its answer is remembered."""
    reply = decision.reply
    if isinstance(reply, Refused):
        reply = replace(reply, reason=reply.reason[:MAX_REASON_LENGTH])
        words = answer_of(reply)
    else:
        words = reply.words if isinstance(reply, MessageDelivered) else ""
        reply = MessageDelivered(words)
    ended = replace(
        found, held=False, answer=words, until=later(facts.now, facts.limits.remembered_for)
    )
    changes = _changes(facts, found, ended)
    parts = ((request.request, decision), (request, Decision(reply, changes)))
    return DecidedInParts(
        reply,
        (*decision.changes, *changes),
        decision.notices,
        decision.then,
        decision.work,
        parts=parts,
    )


def _changes(facts: DeliverFacts, found: KeptMessage, ended: KeptMessage) -> tuple[Change, ...]:
    own, everybody = (plus(without(one, found), ended) for one in (facts.own, facts.all))
    for old in facts.oldest:
        own, everybody = without(own, old), without(everybody, old)
    gone = [DropRow(KeptMessage, old.mark) for old in facts.oldest]
    return (*gone, PutRow(ended), *summed((own, everybody)))
