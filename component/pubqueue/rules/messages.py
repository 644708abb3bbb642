"""What is kept for later: messages (urn:xmpp:qos), and notices for connections of other instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, json
from msgspec.structs import replace

from pubqueue.model import records
from pubqueue.model.changes import Change, DropRow, PutRow
from pubqueue.model.decision import (
    DecidedInParts,
    Decision,
    Done,
    Read,
    Refusal,
    Refused,
    Request,
    refuse,
)
from pubqueue.model.entities import account_of, later
from pubqueue.rules import validity
from pubqueue.rules.presence import Bounce, bounce
from pubqueue.rules.publication import Publish
from pubqueue.rules.publish import publish_at_once
from pubqueue.rules.room import beyond_share
from pubqueue.rules.staging import StagePublish, stage
from pubqueue.rules.subscribers import Answer, answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pubqueue.model.entities import Jid, Millis, Principal


# Kept messages (urn:xmpp:qos): keep, deliver, answer, end, read.

# Deliver a kept message: what it asks is done, its bytes are dropped and its answer is remembered, all in one commit.

Inner = Publish | StagePublish | Answer | Bounce
"""What a message can ask."""


class DeliverMessage(Request, frozen=True, gc=False):
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
    found: records.KeptMessage | None
    own: records.MessageTotal
    all: records.MessageTotal
    limits: records.MessageLimits
    inner: Any = None
    moved: str = ""
    oldest: tuple[records.KeptMessage, ...] = ()


# fmt: off
RULES: Final[dict[type, tuple[Callable[[Any], Refused | None], Callable[[Any, Any], Decision]]]] = {
    Publish:      (validity.of_publish, publish_at_once),
    StagePublish: (validity.of_stage, stage),
    Answer:       (validity.of_node, answer),
    Bounce:       (lambda _bounce: None, bounce),
}
"""The bounds and the rule of each request."""

TRANSIENT: Final = frozenset({
    Refusal.PUBLISH_PAUSED, Refusal.LOCK_LOST, Refusal.TOO_MANY_SUBSCRIPTIONS, Refusal.TOO_MUCH_KEPT, Refusal.TOO_MANY_NODES,
    Refusal.TOO_MUCH_STAGED, Refusal.TOO_MANY_KEYS, Refusal.STILL_NOTIFYING, Refusal.WINDOW_FULL, Refusal.TOO_MANY_WAITING,
    Refusal.TOO_MUCH_HELD, Refusal.TOO_MANY_SIGNALS, Refusal.STORE_FAILED, Refusal.INTERNAL_FAULT,
})
"""Refusals after which a later attempt may succeed: the message stays held."""
# fmt: on


def is_due(request: DeliverMessage, found: records.KeptMessage | None, now: Millis) -> bool:
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
        return Decision(records.MessageDelivered(found.answer) if refused is None else refused)
    if found.digest != request.digest:
        return Decision(records.MessageChanged())
    if request.request is None:
        return _ended(request, facts, found, Decision(records.MessageDelivered(request.otherwise)))
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
    request: DeliverMessage, facts: DeliverFacts, found: records.KeptMessage, decision: Decision
) -> Decision:
    """Add to a decision that the message is not held any more, and that its answer is remembered."""
    reply = decision.reply
    if isinstance(reply, Refused):
        reply = replace(reply, reason=reply.reason[: records.MAX_REASON_LENGTH])
        words = answer_of(reply)
    else:
        words = reply.words if isinstance(reply, records.MessageDelivered) else ""
        reply = records.MessageDelivered(words)
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
        decision.beside,
        parts,
    )


def _changes(
    facts: DeliverFacts, found: records.KeptMessage, ended: records.KeptMessage
) -> tuple[Change, ...]:
    own, everybody = (plus(without(one, found), ended) for one in (facts.own, facts.all))
    for old in facts.oldest:
        own, everybody = without(own, old), without(everybody, old)
    gone = [DropRow(records.KeptMessage, old.mark) for old in facts.oldest]
    return (*gone, PutRow(ended), *summed((own, everybody)))


# Answers to deliveries, as they are remembered.


def answer_of(refused: Refused) -> str:
    """Return a refusal as it is remembered."""
    bounds = refused.limit, refused.setting
    return json.encode((refused.refusal.name, refused.reason, *bounds)).decode()


def refused_of(answer: str) -> Refused | None:
    """Return the refusal that is remembered; None if the answer is none of the core's, but of the face."""
    if not answer.startswith("["):
        return None
    name, reason, limit, setting = json.decode(answer)
    return Refused(Refusal[name], reason, limit, setting=setting)


# Kept messages that end without a delivery: their time is over, or an administrator drops them. Answers are forgotten the same way.

SLICE: Final = 500
"""Messages that end in one request."""


class ForgetMessages(Request, frozen=True, gc=False):
    """End a slice of the messages, and forget a slice of the answers, whose time is over; for the service itself."""


class DropMessages(Request, frozen=True, gc=False):
    """End the messages that are held of an account, of which `count` have ended before; only an administrator may."""

    by: Principal
    account: Jid
    count: int = 0


class EndFacts(Struct, frozen=True, gc=False):
    """The messages that are to end, and the totals of their accounts and of all."""

    now: Millis
    messages: tuple[records.KeptMessage, ...]
    totals: Mapping[str, records.MessageTotal]


def forget_messages(_request: ForgetMessages, facts: EndFacts) -> Decision:
    """End those whose time is over."""
    return _end(tuple(one for one in facts.messages if one.until <= facts.now), facts)


def drop_messages(request: DropMessages, facts: EndFacts) -> Decision:
    """End those that are held."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN)
    ending = tuple(one for one in facts.messages if one.held)
    decision = _end(ending, facts)
    count = request.count + len(ending)
    if len(facts.messages) < SLICE:
        return replace(decision, reply=records.MessagesEnded((), more=False, count=count))
    return replace(decision, then=replace(request, count=count))


def _end(ending: tuple[records.KeptMessage, ...], facts: EndFacts) -> Decision:
    totals = dict(facts.totals)
    for message in ending:
        for name in (message.account, records.EVERYBODY):
            totals[name] = without(totals.get(name, records.MessageTotal(name)), message)
    changes = (
        *(DropRow(records.KeptMessage, one.mark) for one in ending),
        *summed(totals.values()),
    )
    held = tuple(message for message in ending if message.held)
    more = len(facts.messages) >= SLICE
    return Decision(records.MessagesEnded(held, more=more), changes, work=len(ending))


# Keep a message: an assured message is stored before it is answered, and nothing reads it until its delivery is asked for.


class KeepMessage(Request, frozen=True, gc=False):
    """Keep these bytes under the id, for the full JID of the sender; `iq_id` is the id of the request, `digest` stands for the bytes."""

    by: Principal
    msg_id: str
    iq_id: str
    digest: bytes
    message: bytes


class KeepFacts(Struct, frozen=True, gc=False):
    """What is known under the id, the totals of the account and of all, and whether the account has an affiliation.

    `affiliated` is looked up only where the trust in the account depends on it.
    """

    now: Millis
    found: records.KeptMessage | None
    own: records.MessageTotal
    all: records.MessageTotal
    limits: records.MessageLimits
    affiliated: bool = False


def depends_on_affiliation(by: Principal, wanted: records.AssuredFrom) -> bool:
    """Return whether the account is trusted only if it has an affiliation."""
    if by.admin or by.anonymous or "@" not in by.account:
        return False
    return wanted is records.AssuredFrom.AFFILIATED or (
        wanted is records.AssuredFrom.KNOWN and not by.local
    )


def is_trusted(by: Principal, wanted: records.AssuredFrom, *, affiliated: bool) -> bool:
    """Return whether messages of the account are kept; those of anonymous accounts and of addresses without a local part never are."""
    if by.anonymous or "@" not in by.account:
        return False
    return affiliated or not depends_on_affiliation(by, wanted)


def known(found: records.KeptMessage | None, now: Millis) -> records.KeptMessage | None:
    """Return the message if its time is not over."""
    return found if found is not None and found.until > now else None


def keep(request: KeepMessage, facts: KeepFacts) -> Decision:
    """Keep the message, unless it is a repetition of one that is known."""
    limits = facts.limits
    if not is_trusted(request.by, limits.assured_from, affiliated=facts.affiliated):
        return refuse(Refusal.NOT_TRUSTED, "assured messages are not accepted from this account")
    found, done = known(facts.found, facts.now), Decision(records.MessageKept(request.msg_id))
    if found is not None:
        same = found.digest == request.digest
        if found.held and not same:
            return refuse(Refusal.KEY_REUSED, "another message is kept under this msgId")
        if found.held or (same and found.iq_id == records.iq_id_of(request.iq_id)):
            return done
    size = len(request.message)
    if (no := _beyond(facts, size)) is not None:
        return Decision(no)
    message = records.KeptMessage(
        records.mark_of(request.by.jid, request.msg_id),
        request.by.jid,
        account_of(request.by.jid),
        request.msg_id,
        records.iq_id_of(request.iq_id),
        request.digest,
        size,
        held=True,
        answer="",
        until=later(facts.now, limits.kept_for),
        message=request.message,
    )
    return replace(done, changes=(PutRow(message), *summed(_with(facts, message))))


def _beyond(facts: KeepFacts, size: int) -> Refused | None:
    """Refuse what exceeds a bound; `setting` is the name of the bound."""
    limits = facts.limits
    own, every = facts.own, facts.all
    for setting, mine, used, more, most in (
        ("messages_per_account", 0, own.messages, 1, limits.messages_per_account),
        ("bytes_per_account", 0, own.byte_count, size, limits.bytes_per_account),
        ("messages", own.messages, every.messages, 1, limits.messages),
        ("bytes", own.byte_count, every.byte_count, size, limits.bytes),
    ):
        if beyond_share(mine, used, more, most):
            return Refused(Refusal.TOO_MUCH_HELD, "", most, setting=setting)
    return None


def _with(
    facts: KeepFacts, message: records.KeptMessage
) -> tuple[records.MessageTotal, records.MessageTotal]:
    """Return the totals with the message, which takes the place of what was found under its id."""
    own, everybody = facts.own, facts.all
    if facts.found is not None:
        own, everybody = without(own, facts.found), without(everybody, facts.found)
    return plus(own, message), plus(everybody, message)


def summed(totals: Iterable[records.MessageTotal]) -> list[Change]:
    """Keep these totals; of nothing none is kept."""
    return [
        PutRow(one)
        if one.messages or one.remembered
        else DropRow(records.MessageTotal, one.account)
        for one in totals
    ]


def plus(total: records.MessageTotal, message: records.KeptMessage) -> records.MessageTotal:
    """Return the total with a message."""
    if not message.held:
        return replace(total, remembered=total.remembered + 1)
    return replace(
        total, messages=total.messages + 1, byte_count=total.byte_count + message.byte_count
    )


def without(total: records.MessageTotal, message: records.KeptMessage) -> records.MessageTotal:
    """Return the total without a message."""
    if not message.held:
        return replace(total, remembered=total.remembered - 1)
    return replace(
        total, messages=total.messages - 1, byte_count=total.byte_count - message.byte_count
    )


# What is read of kept messages: the bytes of one, by the face that has to understand it, and a list of accounts, by administrators.


class ReadMessage(Read, frozen=True, gc=False):
    """Read the message that is held under this id for the full JID."""

    msg_id: str


class ReadMessageFacts(Struct, frozen=True, gc=False):
    """The message, if there is one, and its bytes, if it is held."""

    now: Millis
    found: records.KeptMessage | None
    message: bytes = b""


class ListMessages(Read, frozen=True, gc=False):
    """List the accounts behind `after` of which messages are held, with their totals."""

    after: str = ""
    max: int = 100


class ListMessagesFacts(Struct, frozen=True, gc=False):
    """A page of accounts, and the totals of all; `more` may follow."""

    accounts: tuple[records.AccountMessages, ...]
    all: records.MessageTotal
    more: bool = False


def read_message(_request: ReadMessage, facts: ReadMessageFacts) -> Decision:
    """Return the bytes; no bytes if nothing is held."""
    found = known(facts.found, facts.now)
    if found is None or not found.held:
        return Decision(records.MessageRead(b"", b""))
    return Decision(records.MessageRead(facts.message, found.digest))


def list_messages(request: ListMessages, facts: ListMessagesFacts) -> Decision:
    """Return the page."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN)
    total = facts.all
    return Decision(
        records.KeptMessages(
            facts.accounts, total.messages, total.byte_count, total.remembered, facts.more
        )
    )


# Notices for connections of other instances: stored until the instance that has the connection has sent them.
#
# A connection can be reached only from its own instance. Notices for the connections of another instance are stored as a bundle of
# bytes; the other instance reads its bundles, sends the notices, and drops the bundles. The rules do not look into a bundle. Only
# the service itself forwards.

_WIDTH: Final = 12
"""Digits of a number in a mark, so that marks are in the order of the numbers."""


class Forward(Request, frozen=True, gc=False):
    """Store these bundles for other instances."""

    bundles: tuple[records.Forwarded, ...]


class ForwardFacts(Struct, frozen=True, gc=False):
    """The bundles that are stored already: an answer was lost, and the request was repeated."""

    kept: tuple[records.Forwarded, ...]


class EndForward(Request, frozen=True, gc=False):
    """Drop these bundles: their notices were sent, or their instance is gone."""

    marks: tuple[str, ...]


class EndForwardFacts(Struct, frozen=True, gc=False):
    """Those of the bundles that still exist."""

    kept: tuple[records.Forwarded, ...]


def marks_for(instance: int) -> str:
    """Return the prefix of the marks of all bundles for an instance."""
    return f"{instance:0{_WIDTH}d}."


def mark_for(instance: int, sender: str, number: int) -> str:
    """Return the mark of a bundle; `sender` is a word that is unique to the process."""
    return f"{marks_for(instance)}{sender}.{number:0{_WIDTH}d}"


def forward(request: Forward, facts: ForwardFacts) -> Decision:
    """Store the bundles that are not stored yet."""
    kept = _marks(facts.kept)
    new = tuple(PutRow(one) for one in request.bundles if one.mark not in kept)
    return Decision(Done(), new)


def end_forward(_request: EndForward, facts: EndForwardFacts) -> Decision:
    """Drop the bundles that still exist."""
    return Decision(Done(), tuple(DropRow(records.Forwarded, one.mark) for one in facts.kept))


def _marks(bundles: Iterable[records.Forwarded]) -> set[str]:
    return {one.mark for one in bundles}
