"""Questions that end without having been done: the end is reported where the reply is awaited, in the commit that ends them.

A question is an item of a queue that names, in its headers, the node for the reply and the id that the reply is to have
(`Publisher.ask`). A worker publishes the reply. If no worker will, because the item is dead or gone, the service publishes how it
has ended: under the same id, in the name of the item's author and with that account's rights, and only in a node below `replies/`
that belongs to that account. So an item cannot cause a write that its author could not make itself.

A report replaces no item: a worker may have replied before it failed. If a dead question is redriven, the report is withdrawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import GiveUp, RemoveItem, ReplacePayload, Revive
from pubqueue.model.decision import DecidedInParts
from pubqueue.model.entities import DIED_IN, Draft, ItemId, NodeName, State
from pubqueue.model.transactions import Sweep
from pubqueue.rules.access import of_account
from pubqueue.rules.expire import TOO_OLD, Expire
from pubqueue.rules.inspect import LED_PAST
from pubqueue.rules.moving import MoveWinners
from pubqueue.rules.publication import Publish
from pubqueue.rules.seek import SeekItems
from pubqueue.rules.settle import Settle, Verb, finishes
from pubqueue.rules.trimming import ResumeTrims, TrimItems
from pubqueue_xeps.wire.asking import CORRELATION, REPLY_TO, Death
from pubqueue_xeps.wire.ns import PUBQUEUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pubqueue.model.changes import Change
    from pubqueue.model.decision import Decision
    from pubqueue.model.entities import Headers, Item, Jid, Node, Principal

WITHDRAWN: Final = "it was withdrawn"
REPLACED: Final = "another item took its place"
PURGED: Final = "its queue was purged or deleted"

REASONS: Final[dict[type, str]] = {
    Expire: TOO_OLD,
    MoveWinners: REPLACED,
    SeekItems: LED_PAST,
    TrimItems: "its queue was full, and dropped its oldest items",
}
"""Why an item was removed before it was done, by the request that has removed it; any other has withdrawn it."""

ENDINGS: Final = frozenset({GiveUp, RemoveItem, ReplacePayload, Revive})
"""The changes of an item that may end a question, or that redrive it."""

SLICE: Final = 200
"""Up to how many questions of purged queues are ended in one step."""


class Ended(Struct, frozen=True, gc=False):
    """A question that has ended: of which account, where its reply is awaited and under which id, and how it ended.

    With `lives` it had ended, and is redriven.
    """

    author: Jid
    place: NodeName
    reply: ItemId
    death: Death
    lives: bool = False


class EndedFacts(Struct, frozen=True, gc=False):
    """The queue of the question, the node for its reply, and the item that is there under the id of the reply."""

    queue: Node | None
    place: Node | None
    reply: Item | None


def ended(asked: object, changes: Iterable[Change]) -> Iterator[Ended]:
    """Yield the questions that end with these changes, made for a request; a dead one that goes has ended before."""
    for change in changes:
        match change:
            case GiveUp(item=item) if item.dead_letter is None:
                yield from _of(item, change.reason, failures=change.failed)
            case RemoveItem(item=item) if item.dead_letter is None and not _is_done(asked, item):
                yield from _of(item, REASONS.get(type(asked), WITHDRAWN))
            case ReplacePayload(item=item):
                if address(change.headers, change.publisher) != address(
                    item.headers, item.publisher
                ):
                    yield from _of(item, REPLACED)
            case Revive(item=item):
                yield from [replace(one, lives=True) for one in _of(item, "")]
            case Sweep():
                for orphan in change.orphans:
                    if (where := address(orphan.headers, orphan.publisher)) is not None:
                        counts = orphan.acquired, orphan.failed
                        yield Ended(orphan.publisher, *where, Death("", orphan.id, PURGED, *counts))
            case _:  # it ends no item
                pass


def _is_done(asked: object, item: Item) -> bool:
    return item.state is State.DONE or (isinstance(asked, Settle) and finishes(asked, item))


def _of(item: Item, reason: str, *, failures: int | None = None) -> Iterator[Ended]:
    where = address(item.headers, item.publisher)
    if where is not None:
        failed = item.failed if failures is None else failures
        death = Death(item.node, item.id, reason, item.acquired, failed)
        yield Ended(item.publisher, *where, death)


def address(headers: Headers, author: Jid) -> tuple[NodeName, ItemId] | None:
    """Return the node and the id for the reply; None if the author awaits none, or in a node that is not its own."""
    named = dict(headers)
    place, reply = NodeName(named.get(REPLY_TO, "")), ItemId(named.get(CORRELATION, ""))
    return (place, reply) if reply and of_account(place) == author else None


def news(one: Ended, by: Principal, facts: EndedFacts) -> Publish | Settle | None:
    """Return the request that reports how the question has ended, or that withdraws the report; None if none is due. `by` is the author."""
    place, reply, death = facts.place, facts.reply, one.death
    if place is None or (
        death.node and (facts.queue is None or not facts.queue.config.queueing)
    ):  # an item of a plain node is not work: its copies in queues are
        return None
    if one.lives:
        is_ours = reply is not None and DIED_IN in dict(reply.headers)
        if reply is None or not is_ours or reply.publisher != one.author:
            return None
        return Settle(by, place.name, (reply.id,), Verb.RETRACT, seq=reply.seq)
    if reply is not None:
        return None
    headers = (CORRELATION, one.reply), (DIED_IN, death.node or death.id)
    draft = Draft(one.reply, death.written(), headers=headers, type=PUBQUEUE)
    kind = place.config.queueing
    return Publish(by, place.name, (draft,), queueing=kind, only_new=True, guests_follow=True)


def with_news(
    request: object, decision: Decision, told: Sequence[tuple[Publish | Settle, Decision]]
) -> Decision:
    """Return the decision with what was said, which counts as requests of their own; a node that has to be trimmed for it is, later."""
    parts = decision.parts if isinstance(decision, DecidedInParts) else ((request, decision),)
    each = [one for _, one in told]
    trims = (ResumeTrims(),) if any(one.then is not None for one in each) else ()
    return DecidedInParts(
        decision.reply,
        (*decision.changes, *[change for one in each for change in one.changes]),
        (*decision.notices, *[notice for one in each for notice in one.notices]),
        decision.then,
        decision.work + len(told),
        (*decision.beside, *[work for one in each for work in one.beside], *trims),
        (*parts, *told),
    )
