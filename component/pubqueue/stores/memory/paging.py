"""Pages of every listing."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pubqueue.app import listings as l
from pubqueue.core.model import Subscription
from pubqueue.core.several import counted
from pubqueue.stores.memory import item_pages, moving, node_pages, samples, schedules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pubqueue.app.rows import Contest
    from pubqueue.core.model import Draft, Item
    from pubqueue.core.reading.pages import EventEntry
    from pubqueue.core.transactions.model import Attempt, Record
    from pubqueue.stores.memory.contents import Contents
    from pubqueue.stores.memory.winners import Choice

    Rows = Iterable[Any]


def page(
    contents: Contents, choice: Choice | None, which: l.Listing[Any], after: object, limit: int
) -> list[Any]:
    """Return so many rows of the listing behind `after` at most."""
    if type(which) in LIMITED:
        return LIMITED[type(which)](contents, choice, which, limit)
    if type(which) in OF_WINNERS:
        return list(islice(OF_WINNERS[type(which)](choice, which), limit))
    if isinstance(which, l.Items) and which.newest:
        return item_pages.newest(contents, which, after, limit)
    if isinstance(which, l.Stride):
        return item_pages.stride(contents, which, after, limit)
    if isinstance(which, l.Counted):
        return node_pages.counted(contents, which, after, limit)
    return list(islice(LISTINGS[type(which)](contents, which, after), limit))


def _backward(contents: Contents, which: l.Backward[Any], after: Any) -> Iterator[Any]:  # noqa: ANN401  # a place of that listing
    nodes = contents.nodes
    match which.of:
        case l.Nodes() as some:
            return node_pages.such_nodes(contents, some, nodes.names.in_front_of(after))
        case l.NodesOfAccount() as mine:
            names = nodes.places(mine.account).in_front_of(after)
            return node_pages.such_places(contents, mine, names)
        case l.AffiliationsOf() as people:
            accounts = nodes.people(people.node).in_front_of(after)
            return node_pages.such_people(contents, people, accounts)
        case l.SubscriptionsOf() as some:
            jids = nodes.standing(some.node, some.state).in_front_of(after)
            return node_pages.subscriptions(contents, some, jids)
        case l.SubscriptionsOfAccount() as mine:
            every = reversed(list(node_pages.subscriptions_of_account(contents, mine, None)))
            return (one for one in every if after is None or (one.node, one.jid) < after)
        case l.ItemIds(node=node):
            folder, items = contents.items.folder(node), contents.items.items.rows
            return (items[seq].id for seq in folder.seqs.in_front_of(after))
        case other:
            raise TypeError(f"{type(other).__name__} is not paged backward")


def _total(contents: Contents, which: l.Total, _after: object) -> Iterator[int]:
    found = LISTINGS[type(which.of)](contents, which.of, None)
    yield sum(counted([one]) if isinstance(one, Subscription) else 1 for one in found)


# --- the event log -------------------------------------------------------------------------------


def _events(contents: Contents, which: l.Events, after: int | None) -> Iterator[EventEntry]:
    wanted = None if which.nodes is None else set(which.nodes)
    people = contents.nodes.affiliations.rows
    for logged, number in contents.log.between(after or 0, which.until):
        name = contents.nodes.by_number.get(number)
        if name is None or (wanted is not None and name not in wanted):
            continue
        if which.account is not None:
            row = people.get((name, which.account))
            if row is None or row.affiliation not in which.roles:
                continue
        yield logged


def _log_ends(contents: Contents, _which: l.LogEnds, _after: object) -> Iterator[tuple[int, int]]:
    yield contents.log.ends()


def _aged_events(contents: Contents, _choice: object, which: l.AgedEvents, limit: int) -> list[int]:
    found = contents.log.aged(which.before, limit)
    return [] if found is None else [found]


# --- transactions --------------------------------------------------------------------------------


def _records(contents: Contents, which: l.Records, after: int | None) -> Iterator[Record]:
    for record in contents.staging.listed(waiting=which.waiting, after=after):
        if which.app in {None, record.app} and which.owner in {None, record.owner}:
            yield record


def _record_of(contents: Contents, which: l.RecordOf, _after: object) -> Iterator[Record]:
    record = contents.staging.record_of((which.app, which.version))
    if record is not None:
        yield record


def _sweepable(contents: Contents, which: l.Sweepable, _after: object) -> Iterator[bool]:
    staging = contents.staging
    oldest = staging.committed.first()
    old = oldest is not None and oldest[0] < which.before
    yield bool(staging.dropped.rows) or old or bool(staging.idle(which.before))


def _forgettable(
    contents: Contents, _choice: object, which: l.Forgettable, limit: int
) -> list[int]:
    return [len(contents.items.outdated(which.now, limit))]


def _group_lines(
    contents: Contents, _choice: object, which: l.GroupLines, limit: int
) -> list[Item]:
    return item_pages.group_lines(contents, which, None, limit)


def _attempts_of(contents: Contents, which: l.AttemptsOf, _after: object) -> Iterator[Attempt]:
    for one in contents.staging.attempts_of((which.app, which.version)):
        yield one.attempt


def _contests(_contents: Contents, choice: Choice, which: l.Contests, limit: int) -> list[Contest]:
    return choice.contests(which.node, which.absorbing, limit)


def _winning_drafts(choice: Choice, which: l.WinningDrafts) -> list[Draft]:
    return choice.drafts(which.node)


# fmt: off
LISTINGS: Final[dict[type, Callable[[Contents, Any, Any], Rows]]] = {
    **node_pages.LISTINGS,
    **item_pages.LISTINGS,
    **schedules.LISTINGS,
    **samples.LISTINGS,
    l.Total:                 _total,
    l.Backward:              _backward,
    l.Events:                _events,
    l.LogEnds:               _log_ends,
    l.Records:               _records,
    l.RecordOf:              _record_of,
    l.Sweepable:             _sweepable,
    l.AttemptsOf:            _attempts_of,
    l.WinnerRows:            moving.winner_rows,
    l.Unmoved:               moving.unmoved,
}

LIMITED: Final[dict[type, Callable[[Contents, Any, Any, int], list[Any]]]] = {
    l.AgedEvents:  _aged_events,
    l.Contests:    _contests,
    l.Forgettable: _forgettable,
    l.GroupLines:  _group_lines,
}
"""Those to which the limit is more than a number of rows."""

OF_WINNERS: Final[dict[type, Callable[[Any, Any], Rows]]] = {
    l.Winners:       lambda choice, _which: choice.meet(),
    l.WinnerClasses: lambda choice, which: choice.classes(which.node),
    l.TakenWinners:  lambda choice, which: choice.taken(which.node),
    l.WinningDrafts: _winning_drafts,
}
# fmt: on
