"""The working set: what the rules see of the store, as the requests before them have changed it.

A fact that is not known is noted in `needs` and answered as if there were nothing; whoever asked is asked again
when it is loaded. So the needs of a whole batch come together before a statement is run. What a batch did to a
row is gathered, and written once. Between batches rows stay, as long as nobody else writes to the store.

Whoever asks for facts writes nothing. A page has to show what the batch has done so far: while that is not written, the
page is lacking as well, and `load`, which is a step of the batch and of nobody's request, writes it first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct

from pubqueue.app.store.listings import HeldBy, Total
from pubqueue.app.store.rows import (
    AFFILIATIONS,
    APPS,
    ATTEMPTS,
    FINISHED,
    HELD,
    HOLDINGS,
    NOTED,
    PEOPLE,
    SCHEDULES,
    STAGED,
    VERSIONS,
    WAITING,
    Due,
    Needs,
    NotedKey,
    StagedKey,
)
from pubqueue.app.working_set.row_cache import ABSENT, RowCache
from pubqueue.core.addresses import account_of
from pubqueue.core.limits.quotas import Holding
from pubqueue.core.model import Affiliation, Jid, SubscriptionState
from pubqueue.core.multi_subscription import subids_of
from pubqueue.core.nodes.names import standing
from pubqueue.core.notices import Several
from pubqueue.core.transactions.model import NotedItem, OpenVersion, StagedTotals, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pubqueue.app.store.kinds import K, Row, RowKind
    from pubqueue.app.store.listings import Conflicts, Listing, NodeWinners, Winners
    from pubqueue.app.store.ports import Transaction
    from pubqueue.app.store.rows import Conflict, Writes
    from pubqueue.core.model import Item, ItemId, Millis, Node, NodeName, Subscription
    from pubqueue.core.schedules.model import Schedule
    from pubqueue.core.transactions.model import App, Mark

R = TypeVar("R")

ALL: Final = 1 << 30

COMPARED: Final = 500
"""Payloads that are compared by meaning at a time."""

NOTHING_DUE: Final = Due([], [], [], [], [])


class WorkingSet:
    """Facts for the rules; only the shell loads, and only `ChangeApplier` changes."""

    def __init__(self) -> None:
        self.cache = RowCache()
        self.needs = Needs()
        self.lacking = False
        """Something was asked for that is not known."""
        self.gathering = False
        """Needs are being gathered: pages, which are read in their turn, are empty meanwhile."""
        self._tx: Transaction | None = None
        self.flush: Callable[[], None] = _nothing
        """Writes what the batch has done so far."""
        self.is_unwritten: Callable[[], bool] = _never
        """Says whether there is anything of that."""
        self.next_token: Callable[[], int] = _none_known
        """Says below which token all locks are that were given, 0 if the store has to be asked."""
        self._to_write = False
        self._of_one = _OfOneRequest()

    @property
    def tx(self) -> Transaction:
        """The transaction that this batch is in."""
        assert self._tx is not None, "no batch is under way"
        return self._tx

    def begin(self, tx: Transaction) -> None:
        """Begin a batch; what is known is forgotten if somebody else has written."""
        self._tx = tx
        if tx.foreign:
            self.cache.forget_foreign()

    def begin_request(self) -> None:
        """Begin to ask for the facts of another request."""
        self._of_one = _OfOneRequest()

    def load(self) -> None:
        """Load what has been asked for in vain: a step of the batch, for all whose needs are noted by now."""
        asked, self.needs, self.lacking = self.needs, Needs(), False
        whole = asked.subscriptions or asked.subscribers or asked.accounts or asked.jids
        if self._to_write or whole or asked.held or HOLDINGS in asked.of:
            self._to_write = False
            self.flush()  # whole groups and sums, as they are by now
        self.cache.fill(asked, self.tx.load(asked))
        self._of_one.load(self.tx)

    def _waits_for_writes(self) -> bool:
        """Say whether what is asked for cannot be read yet: what the batch has done is to be written first."""
        if self.is_unwritten():
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
        """Return what is in the nodes that the account has made, as the requests before this one have left it."""
        holdings = self.cache.of[HOLDINGS]  # looked at here, for each publish asks
        found = holdings[account] if account in holdings else self.row(HOLDINGS, account)
        return found or Holding(account)

    def counted(self, name: NodeName) -> Node | None:
        """Return the node, its counts as the requests before this one have left them."""
        if not self.gathering:
            self._waits_for_writes()
        return self.node(name)

    def rights(self, node: NodeName, account: Jid) -> tuple[Affiliation, bool]:
        """Return what the bare JID is to the node, and whether any JID of the account subscribes to it."""
        key, known = (node, account), self.cache.rights
        if key in known:
            return known[key]
        found = self.affiliation(node, account), self.subscribed(node, account)
        if not self.lacking:
            known[key] = found
        return found

    def affiliation(self, node: NodeName, account: Jid) -> Affiliation:
        """Return what the bare JID is to the node: what is stored, and what the node's name says."""
        row = self.row(AFFILIATIONS, (node, account))
        return standing(node, account, Affiliation.NONE if row is None else row.affiliation)

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
        """Say whether any JID of the account subscribes to the node; while it is pending it does not."""
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
        """Return whom of the node's subscribers something can be told: the same value as long as they stay the same."""
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
        """Return the full JIDs of the account that are known to be here, as they are now."""
        group = self.cache.resources.get(account)
        if group is None:
            self.needs.resources.add(account)
            self.lacking = True
            return ()
        return group.keys()

    def heard_of(self, jid: Jid) -> int:
        """Return before which lock token the JID was heard of last; for an account, any of its resources. 0: that is not known."""
        account = account_of(jid)
        here = self.resources(account)
        since = self.cache.resources.get(account, {})
        return max((since[one] for one in here if jid in {one, account}), default=0)

    def is_somebody(self, jid: Jid) -> bool:
        """Say whether the account is something to a node or subscribes, or an item is locked to exactly this JID.

        As it was when this batch asked first.
        """
        return self.row(PEOPLE, jid) is not None

    # --- items ---

    def item(self, node: NodeName, item: ItemId) -> Item | None:
        """Return the item, without its payload."""
        key = node, item
        items = self.cache.items
        if key in items:
            return items[key]
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
        """Return the payload as it was published."""
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
        return [jid for jid in jids if jid in group]

    def finished(self, node: NodeName, item: ItemId, now: Millis) -> bytes | None:
        """Return the digest of finished work whose id still absorbs a re-publish."""
        row = self.row(FINISHED, (node, item))
        return row.digest if row is not None and row.until > now else None

    def held_by(self, jid: Jid) -> tuple[list[Item], bool]:
        """Return items locked to exactly this JID, in any node, `HELD` of them at most, and whether there may be more."""
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

    def unused_token(self) -> int:
        """Return a token that no lock has yet, lower than those of all locks to come."""
        return self.next_token() or self.next_number("token")

    # --- what waits for a commit ---

    def standing(self, name: str, version: int) -> tuple[App | None, OpenVersion | None]:
        """Return the app, and its version of this number if that is open."""
        app, there = self.row(APPS, name), self.row(VERSIONS, (name, version))
        return app, None if there is None else OpenVersion(
            there.immediate, there.items, there.bytes
        )

    def usage(self, account: Jid) -> Usage:
        """Return what waits for commits, of the account and in all."""
        mine = self.row(WAITING, account) or StagedTotals(account)
        everybody = self.row(WAITING, "") or StagedTotals("")
        return Usage(mine.items, mine.bytes, everybody.items, everybody.bytes)

    def staged_size(self, mark: Mark, node: NodeName, item: ItemId) -> int | None:
        """Return the size of what this very attempt has staged under the id."""
        attempt = mark.app, mark.version, mark.part, mark.attempt
        if self.row(ATTEMPTS, attempt) is None:  # not known, or it has staged nothing
            return None
        found = self.row(STAGED, StagedKey(*attempt, node, item))
        return None if found is None else found.size

    def noted(self, mark: Mark, node: NodeName, item: ItemId) -> NotedItem | None:
        """Return what any attempt of the open version has noted of the id."""
        row = self.row(NOTED, NotedKey(mark.app, mark.version, node, item))
        return None if row is None else NotedItem(row.payload, row.known)

    # --- schedules ---

    def schedule(self, name: str) -> Schedule | None:
        """Return the schedule."""
        return self.row(SCHEDULES, name)

    # --- what is read in its turn ---

    def page(self, which: Listing[R], after: object = None, limit: int = 1) -> list[R]:
        """Return rows of a listing, as the requests before this one have left them."""
        if (
            self.gathering or self.lacking or self._waits_for_writes()
        ):  # whoever asks is asked again
            return []
        return self.tx.page(which, after, limit)

    def page_now(self, which: Listing[R], after: object = None, limit: int = 1) -> list[R]:
        """Return rows of a listing, for a step of the batch: what it has done is written before."""
        self.flush()
        return self.tx.page(which, after, limit)

    def due(self, now: Millis, limit: int) -> Due:
        """Return what has run out, of each kind so many at most."""
        if self.gathering or self.lacking or self._waits_for_writes():
            return NOTHING_DUE
        return self.tx.due(now, limit)

    def next_number(self, sequence: str) -> int:
        """Return the next number of a sequence, without taking it."""
        found = self._of_one.numbers.get(sequence)
        if found is None:
            self._of_one.numbers_wanted.add(sequence)
            self.lacking = True
            return 0
        return found

    def winners(self, which: Winners) -> list[NodeWinners]:
        """Return the winners of a version by node. They are chosen once, so that they stay compared."""
        if self._of_one.winners is None:
            found = self.page(which, None, ALL)
            if self.gathering or self.lacking:
                return []
            self._of_one.winners = found
        return self._of_one.winners

    def compare(self, which: Conflicts, judge: Callable[[list[Conflict]], Writes]) -> None:
        """Have what the winners of a node have met compared before anything is read of it; not while gathering.

        What `judge` raises is raised when it is asked for again: it is the fault of whoever asks.
        """
        if self._of_one.fault is not None:
            raise self._of_one.fault
        if which not in self._of_one.compared:
            self._of_one.to_compare[which] = judge
            self.lacking = True


class _OfOneRequest(Struct):
    """What one request has asked for that no other may see."""

    numbers: dict[str, int] = {}
    numbers_wanted: set[str] = set()
    winners: list[NodeWinners] | None = None
    compared: set[Conflicts] = set()
    to_compare: dict[Conflicts, Callable[[list[Conflict]], Writes]] = {}
    fault: Exception | None = None

    def load(self, tx: Transaction) -> None:
        """Load the numbers that are wanted, and have compared what is to be compared."""
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
        except Exception as problem:  # raised where it is asked for
            self.fault = problem
        else:
            tx.write(writes)


def _nothing() -> None:
    """Do nothing: a working set that only reads has nothing to write."""


def _never() -> bool:
    return False


def _none_known() -> int:
    return 0
