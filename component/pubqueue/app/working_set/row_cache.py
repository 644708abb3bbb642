"""The rows that a process keeps between batches: as loaded, and as the batch has changed them so far.

Every table is a dictionary. A key with None is a row that is known not to exist; for a missing key nothing is known.
A group (all subscriptions of a node, all items that a JID holds) is complete if its key exists, and is kept complete.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from pubqueue.app.store.kinds import TablesByKind
from pubqueue.app.store.rows import HELD, Passed, rank
from pubqueue.model.entities import account_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.app.store.rows import Needs, Rows
    from pubqueue.app.working_set.crowd_windows import CrowdWindows
    from pubqueue.app.working_set.free_windows import FreeWindows
    from pubqueue.app.working_set.tentative.first_items import FirstItems
    from pubqueue.model.entities import (
        Affiliation,
        Item,
        ItemId,
        Jid,
        Millis,
        Node,
        NodeName,
        Subscription,
    )
    from pubqueue.model.notices import Several

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
