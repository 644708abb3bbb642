"""Publish to a node (XEP-0060 7.1, with the queue's rules of idempotence), in one commit or in slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import BeginTrim, Change, CreateNode, DropRow, PutRow
from pubqueue.model.decision import Decision, Done, Published, Refusal, Refused, Request, refuse
from pubqueue.model.entities import Affiliation, NodeFull, State
from pubqueue.model.records import (
    FedMessage,
    Feeding,
    MarkedPublish,
    marked,
    name_of_message,
    weight,
    written,
)
from pubqueue.rules import access, filters, joins, trimming
from pubqueue.rules.access import Action, AutoCreation
from pubqueue.rules.feed import Guests, fed_on, named, refusal, too_much
from pubqueue.rules.nodeconfig import Settings, agrees
from pubqueue.rules.nodes import make_node
from pubqueue.rules.publication import (
    PLACES,
    TAKEN,
    Known,
    Place,
    Publish,
    PublishFacts,
    misfit,
    new_item,
    placed,
)
from pubqueue.rules.publish_keys import publish_with_key
from pubqueue.rules.room import (
    Growth,
    full,
    growth,
    growth_by,
    is_bounded,
    never_fits,
    overdrawn_of_each,
)
from pubqueue.rules.trimming import TrimItems, exceeds, truncated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import (
        Draft,
        Item,
        ItemId,
        Millis,
        Node,
        NodeConfig,
        NodeName,
        Principal,
    )
    from pubqueue.rules.publication import Met
    from pubqueue.rules.room import Allowance


# Publish to a node (XEP-0060 7.1, with the queue's rules of idempotence).

OF_QUEUES: Final = "delay, priority, group, hold and joins apply only to queues"
"""A group also to a node that only passes items on, to the queues that it feeds."""

ANOTHER: Final = "there is another item {}"


def publish_at_once(request: Publish, facts: PublishFacts) -> Decision:
    """Decide a publish. The items count as published only once the changes are committed."""
    if request.key is not None:
        return publish_with_key(publish_at_once, request, facts)
    decision = publish_alone(request, facts)
    if facts.node is None:
        return decision
    if facts.node.config.feeds:
        return _followed(request, facts, fed_on(request, facts, facts.node, decision))
    if facts.allowance is None:
        return decision
    more = growth(decision.changes)
    no = facts.allowance.refuses(more.items, more.bytes)
    return decision if no is None else Decision(no)


def publish_alone(request: Publish, facts: PublishFacts) -> Decision:
    """Decide a publish without a key, and without the queues that the node feeds."""
    node = facts.node
    if node is None:
        return _publish_anew(request, facts)
    if (no := inadmissible(request, facts, node)) is not None:
        return no
    if not node.config.queueing:
        return _publish_plainly(request, facts, node)
    if not request.drafts:
        return refuse(Refusal.ITEM_REQUIRED)
    for draft in request.drafts:  # without a call: hardly any waits, or is waited for
        if draft.hold is not None or draft.joins is not None:
            numbers = joins.admitted(request, facts)
            if isinstance(numbers, Refused):
                return Decision(numbers)
            return _publish_to_queue(request, facts, node, numbers)
    return _publish_to_queue(request, facts, node, {})


def _publish_to_queue(
    request: Publish, facts: PublishFacts, node: Node, numbers: Mapping[ItemId, int]
) -> Decision:
    """Put the items in their places in a queue; `numbers` are those of the joins of its members."""
    changes: list[Change] = []
    left: list[ItemId] = []
    replaced: list[ItemId] = []
    for draft, (known, item) in zip(request.drafts, facts.existing, strict=True):
        add = new_item(draft, node, request.by.account, facts.now)
        if numbers and draft.id in numbers:
            add = replace(add, joins=numbers[draft.id])
        place = PLACES[known, None if item is None else item.state]
        if place in TAKEN:
            refusal, words = TAKEN[place]
            return refuse(refusal, words.format(draft.id))
        if place is Place.LEAVE:
            left.append(draft.id)
        elif place is Place.REPLACE:
            replaced.append(draft.id)
        changes += placed(place, item, add)
    if facts.joins:
        changes += joins.closings(request.drafts, request.by, facts.joins)
    bounded = node.config.max_items or node.config.max_bytes
    if bounded and (no_room := full(node, growth(changes))) is not None:
        return Decision(no_room)
    ids = tuple([draft.id for draft in request.drafts])
    dead = _dead(facts) if left else ()
    reply = Published(node.name, ids, dead, tuple(left), replaced=tuple(replaced))
    done = Decision(reply, tuple(changes))
    return truncated([(node, growth(changes))], done) if bounded else done


def _unmet(request: Publish, facts: PublishFacts, node: Node) -> Decision | None:
    """Refuse a publish that is for nodes of the other kind, or that would replace an item and must not."""
    if request.queueing is not None and request.queueing is not node.config.queueing:
        return refuse(Refusal.NODE_NOT_FOUND)
    if not request.only_new:
        return None
    for draft, (known, item) in zip(request.drafts, facts.existing, strict=True):
        state = None if item is None else item.state
        replaces = PLACES[known, state] is Place.REPLACE if node.config.queueing else item
        if replaces:
            return refuse(Refusal.PRECONDITION_NOT_MET, ANOTHER.format(draft.id))
    return None


def _publish_plainly(request: Publish, facts: PublishFacts, node: Node) -> Decision:
    if bool(request.drafts) is not node.config.keeps:  # XEP-0060 7.1.3.7
        return refuse(Refusal.ITEM_REQUIRED if node.config.keeps else Refusal.ITEM_FORBIDDEN)
    if _rejects(node.config):
        replaced = (item for _, item in facts.existing if item is not None)
        if (no_room := full(node, growth_by(request.drafts, replaced))) is not None:
            return Decision(no_room)
    drafts = [replace(one, group="") if one.group else one for one in request.drafts]
    adds = [new_item(draft, node, request.by.account, facts.now) for draft in drafts]
    done = trimming.publish(request, facts, node, adds)
    return done if node.config.max_bytes is None else _trimmed(node, done)


def _trimmed(node: Node, done: Decision) -> Decision:
    """Have more of the oldest items dropped, a slice at a time, if many small ones make room for a large one."""
    if not exceeds(node, growth(done.changes)):
        return done
    then = TrimItems(node.name, done.reply)
    return replace(done, changes=(*done.changes, BeginTrim(node.name)), then=then)


def _rejects(config: NodeConfig) -> bool:
    """Return whether a full plain node refuses items; others drop their oldest ones."""
    rejects = config.publish_node_full is NodeFull.REJECT and config.persist_items
    return rejects and is_bounded(config)


def _publish_anew(request: Publish, facts: PublishFacts) -> Decision:
    """Create the node of the publish, if the service's settings allow it (XEP-0060 7.1.4)."""
    wanted = request.options
    if request.queueing is not None:
        return refuse(Refusal.NODE_NOT_FOUND)
    makes = facts.creation is AutoCreation.ALWAYS or (
        facts.creation is AutoCreation.WITH_OPTIONS and wanted is not None
    )
    if not makes or not access.may_create(request.by, facts.policy):
        return refuse(Refusal.NODE_NOT_FOUND)
    no = access.taken(request.by, request.node)
    if no is None and facts.allowance is not None:
        no = facts.allowance.refuses_node()
    if no is not None:
        return Decision(no)
    people = {request.by.account: Affiliation.OWNER}
    settings = wanted or Settings()
    made = make_node(request.node, settings, request.by, facts.now, people, facts.others)
    if isinstance(made.reply, Refused):
        return Decision(replace(made.reply, refusal=Refusal.PRECONDITION_NOT_MET))
    node = next(change.node for change in made.changes if isinstance(change, CreateNode))
    done = publish_at_once(
        replace(request, options=None),
        replace(
            facts,
            node=node,
            affiliation=Affiliation.OWNER,
            existing=((Known.NEW, None),) * len(request.drafts),
        ),
    )
    if isinstance(done.reply, Refused):
        return done
    return replace(done, changes=made.changes + done.changes)


def _dead(facts: PublishFacts) -> tuple[Item, ...]:
    """Return those that exist, but are dead. Their last holder is not the publisher's business."""
    return tuple(
        [
            replace(item, dead_letter=replace(item.dead_letter, holder=None))
            for _, item in facts.existing
            if item is not None and item.state is State.DEAD and item.dead_letter is not None
        ]
    )


def inadmissible(request: Publish, facts: PublishFacts, node: Node) -> Decision | None:
    """Refuse what can be judged without looking at other items, unless the request requires one: no right, too many, too large."""
    if (
        no := _closed(request.by, facts.affiliation, node, subscribed=facts.subscribed)
    ) is not None:
        return no
    if not node.config.queueing and any(_is_of_queues(d, node) for d in request.drafts):
        return refuse(Refusal.BAD_REQUEST, OF_QUEUES)
    options = request.options
    if options is not None and (unmet := agrees(node.config, options)) is not None:
        return Decision(unmet)
    bounded = node.config.max_items or node.config.max_bytes  # for each item: without a call
    if bounded and (never := never_fits(node.config, request.drafts)) is not None:
        return Decision(never)
    for draft in request.drafts:
        unfit = misfit(len(draft.payload), draft.type, draft.headers, node.config)
        if unfit is not None:
            return Decision(unfit)
    is_demanding = request.only_new or request.queueing is not None
    return _unmet(request, facts, node) if is_demanding else None


def turned_away(  # noqa: PLR0917  # who, what that is to the node, and what is to go there
    by: Principal,
    affiliation: Affiliation,
    node: Node,
    item: Item,
    size: int,
    space: str,
    *,
    subscribed: bool,
) -> Refused | None:
    """Return why a publish by this account would be refused for an item of another node; None if it would not.

    `size` and `space` are the bytes and the namespace of its payload. Whether there is room, and whether the
    id is taken, is not judged.
    """
    if (no := _closed(by, affiliation, node, subscribed=subscribed)) is not None:
        return no.reply if isinstance(no.reply, Refused) else None
    of_queues = item.priority or item.group
    if of_queues and not node.config.queueing and node.config.persist_items:
        return Refused(Refusal.BAD_REQUEST, OF_QUEUES)
    return misfit(size, space, item.headers, node.config)


def _is_of_queues(draft: Draft, node: Node) -> bool:
    """Return whether a draft has options that mean nothing in a plain node; a group has a meaning in the queues that a transient node feeds."""
    waits = draft.hold is not None or draft.joins is not None
    in_group = draft.group and node.config.persist_items
    return bool(draft.delay or draft.priority or in_group or waits)


def _closed(
    by: Principal, affiliation: Affiliation, node: Node, *, subscribed: bool
) -> Decision | None:
    """Refuse a publisher without the right, or any publisher at this time."""
    standing = access.standing_of(by, affiliation)
    if not access.may(standing, Action.PUBLISH, node, subscribed=subscribed):
        return refuse(Refusal.FORBIDDEN)
    if node.config.publish_paused:
        return refuse(Refusal.PUBLISH_PAUSED, "publishing to this node is paused")
    return None


# A publish that feeds more copies than one commit may add, in slices (decision 114).
#
# First the queues that may refuse it are judged, some at a time, as any publish to them is; a refusal of one refuses the whole publish,
# and nothing was changed. Then one small write decides the publish: it is marked with the queues that it is for, and its messages are
# kept once. From then on it is done whatever happens, and the copies are made in slices. The publisher is answered after the last one.
#
# The queues of guests have a mark of their own. Nobody waits for their copies, and each is judged when it is made.

SLICE: Final = 500
ROOM: Final = 1 << 20
"""Copies, and bytes of their payloads, that are made in one slice; at least one copy."""

JUDGED: Final = 5_000
"""Copies that are judged in one slice: whether the filter of the queue admits them, and the queue accepts them."""


class LookAtFed(Request, frozen=True, gc=False):
    """Judge the publish in the next queues that its node feeds, behind the first `looked` ones; `grown` is what comes into these."""

    publish: Publish
    looked: int = 0
    grown: tuple[tuple[NodeName, Growth], ...] = ()


class LookFacts(Struct, frozen=True, gc=False):
    """The node, and the next queues that it feeds and that may refuse it; `ends` if there are no more after these."""

    node: Node | None
    queues: tuple[Node, ...]
    looked: int
    ends: bool


class MarkPublish(Request, frozen=True, gc=False):
    """Decide a publish whose queues were judged."""

    publish: Publish
    grown: tuple[tuple[NodeName, Growth], ...]


class MarkFacts(Struct, frozen=True, gc=False):
    """What a publish has to know, a mark that no other publish has, and the queues that may refuse it, with the allowances of their creators."""

    publish: PublishFacts
    mark: str
    allowances: Mapping[NodeName, Allowance | None]


class FeedSlice(Request, frozen=True, gc=False):
    """Make the next copies of a marked publish; the publisher is sent `reply` after the last ones."""

    mark: str
    reply: Reply | None = None


class Copy(Struct, frozen=True, gc=False):
    """A message, one of its queues, and what this knows of its id."""

    draft: Draft
    queue: Node
    met: Met
    allowance: Allowance | None = None


class SliceFacts(Struct, frozen=True, gc=False):
    """The row of the mark, None if all copies are made; the next copies, and the number of the one after them."""

    now: Millis
    row: Feeding | None
    copies: tuple[Copy, ...] = ()
    place: int = 0


class ResumeFeeding(Request, frozen=True, gc=False):
    """Make the copies that a process has left."""


class ResumeFacts(Struct, frozen=True, gc=False):
    """The oldest mark of which copies are missing."""

    mark: str | None


def publish(request: Publish, facts: PublishFacts) -> Decision:
    """Decide a publish; if it feeds more copies than one commit may add, go on with a look at the queues."""
    done = publish_at_once(request, facts)
    node = facts.node
    if node is None or not node.config.feeds or not isinstance(done.reply, Refused):
        return done
    if done.reply != too_much(facts.hosts, request.drafts):
        return done
    return replace(done, then=LookAtFed(request))


def look(request: LookAtFed, facts: LookFacts) -> Decision:
    """Judge the publish in these queues."""
    node, drafts = facts.node, request.publish.drafts
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    offered = [(draft, filters.indexed(draft.headers)) for draft in drafts]
    grown = list(request.grown)
    for queue in facts.queues:
        comes = [
            draft for draft, headers in offered if filters.admits(queue.config.filter, headers)
        ]
        for draft in comes:
            if (no := refusal(queue, draft)) is not None:
                return Decision(named(no, queue, node))
        more = Growth(len(comes), sum(weight(one.payload, one.headers) for one in comes))
        if is_bounded(queue.config) and (no := full(queue, more)) is not None:
            return Decision(named(no, queue, node))
        grown.append((queue.name, more))
    stopped = Refused(Refusal.STORE_FAILED, "the service stopped before the publish was decided")
    if facts.ends:
        return Decision(stopped, then=MarkPublish(request.publish, tuple(grown)))
    return Decision(stopped, then=LookAtFed(request.publish, facts.looked, tuple(grown)))


def mark(request: MarkPublish, facts: MarkFacts) -> Decision:
    """Decide the publish: from the commit of this on it is done."""

    def rule(wanted: Publish, known: PublishFacts) -> Decision:
        return _marked(wanted, known, request, facts)

    return publish_with_key(rule, request.publish, facts.publish)


def _marked(
    wanted: Publish, known: PublishFacts, request: MarkPublish, facts: MarkFacts
) -> Decision:
    done, node = publish_alone(wanted, known), known.node
    if node is None or isinstance(done.reply, Refused):
        return done
    grown = [(node.name, known.allowance, growth(done.changes))]
    grown += [(name, facts.allowances.get(name), more) for name, more in request.grown]
    if (over := overdrawn_of_each(grown)) is not None:
        return Decision(over[1])
    done = _followed(wanted, known, done)
    if not facts.allowances:
        return done
    queues = tuple(facts.allowances)
    what = MarkedPublish(wanted.by.account, known.now, len(wanted.drafts), queues)
    changes = (*done.changes, *_rows_of(facts.mark, what, wanted.drafts))
    return replace(done, changes=changes, then=FeedSlice(facts.mark, done.reply))


def _followed(request: Publish, facts: PublishFacts, done: Decision) -> Decision:
    """Have the items enter the queues of guests after the commit, if they are too many for it."""
    if not facts.followers or isinstance(done.reply, Refused):
        return done
    account, many = request.by.account, len(request.drafts)
    what = MarkedPublish(account, facts.now, many, facts.followers, guests=True)
    changes = (*done.changes, *_rows_of(facts.mark, what, request.drafts))
    return replace(done, changes=changes, beside=(*done.beside, ResumeFeeding()))


def _rows_of(mark: str, what: MarkedPublish, drafts: Iterable[Draft]) -> Iterator[PutRow]:
    """Return the row of a mark, and those of its messages."""
    yield PutRow(Feeding(mark, 0, written(what)))
    for number, draft in enumerate(drafts):
        yield PutRow(FedMessage(name_of_message(mark, number), written(draft)))


def feed(request: FeedSlice, facts: SliceFacts) -> Decision:
    """Make a slice of copies."""
    row = facts.row
    if row is None:  # another process has made the last ones
        return Decision(request.reply or Done(), then=None if request.reply else ResumeFeeding())
    what = marked(row)
    guests, changes = Guests(facts.now), list[Change]()
    for copy in facts.copies:
        add = new_item(copy.draft, copy.queue, what.account, what.at)
        changes += guests.offer(copy.queue, copy.met, add, copy.allowance, judged=not what.guests)
    changes += [*guests.ends(), *_moved(row, what, facts.place)]
    then: Request | None = request
    if facts.place >= what.copies:
        then = None if request.reply else ResumeFeeding()
    reply = request.reply or Done()
    return Decision(reply, tuple(changes), then=then, beside=guests.beside)


def _moved(row: Feeding, what: MarkedPublish, place: int) -> list[Change]:
    """Note which copies are made; the messages go of which all are, and the mark with the last one."""
    width = len(what.queues)
    first, last = row.place // width, min(place // width, what.messages)
    names = [name_of_message(row.mark, number) for number in range(first, last)]
    gone = [DropRow(FedMessage, name) for name in names]
    is_last = place >= what.copies
    return [*gone, DropRow(Feeding, row.mark) if is_last else PutRow(replace(row, place=place))]


def resume(_request: ResumeFeeding, facts: ResumeFacts) -> Decision:
    """Go on with the oldest publish of which copies are missing."""
    return Decision(Done(), then=None if facts.mark is None else FeedSlice(facts.mark))
