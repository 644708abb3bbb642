"""A publish to a plain node that feeds queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import BeginTrim, ConfigureNode, NoteLeftOut
from pubqueue.model.decision import Decision, Refusal, Refused, in_words
from pubqueue.model.entities import (
    MAX_ID_LENGTH,
    Affiliation,
    Feed,
    ItemId,
    Node,
    NodeConfig,
    NodeName,
    Principal,
)
from pubqueue.rules import access
from pubqueue.rules.access import Action, Other
from pubqueue.rules.publication import (
    MAX_BYTES,
    MAX_COPIES,
    PLACES,
    TAKEN,
    misfit,
    new_item,
    placed,
)
from pubqueue.rules.room import (
    NOTHING,
    full,
    growth,
    is_bounded,
    overdrawn_of_each,
    truncates,
)
from pubqueue.rules.trimming import ResumeTrims, exceeds, truncated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pubqueue.model.changes import AddItem, Change
    from pubqueue.model.entities import Draft, Jid, Millis
    from pubqueue.rules.access import Others
    from pubqueue.rules.publication import Fed, Met, Publish, PublishFacts
    from pubqueue.rules.room import Allowance, Growth


# The queues that a plain node feeds: decided when a queue's `source` is set, and when rights to that node change.
#
# The plain node keeps the list (`NodeConfig.feeds`), so a publish to a node that feeds no queue costs nothing for it. The
# setting of the queue and the list change in one commit. A queue is fed as long as the account that has set its source may
# subscribe to that node, and both nodes exist. When that ends, the setting is emptied, so that it shows the end.

MAX_FED: Final = 100
"""The maximum number of queues that one plain node feeds: a publish to it is one commit."""

OF_OWNERS: Final = 20
"""The number of them that only owners of the plain node can have."""


class Feeder(Struct, frozen=True, gc=False):
    """A queue that a plain node feeds, the account that has set its source, and the account's affiliation with the plain node."""

    queue: Node | None
    feed: Feed
    by: Principal
    affiliation: Affiliation
    subscribed: bool = False


def may_feed(by: Principal, affiliation: Affiliation, topic: Node, *, subscribed: bool) -> bool:
    """Return whether the account may let the node feed a queue: it has to be allowed to subscribe there without approval."""
    standing = access.standing_of(by, affiliation)
    if not access.may(standing, Action.SUBSCRIBE, topic, subscribed=subscribed):
        return False
    return subscribed or not access.needs_approval(standing, topic)


def unfit(name: NodeName, before: NodeConfig, after: NodeConfig, others: Others) -> Refused | None:
    """Return the refusal if no account could set this source with these settings."""
    if after.source and not after.queueing:
        return _refuse("source: only a queue has a source")
    if after.source == before.source or not after.source:
        return None
    other = others.nodes.get(NodeName(after.source))
    topic = None if other is None else other.node
    if topic is None:
        return _refuse(f"source: there is no node {after.source!r}")
    if topic.config.queueing or topic.name == name:
        return _refuse(f"source: {after.source!r} is a queue, and only a plain node feeds queues")
    if len(topic.config.feeds) >= MAX_FED:
        return _refuse(f"source: {after.source!r} feeds {MAX_FED} queues already, and no more")
    return None


def has_place(by: Principal, affiliation: Affiliation, topic: Node) -> bool:
    """Return whether the account may let the node feed one more queue.

    Some places are for owners of the node alone. Of the others an account has at most as many as are left for the rest.
    """
    feeds = topic.config.feeds
    if access.standing_of(by, affiliation) is Affiliation.OWNER:
        return len(feeds) < MAX_FED
    mine = sum(feed.by == by.account for feed in feeds)
    return mine < MAX_FED - OF_OWNERS - len(feeds)


def forbidden(
    by: Principal, before: NodeConfig, after: NodeConfig, others: Others
) -> Refused | None:
    """Return the refusal if this account may not set the source."""
    other = others.nodes.get(NodeName(after.source))
    if after.source == before.source or other is None or other.node is None:
        return None
    if not may_feed(by, other.affiliation, other.node, subscribed=other.subscribed):
        words = f"source: you may not subscribe to {after.source!r}"
        return Refused(Refusal.FORBIDDEN, words, setting="source")
    if not has_place(by, other.affiliation, other.node):
        return _refuse(f"source: the places that {after.source!r} has left are for others")
    return None


def attached(
    by: Principal, name: NodeName, before: NodeConfig, after: NodeConfig, others: Others
) -> tuple[Change, ...]:
    """Return the changes of a queue's new settings in the plain nodes that fed it, or are to feed it."""
    if before.source == after.source:
        return ()
    changes = _without(others.nodes.get(NodeName(before.source)), name)
    there = others.nodes.get(NodeName(after.source))
    if there is not None and there.node is not None:
        feeds = (*there.node.config.feeds, Feed(name, by.account))
        changes += _configured(there.node, replace(there.node.config, feeds=feeds))
    return changes


def detached(node: Node, others: Others) -> tuple[Change, ...]:
    """Return the changes in other nodes when this one is deleted: in those that it feeds, and in those that feed it."""
    changes = _without(others.nodes.get(NodeName(node.config.source)), node.name)
    for feed in node.config.feeds:
        changes += _emptied(others.nodes.get(feed.queue))
    return changes


def reconsidered(
    topic: Node, feeders: Iterable[Feeder], becomes: Mapping[Jid, Affiliation]
) -> tuple[Change, ...]:
    """End the feeding that is no longer allowed by a plain node's settings and these new affiliations."""
    changes: list[Change] = []
    stays: list[Feed] = []
    for one in feeders:
        affiliation = becomes.get(one.feed.by, one.affiliation)
        if may_feed(one.by, affiliation, topic, subscribed=one.subscribed):
            stays.append(one.feed)
        elif one.queue is not None:
            changes += _configured(one.queue, replace(one.queue.config, source=""))
    if len(stays) < len(topic.config.feeds):
        changes += _configured(topic, replace(topic.config, feeds=tuple(stays)))
    return tuple(changes)


def inherited(
    by: Principal, queue: Node, others: Others, becomes: Mapping[Jid, Affiliation]
) -> tuple[Change, ...]:
    """Return the changes at the plain node when the account that has set a queue's source no longer owns the queue.

    The owner that has changed this becomes the account of the source, if it may subscribe to the plain node; otherwise it ends.
    """
    other = others.nodes.get(NodeName(queue.config.source))
    if other is None or (topic := other.node) is None:
        return ()
    feeds = topic.config.feeds
    mine = next((feed for feed in feeds if feed.queue == queue.name), None)
    if mine is None or becomes.get(mine.by, Affiliation.OWNER) is Affiliation.OWNER:
        return ()
    owns = by.admin or becomes.get(by.account, Affiliation.OWNER) is Affiliation.OWNER
    may = may_feed(by, other.affiliation, topic, subscribed=other.subscribed)
    if not owns or not may or not has_place(by, other.affiliation, without(topic, queue.name)):
        return (*_without(other, queue.name), *_emptied(Other(queue)))
    after = tuple(Feed(queue.name, by.account) if feed == mine else feed for feed in feeds)
    return _configured(topic, replace(topic.config, feeds=after))


def without(topic: Node, name: NodeName) -> Node:
    """Return the plain node as it is when it feeds this queue no more."""
    left = tuple(feed for feed in topic.config.feeds if feed.queue != name)
    return replace(topic, config=replace(topic.config, feeds=left))


def _without(topic: Other | None, name: NodeName) -> tuple[Change, ...]:
    if topic is None or topic.node is None:
        return ()
    after = without(topic.node, name).config
    return _configured(topic.node, after) if after != topic.node.config else ()


def _emptied(queue: Other | None) -> tuple[Change, ...]:
    if queue is None or queue.node is None:
        return ()
    return _configured(queue.node, replace(queue.node.config, source=""))


def _configured(node: Node, config: NodeConfig) -> tuple[Change, ...]:
    return (ConfigureNode(node.name, config),)


def _refuse(reason: str) -> Refused:
    return Refused(Refusal.INVALID_CONFIG, reason, setting="source")


# A publish to a plain node that feeds queues: one item in each of them, in the commit of the publish (decision 138).
#
# The publisher's right is judged at the plain node alone. A queue whose source was set by an owner or a publisher of the
# plain node holds publishers up: if it is paused or full, or the item does not fit, the whole publish is refused with its name,
# so that none of these queues is left out. The queues of all other accounts are guests. They refuse nothing, and delay no
# answer: what one cannot take is left out there and counted, and what is much enters them after the commit. An id that is
# taken in one queue is not a reason to refuse: there the item gets another id, made from its own and its payload, so that a
# repetition of the same publish changes nothing.

WORK: Final = 16_384
"""Bytes of payloads that are as much work as one more change."""

HOLDING_UP: Final = frozenset({Affiliation.OWNER, Affiliation.PUBLISHER})
"""The affiliations with the plain node of accounts whose queues may refuse a publish to it."""

AT_ONCE: Final = 500
BYTES_AT_ONCE: Final = 4 << 20
"""Copies, and bytes of their payloads, that the commit of a publish adds to the queues of guests; more follow after it."""


def is_guest(by: Principal, affiliation: Affiliation) -> bool:
    """Return whether the queue of an account refuses no publish to a plain node with which it has this affiliation."""
    return access.standing_of(by, affiliation) not in HOLDING_UP


def follows(request: Publish, guests: int) -> bool:
    """Return whether items enter the queues of guests only after the commit."""
    copies = guests * len(request.drafts)
    if not copies or request.guests_follow:
        return bool(copies)
    size = guests * sum(len(draft.payload) for draft in request.drafts)
    return copies > AT_ONCE or size > BYTES_AT_ONCE


def fed_on(request: Publish, facts: PublishFacts, topic: Node, decision: Decision) -> Decision:
    """Add to a publish the items for the queues that the node feeds, or refuse the whole publish."""
    if isinstance(decision.reply, Refused):
        return decision
    if (no := too_much(facts.hosts, request.drafts)) is not None:
        return Decision(no)
    changes = list(decision.changes)
    bounded: list[tuple[Node, Growth]] = []
    grown = [(topic.name, facts.allowance, growth(changes))]
    for fed in facts.fed:
        if fed.is_guest:
            continue
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
    guests = Guests(facts.now, grown)
    for fed in facts.fed:
        for draft, met in _admitted(request, fed) if fed.is_guest else ():
            add = new_item(draft, fed.queue, request.by.account, facts.now)
            changes += guests.offer(fed.queue, met, add, fed.allowance)
    size = sum(more.bytes for *_, more in grown) + guests.bytes
    changes += guests.ends()
    done = replace(
        decision,
        changes=tuple(changes),
        work=len(changes) + size // WORK,
        beside=decision.beside + guests.beside,
    )
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


class Guests:
    """What the queues of guests take in one decision, and what they leave out.

    `grown` is what enters other nodes in it: the same accounts may pay for these.
    """

    def __init__(
        self, now: Millis, grown: Iterable[tuple[NodeName, Allowance | None, Growth]] = ()
    ) -> None:
        self._now = now
        self._of_account: dict[Jid, Growth] = {}
        self._of_queue: dict[NodeName, tuple[Node, Growth]] = {}
        self._left_out: dict[NodeName, NoteLeftOut] = {}
        for _, allowance, more in grown:
            self._pay(allowance, more)

    @property
    def bytes(self) -> int:
        """How many bytes they have taken."""
        return sum(more.bytes for _, more in self._of_queue.values())

    @property
    def beside(self) -> tuple[ResumeTrims, ...]:
        """The request that trims queues which drop their oldest items."""
        return (ResumeTrims(),) if self._trimmed() else ()

    def offer(  # an item, and where it comes
        self,
        queue: Node,
        met: Met,
        add: AddItem,
        allowance: Allowance | None,
        *,
        judged: bool = False,
    ) -> list[Change]:
        """Return the changes of an item in a queue: none if it is left out. One that was judged before is not."""
        comes = come(met, add)
        if not comes:
            return comes
        more = growth(comes)
        no = None
        if not judged:
            no = refusal(queue, add.draft) or self._no_room(queue, more, allowance)
        if no is not None:
            known = self._left_out.get(queue.name)
            items = 1 if known is None else known.items + 1
            self._left_out[queue.name] = NoteLeftOut(queue.name, items, self._now, in_words(no))
            return []
        self._of_queue[queue.name] = queue, self._so_far(queue) + more
        self._pay(allowance, more)
        return comes

    def ends(self) -> list[Change]:
        """Return what is noted in the queues themselves: what they have left out, and that they have to be trimmed."""
        return [*self._left_out.values(), *map(BeginTrim, self._trimmed())]

    def _trimmed(self) -> list[NodeName]:
        return [
            queue.name
            for queue, more in self._of_queue.values()
            if truncates(queue.config) and exceeds(queue, more)
        ]

    def _so_far(self, queue: Node) -> Growth:
        return self._of_queue.get(queue.name, (queue, NOTHING))[1]

    def _no_room(self, queue: Node, more: Growth, allowance: Allowance | None) -> Refused | None:
        if is_bounded(queue.config):
            no = full(queue, self._so_far(queue) + more)
            if no is not None:
                return no
        if allowance is None:
            return None
        total = self._of_account.get(allowance.holding.account, NOTHING) + more
        return allowance.refuses(total.items, total.bytes)

    def _pay(self, allowance: Allowance | None, more: Growth) -> None:
        if allowance is not None:
            account = allowance.holding.account
            self._of_account[account] = self._of_account.get(account, NOTHING) + more


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


def too_much(hosts: int, drafts: Sequence[Draft]) -> Refused | None:
    """Refuse more than one commit may add to so many queues, whatever their filters; a publish with fewer items fits."""
    if len(drafts) * hosts > MAX_COPIES:
        reason = f"the node feeds {hosts} queues, so a publish has fewer items"
        return Refused(Refusal.TOO_MANY_ITEMS, reason, limit=MAX_COPIES // hosts)
    size = sum(len(draft.payload) for draft in drafts)
    if size * hosts > MAX_BYTES:
        reason = f"the node feeds {hosts} queues, so a publish has fewer bytes"
        return Refused(Refusal.PAYLOAD_TOO_BIG, reason, limit=MAX_BYTES // hosts)
    return None


def named(no: Refused, queue: Node, topic: Node) -> Refused:
    """Return the refusal with the name of the queue that refuses."""
    return replace(no, reason=f"{topic.name!r} feeds the queue {queue.name!r}: {in_words(no)}")
