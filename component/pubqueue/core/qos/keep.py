"""Keep a message: an assured message is stored before it is answered, and nothing reads it until its delivery is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.addresses import account_of
from pubqueue.core.changes import Change, DropRow, PutRow
from pubqueue.core.decision import Decision, Refusal, Refused, refuse
from pubqueue.core.model import later
from pubqueue.core.qos.model import (
    AssuredFrom,
    KeptMessage,
    MessageKept,
    MessageTotal,
    iq_id_of,
    mark_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.core.model import Millis, Principal
    from pubqueue.core.qos.model import MessageLimits


class KeepMessage(Struct, frozen=True, gc=False):
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
    found: KeptMessage | None
    own: MessageTotal
    all: MessageTotal
    limits: MessageLimits
    affiliated: bool = False


def depends_on_affiliation(by: Principal, wanted: AssuredFrom) -> bool:
    """Return whether the account is trusted only if it has an affiliation."""
    if by.admin or by.anonymous or "@" not in by.account:
        return False
    return wanted is AssuredFrom.AFFILIATED or (wanted is AssuredFrom.KNOWN and not by.local)


def is_trusted(by: Principal, wanted: AssuredFrom, *, affiliated: bool) -> bool:
    """Return whether messages of the account are kept; those of anonymous accounts and of addresses without a local part never are."""
    if by.anonymous or "@" not in by.account:
        return False
    return affiliated or not depends_on_affiliation(by, wanted)


def known(found: KeptMessage | None, now: Millis) -> KeptMessage | None:
    """Return the message if its time is not over."""
    return found if found is not None and found.until > now else None


def keep(request: KeepMessage, facts: KeepFacts) -> Decision:
    """Keep the message, unless it is a repetition of one that is known."""
    limits = facts.limits
    if not is_trusted(request.by, limits.assured_from, affiliated=facts.affiliated):
        return refuse(Refusal.NOT_TRUSTED, "assured messages are not accepted from this account")
    found, done = known(facts.found, facts.now), Decision(MessageKept(request.msg_id))
    if found is not None:
        same = found.digest == request.digest
        if found.held and not same:
            return refuse(Refusal.KEY_REUSED, "another message is kept under this msgId")
        if found.held or (same and found.iq_id == iq_id_of(request.iq_id)):
            return done
    size = len(request.message)
    if (no := _beyond(facts, size)) is not None:
        return Decision(no)
    message = KeptMessage(
        mark_of(request.by.jid, request.msg_id),
        request.by.jid,
        account_of(request.by.jid),
        request.msg_id,
        iq_id_of(request.iq_id),
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
    for setting, used, more, most in (
        ("messages_per_account", facts.own.messages, 1, limits.messages_per_account),
        ("bytes_per_account", facts.own.byte_count, size, limits.bytes_per_account),
        ("messages", facts.all.messages, 1, limits.messages),
        ("bytes", facts.all.byte_count, size, limits.bytes),
    ):
        if used + more > most:
            return Refused(Refusal.TOO_MUCH_HELD, "", most, setting=setting)
    return None


def _with(facts: KeepFacts, message: KeptMessage) -> tuple[MessageTotal, MessageTotal]:
    """Return the totals with the message, which takes the place of what was found under its id."""
    own, everybody = facts.own, facts.all
    if facts.found is not None:
        own, everybody = without(own, facts.found), without(everybody, facts.found)
    return plus(own, message), plus(everybody, message)


def summed(totals: Iterable[MessageTotal]) -> list[Change]:
    """Keep these totals; of nothing none is kept."""
    return [
        PutRow(one) if one.messages or one.remembered else DropRow(MessageTotal, one.account)
        for one in totals
    ]


def plus(total: MessageTotal, message: KeptMessage) -> MessageTotal:
    """Return the total with a message."""
    if not message.held:
        return replace(total, remembered=total.remembered + 1)
    return replace(
        total, messages=total.messages + 1, byte_count=total.byte_count + message.byte_count
    )


def without(total: MessageTotal, message: KeptMessage) -> MessageTotal:
    """Return the total without a message."""
    if not message.held:
        return replace(total, remembered=total.remembered - 1)
    return replace(
        total, messages=total.messages - 1, byte_count=total.byte_count - message.byte_count
    )
