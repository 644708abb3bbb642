"""The working set: the rows that batches work on, kept between batches, and what one request sees of them."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from pubqueue.engine.listings import HeldBy, HeldOf, Total
from pubqueue.engine.rows import (
    AFFILIATIONS,
    FINISHED,
    HELD,
    HOLDINGS,
    PEOPLE,
    Due,
    Needs,
    Passed,
    TablesByKind,
    rank,
)
from pubqueue.model.entities import Affiliation, Jid, SubscriptionState, account_of
from pubqueue.model.notices import Several
from pubqueue.model.records import Holding
from pubqueue.model.several_subscriptions import subids_of
from pubqueue.rules.access import standing_of_account

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pubqueue.engine.listings import Conflicts, Listing, NodeWinners, Winners
    from pubqueue.engine.ports import Transaction
    from pubqueue.engine.rows import Conflict, K, Row, RowKind, Rows, Writes
    from pubqueue.engine.windows import CrowdWindows, FreeWindows
    from pubqueue.model.entities import Item, ItemId, Millis, Node, NodeName, Subscription


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

    def __init__(self) -> None:
        self.cache = RowCache()
        self.needs = Needs()
        self.lacking = False
        """Whether a row was missing."""
        self.gathering = False
        """Whether needs are being collected. Meanwhile pages are empty; they are read in the turn of their request."""
        self.tx: Transaction
        """The transaction that the batch is in, from `begin` on."""
        self.flush: Callable[[], None] = _nothing
        """Writes the changes of the batch so far."""
        self.is_unwritten: Callable[[], bool] = _never
        """Returns whether there are unwritten changes."""
        self.next_token: Callable[[], int] = _none_known
        """Returns a token higher than that of every lock so far, 0 if the store has to be asked."""
        self._to_write = False
        self.of_one = OfOneRequest()
        """What the request alone sees whose facts are asked for; another request begins with a new one."""

    def begin(self, tx: Transaction) -> None:
        """Begin a batch; forget all rows if another process has written."""
        self.tx = tx
        if tx.foreign:
            self.cache.forget_foreign()

    def load(self) -> None:
        """Load all missing rows: a step of the batch, for every request whose needs are noted."""
        asked, self.needs, self.lacking = self.needs, Needs(), False
        whole = asked.subscriptions or asked.subscribers or asked.accounts or asked.jids
        if self._to_write or whole or asked.held or HOLDINGS in asked.of:
            self._to_write = False
            self.flush()  # so that groups and sums are current
        self.cache.fill(asked, self.tx.load(asked))
        self.of_one.load(self.tx)

    def _waits_for_writes(self) -> bool:
        """Return whether the batch's changes have to be written before the read."""
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
        """Return the full JIDs of the account that are known to be available."""
        group = self.cache.resources.get(account)
        if group is None:
            self.needs.resources.add(account)
            self.lacking = True
            return ()
        return group.keys()

    def active_since(self, jid: Jid) -> int:
        """Return the lock token before which the JID (or any resource of an account) last sent something; 0: not known."""
        account = account_of(jid)
        here = self.resources(account)
        since = self.cache.resources.get(account, {})
        return max((since[one] for one in here if jid in {one, account}), default=0)

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
        lost = self.cache.lost
        return [jid for jid in jids if jid in group or (item.seq, jid) in lost]

    def finished(self, node: NodeName, item: ItemId, now: Millis) -> bytes | None:
        """Return the digest of finished work whose id still absorbs a re-publish."""
        row = self.row(FINISHED, (node, item))
        return row.digest if row is not None and row.until > now else None

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
        return self.next_token() or self.next_number("token")

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


def _nothing() -> None:
    """Do nothing: a working set for reading has nothing to write."""


def _never() -> bool:
    return False


def _none_known() -> int:
    return 0


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


# The rows that a process keeps between batches: as loaded, and as the batch has changed them so far.
#
# Every table is a dictionary. A key with None is a row that is known not to exist; for a missing key nothing is known.
# A group (all subscriptions of a node, all items that a JID holds) is complete if its key exists, and is kept complete.

ABSENT: Final[Any] = object()
"""The value for a key of which nothing is known."""

MAX_ITEMS: Final = 100_000
MAX_ROWS: Final = 400_000
"""The maximum number of locked items kept between batches, and of rows of all other kinds together."""

MAX_BYTES: Final = 32 << 20
"""The maximum bytes of looked-up names and addresses that are kept, found or not. Each may be 3 KB, and any client can ask for
names that do not exist."""

BATCHES: Final = 64
"""The number of batches after which the bounds are checked."""


class RowCache:
    """Tables of rows and groups of them."""

    def __init__(self) -> None:
        self.of = TablesByKind()
        """Tables of the kinds in `rows.KINDS`."""
        self.nodes: dict[NodeName, Node | None] = {}
        self.rights: dict[tuple[NodeName, Jid], tuple[Affiliation, bool]] = {}
        """Affiliations of accounts with nodes, and whether they subscribe: computed once for all requests of a batch."""
        self.in_node: dict[NodeName, dict[Jid, Subscription]] = {}
        self.of_account: dict[tuple[NodeName, Jid], dict[Jid, Subscription]] = {}
        self.everywhere: dict[Jid, dict[tuple[NodeName, Jid], Subscription]] = {}
        self.of_jid: dict[Jid, dict[NodeName, Subscription]] = {}
        self.audiences: dict[NodeName, tuple[Jid, ...] | Several] = {}
        """The addresses of `in_node` that can be notified, as an immutable value."""
        self.windows: dict[NodeName, FreeWindows | CrowdWindows] = {}
        self.silent: dict[tuple[NodeName, Jid], None] = {}
        """Loaded subscriptions with unanswered deliveries: a request from one of them shows that it is alive."""
        self.resources: dict[Jid, dict[Jid, int]] = {}
        self.able: dict[Jid, bool] = {}
        """Of those in `resources`, whether their clients have `urn:xmpp:qos`, as far as that is known."""
        self.passers_by: list[tuple[Jid, NodeName | None]] = []
        """Senders of presence in this batch, or of a bounce about a node: that nothing of them exists is not remembered."""
        self.items: dict[tuple[NodeName, ItemId], Item | None] = {}
        self.numbered: dict[int, Item | None] = {}
        self.held: dict[Jid, dict[int, Item]] = {}
        self.held_of: dict[tuple[NodeName, Jid], int] = {}
        """How many items of a node all addresses of an account hold, for accounts with takes."""
        self.hoarders: set[Jid] = set()
        """Addresses that hold more items than were loaded; valid for one batch."""
        self.payloads: dict[int, bytes] = {}
        self.receipts: dict[int, dict[Jid, None]] = {}
        self.lost: dict[tuple[int, Jid], None] = {}
        """Addresses that lost items in this batch, with the items' numbers, whether earlier receipts are loaded or not."""
        self.ready: defaultdict[NodeName, dict[int, Item]] = defaultdict(dict)
        """Items that can be delivered and are not written yet."""
        self.idle: set[NodeName] = set()
        """Nodes of which no written item can be delivered."""
        self.passed: dict[NodeName, tuple[Millis, Passed]] = {}
        """By queue, the place up to which no written item can be delivered, and the time for which that holds."""
        self.doubted: set[NodeName] = set()
        """Queues where another process may have written before that place: the look under way is the last one from there."""
        self.sizes: dict[NodeName, int] = {}
        """By queue with items that some subscribers cannot get, the payload bytes up to which `idle` and `passed` hold."""
        self.with_large: set[NodeName] = set()
        """Queues that have items larger than they allow now."""
        self.passing: dict[tuple[NodeName, ItemId, int], None] = {}
        """Items loaded in this batch, which are kept only if they are locked at its end."""
        self.in_order: FirstItems | None = None
        """The first items of plain nodes, while parts of one request are decided (`TentativeRows`)."""
        self.batches = 0
        self.byte_count = 0
        """Bytes of the names and addresses that were looked up since the cache was cleared."""

    def subscription(self, node: NodeName, jid: Jid) -> Any:  # noqa: ANN401  # a row, None, or ABSENT
        """Return the subscription of exactly this JID, ABSENT if it is not known."""
        group = self.in_node.get(node)
        if group is None:
            group = self.of_account.get((node, account_of(jid)))
        if group is not None:
            return group.get(jid)
        mine = self.of_jid.get(jid)
        return ABSENT if mine is None else mine.get(node)

    def forget_subscribers(self, node: NodeName, jids: Iterable[Jid]) -> None:
        """Forget whether these subscribe to the node."""
        self.rights.clear()
        for table in (self.in_node, self.audiences, self.windows):
            table.pop(node, None)
        for jid in jids:
            account = account_of(jid)
            self.of_account.pop((node, account), None)
            self.everywhere.pop(account, None)
            self.of_jid.pop(jid, None)
            self.silent.pop((node, jid), None)

    # --- filling ---

    def fill(self, asked: Needs, found: Rows) -> None:
        """Add the rows that were found for these needs."""
        self.rights.clear()
        self._fill_absent(asked)
        for node in found.nodes:
            self.nodes[node.name] = node
        for kind, rows in found.of.items():
            key_of = kind.key_of
            self.of[kind].update((key_of(row), row) for row in rows)
        for subscription in found.subscriptions:
            self._fill_subscription(subscription)
        for jid in found.resources:
            self.resources[account_of(jid)][jid] = found.active.get(jid, 0)
        self.able.update(found.able)
        for item in found.items:
            self._fill_item(item)
        for seq, payload in found.payloads:
            self.payloads[seq] = payload
        for seq, jid in found.receipts:
            self.receipts[seq][jid] = None
        self.hoarders.update(jid for jid in asked.held if len(self.held[jid]) > HELD)

    def _fill_absent(self, asked: Needs) -> None:
        """Note everything that was asked for as not existing; `fill` then adds what was found."""
        self.byte_count += _byte_count(asked)
        for name in asked.subscribers:
            self.audiences.pop(name, None)
        self.nodes.update(dict.fromkeys(asked.nodes))
        for kind, wanted in asked.of.items():
            self.of[kind].update(dict.fromkeys(wanted))
        for table, keys in (
            (self.of_account, asked.subscriptions),
            (self.in_node, asked.subscribers),
            (self.everywhere, asked.accounts),
            (self.of_jid, asked.jids),
            (self.resources, asked.resources),
            (self.held, asked.held),
            (self.receipts, asked.receipts),
        ):
            for key in keys:
                table[key] = {}  # type: ignore[index]  # each table with the keys of its kind
        self.items.update(dict.fromkeys(asked.items))
        for node, item_id in asked.items:
            self.passing[node, item_id, 0] = None
        self.numbered.update(dict.fromkeys(asked.numbers))

    def _fill_subscription(self, row: Subscription) -> None:
        account = account_of(row.jid)
        self.silent.pop((row.node, row.jid), None)
        if row.unanswered:
            self.silent[row.node, row.jid] = None
        if (group := self.of_account.get((row.node, account))) is not None:
            group[row.jid] = row
        if (everybody := self.in_node.get(row.node)) is not None:
            everybody[row.jid] = row
            self.of_account.setdefault((row.node, account), {})[row.jid] = row
        if (everywhere := self.everywhere.get(account)) is not None:
            everywhere[row.node, row.jid] = row
        if (mine := self.of_jid.get(row.jid)) is not None:
            mine[row.node] = row

    def _fill_item(self, item: Item) -> None:
        self.items[item.node, item.id] = item
        self.numbered[item.seq] = item
        self.passing[item.node, item.id, item.seq] = None
        if item.holder is not None and (group := self.held.get(item.holder)) is not None:
            group[item.seq] = item

    def note_ready(self, item: Item) -> None:
        """Note that an item that is now written can be delivered."""
        node = item.node
        self.idle.discard(node)
        if (known := self.passed.get(node)) is not None:
            at, passed = known
            lives = item.expires is None or item.expires > at
            if lives and rank(item) <= (passed.aside if item.aside else passed.queued):
                del self.passed[node]

    # --- between two batches ---

    def shrink(self) -> None:
        """Keep the rows that the next batches are likely to need: nodes with their accounts, locked items."""
        for table in (self.payloads, self.receipts, self.ready, self.rights):
            table.clear()
        if self.lost:
            self.lost.clear()
        for kind, rows in self.of.items():
            if not kind.kept:
                rows.clear()
        items, numbered = self.items, self.numbered
        for node, item_id, seq in self.passing:
            key = node, item_id
            if key in items and ((item := items[key]) is None or item.holder is None):
                del items[key]
            if seq in numbered and ((item := numbered[seq]) is None or item.holder is None):
                del numbered[seq]
        self.passing.clear()
        self._let_pass()
        self.batches += 1
        if self.byte_count > MAX_BYTES:
            self.forget()
        elif self.batches % BATCHES == 0:  # counting takes longer with more nodes
            self._bound()

    def _let_pass(self) -> None:
        """Forget strangers: anyone can send presence, from addresses of any length."""
        for jid in self.hoarders:
            del self.held[jid]
        self.hoarders.clear()
        for jid, node in self.passers_by:
            if node is not None and not self.of_account.get((node, account_of(jid)), True):
                del self.of_account[node, account_of(jid)]
            for key in (jid, account_of(jid)):
                for table in (self.of_jid, self.resources, self.held, self.everywhere):
                    if not table.get(key, True):
                        del table[key]
        self.passers_by.clear()

    def _bound(self) -> None:
        """Clear the cache if it exceeds its bounds."""
        rows = len(self.nodes) + len(self.of_account) + len(self.everywhere) + len(self.of_jid)
        rows += (
            len(self.resources)
            + len(self.held)
            + len(self.held_of)
            + sum(map(len, self.in_node.values()))
        )
        rows += sum(len(table) for kind, table in self.of.items() if kind.kept)
        if rows > MAX_ROWS or len(self.numbered) > MAX_ITEMS:
            self.forget()

    def forget_foreign(self) -> None:
        """Forget everything except the positions of looks under way; without these they would never reach their end."""
        passed, sizes = self.passed, self.sizes
        self.forget()
        self.passed, self.doubted, self.sizes = passed, set(passed), sizes

    def forget(self) -> None:
        """Forget everything."""
        self.__init__()  # type: ignore[misc]  # the tables are all there is


def _byte_count(asked: Needs) -> int:
    """Return the approximate bytes of the names and addresses that were asked for, found or not."""
    one_by_one = (asked.nodes, asked.subscribers, asked.accounts, asked.jids, asked.resources)
    size = sum(len(name) for names in (*one_by_one, asked.held) for name in names)
    kept = [keys for kind, keys in asked.of.items() if kind.kept]
    return size + sum(
        len(key) if isinstance(key, str) else sum(map(len, key))
        for keys in (asked.subscriptions, *kept)
        for key in keys
    )


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
