"""Pages of every listing."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pubqueue.app import listings as l
from pubqueue.core.after import has_room
from pubqueue.core.model import State
from pubqueue.core.pages import Shown, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pubqueue.app.rows import AffiliationRow, Contest
    from pubqueue.core.model import Draft, Item, ItemId, Node, NodeName
    from pubqueue.core.pages import Logged
    from pubqueue.core.transactions import Attempt, Record
    from pubqueue.stores.memory.books import Books
    from pubqueue.stores.memory.winners import Choice

    Rows = Iterable[Any]

LAST: Final = 1 << 62
"""Behind every number of an item."""


def page(
    books: Books, choice: Choice | None, which: l.Listing[Any], after: object, limit: int
) -> list[Any]:
    """Return so many rows of the listing behind `after` at most."""
    if isinstance(which, l.Contests | l.AgedEvents):
        return LIMITED[type(which)](books, choice, which, limit)
    if type(which) in OF_WINNERS:
        return list(islice(OF_WINNERS[type(which)](choice, which), limit))
    if isinstance(which, l.Items) and which.newest:
        return _newest(books, which, limit)
    return list(islice(LISTINGS[type(which)](books, which, after), limit))


# --- nodes and those around them -----------------------------------------------------------------


def _nodes(books: Books, _which: l.Nodes, after: NodeName | None) -> Iterator[Node]:
    for name in books.nodes.names.behind(after):
        yield books.nodes.nodes.rows[name].node


def _ready_nodes(books: Books, _which: l.ReadyNodes, after: NodeName | None) -> Iterator[NodeName]:
    for name in books.nodes.names.behind(after):
        folder = books.items.folder(name)
        if (folder.ready or folder.aside) and any(map(has_room, books.nodes.subscribers(name))):
            yield name


def _affiliations_of(books: Books, which: l.AffiliationsOf, after: Any) -> Iterator[AffiliationRow]:  # noqa: ANN401  # a JID
    for account in books.nodes.people(which.node).behind(after):
        yield books.nodes.affiliations.rows[which.node, account]


def _affiliations_of_account(
    books: Books, which: l.AffiliationsOfAccount, after: NodeName | None
) -> Iterator[AffiliationRow]:
    for node in books.nodes.places(which.account).behind(after):
        yield books.nodes.affiliations.rows[node, which.account]


def _tallies(books: Books, which: l.Tallies, _after: object) -> Iterator[Tally]:
    for name in which.nodes:
        node = books.nodes.node(name)
        if node is not None:
            yield _tally(books, node)


def _tally(books: Books, node: Node) -> Tally:
    folder = books.items.folder(node.name)
    free = sum(
        max(0, one.queue_requests - one.in_flight)
        for one in books.nodes.subscribers(node.name)
        if one.available
    )
    first = min((seq for _, seq in folder.ready), default=None)
    oldest = None if first is None else books.items.items.rows[first].published
    return Tally(
        node,
        queued=folder.counts[State.QUEUED],
        locked=folder.counts[State.LOCKED],
        delayed=folder.counts[State.DELAYED],
        dead=folder.counts[State.DEAD],
        window_free=free,
        oldest=oldest,
    )


# --- items ---------------------------------------------------------------------------------------


def _item_ids(books: Books, which: l.ItemIds, after: int | None) -> Iterator[ItemId]:
    for seq in books.items.folder(which.node).seqs.behind(after):
        yield books.items.items.rows[seq].id


def _items(books: Books, which: l.Items, after: int | None) -> Iterator[tuple[Item, bytes]]:
    if which.holders is None:
        for seq in books.items.folder(which.node).seqs.behind(after):
            yield books.items.with_payload(seq)
        return
    for seq in _held(books, which):
        if after is None or seq > after:
            yield books.items.with_payload(seq)


def _held(books: Books, which: l.Items) -> list[int]:
    holders = set(which.holders or ())
    held = (item for holder in holders for item in books.items.held(holder))
    return sorted(item.seq for item in held if item.node == which.node)


def _newest(books: Books, which: l.Items, limit: int) -> list[tuple[Item, bytes]]:
    seqs: Iterable[int] = reversed(books.items.folder(which.node).seqs)
    if which.holders is not None:
        seqs = reversed(_held(books, which))
    return [books.items.with_payload(seq) for seq in reversed(list(islice(seqs, limit)))]


def _dead_items(books: Books, which: l.DeadItems, after: int | None) -> Iterator[Item]:
    for seq in books.items.folder(which.node).dead.behind(after):
        yield books.items.items.rows[seq]


def _late_locks(books: Books, which: l.LateLocks, _after: object) -> Iterator[Item]:
    for _, seq in books.items.locks.behind((which.moment, LAST)):
        item = books.items.items.rows[seq]
        if item.node == which.node:
            yield item


def _shown_items(books: Books, which: l.ShownItems, after: int | None) -> Iterator[Shown]:
    used = 0
    for at, item in enumerate(_in_pages(books, which, after)):
        payload = books.items.payloads.rows[item.seq]
        used += len(payload) if which.payloads else 0
        if at and used > which.room:
            return
        yield Shown(item, len(payload), payload if which.payloads else None)


def _in_pages(books: Books, which: l.ShownItems, after: int | None) -> Iterator[Item]:
    folder, rows = books.items.folder(which.node), books.items.items.rows
    if which.state is State.DEAD:
        for number, seq in folder.deaths.behind(None if after is None else (after, LAST)):
            if number > which.until:
                return
            yield rows[seq]
        return
    for seq in folder.seqs.behind(after):
        if seq > which.until:
            return
        if which.state in {None, rows[seq].state}:
            yield rows[seq]


def _newest_item(books: Books, which: l.NewestItem, _after: object) -> Iterator[int]:
    folder = books.items.folder(which.node)
    if not which.dead:
        yield folder.seqs.last() or 0
    else:
        last = folder.deaths.last()
        yield 0 if last is None else last[0]


# --- the event log -------------------------------------------------------------------------------


def _events(books: Books, which: l.Events, after: int | None) -> Iterator[Logged]:
    wanted = None if which.nodes is None else set(which.nodes)
    for logged, number in books.log.between(after or 0, which.until):
        name = books.nodes.by_number.get(number)
        if name is not None and (wanted is None or name in wanted):
            yield logged


def _log_ends(books: Books, _which: l.LogEnds, _after: object) -> Iterator[tuple[int, int]]:
    yield books.log.ends()


def _aged_events(books: Books, _choice: object, which: l.AgedEvents, limit: int) -> list[int]:
    found = books.log.aged(which.before, limit)
    return [] if found is None else [found]


# --- transactions --------------------------------------------------------------------------------


def _records(books: Books, which: l.Records, after: int | None) -> Iterator[Record]:
    for record in books.staging.listed(waiting=which.waiting, after=after):
        if which.app in {None, record.app} and which.owner in {None, record.owner}:
            yield record


def _record_of(books: Books, which: l.RecordOf, _after: object) -> Iterator[Record]:
    record = books.staging.record_of((which.app, which.version))
    if record is not None:
        yield record


def _litter(books: Books, which: l.Litter, _after: object) -> Iterator[bool]:
    staging = books.staging
    oldest = staging.committed.first()
    old = oldest is not None and oldest[0] < which.before
    yield bool(staging.dropped.rows) or old or bool(staging.idle(which.before))


def _attempts_of(books: Books, which: l.AttemptsOf, _after: object) -> Iterator[Attempt]:
    for one in books.staging.attempts_of((which.app, which.version)):
        yield one.attempt


def _contests(_books: Books, choice: Choice, which: l.Contests, limit: int) -> list[Contest]:
    return choice.contests(which.node, which.absorbing, limit)


def _winning_drafts(choice: Choice, which: l.WinningDrafts) -> list[Draft]:
    return choice.drafts(which.node)


# fmt: off
LISTINGS: Final[dict[type, Callable[[Books, Any, Any], Rows]]] = {
    l.Nodes:                 _nodes,
    l.ReadyNodes:            _ready_nodes,
    l.AffiliationsOf:        _affiliations_of,
    l.AffiliationsOfAccount: _affiliations_of_account,
    l.Tallies:               _tallies,
    l.ItemIds:               _item_ids,
    l.Items:                 _items,
    l.DeadItems:             _dead_items,
    l.LateLocks:             _late_locks,
    l.ShownItems:            _shown_items,
    l.NewestItem:            _newest_item,
    l.Events:                _events,
    l.LogEnds:               _log_ends,
    l.Records:               _records,
    l.RecordOf:              _record_of,
    l.Litter:                _litter,
    l.AttemptsOf:            _attempts_of,
}

LIMITED: Final[dict[type, Callable[[Books, Any, Any, int], list[Any]]]] = {
    l.AgedEvents: _aged_events,
    l.Contests:   _contests,
}
"""Those to which the limit is more than a number of rows."""

OF_WINNERS: Final[dict[type, Callable[[Any, Any], Rows]]] = {
    l.Winners:       lambda choice, _which: choice.meet(),
    l.NotedWinners:  lambda choice, _which: [choice.noted()],
    l.WinnerClasses: lambda choice, which: choice.classes(which.node),
    l.WinningDrafts: _winning_drafts,
}
# fmt: on
