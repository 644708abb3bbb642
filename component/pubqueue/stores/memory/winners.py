"""The winners of one version: what they meet under their ids, and how they take their places."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.app.listings import NodeWinners, WinnerClass
from pubqueue.app.rows import Contest
from pubqueue.core.model import NO_TIME, Item, ItemId, State, later
from pubqueue.core.transactions.elsewhere import id_elsewhere
from pubqueue.core.transactions.model import TakenId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pubqueue.core.model import Draft, Millis, NodeName
    from pubqueue.core.transactions.model import Commit, CommittedNode, SetAside, StagedItem
    from pubqueue.stores.memory.contents import Contents

    Key = tuple[int, int]

FINISHED = "finished"


class Winner(Struct):
    """A row, and what it has met: an item by its number, or finished work; `last` if no later one wins."""

    key: Key
    node: NodeName
    row: StagedItem
    last: bool = True
    seq: int | None = None
    state: str | None = None
    same: bool | None = None


class Choice:
    """The attempts that stand for the parts of a version. Nothing of it outlives the transaction."""

    def __init__(
        self, contents: Contents, app: str, version: int, parts: Iterable[tuple[int, int]]
    ) -> None:
        self._contents = contents
        staging = contents.staging
        named = {
            (one.attempt.part, one.attempt.number): one.number
            for one in staging.attempts_of((app, version))
        }
        chosen = sorted(part for part in parts if part in named)
        self._attempts = [named[part] for part in chosen]
        self._winners: dict[Key, Winner] = {}
        self._of: dict[NodeName, list[Winner]] = {}
        self._open: dict[NodeName, dict[Key, None]] = {}
        self._looked: set[NodeName] = set()

    def meet(self) -> list[NodeWinners]:
        """Let the winners meet each other and what is there, and return the winners of each node."""
        last: dict[tuple[NodeName, ItemId], Winner] = {}
        for attempt in self._attempts:
            for at, ((node, name), row) in enumerate(self._contents.staging.rows(attempt).items()):
                winner = Winner((attempt, at), node, row)
                if (node, name) in last:
                    last[node, name].last = False
                last[node, name] = winner
                self._winners[winner.key] = winner
                self._of.setdefault(node, []).append(winner)
        for winner in last.values():
            self._meet_item(winner)
        ids = Counter(node for node, _ in last)
        return [NodeWinners(node, len(rows), ids[node]) for node, rows in self._of.items()]

    def _meet_item(self, winner: Winner) -> None:
        draft = winner.row.draft
        item = self._contents.items.find(winner.node, draft.id)
        if item is not None:
            winner.seq, winner.state = item.seq, item.state
            if self._contents.items.payloads.rows[item.seq] == draft.payload:
                winner.same = True
            else:
                self._open.setdefault(winner.node, {})[winner.key] = None

    def contests(self, node: NodeName, absorbing: Millis | None, limit: int) -> list[Contest]:
        """Return winners of which it is open whether they mean the same as what is there."""
        if absorbing is not None and node not in self._looked:
            self._looked.add(node)
            self._meet_finished(node, absorbing)
        keys = [key for key, _ in zip(self._open.get(node, ()), range(limit), strict=False)]
        return [self._contest(self._winners[key]) for key in keys]

    def _meet_finished(self, node: NodeName, absorbing: Millis) -> None:
        for winner in self._of.get(node, ()):
            done = self._contents.items.finished.rows.get((node, winner.row.draft.id))
            if winner.last and winner.state is None and done and done.until > absorbing:
                winner.state = FINISHED
                self._open.setdefault(node, {})[winner.key] = None

    def _contest(self, winner: Winner) -> Contest:
        offered, items = winner.row.draft.payload, self._contents.items
        if winner.seq is not None:
            return Contest(winner.key, False, items.payloads.rows[winner.seq], offered)  # noqa: FBT003  # an item
        done = items.finished.rows[winner.node, winner.row.draft.id]
        return Contest(winner.key, True, done.digest, offered)  # noqa: FBT003  # finished work

    def judge(self, verdicts: Iterable[tuple[Contest, bool]]) -> None:
        """Keep whether these mean the same; finished work that does not counts no longer."""
        for contest, same in verdicts:
            winner = self._winners[contest.key]
            self._open.get(winner.node, {}).pop(contest.key, None)
            winner.same = same
            if contest.finished and not same:
                winner.state = winner.same = None

    def classes(self, node: NodeName) -> list[WinnerClass]:
        """Return what the winners of a node have met."""
        found: dict[tuple[str, bool], list[ItemId]] = {}
        for winner in self._of.get(node, ()):
            if winner.state is not None:
                key = winner.state, bool(winner.same)
                found.setdefault(key, []).append(winner.row.draft.id)
        return [WinnerClass(*key, len(names), min(names)) for key, names in found.items()]

    def taken(self, node: NodeName) -> list[TakenId]:
        """Return the winners of a node that cannot have their ids, by id."""
        found = [(w.row.draft.id, State(w.state)) for w in self._taken(node) if w.state]
        return [TakenId(node, name, state) for name, state in sorted(found)]

    def _taken(self, node: NodeName) -> list[Winner]:
        kept = {State.LOCKED.value, State.DEAD.value}
        return [w for w in self._of.get(node, ()) if w.same is False and w.state in kept]

    def drafts(self, node: NodeName) -> list[Draft]:
        """Return the winners of a node, in their order, superseded ones left out."""
        return [
            replace(w.row.draft, delay=w.row.pause or NO_TIME, ttl=w.row.life)
            for w in self._of.get(node, ())
            if w.last
        ]

    # --- what becomes of them ---

    def set_aside(self, change: SetAside) -> None:
        """Let winners that cannot have their ids win no longer, or in another node."""
        for node in list(self._of):
            for winner in self._taken(node):
                winner.seq = winner.state = winner.same = None
                self._of[node].remove(winner)
                if change.to is None:
                    continue
                place = f"{self._attempts.index(winner.key[0])}.{winner.key[1]}"
                name = id_elsewhere(node, winner.row.draft.id, change.at, place)
                winner.row = replace(winner.row, draft=replace(winner.row.draft, id=name))
                winner.node = change.to
                self._of.setdefault(change.to, []).append(winner)
        for found in self._of.values():
            found.sort(key=lambda winner: (self._attempts.index(winner.key[0]), winner.key[1]))

    def replaced(self, node: NodeName, *, queueing: bool) -> Iterator[tuple[Winner, Item]]:
        """Iterate over the winners that replace an item, each with it."""
        for winner in self._of.get(node, ()):
            if winner.seq is not None and (winner.same is False or not queueing):
                item = self._contents.items.items.rows.get(winner.seq)
                if item is not None:
                    yield winner, item

    def appearing(self, node: NodeName, *, queueing: bool) -> Iterator[Winner]:
        """Iterate over the winners that are new, or as good as new: in a plain node, all of them."""
        for winner in self._of.get(node, ()):
            if winner.last and (winner.state is None or (winner.seq is not None and not queueing)):
                yield winner

    def published(self, node: NodeName, *, queueing: bool) -> Iterator[tuple[Winner, bool]]:
        """Iterate over the winners that come to be seen, and whether each replaces an item."""
        for winner in self._of.get(node, ()):
            there = winner.seq is not None
            if winner.last and (
                winner.state is None or (there and (winner.same is False or not queueing))
            ):
                yield winner, there

    def take_places(self, change: Commit, committed: CommittedNode) -> bool:
        """Let the winners of a node take their places; say whether they were as many as was believed."""
        node, queueing, items = committed.node, committed.queueing, self._contents.items
        replaced = list(self.replaced(node, queueing=queueing))
        for winner, item in replaced:
            if not queueing:
                items.remove(item.seq)
            elif item.state not in {State.QUEUED, State.DELAYED}:
                return False
            else:
                _give_payload(self._contents, change, winner, item)
        rows = list(self.appearing(node, queueing=queueing))
        expected = committed.added if queueing else committed.added + committed.replaced
        if (len(replaced), len(rows)) != (committed.replaced, expected):
            return False
        return all(_appears(self._contents, change, winner) for winner in rows)

    def nodes(self) -> set[NodeName]:
        """Return the nodes in which winners would appear."""
        return set(self._of)


def _give_payload(contents: Contents, change: Commit, winner: Winner, item: Item) -> None:
    draft = winner.row.draft
    facts = {"publisher": change.owner, "transaction": (change.app, change.version)}
    contents.items.items.put(item.seq, replace(item, headers=draft.headers, **facts))
    contents.items.payloads.put(item.seq, draft.payload)


def _appears(contents: Contents, change: Commit, winner: Winner) -> bool:
    row, draft, at = winner.row, winner.row.draft, change.at
    if contents.nodes.node(winner.node) is None or contents.items.find(winner.node, draft.id):
        return False
    seq = contents.number("item")
    item = Item(
        seq,
        winner.node,
        draft.id,
        row.state,
        change.owner,
        at,
        draft.priority,
        None if row.pause is None else later(at, row.pause),
        None if row.life is None else later(at, row.life),
        headers=draft.headers,
        transaction=(change.app, change.version),
    )
    contents.items.items.put(seq, item)
    contents.items.payloads.put(seq, draft.payload)
    return True
