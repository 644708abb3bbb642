"""The steps of the store contract: make changes, and say what is there afterwards.

A store is given rows, so a `RowMaker` makes them: it reads what a change needs, keeps what `model.after` makes
of it together with the counters, and writes all of it at once, as a batch does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.batches.facts import ANN, JOBS, NOW, after, draft, queue
from harness.stores.rows import needs_of, of_kind, writes_of
from harness.stores.store_contents import contents
from msgspec.structs import replace

from pubqueue.engine.listings import ItemIds, Orphans
from pubqueue.engine.rows import (
    KIND_OF,
    AffiliationRow,
    Finished,
    Needs,
    StagedKey,
    StagedRow,
    Write,
    Writes,
)
from pubqueue.model import after as afterwards
from pubqueue.model import changes as c
from pubqueue.model.entities import (
    NO_TIME,
    Affiliation,
    Item,
    ItemId,
    Jid,
    Millis,
    NodeName,
    State,
    Subscription,
    account_of,
)
from pubqueue.model.transactions import (
    Abort,
    App,
    Attempt,
    Commit,
    Moved,
    Restore,
    SetAside,
    Stage,
    StagedTotals,
    Sweep,
    Version,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.engine.ports import Store, Transaction
    from pubqueue.model.changes import Change
    from pubqueue.model.entities import Node


DEAD = NodeName("jobs-dead")
EMPTY = queue(subscriptions=0)
ANN_ACCOUNT = Jid("ann@x")
ENOUGH = 1_000_000
"""Bytes of payload, more than there are."""
IN_TIME = after(300)

BULK = (
    c.PurgeNode,
    c.DropFormer,
    c.BeginReview,
    c.EndReview,
    c.BeginTrim,
    c.EndTrim,
    c.Forget,
    c.ForgetEvents,
    c.NoteSamples,
    c.NoteSums,
    SetAside,
    Commit,
    Moved,
    Abort,
    Restore,
    Sweep,
)

NEEDS: Final = {
    "nodes": lambda key: Needs(nodes={key}),
    "affiliations": lambda key: needs_of(affiliations={key}),
    "subscriptions": lambda key: Needs(subscriptions={(key[0], account_of(key[1]))}),
    "resources": lambda key: Needs(resources={account_of(key)}),
    "finished": lambda key: needs_of(finished={key}),
    "seeks": lambda key: needs_of(seeks={key}),
    "settled": lambda key: needs_of(settled={key}),
    "ping_answers": lambda key: needs_of(ping_answers={key}),
    "answered_deliveries": lambda key: needs_of(answered_deliveries={key}),
    "used_keys": lambda key: needs_of(used_keys={key}),
    "key_totals": lambda key: needs_of(key_totals={key}),
    "apps": lambda key: needs_of(apps={key}),
    "versions": lambda key: needs_of(versions={key}),
    "attempts": lambda key: needs_of(attempts={key}),
    "waiting": lambda key: needs_of(waiting={key}),
}
"""What is asked for to find a row of this kind."""

KEYS: Final = {
    "subscriptions": lambda row: (row.node, row.jid),
    "resources": lambda row: row,
}
"""How a row is told from others that are found with it."""


class BrokenError(Exception):
    """Something that goes wrong in the middle of a transaction."""


class RowMaker:
    """Makes changes in a transaction, each of what its rule believed, and keeps the counters right."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._begin()

    def _begin(self) -> None:
        self._rows: dict[tuple[str, Any], list[Any]] = {}
        self._writes = Writes(NOW)

    def make(self, change: Change) -> None:  # a row for each kind
        """Take one change; what has to be written on its own is written at once."""
        match change:
            case c.CreateNode() | c.ConfigureNode() | c.DeleteNode():
                self._change_node(change)
            case c.SetAffiliation():
                kind = change.affiliation
                row = AffiliationRow(change.node, change.jid, kind)
                self._put(
                    "affiliations",
                    (change.node, change.jid),
                    None if kind is Affiliation.NONE else row,
                )
            case c.NoteResource():
                self._put("resources", change.jid, change.jid)
            case c.ForgetResource():
                self._put("resources", change.jid, None)
            case c.PutRow(row=row):
                kind = KIND_OF[type(row)]
                self._put(kind.name, kind.key_of(row), row)
            case c.DropRow(kind=row, key=key):
                self._put(KIND_OF[row].name, key, None)
            case Stage():
                self._stage(change)
            case _ if isinstance(change, c.SubscriptionChange):
                self._change_subscription(change)
            case _ if isinstance(change, c.ItemChange):
                self._change_item(change)
            case _:
                assert isinstance(change, BULK)
                self.write()
                self._writes.bulk.append(change)
                self.write()

    def write(self) -> None:
        """Write what has gathered."""
        for (kind, _), (before, now) in self._rows.items():
            if before != now:
                of_kind(self._writes, kind).append(Write(before, now))
        writes = self._writes
        self._begin()
        self._tx.write(writes)

    def _row(self, kind: str, key: Any) -> list[Any]:
        """Return what the row was and what it is."""
        if (kind, key) not in self._rows:
            found = of_kind(self._tx.load(NEEDS[kind](key)), kind)
            key_of = KEYS.get(kind, lambda _: key)
            row = next((row for row in found if key_of(row) == key), None)
            self._rows[kind, key] = [row, row]
        return self._rows[kind, key]

    def _put(self, kind: str, key: Any, now: Any) -> None:
        self._row(kind, key)[1] = now

    def _change_node(self, change: c.CreateNode | c.ConfigureNode | c.DeleteNode) -> None:
        name = change.node.name if isinstance(change, c.CreateNode) else change.node
        if isinstance(change, c.DeleteNode):
            self.write()
            self._writes.announce += [name] if change.announce else []
            self._writes.moved |= {name: change.uri} if change.uri else {}
        self._put("nodes", name, afterwards.node_after(change, self._row("nodes", name)[1]))
        if not isinstance(change, c.ConfigureNode):
            self.write()

    def _change_subscription(self, change: c.SubscriptionChange) -> None:
        of = change.subscription if isinstance(change, c.AddSubscription) else change
        before = self._row("subscriptions", (of.node, of.jid))[1]
        now = afterwards.subscription_after(change, before)
        self._put("subscriptions", (of.node, of.jid), now)
        self._count(of.node, "subscriptions", (now is not None) - (before is not None))
        if isinstance(change, c.EndSubscription):
            self.write()  # the next one of this JID is another row

    def _count(self, name: NodeName, what: str, by: int) -> None:
        node = self._row("nodes", name)[1]
        if node is not None and by:
            self._put("nodes", name, replace(node, **{what: getattr(node, what) + by}))

    # --- items ---

    def _change_item(self, change: c.ItemChange) -> None:
        if isinstance(change, c.AddItem):
            change = replace(change, seq=self._tx.number("item", 1))
            self._writes.payloads[change.seq] = change.draft.payload
        elif isinstance(change, c.GiveUp):
            change = replace(change, number=self._tx.number("token", 1))
        elif isinstance(change, c.ReplacePayload):
            self._writes.payloads[change.item.seq] = change.payload
        before = None if isinstance(change, c.AddItem) else change.item
        now = afterwards.after(change)
        seq = now.seq if now is not None else before.seq
        first = self._rows.setdefault(("items", seq), [before, before])
        first[1] = now
        self._count_item(before, now)
        self._note_receipts(before, now)
        if isinstance(change, c.RemoveItem) and change.absorb_until is not None:
            done = Finished(before.node, before.id, change.digest, change.absorb_until)
            self._put("finished", (before.node, before.id), done)

    def _note_receipts(self, before: Item | None, now: Item | None) -> None:
        loser = afterwards.lost_by(before, now)
        if loser is not None:
            self._writes.receipts.append((now.seq, loser))
        if afterwards.begins_anew(before, now):
            self._writes.anew.append(now.seq)

    def _count_item(self, before: Item | None, now: Item | None) -> None:
        for item, by in ((before, -1), (now, 1)):
            if item is not None and item.state is State.DONE:
                self._count(item.node, "done", by)
                self._count(item.node, "done_bytes", by * item.size)
            elif item is not None:
                self._count(item.node, "items", by)
                self._count(item.node, "bytes", by * item.size)
                if item.holder is not None:
                    self._count_lock(item, by, gone=afterwards.in_queue(now) is None)

    def _count_lock(self, item: Item, by: int, *, gone: bool) -> None:
        key = item.node, item.holder
        row: Subscription | None = self._row("subscriptions", key)[1]
        if row is not None:
            served = max(row.last_served, item.token) if by > 0 else row.last_served
            known = {"last_served": served, "unanswered": 0 if gone else row.unanswered}
            self._put("subscriptions", key, replace(row, in_flight=row.in_flight + by, **known))

    # --- what waits for a commit ---

    def _stage(self, change: Stage) -> None:
        mark = change.mark
        more = sum(row.over is None for row in change.rows)
        size = sum(row.size - (row.over or 0) for row in change.rows)
        app = self._row("apps", mark.app)[1] or App(mark.app, change.owner)
        self._put("apps", mark.app, replace(app, used=change.at))
        times = change.at, change.until
        new = Version(mark.app, mark.version, change.owner, mark.immediate, *times)
        place = mark.app, mark.version, mark.part, mark.attempt
        for kind, key, none in (
            ("versions", place[:2], new),
            ("attempts", place, Attempt(*place)),
            ("waiting", change.owner, StagedTotals(change.owner)),
            ("waiting", "", StagedTotals("")),
        ):
            row = self._row(kind, key)[1] or none
            reported = {"items": row.items + more, "bytes": row.bytes + size}
            if kind == "attempts":
                reported["known"] = row.known + sum(
                    one.known for one in change.rows if not one.over
                )
                reported["grouped"] = row.grouped + sum(
                    bool(one.draft.group) for one in change.rows
                )
            self._put(kind, key, replace(row, **reported))
        self._writes.staged += [
            StagedRow(StagedKey(*place, change.node, row.draft.id), row) for row in change.rows
        ]


def do(tx: Transaction, *changes: Change) -> None:
    """Make the changes in order."""
    maker = RowMaker(tx)
    for change in changes:
        maker.make(change)
    maker.write()


async def make(store: Store, *changes: Change) -> None:
    await store.batch(lambda tx: do(tx, *changes))


async def write(store: Store, **rows: Any) -> None:
    """Write these rows in a batch of their own."""
    await store.batch(lambda tx: tx.write(writes_of(NOW, **rows)))


async def load(store: Store, **keys: Any) -> object:
    """Return the rows that are found for these keys."""
    return await store.batch(lambda tx: tx.load(needs_of(**keys)))


async def listed(store: Store, listing: Any, after: object = None, limit: int = 99) -> list[Any]:
    """Return a page of the listing."""
    return await store.batch(lambda tx: tx.page(listing, after, limit))


OF_DRAFT: Final = ("payload", "priority", "headers", "group")


def add(name: str, *, node: NodeName = JOBS, **facts) -> c.AddItem:
    """Return the change that adds an item; `facts` are of the item or of its draft."""
    of_draft = {key: facts.pop(key) for key in OF_DRAFT if key in facts}
    known = {"state": State.QUEUED, "due": None, "expires": None} | facts
    return c.AddItem(node, draft(name, **of_draft), Jid("etl@x"), NOW, **known)


async def items(store: Store, *names: str, node: NodeName = JOBS) -> list[Item]:
    """Return the items of these names, all of which must be there."""
    keys = {(node, ItemId(name)) for name in names}
    rows = await store.batch(lambda tx: tx.load(Needs(items=keys)))
    found = {item.id: item for item in rows.items}
    return [found[ItemId(name)] for name in names]


async def ids(store: Store, node: NodeName = JOBS) -> list[ItemId]:
    """Return the ids of the node's items, the oldest first."""
    return await listed(store, ItemIds(node))


async def payloads(store: Store, node: NodeName = JOBS) -> dict[str, bytes]:
    """Return the payloads of the node's items by their ids."""
    return {item.id: load for item, load in await store.batch(lambda tx: contents(tx, node))}


async def node_row(store: Store, name: NodeName = JOBS) -> Node | None:
    """Return the node."""
    rows = await store.batch(lambda tx: tx.load(Needs(nodes={name})))
    return rows.nodes[0] if rows.nodes else None


async def window_row(store: Store, jid: str, node: NodeName = JOBS) -> Subscription | None:
    """Return the subscription of exactly this JID."""
    key = node, account_of(Jid(jid))
    rows = await store.batch(lambda tx: tx.load(Needs(subscriptions={key})))
    return next((row for row in rows.subscriptions if row.jid == jid), None)


async def losers(store: Store, item: Item) -> list[Jid]:
    """Return who held the item and lost it, by JID."""
    rows = await store.batch(lambda tx: tx.load(Needs(receipts={item.seq})))
    assert {seq for seq, _ in rows.receipts} <= {item.seq}
    return sorted(jid for _, jid in rows.receipts)


async def lock(
    store: Store, name: str, holder: str = ANN, *, token: int = 7, deadline: Millis = IN_TIME
) -> Item:
    """Lock an item and return it as it is then."""
    (item,) = await items(store, name)
    await make(store, c.Lock(item, Jid(holder), token, deadline, NOW))
    (item,) = await items(store, name)
    return item


async def ready(
    store: Store, room: int = 9, byte_count: int = ENOUGH, now: Millis = NOW
) -> tuple[str, str]:
    """Return the names of what is ready in JOBS: of what is queued, and of what is put aside."""
    rows = await store.batch(lambda tx: tx.ready({JOBS: room}, now, byte_count).rows)
    return of_state(rows, aside=False), of_state(rows, aside=True)


def of_state(rows: Sequence[tuple[Item, bytes]], *, aside: bool) -> str:
    return "".join(item.id for item, _ in rows if item.aside is aside)


def release(item: Item, **changes) -> c.Release:
    known = c.Release(item, State.QUEUED, None, failed=item.failed, released=item.released + 1)
    return replace(known, **changes)


async def sweep_once(store: Store, limit: int) -> None:
    """Sweep a slice of so many rows."""
    orphans = await listed(store, Orphans(), None, limit)
    await make(store, Sweep(NO_TIME, limit, tuple(orphans)))


async def sweep(store: Store, limit: int) -> None:
    """Sweep in slices of so many rows, until nothing is left that is due."""
    while (moment := await store.batch(lambda tx: tx.next_due())) is not None and moment <= NOW:
        await sweep_once(store, limit)
