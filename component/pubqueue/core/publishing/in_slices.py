"""A publish that feeds more copies than one commit may add, in slices (decision 114).

First its queues are judged, some at a time, as any publish to them is; a refusal of one refuses the whole publish, and nothing was
changed. Then one small write decides the publish: it is marked with the queues that it is for, and its messages are kept once. From
then on it is done whatever happens, and the copies are made in slices. The publisher is answered after the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.changes import BeginTrim, DropRow, PutRow
from pubqueue.core.decision import Decision, Done, Refusal, Refused, refuse
from pubqueue.core.limits.allowance import overdrawn_of_each
from pubqueue.core.limits.quotas import weight
from pubqueue.core.nodes.room import Growth, full, growth, is_bounded
from pubqueue.core.nodes.trimming import exceeds
from pubqueue.core.publishing import filters
from pubqueue.core.publishing.feeding import come, named, refusal, too_much
from pubqueue.core.publishing.marked import (
    FedMessage,
    Feeding,
    MarkedPublish,
    marked,
    name_of_message,
    written,
)
from pubqueue.core.publishing.once import once
from pubqueue.core.publishing.places import new_item
from pubqueue.core.publishing.truncation import truncates
from pubqueue.core.queue.publish import publish as publish_at_once
from pubqueue.core.queue.publish import publish_alone

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.core.changes import Change
    from pubqueue.core.decision import Reply
    from pubqueue.core.limits.allowance import Allowance
    from pubqueue.core.model import Draft, Node, NodeName
    from pubqueue.core.queue.publication import Met, Publish, PublishFacts

SLICE: Final = 500
ROOM: Final = 1 << 20
"""Copies, and bytes of their payloads, that are made in one slice; at least one copy."""

JUDGED: Final = 5_000
"""Copies that are judged in one slice: whether the filter of the queue admits them, and the queue accepts them."""


class LookAtFed(Struct, frozen=True, gc=False):
    """Judge the publish in the next queues that its node feeds, behind the first `looked` ones; `grown` is what comes into these."""

    publish: Publish
    looked: int = 0
    grown: tuple[tuple[NodeName, Growth], ...] = ()


class LookFacts(Struct, frozen=True, gc=False):
    """The node, and the next queues that it feeds; `ends` if there are no more after these."""

    node: Node | None
    queues: tuple[Node, ...]
    looked: int
    ends: bool


class MarkPublish(Struct, frozen=True, gc=False):
    """Decide a publish whose queues were judged."""

    publish: Publish
    grown: tuple[tuple[NodeName, Growth], ...]


class MarkFacts(Struct, frozen=True, gc=False):
    """What a publish has to know, a mark that no other publish has, and the allowances of the accounts that have made the queues."""

    publish: PublishFacts
    mark: str
    allowances: Mapping[NodeName, Allowance | None]


class FeedSlice(Struct, frozen=True, gc=False):
    """Make the next copies of a marked publish; the publisher is sent `reply` after the last ones."""

    mark: str
    reply: Reply | None = None


class Copy(Struct, frozen=True, gc=False):
    """A message, one of its queues, and what this knows of its id."""

    draft: Draft
    queue: Node
    met: Met


class SliceFacts(Struct, frozen=True, gc=False):
    """The row of the mark, None if all copies are made; the next copies, and the number of the one after them."""

    row: Feeding | None
    copies: tuple[Copy, ...] = ()
    place: int = 0


class ResumeFeeding(Struct, frozen=True, gc=False):
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
    if done.reply != too_much(node, request.drafts):
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

    return once(rule, request.publish, facts.publish)


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
    queues = tuple([feed.queue for feed in node.config.feeds])
    if not queues:
        return done
    what = MarkedPublish(wanted.by.account, known.now, len(wanted.drafts), queues)
    row = Feeding(facts.mark, 0, written(what))
    messages = [
        PutRow(FedMessage(name_of_message(facts.mark, number), written(draft)))
        for number, draft in enumerate(wanted.drafts)
    ]
    changes = (*done.changes, PutRow(row), *messages)
    return replace(done, changes=changes, then=FeedSlice(row.mark, done.reply))


def feed(request: FeedSlice, facts: SliceFacts) -> Decision:
    """Make a slice of copies."""
    row = facts.row
    if row is None:  # another process has made the last ones
        return Decision(request.reply or Done(), then=None if request.reply else ResumeFeeding())
    what = marked(row)
    changes: list[Change] = []
    grown: dict[NodeName, tuple[Node, Growth]] = {}
    for copy in facts.copies:
        comes = come(copy.met, new_item(copy.draft, copy.queue, what.account, what.at))
        _, before = grown.get(copy.queue.name, (copy.queue, Growth()))
        grown[copy.queue.name] = copy.queue, before + growth(comes)
        changes += comes
    changes += _too_large(grown.values())
    changes += _moved(row, what, facts.place)
    if facts.place >= what.copies:
        then = None if request.reply else ResumeFeeding()
        return Decision(request.reply or Done(), tuple(changes), then=then)
    return Decision(request.reply or Done(), tuple(changes), then=request)


def _too_large(grown: Iterable[tuple[Node, Growth]]) -> list[Change]:
    """Have the queues trimmed that become too large by it and drop their oldest items; the reaper does it."""
    return [
        BeginTrim(queue.name)
        for queue, more in grown
        if truncates(queue.config) and exceeds(queue, more)
    ]


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
