"""Settles many locks in one request, each on its own; a repeated settle gets the first answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import PutRow
from pubqueue.model.decision import (
    DecidedInParts,
    Decision,
    Done,
    Refusal,
    Refused,
    Request,
    SettledEach,
    refuse,
)
from pubqueue.model.entities import account_of, later
from pubqueue.model.notices import Retracted, Unlocked
from pubqueue.model.records import Settled, whose
from pubqueue.rules import access
from pubqueue.rules.give_back import Case, in_their_places, work_of
from pubqueue.rules.settle import Settle, SettleFacts, Verb, finishes, settle
from pubqueue.rules.unlock import Touch, touch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import ItemId, Jid, NodeName, Principal
    from pubqueue.model.notices import News, Notice


# Settles many locks in one request, each on its own: a lock that is refused affects no other, and each has an answer.
#
# A retract or an unlock of many items is all or nothing. But protocols that acknowledge in bulk answer for each message: a lock
# that is over is no reason to refuse the others. Each is decided like a request for it alone; the facts are shared.

OF_THE_NODE: Final = frozenset(
    {Refusal.NODE_NOT_FOUND, Refusal.CLOSED_NODE, Refusal.FORBIDDEN, Refusal.NOT_A_QUEUE}
)
"""Refusals that are about the node: if all locks meet the same one, it is the answer to the request."""

NOT_YOURS: Final = Refused(Refusal.NOT_YOURS)


class LockName(Struct, frozen=True, gc=False):
    """One lock: its item, its token if known, and its holder if that is another address of the requesting account."""

    id: ItemId
    token: int | None = None
    holder: Jid | None = None


class SettleEach(Request, frozen=True, gc=False):
    """Settle each of these locks as in `template`, whose ids and token are ignored.

    If they are to be remembered, each is named by its token.
    A lock that is named twice is settled once, and gets the same answer twice. With `admitted` an account that may not know of
    the node any more settles nothing, not even its own locks.
    """

    template: Settle | Touch
    locks: tuple[LockName, ...]
    admitted: bool = False

    @property
    def by(self) -> Principal:
        """The principal that sent the request."""
        return self.template.by

    @property
    def node(self) -> NodeName:
        """The queue."""
        return self.template.node


def is_own(request: SettleEach, lock: LockName) -> bool:
    """Return whether the lock is named as one of the requesting account."""
    return lock.holder is None or account_of(lock.holder) == request.by.account


def singly(request: SettleEach) -> tuple[Settle | Touch, ...]:
    """Return the requests for each lock alone, without those that are named as another account's."""
    template, by = request.template, request.by
    return tuple(
        [
            replace(
                template,
                by=by if lock.holder is None else replace(by, jid=lock.holder),
                ids=(lock.id,),
                token=lock.token,
            )
            for lock in request.locks
            if is_own(request, lock)
        ]
    )


def settle_each(request: SettleEach, facts: tuple[SettleFacts, ...]) -> Decision:
    """Decide each lock; `facts` are those of the single requests, in order, all from before the request."""
    if request.admitted and facts and (node := facts[0].node) is not None:
        barred = access.unknown(request.by, node, facts[0].affiliation)
        if barred is not None:
            return refuse(barred)
    parts: dict[ItemId, tuple[Settle | Touch, Decision, SettleFacts]] = {}
    answers: list[Reply] = []
    singles = iter(zip(singly(request), facts, strict=True))
    for lock in request.locks:
        if not is_own(request, lock):
            answers.append(NOT_YOURS)
            continue
        single, known = next(singles)
        decision = _alone(single, known)
        if (
            decision.changes
        ):  # one that was settled before has none, and must not stand for a later lock of its item
            _, decision, _ = parts.setdefault(lock.id, (single, decision, known))
        answers.append(decision.reply)
    first = answers[0] if answers else None
    if isinstance(first, Refused) and first.refusal in OF_THE_NODE and len(set(answers)) == 1:
        return Decision(first)
    return _together(SettledEach(request.node, tuple(answers)), parts.values())


def _alone(single: Settle | Touch, facts: SettleFacts) -> Decision:
    decision = settle_once(single, facts) if isinstance(single, Settle) else touch(single, facts)
    refused = isinstance(decision.reply, Refused)
    if not refused and facts.node is not None and not facts.node.config.queueing:
        return refuse(Refusal.NOT_A_QUEUE)
    return decision


def _together(
    reply: SettledEach, parts: Collection[tuple[Settle | Touch, Decision, SettleFacts]]
) -> Decision:
    """Return the combined decision, within the bounds for all dying items together; a holder is notified once."""
    ends = [decision.changes[0] for _, decision, _ in parts]
    if any(place for _, _, facts in parts for place in facts.places):
        cases = [
            Case(facts.items[0], facts.node, facts.places[0])
            for _, _, facts in parts
            if facts.items[0] is not None and facts.node is not None
        ]
        ends = list(in_their_places(ends, cases))
    each = tuple(
        [
            (single, replace(decision, changes=(end, *decision.changes[1:])))
            for (single, decision, _), end in zip(parts, ends, strict=True)
        ]
    )
    notices = _merged(notice for _, decision in each for notice in decision.notices)
    changes = tuple([change for _, decision in each for change in decision.changes])
    return DecidedInParts(reply, changes, notices, work=work_of(ends), parts=each)


def _merged(notices: Iterable[Notice | News]) -> tuple[Notice | News, ...]:
    """Return one notice to each holder."""
    ids: dict[tuple[type[Retracted | Unlocked], Jid, NodeName], list[ItemId]] = {}
    others: list[Notice | News] = []
    for notice in notices:
        if isinstance(notice, Retracted | Unlocked):
            key = type(notice), notice.to, notice.node
            ids.setdefault(key, []).extend(notice.ids)
        else:
            others.append(notice)
    return (*(kind(to, node, tuple(names)) for (kind, to, node), names in ids.items()), *others)


# A repeated settle gets the answer of the first one, if that requested to be remembered.
#
# A worker that loses an answer cannot know whether its lock was settled, and repeats the request. Without a record the answer
# would be that there is no such item, or no such lock. The row is written in the commit that settles, so it exists exactly if
# the lock was settled, also after a crash.


def settle_once(request: Settle, facts: SettleFacts) -> Decision:
    """Decide a retract or an unlock; a lock that was settled under the token is not settled again."""
    if request.remember is None or request.token is None:
        return settle(request, facts)
    known = facts.settled
    if known is not None and facts.node is not None and _is_same_lock(request, known, facts):
        if known.verdict == request.verb.name.lower():
            return Decision(Done(again=True))
        return refuse(Refusal.LOCK_LOST, f"the lock has ended with: {known.verdict}")
    return _remembered(request, facts, settle(request, facts))


def _is_same_lock(request: Settle, known: Settled, facts: SettleFacts) -> bool:
    """Return whether this account settled this item under this token, and the record is not outdated."""
    mine = whose(request.node, request.ids[0], request.by.account)
    return known.until > facts.now and known.whose == mine


def _remembered(request: Settle, facts: SettleFacts, decision: Decision) -> Decision:
    """Note that the lock was settled, but only by its holder: an owner's retract must not answer a worker's repetition."""
    item = facts.items[0] if facts.items else None
    if isinstance(decision.reply, Refused) or item is None:
        return decision
    if request.verb is Verb.RETRACT and not finishes(request, item):
        return decision
    if request.token is None or request.remember is None:
        return decision
    row = Settled(
        request.token,
        whose(request.node, item.id, request.by.account),
        request.verb.name.lower(),
        later(facts.now, request.remember),
    )
    return replace(decision, changes=(*decision.changes, PutRow(row)))
