"""Changes of items in the working set: their rows, the groups they are in, and what depends on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from pubqueue.app.store.ports import StaleError
from pubqueue.app.store.rows import FINISHED, Finished
from pubqueue.app.working_set.batch_changes import BatchChanges
from pubqueue.model import changes as c
from pubqueue.model.after import after, begins_anew, in_queue, is_ready, lost_by
from pubqueue.model.entities import State, account_of
from pubqueue.rules.dispatch import in_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.model.changes import ItemChange
    from pubqueue.model.entities import Item, Jid, NodeName

    MovingChange = (
        c.ReplacePayload
        | c.Lock
        | c.Release
        | c.Postpone
        | c.Extend
        | c.SetLife
        | c.Revive
        | c.Ripen
        | c.TakeTurn
        | c.GiveUp
        | c.RemoveItem
    )


class ItemChanges(BatchChanges):
    """Makes changes of single items."""

    def _add(self, asked: object, change: c.AddItem) -> None:
        if not change.seq:
            change = replace(change, seq=self._numbers.take(self._rows.tx))
        self._cache.payloads[change.seq] = change.draft.payload
        if change.instead:
            chain = self._pending.overwritten
            first = chain.pop(change.instead, (change.node, change.instead))
            chain[change.seq] = first
        self._put_item(asked, change, None)

    def _replace(self, asked: object, change: c.ReplacePayload) -> None:
        seq = change.item.seq
        self._cache.payloads[seq] = change.payload
        self._pending.replaced[seq] = None
        self._item(asked, change)

    def _lock(self, asked: object, change: c.Lock) -> None:
        self._tokens.used(change.token)
        self._item(asked, change)

    def _give_up(self, asked: object, change: c.GiveUp) -> None:
        if not change.number:
            change = replace(change, number=self._tokens.take(self._rows.tx))
        self._item(asked, change)
        for copy in change.copies:
            self._add(asked, copy)

    def _remove(self, asked: object, change: c.RemoveItem) -> None:
        if change.absorb_until is not None:
            key = change.item.node, change.item.id
            finished = self._cache.of[FINISHED]
            self._pending.of[FINISHED].setdefault(key, finished.get(key))
            finished[key] = Finished(*key, change.digest, change.absorb_until)
        if not change.item.acquired:  # an item that was delivered is not of a plain node
            node = self._cache.nodes.get(change.item.node)
            if node is not None and not node.config.queueing:
                self._pending.placeless.append(change.item.seq)
        self._item(asked, change)

    def _item(self, asked: object, change: MovingChange) -> None:
        before = change.item
        numbered, seq = self._cache.numbered, before.seq
        if seq in numbered and numbered[seq] is not before and numbered[seq] != before:
            raise StaleError("item", seq)
        self._put_item(asked, change, before)

    def _put_item(self, asked: object, change: ItemChange, before: Item | None) -> None:
        now = after(change)
        row = now or before
        assert row is not None
        if self._logs(row.node) or (before is not None and before.node != row.node):
            self._note_event(asked, change)
        if row.group:
            self._call_group(before, now)
        if row.seq not in self._pending.items:
            self._pending.items[row.seq] = before
        self._cache.numbered[row.seq] = now
        if (now is not None and now.state is State.DONE) or (
            before is not None and before.state is State.DONE
        ):
            self._move_done(before, now)
            before, now = in_queue(before), in_queue(now)
        moves = before is None or now is None or before.node != now.node
        if before is not None:
            self._take_out(before, now, gone=moves)
        if now is not None:
            self._put_in(before, now, new=moves)
        if before is not None and now is not None and before.size != now.size and not moves:
            self._count(now.node, 0, now.size - before.size)
        if before is not None and now is not None and before.acquired:
            self._note_receipts(before, now)

    def _move_done(self, before: Item | None, now: Item | None) -> None:
        """Count an item that is done, or is no longer."""
        for item, by in ((before, -1), (now, 1)):
            if item is not None and item.state is State.DONE:
                self._count_done(item.node, by, by * item.size)
                self._cache.passing[item.node, item.id, item.seq] = None

    def _call_group(self, before: Item | None, now: Item | None) -> None:
        """Note a group whose item with the turn has left it, and a group that an item now waits in."""
        if before is not None and before.turn and (now is None or not now.turn):
            self.groups[before.node, before.group] = None
        if now is not None and in_line(now):
            self.groups[now.node, now.group] = None

    def _take_out(self, before: Item, now: Item | None, *, gone: bool) -> None:
        """Take an item out of the groups that it was in."""
        cache, node, seq = self._cache, before.node, before.seq
        if node in cache.ready:
            cache.ready[node].pop(seq, None)
        if gone:
            cache.items[node, before.id] = None
            cache.passing[node, before.id, seq] = None
            self._count(node, -1, -before.size)
        held = before.holder
        if held is not None:
            if held in cache.held:
                cache.held[held].pop(seq, None)
            if now is None or now.holder != held:
                self.touched[node] = None
                self._counters.lock(node, held, -1, reached=now is None)
                if cache.held_of:
                    self._count_held(node, held, -1)

    def _put_in(self, before: Item | None, now: Item, *, new: bool) -> None:
        """Put an item into the groups that it is in."""
        cache, node, seq = self._cache, now.node, now.seq
        cache.items[node, now.id] = now
        cache.passing[node, now.id, seq] = None
        if new:
            self._count(node, 1, now.size)
        if is_ready(now):
            cache.ready[node][seq] = now
            self.touched[node] = None
        holds = now.holder
        if holds is not None:
            if holds in cache.held:
                cache.held[holds][seq] = now
            if before is None or before.holder != holds:
                self._counters.lock(node, holds, 1, token=now.token)
                if cache.held_of:
                    self._count_held(node, holds, 1)
        self._note_moment(now)

    def _count_held(self, node: NodeName, holder: Jid, by: int) -> None:
        """Update how many items an account with takes holds."""
        key, held_of = (node, account_of(holder)), self._cache.held_of
        if key in held_of:
            held_of[key] += by

    def _note_moment(self, now: Item) -> None:
        moment = now.deadline if now.state is State.LOCKED else now.expires
        if now.state is State.DELAYED and now.due is not None:
            moment = now.due if moment is None else min(moment, now.due)
        if moment is not None and moment < self.soonest and now.state is not State.DEAD:
            self.soonest = moment

    def _note_receipts(self, before: Item, now: Item) -> None:
        if (loser := lost_by(before, now)) is not None:
            self._pending.receipts[before.seq, loser] = None
            self._cache.lost[before.seq, loser] = None
        elif begins_anew(before, now):
            self._forget_receipts(before.seq)

    def _forget_receipts(self, seq: int) -> None:
        pending = self._pending
        pending.anew[seq] = None
        self._cache.receipts[seq] = {}
        if self._cache.lost:
            for key in [key for key in self._cache.lost if key[0] == seq]:
                del self._cache.lost[key]
        pending.receipts = {key: None for key in pending.receipts if key[0] != seq}

    # fmt: off
    OF_ITEMS: ClassVar[dict[type, Callable[[Any, object, Any], None]]] = {
        c.AddItem:         _add,
        c.ReplacePayload:  _replace,
        c.Lock:            _lock,
        c.Release:         _item,
        c.Postpone:        _item,
        c.Extend:          _item,
        c.SetLife:         _item,
        c.Revive:          _item,
        c.Ripen:           _item,
        c.TakeTurn:        _item,
        c.GiveUp:          _give_up,
        c.RemoveItem:      _remove,
    }
    # fmt: on
