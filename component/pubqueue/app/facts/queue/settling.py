"""Facts for retract, unlock and touch: the items, their holders, and the rows that their end needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pubqueue.app.facts.queue.dying import places
from pubqueue.app.facts.queue.publishing import subscribers
from pubqueue.app.store.item_listings import DeadItems
from pubqueue.app.store.rows import SETTLED
from pubqueue.model.after import exhausted
from pubqueue.model.entities import Affiliation, State
from pubqueue.rules.dead_letters import CANCEL_SLICE, DiscardFacts
from pubqueue.rules.inspect import objection
from pubqueue.rules.settle import Outcome, Settle, SettleFacts, Verb, holds, is_late
from pubqueue.rules.settle_each import singly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pubqueue.app.facts.context import Context
    from pubqueue.app.working_set.working_set import WorkingSet
    from pubqueue.model.entities import Item, Jid, Principal
    from pubqueue.rules.dead_letters import Cancel, Discard
    from pubqueue.rules.settle_each import SettleEach
    from pubqueue.rules.unlock import Touch


def for_settle(context: Context, request: Settle | Touch | Cancel) -> SettleFacts:
    """Return the items that are to be settled, and their present and former holders."""
    rows, principal = context.rows, request.by
    node = rows.node(request.node)
    if node is None:
        return SettleFacts(context.now, None, Affiliation.NONE, (), frozenset(), subscribed=False)
    affiliation, subscribed = rows.rights(node.name, principal.account)
    items = tuple([rows.item(node.name, item) for item in request.ids])
    return SettleFacts(
        context.now,
        node,
        affiliation,
        items,
        _receipts(rows, principal, items),
        subscribed,
        () if node.config.queueing else subscribers(context, node),
    )


def for_each(context: Context, request: SettleEach) -> tuple[SettleFacts, ...]:
    """Return the facts of the requests for each lock alone; the common ones are looked up once."""
    singles = singly(request)
    of: dict[Jid, list[int]] = {}
    for at, single in enumerate(singles):
        of.setdefault(single.by.jid, []).append(at)
    found: dict[int, SettleFacts] = {}
    for places_of_one in of.values():
        first = singles[places_of_one[0]]
        joint = replace(first, ids=tuple([singles[at].ids[0] for at in places_of_one]), token=None)
        facts = for_end(context, joint) if isinstance(joint, Settle) else for_settle(context, joint)
        found |= zip(places_of_one, _one_by_one(facts, len(places_of_one)), strict=True)
    each = [found[at] for at in range(len(singles))]
    if isinstance(request.template, Settle) and request.template.remember is not None:
        each = [_with_memory(context, *one) for one in zip(singles, each, strict=True)]
    return tuple(each)


def _with_memory(context: Context, request: Settle | Touch, facts: SettleFacts) -> SettleFacts:
    if request.token is None:
        return facts
    return replace(facts, settled=context.rows.row(SETTLED, request.token))


def _one_by_one(facts: SettleFacts, count: int) -> Iterator[SettleFacts]:
    """Yield the same facts for each of the items alone."""
    for at in range(count):
        here = slice(at, at + 1)
        yield replace(
            facts, items=facts.items[here], places=facts.places[here], digests=facts.digests[here]
        )


def for_discard(context: Context, request: Discard) -> DiscardFacts:
    """Return the next dead items of the node, if the principal may manage it."""
    rows, by = context.rows, request.by
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, by.account)
    if node is None or objection(by, node, affiliation) is not None:
        return DiscardFacts(node, affiliation)
    found = rows.page(DeadItems(node.name), request.after or None, CANCEL_SLICE)
    return DiscardFacts(node, affiliation, tuple(found))


def _receipts(
    rows: WorkingSet, principal: Principal, items: tuple[Item | None, ...]
) -> frozenset[tuple[int, Jid]]:
    """Return the relevant receipts of the items: holding one now outranks having held it."""
    asked = [
        item
        for item in items
        if item is not None
        and item.acquired > (item.state is State.LOCKED)  # a lock of it has ended
        and not holds(principal, item)
    ]
    if not asked:
        return frozenset()
    jids = (principal.jid, principal.account)
    return frozenset((item.seq, jid) for item in asked for jid in rows.lost_by(item, jids))


def for_end(context: Context, request: Settle) -> SettleFacts:
    """Return the same, and the rows that the end of the items needs: their places if they die, their digests."""
    facts = for_settle(context, request)
    if request.remember is not None and request.token is not None:
        facts = replace(facts, settled=context.rows.row(SETTLED, request.token))
    node = facts.node
    if node is None or (request.verb is Verb.UNLOCK and request.outcome is Outcome.RELEASE):
        return facts
    if request.verb is Verb.RETRACT:
        return _with_digests(context, request, facts) if node.config.dedup_window else facts
    rejected = request.outcome is Outcome.REJECT
    dying = [
        (item, node) if item is not None and (rejected or exhausted(item, node.config)) else None
        for item in facts.items
    ]
    return replace(facts, places=places(context, dying))


def _may_finish(request: Settle, item: Item) -> bool:
    """Return whether a retract may report the work as done, under whichever token."""
    if holds(request.by, item):
        return True
    return request.late and is_late(request.by, item, item.token)


def _with_digests(context: Context, request: Settle, facts: SettleFacts) -> SettleFacts:
    rows = context.rows
    payloads: list[bytes | None] = []
    for item in facts.items:
        if item is None or not _may_finish(request, item):
            payloads.append(None)
            continue
        payloads.append(rows.payload(item))
        rows.finished(item.node, item.id, context.now)  # the record of an earlier end is replaced
    if rows.lacking:
        return facts
    digests = tuple(
        None if each is None else context.payloads.fingerprint(each) for each in payloads
    )
    return replace(facts, digests=digests)
