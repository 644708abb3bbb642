"""Pages of nodes and of those around them."""

from __future__ import annotations

from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from pubqueue.app import listings as l
from pubqueue.core.addresses import account_of
from pubqueue.core.after import has_room
from pubqueue.core.model import Affiliation, State
from pubqueue.core.queue.dispatch import place
from pubqueue.core.reading.pages import NodeEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pubqueue.app.rows import AffiliationRow, Rank
    from pubqueue.core.model import (
        Jid,
        Node,
        NodeName,
        Subscription,
        SubscriptionState,
    )
    from pubqueue.stores.memory.contents import Contents

    Rows = Iterable[Any]


def _nodes(contents: Contents, which: l.Nodes, after: NodeName | None) -> Iterator[Node]:
    return such_nodes(contents, which, contents.nodes.names.behind(after))


def such_nodes(contents: Contents, which: l.Nodes, names: Iterable[NodeName]) -> Iterator[Node]:
    """Iterate over those of the nodes that the listing is about."""
    for name in names:
        node = contents.nodes.nodes.rows[name].node
        kind = node.config.type
        typed = kind not in which.but and which.type in {None, kind}
        if typed and which.access in {None, node.config.access_model}:
            yield node


def _ready_nodes(
    contents: Contents, _which: l.ReadyNodes, after: NodeName | None
) -> Iterator[l.Look]:
    for name in contents.nodes.names.behind(after):
        folder, node = contents.items.folder(name), contents.nodes.nodes.rows[name].node
        ready = node.config.queueing and (folder.ready or folder.aside)
        found = ready and any(map(has_room, contents.nodes.subscribers(name)))
        yield l.Look(name, name if found else None)


def _free_subscriptions(
    contents: Contents, which: l.FreeSubscriptions, after: tuple[Any, ...] | None
) -> Iterable[Subscription]:
    subscribers = contents.nodes.subscribers(which.node)
    free = [one for one in subscribers if has_room(one) and (not after or place(one) > after)]
    return sorted(free, key=place)


def _subscribers(contents: Contents, which: l.Subscribers, after: Jid | None) -> Iterator[Jid]:
    return contents.nodes.listening(which.node, after)


def _subscriptions_of(
    contents: Contents, which: l.SubscriptionsOf, after: Jid | None
) -> Iterator[Subscription]:
    return subscriptions(
        contents, which, contents.nodes.standing(which.node, which.state).behind(after)
    )


def _several_of(
    contents: Contents, which: l.SeveralOf, after: Jid | None
) -> Iterator[Subscription]:
    standing = l.SubscriptionsOf(which.node)
    for one in _subscriptions_of(contents, standing, after):
        if one.jid > which.through:
            return
        if one.several:
            yield one


def subscriptions(
    contents: Contents, which: l.SubscriptionsOf, jids: Iterable[Jid]
) -> Iterator[Subscription]:
    """Iterate over the subscriptions of these JIDs."""
    for jid in jids:
        yield contents.nodes.subscriptions.rows[which.node, jid].subscription


def _subscriber_roles(
    contents: Contents, which: l.SubscriberRoles, after: Jid | None
) -> Iterator[tuple[Jid, Affiliation, SubscriptionState]]:
    people, subscriptions = contents.nodes.affiliations.rows, contents.nodes.subscriptions.rows
    for jid in contents.nodes.jids_in(which.node).behind(after):
        row = people.get((which.node, account_of(jid)))
        is_a = Affiliation.NONE if row is None else row.affiliation
        yield jid, is_a, subscriptions[which.node, jid].subscription.state


def _trims(contents: Contents, _which: l.Trims, after: NodeName | None) -> Iterator[NodeName]:
    return (name for name in sorted(contents.nodes.trims.rows) if after is None or name > after)


def _moved_to(contents: Contents, which: l.MovedTo, _after: object) -> Iterator[str]:
    row = contents.nodes.moved.rows.get(which.node)
    return iter(() if row is None else (row[1],))


def _reviews(contents: Contents, _which: l.Reviews, after: NodeName | None) -> Iterator[NodeName]:
    return (name for name in sorted(contents.nodes.reviews.rows) if after is None or name > after)


def _former_subscribers(
    contents: Contents, which: l.FormerSubscribers, after: Jid | None
) -> Iterator[Jid]:
    return (jid for jid in contents.nodes.untold(which.node)[1] if after is None or jid > after)


def _untold_nodes(
    contents: Contents, _which: l.UntoldNodes, after: int | None
) -> Iterator[tuple[int, NodeName]]:
    for number, former in contents.nodes.former.rows.items():
        if number > (after or 0):
            yield number, former.name


def _affiliations_of(
    contents: Contents, which: l.AffiliationsOf, after: Jid | None
) -> Iterator[AffiliationRow]:
    return such_people(contents, which, contents.nodes.people(which.node).behind(after))


def such_people(
    contents: Contents, which: l.AffiliationsOf, accounts: Iterable[Jid]
) -> Iterator[AffiliationRow]:
    """Iterate over those of the affiliations that the listing is about."""
    for account in accounts:
        row = contents.nodes.affiliations.rows[which.node, account]
        if which.roles is None or row.affiliation in which.roles:
            yield row


def _nodes_of_account(
    contents: Contents, which: l.NodesOfAccount, after: NodeName | None
) -> Iterator[tuple[Node, Affiliation]]:
    return such_places(contents, which, contents.nodes.places(which.account).behind(after))


def such_places(
    contents: Contents, which: l.NodesOfAccount, names: Iterable[NodeName]
) -> Iterator[tuple[Node, Affiliation]]:
    """Iterate over those of the nodes that the listing is about, with what the account is to them."""
    for name in names:
        node = contents.nodes.nodes.rows[name].node
        role = contents.nodes.affiliations.rows[name, which.account].affiliation
        wanted = which.roles is None or role in which.roles
        kind = node.config.type
        typed = kind not in which.but and (which.types is None or kind in which.types)
        if wanted and typed and (which.access is None or node.config.access_model in which.access):
            yield node, role


def subscriptions_of_account(
    contents: Contents, which: l.SubscriptionsOfAccount, after: tuple[NodeName, Jid] | None
) -> Iterator[Subscription]:
    """Iterate over the subscriptions of the account, by node and JID."""
    mine = contents.nodes.of_account(which.account, which.node)
    for one in sorted(mine, key=attrgetter("node", "jid")):
        if after is None or (one.node, one.jid) > after:
            yield one


def _node_entries(contents: Contents, which: l.NodeEntries, _after: object) -> Iterator[NodeEntry]:
    for name in which.nodes:
        node = contents.nodes.node(name)
        if node is not None:
            entry = _node_entry(contents, node)
            if which.counted is not None:
                queued, dead = which.counted
                delayed = node.items - queued - entry.locked - dead
                entry = replace(entry, queued=queued, delayed=delayed, dead=dead)
            yield entry


def counted(
    contents: Contents, which: l.Counted, after: object, limit: int
) -> list[tuple[int, object]]:
    """Count the items of a state among so many, and return where they end if there may be more."""
    folder, rows = contents.items.folder(which.node), contents.items.items.rows
    if which.state is State.DEAD:
        letters = list(islice(folder.dead_letters.behind(after), limit))  # type: ignore[arg-type]  # a place of them
        states = [rows[seq].state for _, seq in letters]
        return [(states.count(State.DEAD), letters[-1] if len(letters) == limit else None)]
    ready: list[Rank] = []
    if not isinstance(after, int):
        ready = list(islice(folder.ready.behind(after), limit))  # type: ignore[arg-type]  # a place of them
        if len(ready) == limit:
            return [(limit, ready[-1])]
    behind = after if isinstance(after, int) else None
    waiting = list(islice(folder.waiting.behind(behind), limit - len(ready)))
    full = len(ready) + len(waiting) == limit
    return [(len(ready) + len(waiting), waiting[-1] if full else None)]


def _node_entry(contents: Contents, node: Node) -> NodeEntry:
    folder = contents.items.folder(node.name)
    free = sum(
        max(0, one.queue_requests - one.in_flight)
        for one in contents.nodes.subscribers(node.name)
        if one.available
    )
    ready = (contents.items.at(place).seq for place in folder.ready)
    first = min(chain(ready, folder.waiting), default=None)
    oldest = None if first is None else contents.items.items.rows[first].published
    return NodeEntry(
        node,
        queued=folder.counts[State.QUEUED],
        locked=folder.counts[State.LOCKED],
        delayed=folder.counts[State.DELAYED],
        dead=folder.counts[State.DEAD],
        window_free=free,
        oldest=oldest,
    )


# fmt: off
LISTINGS: Final[dict[type, Callable[[Contents, Any, Any], Rows]]] = {
    l.Nodes:                 _nodes,
    l.ReadyNodes:            _ready_nodes,
    l.FreeSubscriptions:     _free_subscriptions,
    l.Subscribers:           _subscribers,
    l.SubscriptionsOf:       _subscriptions_of,
    l.SeveralOf:             _several_of,
    l.SubscriberRoles:       _subscriber_roles,
    l.Reviews:               _reviews,
    l.Trims:                 _trims,
    l.MovedTo:               _moved_to,
    l.FormerSubscribers:     _former_subscribers,
    l.UntoldNodes:           _untold_nodes,
    l.AffiliationsOf:        _affiliations_of,
    l.NodesOfAccount:        _nodes_of_account,
    l.NodeEntries:           _node_entries,
    l.SubscriptionsOfAccount: subscriptions_of_account,
}
# fmt: on
