"""The rows that a process keeps between batches: as loaded, and as the batch has changed them so far.

Every table is a dictionary. A key with None is a row that is known not to be there; a key that is missing is not
known. Groups (all subscriptions of a node, all that a JID holds) are whole where their key is there, and are kept so.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from pubqueue.app.store.kinds import TablesByKind
from pubqueue.app.store.rows import HELD, Passed, rank
from pubqueue.core.addresses import account_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.app.store.rows import Needs, Rows
    from pubqueue.app.working_set.crowd_windows import CrowdWindows
    from pubqueue.app.working_set.free_windows import FreeWindows
    from pubqueue.core.model import (
        Affiliation,
        Item,
        ItemId,
        Jid,
        Millis,
        Node,
        NodeName,
        Subscription,
    )
    from pubqueue.core.notices import Several

ABSENT: Final[Any] = object()
"""Where there was no key."""

MAX_ITEMS: Final = 100_000
MAX_ROWS: Final = 400_000
"""Rows that are kept between batches at most: locked items, and of all other kinds together."""

MAX_BYTES: Final = 32 << 20
"""Bytes of names and addresses that were looked up and are remembered at most, found or not: each may be 3 KB, and anybody names
what is not there."""

BATCHES: Final = 64
"""After so many batches it is looked whether there are more."""


class RowCache:
    """Tables of rows and groups of them."""

    def __init__(self) -> None:
        self.of = TablesByKind()
        """Of the kinds in `rows.KINDS`."""
        self.nodes: dict[NodeName, Node | None] = {}
        self.rights: dict[tuple[NodeName, Jid], tuple[Affiliation, bool]] = {}
        """What accounts are to nodes, and whether they subscribe: worked out once for all requests of a batch."""
        self.in_node: dict[NodeName, dict[Jid, Subscription]] = {}
        self.of_account: dict[tuple[NodeName, Jid], dict[Jid, Subscription]] = {}
        self.everywhere: dict[Jid, dict[tuple[NodeName, Jid], Subscription]] = {}
        self.of_jid: dict[Jid, dict[NodeName, Subscription]] = {}
        self.audiences: dict[NodeName, tuple[Jid, ...] | Several] = {}
        """Who of `in_node` can be told something, as a value that can be handed on."""
        self.windows: dict[NodeName, FreeWindows | CrowdWindows] = {}
        self.silent: dict[tuple[NodeName, Jid], None] = {}
        """Subscriptions with unanswered deliveries, of those that are known: whoever of them asks is alive."""
        self.resources: dict[Jid, dict[Jid, int]] = {}
        self.passers_by: list[tuple[Jid, NodeName | None]] = []
        """Who sent presence in this batch, or a bounce about a node: what says that there is nothing of them is not kept."""
        self.items: dict[tuple[NodeName, ItemId], Item | None] = {}
        self.numbered: dict[int, Item | None] = {}
        self.held: dict[Jid, dict[int, Item]] = {}
        self.hoarders: set[Jid] = set()
        """Those of them that hold more than was loaded; good for one batch."""
        self.payloads: dict[int, bytes] = {}
        self.receipts: dict[int, dict[Jid, None]] = {}
        self.ready: defaultdict[NodeName, dict[int, Item]] = defaultdict(dict)
        """Items that can be handed out and are not written yet."""
        self.idle: set[NodeName] = set()
        """Nodes of which nothing that is written can be handed out."""
        self.passed: dict[NodeName, tuple[Millis, Passed]] = {}
        """Of queues places up to which nothing that is written lives, as of a moment."""
        self.doubted: set[NodeName] = set()
        """Of these somebody else may have written in front of the place since: the look under way is the last from there."""
        self.passing: dict[tuple[NodeName, ItemId, int], None] = {}
        """Items met in this batch, which are kept only if they are locked at its end."""
        self.batches = 0
        self.byte_count = 0
        """Of the names and addresses that were asked for since everything was forgotten."""

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
        """Know of these no more whether they subscribe to the node."""
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
        """Take in the answer to a question."""
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
            self.resources[account_of(jid)][jid] = found.heard.get(jid, 0)
        for item in found.items:
            self._fill_item(item)
        for seq, payload in found.payloads:
            self.payloads[seq] = payload
        for seq, jid in found.receipts:
            self.receipts[seq][jid] = None
        self.hoarders.update(jid for jid in asked.held if len(self.held[jid]) > HELD)

    def _fill_absent(self, asked: Needs) -> None:
        """Let everything that was asked for be known not to be there, until it is found."""
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
        """Note that there is an item, now written, that can be handed out."""
        node = item.node
        self.idle.discard(node)
        if (known := self.passed.get(node)) is not None:
            at, passed = known
            lives = item.expires is None or item.expires > at
            if lives and rank(item) <= (passed.aside if item.aside else passed.queued):
                del self.passed[node]

    # --- between two batches ---

    def shrink(self) -> None:
        """Keep what the next batches are likely to need: nodes and those around them, locked items."""
        for table in (self.payloads, self.receipts, self.ready, self.rights):
            table.clear()
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
        elif self.batches % BATCHES == 0:  # counting takes longer the more nodes are known
            self._bound()

    def _let_pass(self) -> None:
        """Keep nothing of who is a stranger: anybody can send presence, under addresses of any length."""
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
        """Forget everything if it is too much."""
        rows = len(self.nodes) + len(self.of_account) + len(self.everywhere) + len(self.of_jid)
        rows += len(self.resources) + len(self.held) + sum(map(len, self.in_node.values()))
        rows += sum(len(table) for kind, table in self.of.items() if kind.kept)
        if rows > MAX_ROWS or len(self.numbered) > MAX_ITEMS:
            self.forget()

    def forget_foreign(self) -> None:
        """Know nothing any more but how far the looks have come that are under way: they would never come to an end."""
        passed = self.passed
        self.forget()
        self.passed, self.doubted = passed, set(passed)

    def forget(self) -> None:
        """Know nothing any more."""
        self.__init__()  # type: ignore[misc]  # the tables are all there is


def _byte_count(asked: Needs) -> int:
    """Return the bytes, about, of the names and addresses under which is kept what was found, and what was not."""
    one_by_one = (asked.nodes, asked.subscribers, asked.accounts, asked.jids, asked.resources)
    size = sum(len(name) for names in (*one_by_one, asked.held) for name in names)
    kept = [keys for kind, keys in asked.of.items() if kind.kept]
    return size + sum(
        len(key) if isinstance(key, str) else sum(map(len, key))
        for keys in (asked.subscriptions, *kept)
        for key in keys
    )
