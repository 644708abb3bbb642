"""A repeated settle gets the answer of the first one, if that requested to be remembered.

A worker that loses an answer cannot know whether its lock was settled, and repeats the request. Without a record the answer
would be that there is no such item, or no such lock. The row is written in the commit that settles, so it exists exactly if
the lock was settled, also after a crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pubqueue.core.changes import PutRow
from pubqueue.core.decision import Decision, Done, Refusal, Refused, refuse
from pubqueue.core.model import later
from pubqueue.core.queue.settle import Verb, finishes, settle
from pubqueue.core.queue.settling.memory import Settled, whose

if TYPE_CHECKING:
    from pubqueue.core.queue.settle import Settle, SettleFacts


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
