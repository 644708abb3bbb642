"""The rows that a process keeps, and what a batch has changed of them and not written yet: rows, counts, numbers of sequences."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.engine.rows import (
    HELD,
    HOLDINGS,
    Needs,
    Passed,
    Sign,
    TablesByKind,
    Write,
    Writes,
    rank,
)
from pubqueue.model.after import is_ready
from pubqueue.model.entities import Millis, account_of
from pubqueue.model.records import Holding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pubqueue.engine.ports import Transaction
    from pubqueue.engine.rows import Bulk, Rows, StagedRow
    from pubqueue.engine.windows import CrowdWindows, FreeWindows
    from pubqueue.model.entities import (
        Affiliation,
        Item,
        ItemId,
        Jid,
        Node,
        NodeName,
        Subscription,
    )
    from pubqueue.model.notices import Several
    from pubqueue.model.records import LogEntry

    Holder = tuple[NodeName, Jid]


# The rows that a process keeps between batches: as loaded, and as the batch has changed them so far.
#
# Every table is a dictionary. A key with None is a row that is known not to exist; for a missing key nothing is known.
# A group (all subscriptions of a node, all items that a JID holds) is complete if its key exists, and is kept complete.

ABSENT: Final[Any] = object()
"""The value for a key of which nothing is known."""

MAX_ITEMS: Final = 100_000
MAX_ROWS: Final = 400_000
"""The maximum number of items kept between batches, locked ones and those of transient nodes, and of rows of all other kinds together."""

MAX_BYTES: Final = 32 << 20
"""The maximum bytes of looked-up names and addresses that are kept, found or not. Each may be 3 KB, and any client can ask for
names that do not exist."""

BATCHES: Final = 64
"""The number of batches after which the bounds are checked."""


class RowCache:
    """Tables of rows and groups of them."""

    def __init__(self) -> None:  # noqa: PLR0915  # each table, and what it has
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
        self.resources: dict[Jid, dict[Jid, Sign]] = {}
        self.present: set[Jid] = set()
        """Those in `resources` that have sent available presence."""
        self.able: dict[Jid, bool] = {}
        """Of those in `resources`, whether their clients have `urn:xmpp:qos`, as far as that is known."""
        self.passers_by: list[tuple[Jid, NodeName | None]] = []
        """Senders of presence in this batch, or of a bounce about a node: that nothing of them exists is not remembered."""
        self.items: dict[tuple[NodeName, ItemId], Item | None] = {}
        self.numbered: dict[int, Item | None] = {}
        self.whole: dict[NodeName, dict[int, Item]] = {}
        """All items of transient nodes, as a rule one of each; by number."""
        self.held: dict[Jid, dict[int, Item]] = {}
        self.held_of: dict[tuple[NodeName, Jid], int] = {}
        """How many items of a node all addresses of an account hold, for accounts with takes."""
        self.hoarders: set[Jid] = set()
        """Addresses that hold more items than were loaded; valid for one batch."""
        self.payloads: dict[int, bytes] = {}
        self.damaged: set[int] = set()
        """Numbers of items whose content is not what was published, as far as it was loaded in this batch."""
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
        self.walks: dict[NodeName, bool] = {}
        """By queue with fair shares, whether all groups that were there since are known, or are still being looked for."""
        self.with_large: set[NodeName] = set()
        """Queues that have items larger than they allow now."""
        self.passing: dict[tuple[NodeName, ItemId, int], None] = {}
        """Items loaded in this batch, which are kept only if they are locked at its end."""
        self.batches = self.byte_count = 0
        """Batches, and bytes of the names and addresses that were looked up, since the cache was cleared."""

    def subscription(self, node: NodeName, jid: Jid) -> Any:  # noqa: ANN401  # a row, None, or ABSENT
        """Return the subscription of exactly this JID, ABSENT if it is not known."""
        group = self.in_node.get(node)
        if group is None:
            group = self.of_account.get((node, account_of(jid)))
        if group is not None:
            return group.get(jid)
        mine = self.of_jid.get(jid)
        return ABSENT if mine is None else mine.get(node)

    def has_nothing_to_deliver(self, node: NodeName) -> bool:
        """Return whether it is known that a queue has no item for any subscriber, whatever its size."""
        known = node in self.idle and node not in self.sizes and node not in self.with_large
        return known and not self.ready.get(node)

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
            self.resources[account_of(jid)][jid] = found.active.get(jid, Sign())
        self.present.update(found.present)
        self.able.update(found.able)
        for item in found.items:
            self._fill_item(item)
        for seq, payload, _ in found.payloads:
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
        self.damaged.clear()
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
        if rows > MAX_ROWS or len(self.numbered) + len(self.whole) > MAX_ITEMS:
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


# Counts of a batch for rows that need not be loaded yet: items of a node, locks of a holder.
#
# Only dispatch reads these counts, so differences are collected while requests are decided and added to the rows once
# for the whole batch. A node with a bound on its items is not counted here, because each publish has to see its count.


class Inside(Struct, gc=False):
    """The change of a node's number of items, and of the bytes that they count for; likewise of what is done."""

    items: int = 0
    bytes: int = 0
    done: int = 0
    done_bytes: int = 0


class Locks(Struct, gc=False):
    """The change of a holder's number of locks, the highest token among them, and whether one of them was retracted."""

    more: int = 0
    token: int = 0
    reached: bool = False


class Counters:
    """Differences of counts, until they are taken."""

    def __init__(self) -> None:
        self._items: defaultdict[NodeName, Inside] = defaultdict(Inside)
        self._unpaid: defaultdict[NodeName, Inside] = defaultdict(Inside)
        self._locks: dict[Holder, Locks] = {}

    def __bool__(self) -> bool:
        """Return whether anything is counted."""
        return bool(self._items or self._locks)

    def item(self, node: NodeName, by: int, size: int) -> None:
        """Count items of a node, and their bytes."""
        inside = self._items[node]
        inside.items += by
        inside.bytes += size

    def done(self, node: NodeName, by: int, size: int) -> None:
        """Count what is done in a node, and its bytes."""
        inside = self._items[node]
        inside.done += by
        inside.done_bytes += size

    def unpaid(self, node: NodeName, by: int, size: int) -> None:
        """Count the same for the account that created the node, whose row is not loaded yet."""
        inside = self._unpaid[node]
        inside.items += by
        inside.bytes += size

    def lock(
        self, node: NodeName, jid: Jid, by: int, *, token: int = 0, reached: bool = False
    ) -> None:
        """Count locks of a holder; `reached`: an item that it got was retracted."""
        key = node, jid
        if key not in self._locks:
            self._locks[key] = Locks()
        sums = self._locks[key]
        sums.more += by
        sums.token = token or sums.token  # tokens rise
        sums.reached |= reached

    def forget_locks(self, node: NodeName, jid: Jid) -> None:
        """Drop the counts of a holder: from here on it has another subscription."""
        self._locks.pop((node, jid), None)

    def needs(self, cache: RowCache) -> Needs | None:
        """Return the rows to load before counts are taken, None if there are none."""
        nodes = {name for name in self._items if name not in cache.nodes}
        locks = [key for key in self._locks if cache.subscription(*key) is ABSENT]
        if not nodes and not locks:
            return None
        accounts = {(node, account_of(jid)) for node, jid in locks}
        return Needs(nodes=nodes, subscriptions=accounts)

    def take_nodes(self, cache: RowCache) -> Iterator[tuple[Node, Node]]:
        """Return each existing node with counts, before and after, and reset its counts."""
        counts, self._items = self._items, defaultdict(Inside)
        for name, more in counts.items():
            row = cache.nodes.get(name)
            if row is None:
                continue
            if more.done or more.done_bytes:
                sums = {
                    "done": row.done + more.done,
                    "done_bytes": row.done_bytes + more.done_bytes,
                }
                yield (
                    row,
                    replace(
                        row, items=row.items + more.items, bytes=row.bytes + more.bytes, **sums
                    ),
                )
            elif more.items or more.bytes:
                yield row, replace(row, items=row.items + more.items, bytes=row.bytes + more.bytes)

    def take_unpaid(self, cache: RowCache) -> Iterator[tuple[Jid, int, int]]:
        """Return the accounts with counts from `unpaid`, each with items and bytes, and reset these."""
        unpaid, self._unpaid = self._unpaid, defaultdict(Inside)
        for name, more in unpaid.items():
            if (row := cache.nodes.get(name)) is not None:
                yield row.creator, more.items, more.bytes

    def take_subscriptions(self, cache: RowCache) -> Iterator[tuple[Subscription, Subscription]]:
        """Return each existing subscription with counts, before and after. A retract shows that deliveries arrive.

        That does not hold for a silenced one: only its own requests show that it lives.
        """
        locks, self._locks = self._locks, {}
        for (node, jid), sums in locks.items():
            if (row := cache.subscription(node, jid)) is not None:
                yield (
                    row,
                    replace(
                        row,
                        in_flight=row.in_flight + sums.more,
                        last_served=max(row.last_served, sums.token),
                        unanswered=0 if sums.reached and row.available else row.unanswered,
                    ),
                )


# The changes of a batch that are not written yet: each row as it was before the batch changed it.
#
# The row as it is now is in the row cache. A row that is again as it was needs no write, nor does one that came and went.
# The store itself makes changes of many rows (a purge, a commit), after all earlier changes are written.


class PendingWrites:
    """What a batch has changed: tables of the rows before, by kind of row, the counts of others, and the numbers that it took.

    True if there is anything to write.
    """

    def __init__(self, cache: RowCache) -> None:
        self.cache = cache
        self.tokens = Numbers("token")
        self.numbers = Numbers("item")
        self._at = Millis(0)
        self.counters = Counters()
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Note no change yet. The tables before are those of the caller."""
        self.of = TablesByKind()
        """Tables of the kinds in `rows.KINDS`."""
        self.nodes: dict[NodeName, Node | None] = {}
        self.announce: list[NodeName] = []
        self.moved: dict[NodeName, str] = {}
        self.subscriptions: dict[tuple[NodeName, Jid], Subscription | None] = {}
        self.resources: dict[Jid, bool] = {}
        self.left: set[Jid] = set()
        """Those that have left in this batch: if they are known again, what was noted of them before is not."""
        self.present: dict[Jid, None] = {}
        self.active: dict[Jid, Sign] = {}
        self.able: dict[Jid, bool] = {}
        self.items: dict[int, Item | None] = {}
        self.replaced: dict[int, None] = {}
        """Items whose payload has changed."""
        self.overwritten: dict[int, tuple[NodeName, int]] = {}
        """By the number of an item that overwrites another: its node, and the number of the first item of the chain."""
        self.placeless: list[int] = []
        self.anew: dict[int, None] = {}
        self.receipts: dict[tuple[int, Jid], None] = {}
        self.staged: list[StagedRow] = []
        self.events: list[LogEntry] = []

    def begin(self, now: Millis, *, foreign: bool) -> None:
        """Begin a batch; if another process has written, it has taken numbers too."""
        self._at = now
        self.numbers.first_of_batch = 0
        if foreign:
            self._forget_numbers()

    def forget(self) -> None:
        """Forget everything: the transaction was rolled back, and with it the reserved numbers."""
        self.counters = Counters()
        self._begin_anew()
        self._forget_numbers()

    def _forget_numbers(self) -> None:
        self.tokens.forget()
        self.numbers.forget()

    def __bool__(self) -> bool:
        """Return whether the batch has changes that are not written yet."""
        return bool(
            self.counters
            or self.items
            or self.nodes
            or self.subscriptions
            or self.of
            or self.resources
            or self.present
            or self.active
            or self.able
            or self.events
        )

    # --- rows, and what depends on them ---

    def count(self, node: NodeName, by: int, size: int) -> None:
        """Count items of a node, and their bytes: at once if the node has a bound, otherwise together with the rest of the batch."""
        # without calls for the row and for `is_bounded`, because each item comes here twice
        nodes = self.cache.nodes
        row = nodes[node] if node in nodes else None  # noqa: SIM401
        if row is None:
            self.counters.unpaid(node, by, size)
        else:
            self.hold(row.creator, 0, by, size)
        if row is not None and (row.config.max_items or row.config.max_bytes):
            self.put_node(node, replace(row, items=row.items + by, bytes=row.bytes + size))
        else:
            self.counters.item(node, by, size)

    def count_done(self, node: NodeName, by: int, size: int) -> None:
        """Count what is done in a node: its account pays for the bytes."""
        row = self.cache.nodes.get(node)
        if row is None:
            self.counters.unpaid(node, 0, size)
        else:
            self.hold(row.creator, 0, 0, size)
        self.counters.done(node, by, size)

    def hold(self, account: Jid, nodes: int, items: int, size: int) -> None:
        """Update the account's total, if it is loaded: the store sums it up from the nodes."""
        holdings = self.cache.of[HOLDINGS]
        if account in holdings:
            holdings[account] = (holdings[account] or Holding(account)).more(nodes, items, size)

    def put_node(self, name: NodeName, now: Node | None) -> None:
        """Replace the row of a node; None removes it."""
        self.nodes.setdefault(name, self.cache.nodes.get(name))
        self.cache.nodes[name] = now

    def put_subscription(self, before: Subscription | None, now: Subscription | None) -> None:
        """Replace the row of a subscription, in all groups that it is in; None is no row."""
        row = now or before
        assert row is not None
        cache, node, jid = self.cache, row.node, row.jid
        account = account_of(jid)
        self.subscriptions.setdefault((node, jid), before)
        cache.rights.clear()
        if now is not None and now.unanswered:
            cache.silent[node, jid] = None
        else:
            cache.silent.pop((node, jid), None)
        everybody = cache.in_node.get(node)
        mine = cache.of_account.get((node, account))
        if everybody is not None and mine is None:
            mine = cache.of_account[node, account] = {}
        for group in (everybody, mine):
            if group is not None:
                _set(group, jid, now)
        if (everywhere := cache.everywhere.get(account)) is not None:
            _set(everywhere, (node, jid), now)
        if (of_jid := cache.of_jid.get(jid)) is not None:
            _set(of_jid, node, now)
        if (windows := cache.windows.get(node)) is not None:
            windows.move(before, now)
        if (
            before is None
            or now is None
            or before.listens != now.listens
            or before.several != now.several
        ):
            cache.audiences.pop(node, None)

    # --- writing ---

    def resolve(self, tx: Transaction) -> None:
        """Add the counts to their rows, loading those that are not known."""
        counters, cache = self.counters, self.cache
        if not counters:
            return
        if (needs := counters.needs(cache)) is not None:
            cache.fill(needs, tx.load(needs))
        for node, counted in counters.take_nodes(cache):
            self.put_node(node.name, counted)
        for payer, items, size in counters.take_unpaid(cache):
            self.hold(payer, 0, items, size)
        for before, now in counters.take_subscriptions(cache):
            self.put_subscription(before, now)

    def flush(self, tx: Transaction) -> None:
        """Write all changes, so that the next reads show them."""
        self.resolve(tx)
        if self:
            self.write(tx)

    def write(self, tx: Transaction, *bulk: Bulk) -> None:
        """Write the rows, and have the store make these changes of many rows after them."""
        writes = self._writes()
        writes.bulk.extend(bulk)
        self._begin_anew()
        tx.write(writes)

    def _writes(self) -> Writes:
        cache, writes = self.cache, Writes(self._at)
        writes.nodes = _changed(self.nodes, cache.nodes)
        writes.announce = self.announce
        writes.moved = self.moved
        writes.subscriptions = [
            Write(before, now)
            for (node, jid), before in self.subscriptions.items()
            if (now := cache.subscription(node, jid)) != before
        ]
        self._add_items(writes)
        if self.placeless:
            writes.placeless = self.placeless
            known = self.overwritten.items()
            writes.overwritten = [(node, old, new) for new, (node, old) in known]
        if self.resources:
            writes.resources = self._resource_writes()
        writes.present = list(self.present)
        writes.active = list(self.active.items())
        writes.able = list(self.able.items())
        for kind, befores in self.of.items():
            writes.of[kind] = _changed(befores, cache.of[kind], always=kind.always_written)
        writes.staged = self.staged
        writes.events = self.events
        return writes

    def _add_items(self, writes: Writes) -> None:
        cache = self.cache
        numbered, items, payloads = cache.numbered, writes.items, cache.payloads
        for seq, before in self.items.items():
            now = numbered.get(seq)
            if now is before:
                continue
            items.append(Write(before, now))
            if now is not None:
                if is_ready(now):
                    cache.note_ready(now)
                if before is None or seq in self.replaced:
                    writes.payloads[seq] = payloads[seq]
        cache.ready.clear()
        if self.anew:
            writes.anew = [seq for seq in self.anew if numbered.get(seq) is not None]
        if self.receipts:
            writes.receipts = [key for key in self.receipts if numbered.get(key[0]) is not None]

    def _resource_writes(self) -> list[Write[Jid]]:
        resources = self.cache.resources
        return [
            Write(jid if was else None, jid if now else None)
            for jid, was in self.resources.items()
            if (now := jid in resources.get(account_of(jid), ())) is not was
            or (now and jid in self.left)
        ]


def _set(group: dict[Any, Subscription], key: object, row: Subscription | None) -> None:
    if row is None:
        group.pop(key, None)
    else:
        group[key] = row


def _changed(
    befores: dict[Any, Any], rows: dict[Any, Any], *, always: bool = False
) -> list[Write[Any]]:
    return [
        Write(before, now)
        for key, before in befores.items()
        if (now := rows.get(key)) != before or always
    ]


# Numbers of a sequence, reserved in blocks, so that most batches need no statement for them.

BLOCK: Final = 1000
"""Numbers that are reserved at a time. Those that a process does not use are never used."""


def delivered_mark(instance: int) -> str:
    """Return the sequence whose next number is the first lock token whose delivery the process does not know to be sent."""
    return f"told-{instance}" if instance else "told"


class Numbers:
    """A block of one sequence. It is valid only while no other process takes numbers, so numbers rise with commits."""

    def __init__(self, sequence: str) -> None:
        self._sequence = sequence
        self._next = self._end = 0
        self.first_of_batch = 0
        """The first number that this batch has taken by `take`, 0 if there is none yet. It is set to 0 when a batch begins."""

    def forget(self) -> None:
        """Drop the block: another process has taken numbers, or its reservation was rolled back."""
        self._next = self._end = 0

    def first(self, tx: Transaction, count: int) -> int:
        """Return the first of `count` consecutive unused numbers."""
        if self._end - self._next < count:
            size = max(BLOCK, count)
            self._next = tx.number(self._sequence, size)
            self._end = self._next + size
        return self._next

    @property
    def next(self) -> int:
        """The next number of the block, 0 if there is none. Lower numbers are used, or never will be."""
        return self._next

    def used(self, number: int) -> None:
        """Note that a number was used."""
        if number >= self._next:
            self._next = number + 1

    def take(self, tx: Transaction) -> int:
        """Return an unused number."""
        number = self._next if self._next < self._end else self.first(tx, 1)
        self._next = number + 1
        if not self.first_of_batch:
            self.first_of_batch = number
        return number
