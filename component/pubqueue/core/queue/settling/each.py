"""Settles many locks in one request, each on its own: a lock that is refused affects no other, and each has an answer.

A retract or an unlock of many items is all or nothing. But protocols that acknowledge in bulk answer for each message: a lock
that is over is no reason to refuse the others. Each is decided like a request for it alone; the facts are shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.addresses import account_of
from pubqueue.core.decision import Decision, Refusal, Refused, SettledEach, refuse
from pubqueue.core.notices import Retracted, Unlocked
from pubqueue.core.parts import DecidedInParts
from pubqueue.core.queue.give_back import Case, in_their_places, work_of
from pubqueue.core.queue.settle import Settle, SettleFacts
from pubqueue.core.queue.settling.remembering import settle_once
from pubqueue.core.queue.touch import Touch, touch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.core.decision import Reply
    from pubqueue.core.model import ItemId, Jid, NodeName, Principal
    from pubqueue.core.notices import News, Notice

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


class SettleEach(Struct, frozen=True, gc=False):
    """Settle each of these locks as in `template`, whose ids and token are ignored.

    Only locks that are named by their tokens are remembered.
    A lock that is named twice is settled once, and gets the same answer twice.
    """

    template: Settle | Touch
    locks: tuple[LockName, ...]

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
    parts: dict[ItemId, tuple[Settle | Touch, Decision, SettleFacts]] = {}
    answers: list[Reply] = []
    singles = iter(zip(singly(request), facts, strict=True))
    for lock in request.locks:
        if not is_own(request, lock):
            answers.append(NOT_YOURS)
            continue
        single, known = next(singles)
        decision = _alone(single, known)
        if not isinstance(decision.reply, Refused):
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
    reply: SettledEach, parts: Iterable[tuple[Settle | Touch, Decision, SettleFacts]]
) -> Decision:
    """Return the combined decision, within the bounds for all dying items together; a holder is notified once."""
    parts = [
        part for part in parts if part[1].changes
    ]  # a lock that was settled before changes nothing
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
