"""Nodes, and everybody around them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pubqueue.core.addresses import account_of
from pubqueue.core.model import SubscriptionState
from pubqueue.stores.memory.order import Order
from pubqueue.stores.memory.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pubqueue.app.rows import AffiliationRow
    from pubqueue.core.model import Jid, Millis, Node, NodeName, Subscription
    from pubqueue.stores.memory.table import Journal


class NumberedNode(Struct, frozen=True, gc=False):
    """A node with a number of its own: a later node of its name has another."""

    number: int
    node: Node


class NumberedSubscription(Struct, frozen=True, gc=False):
    """A subscription with its place among all: the older comes first."""

    place: int
    subscription: Subscription


class FormerNode(Struct, frozen=True, gc=False):
    """A deleted node whose subscribers are to be told, and those of them that have not been."""

    name: NodeName
    jids: tuple[Jid, ...]


class NodeTable:
    """The tables of nodes, affiliations, subscriptions and resources."""

    def __init__(self, journal: Journal) -> None:
        self.nodes: Table[NodeName, NumberedNode] = Table(journal, self._node_changed)
        self.affiliations: Table[tuple[NodeName, Jid], AffiliationRow] = Table(
            journal, self._affiliation_changed
        )
        self.subscriptions: Table[tuple[NodeName, Jid], NumberedSubscription] = Table(
            journal, self._subscription_changed
        )
        self.resources: Table[Jid, int] = Table(journal, self._resource_changed)
        self.former: Table[int, FormerNode] = Table(journal)
        """By number, which only rises."""
        self.reviews: Table[NodeName, bool] = Table(journal)
        """Nodes whose subscribers are to be looked through."""
        self.trims: Table[NodeName, bool] = Table(journal)
        """Nodes whose items are to be trimmed."""
        self.moved: Table[NodeName, tuple[Millis, str]] = Table(journal)
        """Where deleted nodes are, by URI, and when that was noted."""
        self.names: Order[NodeName] = Order()
        self.by_number: dict[int, NodeName] = {}
        self._people: defaultdict[NodeName, Order[Jid]] = defaultdict(Order)
        self._places: defaultdict[Jid, Order[NodeName]] = defaultdict(Order)
        self._subscribed_in: defaultdict[NodeName, Order[tuple[int, Jid]]] = defaultdict(Order)
        self._jids_in: defaultdict[NodeName, Order[Jid]] = defaultdict(Order)
        self._standing: defaultdict[tuple[NodeName, SubscriptionState], Order[Jid]] = defaultdict(
            Order
        )
        self.leases: Order[tuple[int, NodeName, Jid]] = Order()
        """When there is something to do for the leases of subscriptions."""
        self._subscribed_by: defaultdict[Jid, set[tuple[NodeName, Jid]]] = defaultdict(set)
        self._nodes_of_jid: defaultdict[Jid, set[NodeName]] = defaultdict(set)
        self._here: defaultdict[Jid, Order[tuple[int, Jid]]] = defaultdict(Order)

    def node(self, name: NodeName) -> Node | None:
        """Return the node."""
        kept = self.nodes.rows.get(name)
        return None if kept is None else kept.node

    def change(self, node: Node) -> None:
        """Let a node that is there be this from now on."""
        self.nodes.put(node.name, NumberedNode(self.nodes.rows[node.name].number, node))

    def subscribe(self, subscription: Subscription, place: int) -> None:
        """Let a subscription be this from now on; the place counts if it is new."""
        key = subscription.node, subscription.jid
        there = self.subscriptions.rows.get(key)
        self.subscriptions.put(
            key, NumberedSubscription(place if there is None else there.place, subscription)
        )

    def subscribers(self, node: NodeName) -> list[Subscription]:
        """Return the subscriptions to the node, the oldest first."""
        if node not in self._subscribed_in:
            return []
        return [
            self.subscriptions.rows[node, jid].subscription for _, jid in self._subscribed_in[node]
        ]

    def jids_in(self, node: NodeName) -> Order[Jid]:
        """Return who subscribes to the node, by JID."""
        return self._jids_in[node] if node in self._jids_in else Order()

    def standing(self, node: NodeName, state: SubscriptionState) -> Order[Jid]:
        """Return those whose subscriptions to the node stand so, by JID."""
        return self._standing[node, state] if (node, state) in self._standing else Order()

    def listening(self, node: NodeName, after: Jid | None = None) -> Iterator[Jid]:
        """Iterate over those who subscribe to the node and want to be told, by JID."""
        for jid in self.standing(node, SubscriptionState.SUBSCRIBED).behind(after):
            if self.subscriptions.rows[node, jid].subscription.deliver:
                yield jid

    def over(self, now: int, limit: int) -> list[Subscription]:
        """Return so many subscriptions for whose leases there is something to do by now."""
        found: list[Subscription] = []
        for moment, node, jid in self.leases:
            if moment > now or len(found) >= limit:
                break
            found.append(self.subscriptions.rows[node, jid].subscription)
        return found

    def leave_behind(self, node: NodeName) -> None:
        """Keep those who subscribe to a node that is about to go, for they are to be told."""
        number = self.nodes.rows[node].number
        self.former.put(number, FormerNode(node, tuple(self.listening(node))))

    def untold(self, node: NodeName) -> tuple[int, tuple[Jid, ...]]:
        """Return the first deleted node of this name whose subscribers are to be told, by number, with these."""
        found = ((at, one.jids) for at, one in self.former.rows.items() if one.name == node)
        return min(found, default=(0, ()))

    def part_with(self, node: NodeName, through: Jid | None) -> None:
        """Forget those of them who have been told, up to this JID or all."""
        number, jids = self.untold(node)
        if through is None:
            self.former.put(number, None)
        elif number:
            left = tuple(jid for jid in jids if jid > through)
            self.former.put(number, FormerNode(node, left))

    def of_account(self, account: Jid, node: NodeName | None = None) -> Iterable[Subscription]:
        """Return the subscriptions of the account's JIDs, to any node or to this one."""
        keys = self._subscribed_by.get(account, ())
        return [self.subscriptions.rows[key].subscription for key in keys if node in {None, key[0]}]

    def of_jid(self, jid: Jid) -> Iterable[Subscription]:
        """Return the subscriptions of exactly this JID, to any node."""
        nodes = self._nodes_of_jid.get(jid, ())
        return [self.subscriptions.rows[node, jid].subscription for node in nodes]

    def people(self, node: NodeName) -> Order[Jid]:
        """Return who is something to the node."""
        return self._people[node] if node in self._people else Order()

    def places(self, account: Jid) -> Order[NodeName]:
        """Return what the account is something to."""
        return self._places[account] if account in self._places else Order()

    def has_place(self, account: Jid) -> bool:
        """Say whether the account is something to a node."""
        return account in self._places

    def here(self, account: Jid) -> list[Jid]:
        """Return the full JIDs of the account, in the order of their coming."""
        return [jid for _, jid in self._here[account]] if account in self._here else []

    def empty(self, node: NodeName) -> None:
        """Let everybody leave the node."""
        self.reviews.put(node, None)
        self.trims.put(node, None)
        for jid in list(self.people(node)):
            self.affiliations.put((node, jid), None)
        for subscription in self.subscribers(node):
            self.subscriptions.put((node, subscription.jid), None)

    # --- what follows from the rows ---

    def _node_changed(
        self, name: NodeName, before: NumberedNode | None, now: NumberedNode | None
    ) -> None:
        if before is None and now is not None:
            self.names.add(name)
            self.by_number[now.number] = name
        elif before is not None and now is None:
            self.names.remove(name)
            del self.by_number[before.number]

    def _affiliation_changed(
        self,
        key: tuple[NodeName, Jid],
        before: AffiliationRow | None,
        now: AffiliationRow | None,
    ) -> None:
        node, account = key
        if before is None and now is not None:
            self._people[node].add(account)
            self._places[account].add(node)
        elif before is not None and now is None:
            _drop(self._people, node, account)
            _drop(self._places, account, node)

    def _subscription_changed(
        self,
        key: tuple[NodeName, Jid],
        before: NumberedSubscription | None,
        now: NumberedSubscription | None,
    ) -> None:
        node, jid = key
        if before is None and now is not None:
            self._subscribed_in[node].add((now.place, jid))
            self._jids_in[node].add(jid)
            self._subscribed_by[account_of(jid)].add(key)
            self._nodes_of_jid[jid].add(node)
        elif before is not None and now is None:
            _drop(self._subscribed_in, node, (before.place, jid))
            _drop(self._jids_in, node, jid)
            _take_out(self._subscribed_by, account_of(jid), key)
            _take_out(self._nodes_of_jid, jid, node)
        self._standing_changed(before, now)

    def _standing_changed(
        self, before: NumberedSubscription | None, now: NumberedSubscription | None
    ) -> None:
        was, is_ = (None if one is None else one.subscription for one in (before, now))
        if was is not None:
            _drop(self._standing, (was.node, was.state), was.jid)
            if was.ends_next is not None:
                self.leases.remove((was.ends_next, was.node, was.jid))
        if is_ is not None:
            self._standing[is_.node, is_.state].add(is_.jid)
            if is_.ends_next is not None:
                self.leases.add((is_.ends_next, is_.node, is_.jid))

    def _resource_changed(self, jid: Jid, before: int | None, now: int | None) -> None:
        if before is not None:
            _drop(self._here, account_of(jid), (before, jid))
        if now is not None:
            self._here[account_of(jid)].add((now, jid))


def _take_out(groups: dict[Any, set[Any]], key: object, value: object) -> None:
    """Take the value out of the group of this key, and an empty group away."""
    groups[key].remove(value)
    if not groups[key]:
        del groups[key]


def _drop(orders: dict[Any, Order[Any]], key: object, value: object) -> None:
    """Take the value out of the order of this key, and an empty order away."""
    orders[key].remove(value)
    if not orders[key]:
        del orders[key]
