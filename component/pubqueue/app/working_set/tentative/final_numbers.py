"""Replaces provisional numbers by numbers of the store, in decisions that were tried (`TentativeChanges`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pubqueue.model import changes as c
from pubqueue.model.decision import Published

if TYPE_CHECKING:
    from pubqueue.app.store.ports import Transaction
    from pubqueue.app.working_set.sequences import Numbers
    from pubqueue.model.changes import Change
    from pubqueue.model.decision import Decision
    from pubqueue.model.entities import Item


class FinalNumbers:
    """Takes the numbers from these sequences, in the order of the changes."""

    def __init__(self, tx: Transaction, tokens: Numbers, numbers: Numbers) -> None:
        self._tx, self._tokens, self._numbers = tx, tokens, numbers
        self._given: dict[int, int] = {}

    def of(self, decision: Decision) -> Decision:
        """Return the decision with numbers of the store."""
        if not decision.changes and not self._given:
            return decision
        changes = tuple([self._of_change(change) for change in decision.changes])
        reply = decision.reply
        if isinstance(reply, Published) and reply.dead:
            reply = replace(reply, dead=tuple(map(self._of_item, reply.dead)))
        return replace(decision, changes=changes, reply=reply)

    def _of_change(self, change: Change) -> Change:
        if isinstance(change, c.AddItem):
            seq = self._given[change.seq] = self._numbers.take(self._tx)
            instead = self._given.get(change.instead, change.instead)
            return replace(change, seq=seq, instead=instead)
        item = getattr(change, "item", None)
        if item is not None and self._given and (known := self._of_item(item)) is not item:
            change = replace(change, item=known)
        if isinstance(change, c.GiveUp):
            number = self._given[change.number] = self._tokens.take(self._tx)
            change = replace(change, number=number)
            if (onward := change.onward) is not None:
                copies = tuple([self._of_change(copy) for copy in onward.copies])
                change = replace(change, onward=replace(onward, copies=copies))
        return change

    def _of_item(self, item: Item) -> Item:
        dead = item.dead_letter
        if dead is not None and dead.number in self._given:
            item = replace(item, dead_letter=replace(dead, number=self._given[dead.number]))
        return replace(item, seq=self._given[item.seq]) if item.seq in self._given else item
