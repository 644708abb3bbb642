"""The working set: the rows that batches work on, kept between batches, and what one request sees of them."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct

from pubqueue.engine.damage import ComparedRows, DamagedRow
from pubqueue.engine.listings import HeldBy, HeldOf, Total
from pubqueue.engine.rows import (
    AFFILIATIONS,
    FINISHED,
    HELD,
    HOLDINGS,
    PEOPLE,
    Due,
    Needs,
)
from pubqueue.engine.writes import ABSENT, PendingWrites, RowCache
from pubqueue.model.entities import (
    Affiliation,
    Jid,
    Millis,
    SubscriptionState,
    account_of,
    later,
    seconds,
)
from pubqueue.model.notices import Several
from pubqueue.model.records import Holding
from pubqueue.model.several_subscriptions import subids_of
from pubqueue.model.sums import is_damaged
from pubqueue.rules.access import standing_of_account

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pubqueue.engine.listings import Conflicts, Listing, NodeWinners, Winners
    from pubqueue.engine.ports import Transaction
    from pubqueue.engine.rows import Conflict, K, Row, RowKind, Writes
    from pubqueue.model.entities import Item, ItemId, Node, NodeName, Subscription

    Name = tuple[NodeName, ItemId] | DamagedRow


# The working set: the store as the rules see it, with the changes of the requests before them.
#
# If a row is missing, the need is noted in `needs` and an empty value is returned. Once the row is loaded, the facts
# function runs again. So the needs of a whole batch are collected before a statement is run. The changes of a row are
# collected and written once. Rows stay between batches, as long as no other process writes to the store.
#
# A facts function writes nothing. A page has to show the batch's changes so far. While these are not written, the page
# counts as missing, and `load`, which is a step of the batch and not of a request, writes them first.

R = TypeVar("R")

ALL: Final = 1 << 30

NOTHING_DUE: Final = Due([], [], [], [], [])


class WorkingSet:
    """Facts for the rules; only the shell loads, and only `ChangeApplier` changes."""

    def __init__(self, note: Callable[[int, Name | None], None] = lambda _seq, _name: None) -> None:
        self.cache = RowCache()
        self._note = note
        """Gets the numbers of items that are damaged, and other rows."""
        self.met_damage = False
        """Whether a damaged row of another kind than items was loaded."""
        self.pending = PendingWrites(self.cache)
        """The changes of the batch so far. A working set for reading has none."""
        self.first_items: FirstItems | None = None
        """The first items of plain nodes, while parts of one request are decided."""
        self.needs = Needs()
        self.lacking = False
        """Whether a row was missing."""
        self.gathering = False
        """Whether needs are being collected. Meanwhile pages are empty; they are read in the turn of their request."""
        self.tx: Transaction
        """The transaction that the batch is in, from `begin` on."""
        self._to_write = False
        self.of_one = OfOneRequest()
        """What the request alone sees whose facts are asked for; another request begins with a new one."""

    def begin(self, tx: Transaction) -> None:
        """Begin a batch; forget all rows if another process has written."""
        self.tx = ComparedRows(tx, self._note_damage)
        if tx.foreign:
            self.cache.forget_foreign()

    def _note_damage(self, seq: int, staged: Name | None) -> None:
        self.cache.damaged.add(seq)
        self.met_damage |= isinstance(staged, DamagedRow)
        self._note(seq, staged)

    def is_damaged(self, item: Item) -> bool:
        """Return whether the content of an item is not what was published; for that its payload is loaded."""
        self.payload(item)
        return item.seq in self.cache.damaged or is_damaged(item)

    @contextmanager
    def showing(self, cache: RowCache, first_items: FirstItems) -> Iterator[None]:
        """Read the facts within the context from these rows; what is loaded meanwhile is added to them."""
        behind, self.cache, self.first_items = self.cache, cache, first_items
        try:
            yield
        finally:
            self.cache, self.first_items = behind, None

    def load(self) -> None:
        """Load all missing rows: a step of the batch, for every request whose needs are noted."""
        asked, self.needs, self.lacking = self.needs, Needs(), False
        whole = asked.subscriptions or asked.subscribers or asked.accounts or asked.jids
        if self._to_write or whole or asked.held or HOLDINGS in asked.of:
            self._to_write = False
            self.flush()  # so that groups and sums are current
        self.cache.fill(asked, self.tx.load(asked))
        self.of_one.load(self.tx)

    def resolve(self) -> None:
        """Add the counts of the batch so far to their rows."""
        self.pending.resolve(self.tx)

    def flush(self) -> None:
        """Write the changes of the batch so far, so that the next reads show them."""
        if self.pending:
            self.pending.flush(self.tx)

    def _waits_for_writes(self) -> bool:
        """Return whether the batch's changes have to be written before the read."""
        if self.pending:
            self._to_write = self.lacking = True
        return self._to_write

    def row(self, kind: RowKind[K, Row], key: K) -> Row | None:
        """Return the row of this key, None if there is none."""
        rows = self.cache.of[kind]
        if key in rows:
            return rows[key]
        self.needs.of[kind].add(key)
        self.lacking = True
        return None

    # --- nodes and those around them ---

    def node(self, name: NodeName) -> Node | None:
        """Return the node."""
        nodes = self.cache.nodes
        if name in nodes:
            return nodes[name]
        self.needs.nodes.add(name)
        self.lacking = True
        return None

    def holding(self, account: Jid) -> Holding:
        """Return the sums over the nodes that the account has created, with the changes of the requests before this one."""
        holdings = self.cache.of[HOLDINGS]  # read here, because each publish needs it
        found = holdings[account] if account in holdings else self.row(HOLDINGS, account)
        return found or Holding(account)

    def counted(self, name: NodeName) -> Node | None:
        """Return the node with its counts, including the changes of the requests before this one."""
        if not self.gathering:
            self._waits_for_writes()
        return self.node(name)

    def rights(self, node: NodeName, account: Jid) -> tuple[Affiliation, bool]:
        """Return the affiliation of the bare JID with the node, and whether any JID of the account subscribes to it."""
        key, known = (node, account), self.cache.rights
        if key in known:
            return known[key]
        found = self.affiliation(node, account), self.subscribed(node, account)
        if not self.lacking:
            known[key] = found
        return found

    def affiliation(self, node: NodeName, account: Jid) -> Affiliation:
        """Return the affiliation of the bare JID with the node: the stored one, or that from the node's name."""
        row = self.row(AFFILIATIONS, (node, account))
        return standing_of_account(
            node, account, Affiliation.NONE if row is None else row.affiliation
        )

    def _of_account(self, node: NodeName, account: Jid) -> dict[Jid, Subscription]:
        key = node, account
        group = self.cache.of_account.get(key)
        if group is None:
            if node in self.cache.in_node:
                return {}
            self.needs.subscriptions.add(key)
            self.lacking = True
            return {}
        return group

    def subscription(self, node: NodeName, jid: Jid) -> Subscription | None:
        """Return the subscription of exactly this JID."""
        return self._of_account(node, account_of(jid)).get(jid)

    def subscribed(self, node: NodeName, account: Jid) -> bool:
        """Return whether any JID of the account subscribes to the node; a pending subscription does not count."""
        mine = self._of_account(node, account)
        return any(one.state is SubscriptionState.SUBSCRIBED for one in mine.values())

    def subscriptions_in(self, node: NodeName, account: Jid) -> list[Subscription]:
        """Return the subscriptions of all JIDs of the account to the node."""
        return list(self._of_account(node, account).values())

    def subscribers(self, node: NodeName) -> list[Subscription]:
        """Return every subscription to the node."""
        group = self.cache.in_node.get(node)
        if group is None:
            self.needs.subscribers.add(node)
            self.lacking = True
            return []
        return list(group.values())

    def audience(self, node: NodeName) -> tuple[Jid, ...] | Several:
        """Return the node's subscribers that can be notified: the same object as long as they do not change."""
        found = self.cache.audiences.get(node)
        if found is None:
            group = self.cache.in_node.get(node)
            if group is None:
                self.needs.subscribers.add(node)
                self.lacking = True
                return ()
            jids = tuple(jid for jid, one in group.items() if one.listens)
            subids = subids_of(group.values())
            found = self.cache.audiences[node] = Several(jids, subids) if subids else jids
        return found

    def subscriptions_of_account(self, account: Jid) -> list[Subscription]:
        """Return the subscriptions of all JIDs of the account, to any node, by node and JID."""
        group = self.cache.everywhere.get(account)
        if group is None:
            self.needs.accounts.add(account)
            self.lacking = True
            return []
        return [group[key] for key in sorted(group)]

    def subscriptions_of(self, jid: Jid) -> Collection[Subscription]:
        """Return the subscriptions of exactly this JID, to any node."""
        group = self.cache.of_jid.get(jid)
        if group is None:
            self.needs.jids.add(jid)
            self.lacking = True
            return ()
        return group.values()

    def resources(self, account: Jid) -> Collection[Jid]:
        """Return the full JIDs of the account that have shown themselves."""
        group = self.cache.resources.get(account)
        if group is None:
            self.needs.resources.add(account)
            self.lacking = True
            return ()
        return group.keys()

    def present(self, account: Jid) -> tuple[Jid, ...]:
        """Return those of them that have sent available presence."""
        known = self.cache.present
        return tuple([jid for jid in self.resources(account) if jid in known])

    def active_since(self, jid: Jid) -> int:
        """Return the lock token before which the JID (or any resource of an account) last sent something; 0: not known."""
        account = account_of(jid)
        here = self.resources(account)
        since = self.cache.resources.get(account, {})
        return max((since[one].token for one in here if jid in {one, account}), default=0)

    def active_at(self, jid: Jid) -> Millis:
        """Return when exactly this full JID last sent something; 0: not known."""
        account = account_of(jid)
        here = jid in self.resources(account)
        return self.cache.resources[account][jid].at if here else Millis(0)

    def is_able(self, jid: Jid) -> bool | None:
        """Return whether the client of a full JID that is here has `urn:xmpp:qos`; None: it is not known."""
        return self.cache.able.get(jid) if jid in self.resources(account_of(jid)) else None

    def is_somebody(self, jid: Jid) -> bool:
        """Return whether the account has an affiliation or a subscription, or exactly this JID holds an item.

        It is as of the first call in this batch.
        """
        return self.row(PEOPLE, jid) is not None

    # --- items ---

    def item(self, node: NodeName, item: ItemId) -> Item | None:
        """Return the item, without its payload."""
        key = node, item
        items, whole = self.cache.items, self.cache.whole
        if key in items:
            return items[key]
        if node in whole:
            return next((one for one in whole[node].values() if one.id == item), None)
        self.needs.items.add(key)
        self.lacking = True
        return None

    def item_at(self, seq: int) -> Item | None:
        """Return the item with this sequence number."""
        row = self.cache.numbered.get(seq, ABSENT)
        if row is ABSENT:
            self.needs.numbers.add(seq)
            self.lacking = True
            return None
        return row  # type: ignore[no-any-return]  # what the table holds

    def payload(self, item: Item) -> bytes:
        """Return the payload as it was published; it is empty if it is damaged."""
        found = self.cache.payloads.get(item.seq)
        if found is None:
            self.needs.payloads.add(item.seq)
            self.lacking = True
            return b""
        return found

    def lost_by(self, item: Item, jids: Sequence[Jid]) -> list[Jid]:
        """Return those of the JIDs that once held the item and lost it."""
        group = self.cache.receipts.get(item.seq)
        if group is None:
            self.needs.receipts.add(item.seq)
            self.lacking = True
            return []
        lost = self.cache.lost
        return [jid for jid in jids if jid in group or (item.seq, jid) in lost]

    def finished(self, node: Node, item: ItemId, now: Millis) -> bytes | None:
        """Return the digest of finished work whose id still absorbs a re-publish: not for longer than that of work that is done now."""
        row = self.row(FINISHED, (node.name, item))
        latest = later(now, seconds(node.config.dedup_window))
        return row.digest if row is not None and now < row.until <= latest else None

    def held_by(self, jid: Jid) -> tuple[list[Item], bool]:
        """Return up to `HELD` items locked to exactly this JID, in any node, and whether there may be more."""
        group = self.cache.held.get(jid)
        if group is None:
            self.needs.held.add(jid)
            self.lacking = True
            return [], False
        return [group[seq] for seq in sorted(group)[:HELD]], len(group) > HELD

    def count_held(self, jid: Jid, node: NodeName) -> int:
        """Return how many items of the node are locked to exactly this JID."""
        self.held_by(jid)
        if jid in self.cache.hoarders:
            return sum(self.page(Total(HeldBy(jid, node))))
        return sum(item.node == node for item in self.cache.held.get(jid, {}).values())

    def held_of(self, node: NodeName, account: Jid) -> int:
        """Return how many items of the node all addresses of the account hold, with the changes of earlier requests."""
        known, key = self.cache.held_of, (node, account)
        if key not in known:
            counted = self.page(HeldOf((key,)))
            if not counted:  # the facts function runs again
                return 0
            known[key] = counted[0]
        return known[key]

    def unused_token(self) -> int:
        """Return a token higher than that of every lock so far, and lower than those of all later locks."""
        return self.pending.tokens.next or self.next_number("token")

    # --- what is read in its turn ---

    def page(self, which: Listing[R], after: object = None, limit: int = 1) -> list[R]:
        """Return rows of a listing, including the changes of the requests before this one."""
        if (
            self.gathering or self.lacking or self._waits_for_writes()
        ):  # the facts function runs again
            return []
        return self.tx.page(which, after, limit)

    def page_now(self, which: Listing[R], after: object = None, limit: int = 1) -> list[R]:
        """Return rows of a listing, for a step of the batch; write its changes first."""
        self.flush()
        return self.tx.page(which, after, limit)

    def due(self, now: Millis, limit: int) -> Due:
        """Return expired rows, up to `limit` of each kind."""
        if self.gathering or self.lacking or self._waits_for_writes():
            return NOTHING_DUE
        return self.tx.due(now, limit)

    def next_number(self, sequence: str) -> int:
        """Return the next number of a sequence, without taking it."""
        found = self.of_one.numbers.get(sequence)
        if found is None:
            self.of_one.numbers_wanted.add(sequence)
            self.lacking = True
            return 0
        return found

    def winners(self, which: Winners) -> list[NodeWinners]:
        """Return the winners of a version by node. They are chosen once, so that comparisons stay valid."""
        if self.of_one.winners is None:
            found = self.page(which, None, ALL)
            if self.gathering or self.lacking:
                return []
            self.of_one.winners = found
        return self.of_one.winners

    def compare(self, which: Conflicts, judge: Callable[[list[Conflict]], Writes]) -> None:
        """Have the conflicts of a node's winners compared before they are read; do nothing while needs are collected.

        An exception of `judge` is raised at the next call, within the request that asked.
        """
        if self.of_one.fault is not None:
            raise self.of_one.fault
        if which not in self.of_one.compared:
            self.of_one.to_compare[which] = judge
            self.lacking = True


# What one request alone sees: next numbers, and the winners of its commit.

COMPARED: Final = 500
"""Payloads that are compared by meaning in one step."""


class OfOneRequest(Struct):
    """Rows that only one request may see."""

    numbers: dict[str, int] = {}
    numbers_wanted: set[str] = set()
    winners: list[NodeWinners] | None = None
    compared: set[Conflicts] = set()
    to_compare: dict[Conflicts, Callable[[list[Conflict]], Writes]] = {}
    fault: Exception | None = None

    def load(self, tx: Transaction) -> None:
        """Load the numbers and make the comparisons that the request needs."""
        for sequence in self.numbers_wanted:
            self.numbers[sequence] = tx.number(sequence, 0)
        self.numbers_wanted.clear()
        for which, judge in self.to_compare.items():
            while self.fault is None and (conflicts := tx.page(which, None, COMPARED)):
                self._judge(tx, conflicts, judge)
            self.compared.add(which)
        self.to_compare.clear()

    def _judge(
        self, tx: Transaction, conflicts: list[Conflict], judge: Callable[[list[Conflict]], Writes]
    ) -> None:
        try:
            writes = judge(conflicts)
        except Exception as problem:  # raised in the request that asks for it
            self.fault = problem
        else:
            tx.write(writes)


# The first items of plain nodes, as changes that are not made yet would leave them.
#
# A node at its limit drops its oldest items with each publish. If several parts of one request publish to it, its first items
# are read once, as many as all parts may need, and each part sees the items that the parts before have left.

READ: Final = 4
"""How many items are read at a time for each item that the parts are about: those that may be removed, and those that are needed."""


class FirstItems:
    """The first items by node. `named` has for each node how many of its items the parts are about."""

    def __init__(self, named: Mapping[NodeName, int]) -> None:
        self._named = named
        self._of: dict[NodeName, dict[int, Item]] = {}
        self._through: dict[NodeName, int | None] = {}
        """The number up to which a node is read; None if all of it is read."""
        self._changes: dict[NodeName, dict[int, tuple[Item | None, Item | None]]] = {}

    def wanted(self, node: NodeName, many: int) -> tuple[int, int] | None:
        """Return how many items of a node to read, and after which number, so that `many` are known; None if they are."""
        through = self._through.get(node, 0)
        if through is None or len(self._of.get(node, ())) >= many:
            return None
        return READ * self._named[node] + many, through

    def know(self, node: NodeName, found: Sequence[Item], limit: int) -> None:
        """Add items of the node, as they are without the changes; `limit` is how many were requested."""
        items = self._of.setdefault(node, {})
        changes = self._changes.get(node, {})
        items.update((item.seq, item) for item in found if item.seq not in changes)
        self._through[node] = found[-1].seq if len(found) == limit else None
        for seq, (before, now) in changes.items():
            if now is not None and self._is_read(node, seq, before):
                items[seq] = now
        self._of[node] = dict(sorted(items.items(), key=_place))

    def _is_read(self, node: NodeName, seq: int, before: Item | None) -> bool:
        """Return whether the item is in the part of the node that is read."""
        through = self._through[node]
        return through is None or (before is not None and seq <= through)

    def note(self, before: Item | None, now: Item | None) -> None:
        """Note a change of an item."""
        for item in (before, now):
            if item is None:
                continue
            here = None if now is None or now.node != item.node else now
            changes = self._changes.setdefault(item.node, {})
            was = changes[item.seq][0] if item.seq in changes else _in(before, item.node)
            changes[item.seq] = was, here
            if item.node in self._of:
                self._put(item.node, item.seq, was, here)

    def _put(self, node: NodeName, seq: int, was: Item | None, now: Item | None) -> None:
        items = self._of[node]
        if now is None:
            items.pop(seq, None)
        elif seq in items or self._is_read(node, seq, was):
            late = (
                seq > 0
                and bool(items)
                and _place((seq, now)) < _place((next(reversed(items)), now))
            )
            items[seq] = now
            if late:  # a dead item keeps its place
                self._of[node] = dict(sorted(items.items(), key=_place))

    def first(self, node: NodeName, many: int) -> tuple[Item, ...]:
        """Return the first `many` items of a node; they have to be known."""
        return tuple(islice(self._of[node].values(), many))


def _in(item: Item | None, node: NodeName) -> Item | None:
    return item if item is not None and item.node == node else None


def _place(one: tuple[int, Item]) -> tuple[bool, int]:
    """Return the sort key: new items have no number yet, and come after all others, in the order of their provisional ones."""
    seq = one[0]
    return seq < 0, abs(seq)
