"""A publish to a plain node that feeds queues: one item in each of them, in the commit of the publish.

The publisher's right is judged at the plain node alone. A fed queue refuses an item as it would from any publisher: it is
paused or full, or the item does not fit. Then the whole publish is refused, with the queue's name, so that no queue is left
out. An id that is taken in one queue is not a reason to refuse: there the item gets another id, made from its own and its
payload, so that a repetition of the same publish changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.core.decision import Decision, Refusal, Refused, in_words
from pubqueue.core.limits.allowance import overdrawn_of_each
from pubqueue.core.model import MAX_ID_LENGTH, ItemId
from pubqueue.core.nodes.room import full, growth, is_bounded
from pubqueue.core.nodes.trimming import truncated
from pubqueue.core.publishing.places import (
    MAX_BYTES,
    MAX_COPIES,
    PLACES,
    TAKEN,
    misfit,
    new_item,
    placed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pubqueue.core.changes import AddItem, Change
    from pubqueue.core.model import Draft, Node
    from pubqueue.core.nodes.room import Growth
    from pubqueue.core.queue.publication import Fed, Met, Publish, PublishFacts

WORK: Final = 16_384
"""Bytes of payloads that are as much work as one more change."""


def fed_on(request: Publish, facts: PublishFacts, topic: Node, decision: Decision) -> Decision:
    """Add to a publish the items for the queues that the node feeds, or refuse the whole publish."""
    if isinstance(decision.reply, Refused):
        return decision
    if (no := too_much(topic, request.drafts)) is not None:
        return Decision(no)
    changes = list(decision.changes)
    bounded: list[tuple[Node, Growth]] = []
    grown = [(topic.name, facts.allowance, growth(changes))]
    for fed in facts.fed:
        comes = into(request, facts, fed)
        if isinstance(comes, Refused):
            return Decision(named(comes, fed.queue, topic))
        more = growth(comes)
        grown.append((fed.queue.name, fed.allowance, more))
        if is_bounded(fed.queue.config):
            bounded.append((fed.queue, more))
        changes += comes
    if (over := overdrawn_of_each(grown)) is not None:
        name, no = over
        queue = next((fed.queue for fed in facts.fed if fed.queue.name == name), None)
        return Decision(no if queue is None else named(no, queue, topic))
    size = sum(more.bytes for *_, more in grown)
    done = replace(decision, changes=tuple(changes), work=len(changes) + size // WORK)
    return truncated(bounded, done) if bounded and done.then is None else done


def into(request: Publish, facts: PublishFacts, fed: Fed) -> list[Change] | Refused:
    """Return the changes of the publish in one of the queues, or the queue's refusal."""
    queue = fed.queue
    changes: list[Change] = []
    for draft, met in _admitted(request, fed):
        if (no := refusal(queue, draft)) is not None:
            return no
        changes += come(met, new_item(draft, queue, request.by.account, facts.now))
    if is_bounded(queue.config) and (no := full(queue, growth(changes))) is not None:
        return no
    return changes


def refusal(queue: Node, draft: Draft) -> Refused | None:
    """Return the refusal that any publisher of the item would get from the queue now, None if there is none."""
    if queue.config.publish_paused:
        return Refused(Refusal.PUBLISH_PAUSED)
    return misfit(len(draft.payload), draft.type, draft.headers, queue.config)


def come(met: Met, add: AddItem) -> list[Change]:
    """Return the changes of an item in a fed queue; if its id is taken, it is added under another one, once."""
    place = PLACES[met.known, None if met.item is None else met.item.state]
    if place not in TAKEN:
        return placed(place, met.item, add)
    if met.repeated or met.elsewhere is None:
        return []
    return [replace(add, draft=replace(add.draft, id=met.elsewhere))]


def elsewhere(name: ItemId, digest: bytes) -> ItemId:
    """Return the id of an item whose own is taken in a fed queue: a different one for each payload."""
    tail = f".{digest.hex()[:32]}"
    whole = name + tail
    if len(whole.encode()) <= MAX_ID_LENGTH:
        return ItemId(whole)
    head = name.encode()[: MAX_ID_LENGTH - len(tail)]
    return ItemId(head.decode(errors="ignore") + tail)


def _admitted(request: Publish, fed: Fed) -> Iterator[tuple[Draft, Met]]:
    for draft, met in zip(request.drafts, fed.met, strict=True):
        if met is not None:
            yield draft, met


def too_much(topic: Node, drafts: Sequence[Draft]) -> Refused | None:
    """Refuse more than one commit may add to queues, whatever their filters; a publish with fewer items fits."""
    many = len(topic.config.feeds)
    if len(drafts) * many > MAX_COPIES:
        reason = f"the node feeds {many} queues, so a publish has fewer items"
        return Refused(Refusal.TOO_MANY_ITEMS, reason, limit=MAX_COPIES // many)
    size = sum(len(draft.payload) for draft in drafts)
    if size * many > MAX_BYTES:
        reason = f"the node feeds {many} queues, so a publish has fewer bytes"
        return Refused(Refusal.PAYLOAD_TOO_BIG, reason, limit=MAX_BYTES // many)
    return None


def named(no: Refused, queue: Node, topic: Node) -> Refused:
    """Return the refusal with the name of the queue that refuses."""
    return replace(no, reason=f"{topic.name!r} feeds the queue {queue.name!r}: {in_words(no)}")
