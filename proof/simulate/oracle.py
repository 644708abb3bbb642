"""What has to be true, held against every commit and every word; the first thing that is not is a violation.

The event log says what has become of each item, and is held against what is there. All looks are at the store's own
record, as it is committed: what was confirmed by then, to whom and under which token.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final
from zlib import crc32

from harness.stores.replay import Replay, there
from harness.stores.store_contents import ALL, contents, misweighed, nodes, recount, subscribers

from proof.simulate.feeds import queue_of
from proof.simulate.ticks import TICKS, Ticks, true_time
from proof.simulate.words import handed_out
from pubqueue.engine.listings import Events
from pubqueue.model.after import has_room
from pubqueue.model.decision import Done, Published, Refusal, Refused, SettledEach
from pubqueue.model.entities import NO_TIME, Millis, NodeName
from pubqueue.model.records import EventKind
from pubqueue.rules.commit import CommitVersion
from pubqueue.rules.nodes import Configure, Purge
from pubqueue.rules.publication import Publish
from pubqueue.rules.seek import Seek
from pubqueue.rules.settle import Settle, Verb
from pubqueue.rules.settle_each import SettleEach, singly
from pubqueue.rules.staging import StagePublish
from pubqueue.rules.unlock import longest

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from proof.simulate.places import Place
    from proof.simulate.words import ToClient
    from pubqueue.engine.ports import Transaction
    from pubqueue.model.decision import Reply, Request
    from pubqueue.model.entities import Item, Jid
    from pubqueue.model.records import Event
    from pubqueue.model.replies import EventEntry

    Key = tuple[str, str | None]
    Overdue = tuple[str, str, str]

COUNTED: Final = 25
"""Commits from one recount of everything to the next."""

NOT_REFUSED: Final = (Publish, StagePublish, CommitVersion, Configure, Purge, Seek)

MAY_BE_REFUSED: Final = frozenset({Refusal.STORE_FAILED})
"""What a publisher, or the owner, may be told of these."""

OF_WHAT_IS_GONE: Final = MAY_BE_REFUSED | {Refusal.ITEM_NOT_FOUND}
"""What somebody may be told who settles what was purged before."""


LIES: Final = "waits while somebody is free"
LASTS: Final = "is locked for longer than a new lock"
UNDELIVERED: Final = "is locked, and its delivery has not come to the server"
TIMEOUTS: Final = {LIES: 4.0, LASTS: 60.0, UNDELIVERED: 5.0}
"""Seconds for which that may be so: another instance looks every second, and at the clock every thirty; what a dead one has
left unsaid, or a stream took along, is sent again within five."""


SLACK: Final = 1_000
"""Milliseconds by which a lock may end early: clocks are rounded."""

LONG_OVER: Final = 150_000
"""Milliseconds by which a lock may be over when it is given: a store that does not answer lets a batch wait."""

ASKED_LESS: Final = "locked for longer than its holder has asked for"
FORGOTTEN: Final = "a settle that was to be remembered is refused when it is repeated"

LATE: Final = 120_000
"""Milliseconds after which a time of a schedule has to be published, when all are well."""


class Oracle:
    """Follows what is committed and what is said.

    `on_violation` is told of what breaks a promise: which one, a colon, and how. `trace` is a sum over all that is said.
    """

    def __init__(self, place: Place, on_violation: Callable[[str], None]) -> None:
        self._place = place
        self._on_violation = on_violation
        self._replay = Replay()
        self._commits = 0
        self._published: set[Key] = set()
        self._gone: set[Key] = set()
        self._done: set[Key] = set()
        self._ended: set[Key] = set()
        self._confirmed_once: set[Key] = set()
        self._finished: dict[Key, tuple[int, Jid]] = {}
        self._last: dict[Key, tuple[int, Jid]] = {}
        self._settled: set[tuple[int, Verb]] = set()
        self._forgettable: set[tuple[Key, Jid, int | None]] = set()
        """Who wants which item retracted, under which token if it names one, and does not ask that it be remembered."""
        self._revived: set[Key] = set()
        """What has come back by a seek: it may be done again."""
        self._purged: dict[Key, float] = {}
        self._purges: Counter[str] = Counter()
        self._sought: Counter[str] = Counter()
        self._ticks = Ticks()
        self._paused: set[str] = set()
        self._tokens: dict[int, int] = {}
        self._holders: dict[int, tuple[int, Jid]] = {}
        self._deadlines: dict[Key, Millis] = {}
        self.clocks_are_set = False
        """Whether a clock was set while a process ran by it; then locks may end early, or be over when they are given."""
        self._overdue: dict[tuple[str, ...], Millis] = {}
        self._arrived: set[int] = set()
        self.confirmed: set[Key] = set()
        self.delivered = self.completed = self.died = self.emptied = self.trace = 0

    def broken(self, what: str) -> None:
        """Say that a promise is broken."""
        self._on_violation(what)

    # --- commits ---

    def look(self) -> None:
        """Look at what has just been committed."""
        try:
            self._place.look(self._follow)
        except AssertionError as problem:
            self.broken(f"the event log tells what cannot be: {problem!r}")

    def _follow(self, tx: Transaction) -> None:
        last = self._replay.seq
        entries = tx.page(Events(None, ALL), last or None, ALL)
        numbers = [entry.seq for entry in entries]
        if numbers != list(range(last + 1, last + 1 + len(numbers))):
            self.broken(f"events are numbered with gaps: behind {last} come {numbers}")
        delivered = {key for entry in entries if (key := self._take(entry)) is not None}
        self._see_pauses({node.name for node in nodes(tx) if node.config.paused}, delivered)
        for node in nodes(tx):
            for item, _ in contents(tx, node.name):
                self._see(item, anew=(item.node, item.id) in delivered)
        self._see_spans(tx, delivered)
        self._commits += 1
        if self._commits % COUNTED == 0:
            self._count(tx)

    def _take(self, entry: EventEntry) -> Key | None:
        """Take note of an event; return which item was delivered by it."""
        event = entry.event
        key = event.node, event.item
        if event.kind is EventKind.PURGED:
            self._empty(event.node)
        if event.kind is EventKind.REQUEUED:
            self._see_a_revival(event)
        self._replay.follow([entry])
        match event.kind:
            case EventKind.PUBLISHED:
                self._note_publish(key)
            case EventKind.COMPLETED | EventKind.RETRACTED:
                self._note_end(key, event.kind)
            case EventKind.DEAD:
                self.died += 1
                if event.to is not None:
                    self._gone.add(key)
            case EventKind.EXPIRED:
                self._see_that_it_was_time(key)
            case EventKind.DELIVERED:
                self.delivered += 1
                return key
            case _:
                pass
        return None

    def _note_publish(self, key: Key) -> None:
        node, item = key
        if node == TICKS and not self._ticks.published(item):
            self.broken(f"a time of a schedule was published twice: {item}")
        self._published.add(key)
        self._gone.discard(key)
        self._purged.pop(key, None)
        if key in self._done:
            self.broken(f"came back after a confirmed retract: {item}")

    def _see_a_revival(self, event: Event) -> None:
        """Take note that what was done waits again, if it was not dead: the owner has to have asked for it."""
        key = event.node, event.item
        if event.origin is not None or event.to is not None or key in self._replay.items:
            return
        if not self._sought[key[0]]:
            self.broken(f"came back without the owner's word: {key[1]}")
        for known in (self._gone, self._done, self._ended, self._confirmed_once):
            known.discard(key)
        self._finished.pop(key, None)
        self._revived.add(key)

    def _note_end(self, key: Key, kind: EventKind) -> None:
        self.completed += 1
        self._gone.add(key)
        self._ended.add(key)
        if kind is EventKind.COMPLETED and key in self._last:
            token, holder = self._last[key]
            if self._forgettable.isdisjoint({(key, holder, token), (key, holder, None)}):
                self._finished[key] = token, holder

    def _see_that_it_was_time(self, key: Key) -> None:
        """Hold the end of a lock against the time at which it had to end: until then somebody works on the item."""
        now, deadline = true_time(), self._deadlines.get(key, NO_TIME)
        if not self.clocks_are_set and now < deadline - SLACK:
            self.broken(f"a lock was ended early: of {key}, by {(deadline - now) / 1000:g} s")

    def _empty(self, node: NodeName) -> None:
        """Take note that all that is there now is gone: the owner has to have asked for it, each time."""
        now = asyncio.get_running_loop().time()
        there = [key for key in self._replay.items if key[0] == node]
        self._gone.update(there)
        self._purged |= dict.fromkeys(there, now)
        self.emptied += len(there)
        self._purges[node] -= 1
        if self._purges[node] < 0:
            self.broken(f"purged without the owner's word: {node}")

    def _see_pauses(self, paused: set[str], delivered: AbstractSet[Key]) -> None:
        """Hold what was handed out by this commit against what was paused before, and still is."""
        for node, item in sorted(delivered, key=repr):
            if node in self._paused & paused:
                self.broken(f"handed out while paused: {item} of {node}")
        self._paused = paused

    def _see(self, item: Item, *, anew: bool) -> None:
        """Hold an item as it is stored against what was stored of it before."""
        before = self._tokens.get(item.seq, 0)
        self._tokens[item.seq] = item.token
        if item.token < before or (anew and item.token == before):
            self.broken(
                f"locked without a new token: {item.id} under {before} and then {item.token}"
            )
        if item.deadline is not None:
            self._deadlines[item.node, item.id] = item.deadline
            over = true_time() - item.deadline
            if anew and not self.clocks_are_set and over > LONG_OVER:
                self.broken(f"a lock was over when it was given: {item.id}, by {over / 1000:g} s")
        if item.holder is not None:
            self._last[item.node, item.id] = item.token, item.holder
            known = self._holders.setdefault(item.token, (item.seq, item.holder))
            if known != (item.seq, item.holder):
                self.broken(
                    f"one token for two locks: {item.token} of {known} and of {item.seq, item.holder}"
                )

    def _see_spans(self, tx: Transaction, delivered: AbstractSet[Key]) -> None:
        """Hold new locks against the lock timeouts that their holders have asked for."""
        if self.clocks_are_set:
            return
        for name in sorted({node for node, _ in delivered}):
            node = NodeName(name)
            own = {one.jid: one.lock_timeout for one in subscribers(tx, node) if one.lock_timeout}
            for item, _ in contents(tx, node) if own else ():
                span = own.get(item.holder) if item.holder else None
                if span is None or item.deadline is None or (name, item.id) not in delivered:
                    continue
                over = item.deadline - true_time() - span * 1000
                if over > SLACK:
                    self.broken(f"{ASKED_LESS}: {item.id} to {item.holder}, by {over / 1000:g} s")

    def _count(self, tx: Transaction) -> None:
        for wrong in (*recount(tx), *misweighed(tx)):
            self.broken(f"counts are wrong: {wrong}")
        if (found := there(tx)) != self._replay.items:
            differ = sorted(found.items() ^ self._replay.items.items(), key=repr)
            self.broken(f"the event log does not tell what is there: {differ[:4]}")

    # --- words ---

    def hears(self, asked: Request) -> None:
        """Take note of what an instance is asked, before anything comes of it: nobody need remember what may be forgotten."""
        for said, _ in _settles(asked, Done()):
            if said.verb is Verb.RETRACT and (said.remember is None or said.token is None):
                for item in said.ids:
                    self._forgettable.add(((said.node, item), said.by.jid, said.token))

    def answers(self, asked: Request, reply: Reply, came: float) -> None:
        """Hold an answer against what is committed; what was asked came in at that time."""
        self._trace(type(asked).__name__, type(reply).__name__)
        if isinstance(reply, Refused):
            if reply.refusal is Refusal.INTERNAL_FAULT:
                self.broken(f"met a fault of ours: {type(asked).__name__}")
            if isinstance(asked, NOT_REFUSED) and reply.refusal not in MAY_BE_REFUSED:
                self.broken(f"a publisher or the owner was refused: {reply.refusal.name}")
        elif isinstance(reply, Published) and isinstance(asked, Publish):
            for item in reply.ids:
                if (queue_of(reply.node), item) not in self._published:
                    self.broken(f"publish confirmed before its commit: {item}")
        for said, answer in _settles(asked, reply):
            self._answers_settle(said, answer, came)

    def _answers_settle(self, asked: Settle, reply: Reply, came: float) -> None:
        if isinstance(reply, Refused):
            if reply.refusal not in OF_WHAT_IS_GONE:
                self._refused_of_purged(asked, reply, came)
            if reply.refusal is not Refusal.STORE_FAILED:
                self._refused_of_settled(asked, reply)
        elif isinstance(reply, Done):
            if asked.remember is not None and asked.token is not None:
                self._settled.add((asked.token, asked.verb))
            for item in asked.ids if asked.verb is Verb.RETRACT else ():
                self._retracted((asked.node, item), again=reply.again)

    def _refused_of_settled(self, asked: Settle, reply: Refused) -> None:
        """Hold a refusal of what is to be remembered against what was committed and said."""
        if asked.remember is None or asked.token is None or self.clocks_are_set:
            return
        (item,) = asked.ids
        is_done = asked.verb is Verb.RETRACT and self._finished.get((asked.node, item)) == (
            asked.token,
            asked.by.jid,
        )
        if is_done or (asked.token, asked.verb) in self._settled:
            self.broken(f"{FORGOTTEN}: {item} under {asked.token}, {reply.refusal.name}")

    def _retracted(self, key: Key, *, again: bool) -> None:
        if key in self._revived:  # the answer may be about the life before
            return
        if key in self._confirmed_once and not again:
            self.broken(f"retract confirmed twice: {key[1]}")
        if not again:
            self._confirmed_once.add(key)
        self._done.add(key)
        if key not in self._ended:
            self.broken(f"retract confirmed of what nobody has retracted: {key[1]}")
        if key in self._replay.items:
            self.broken(f"retract confirmed, and the item is there: {key[1]}")

    def _refused_of_purged(self, asked: Settle, reply: Refused, came: float) -> None:
        for item in asked.ids:
            if self._purged.get((asked.node, item), came) < came:
                self.broken(
                    f"refused otherwise than gone, but purged: {item}, {reply.refusal.name}"
                )

    def seeks(self, node: NodeName) -> None:
        """Take note that the owner asks for a seek."""
        self._sought[node] += 1

    def purges(self, node: NodeName) -> set[int]:
        """Take note that the owner asks for a purge; return the numbers of what is there."""
        self._purges[node] += 1
        return self._place.look(partial(_numbers, node))

    def purged(self, node: NodeName, known: AbstractSet[int]) -> None:
        """Hold a purge that is confirmed against what is there, which must not be what was known when it was asked for."""
        if left := known & self._place.look(partial(_numbers, node)):
            self.broken(f"purge confirmed, and items are there: {sorted(left)[:4]} of {node}")

    def says(self, what: ToClient) -> None:
        """Hold what is handed out against what is committed: a lock of that token, for that holder."""
        self._trace(type(what).__name__, what.to)
        for item in handed_out(what):
            if self._holders.get(item.token) != (item.seq, what.to):
                self.broken(
                    f"delivered under a token that is not its own: {item.id} to {what.to} under {item.token}"
                )

    def arrives(self, item: Item) -> None:
        """Take note that a delivery has come to the server: from there on it is not the service's to lose."""
        self._arrived.add(item.token)

    def excuses(self, item: Item) -> None:
        """Take note that the delivery of this item may be lost until its lock ends."""
        self._arrived.add(item.token)

    def _trace(self, *said: object) -> None:
        self.trace = crc32(repr((asyncio.get_running_loop().time(), said)).encode(), self.trace)

    # --- what should not last ---

    def watch(self, now: Millis | None, excused: AbstractSet[str]) -> None:
        """Look at what should not be so for long, but for what is excused now; None: nobody could do anything about it."""
        seen = set() if now is None else self._place.look(partial(_overdue, now, self._arrived))
        before, self._overdue = self._overdue, {}
        for what, *place in sorted(seen):
            if now is not None and what not in excused:
                since = self._overdue[what, *place] = before.get((what, *place), now)
                if now - since > TIMEOUTS[what] * 1000:
                    self.broken(f"{what}: {place}, for {(now - since) / 1000:g} s")

    def left(self, *names: str) -> list[str]:
        """Return the items that are still in these nodes."""
        return [
            f"{item}: {state}"
            for (node, item), state in self._replay.items.items()
            if node in names
        ]

    def finish(self, now: Millis) -> None:
        """Count everything, at the end."""
        self._place.look(self._count)
        if missing := self._ticks.missing(Millis(now - LATE)):
            self.broken(f"a time of a schedule was not published: {missing[:4]}")
        lost = self.confirmed - self._gone - self._replay.items.keys()
        if lost:
            self.broken(f"lost: {sorted(lost)[:5]}")


def _settles(asked: Request, reply: Reply) -> list[tuple[Settle, Reply]]:
    """Return each settle that was asked for, with its answer."""
    if isinstance(asked, Settle):
        return [(asked, reply)]
    if not isinstance(asked, SettleEach):
        return []
    single = [one for one in singly(asked) if isinstance(one, Settle)]
    answers = reply.answers if isinstance(reply, SettledEach) else (reply,) * len(single)
    return list(zip(single, answers, strict=True))


def _overdue(now: Millis, arrived: AbstractSet[int], tx: Transaction) -> set[Overdue]:
    """Return what is ready while somebody has room who need not be avoided, what is locked for too long, and what untold."""
    found: set[Overdue] = set()
    for node in nodes(tx):
        name = node.name
        idle = node.config.paused
        free = set() if idle else {one.jid for one in subscribers(tx, name) if has_room(one)}
        ready = tx.ready({name: ALL}, now, ALL).rows if free else []
        found |= {(LIES, name, i.id) for i, _ in ready if free - ({i.avoid} if i.aside else set())}
        latest = longest(node, now)
        items = [item for item, _ in contents(tx, name)]
        found |= {(LASTS, name, i.id) for i in items if i.deadline and i.deadline > latest}
        undelivered = [item for item in items if item.holder and item.token not in arrived]
        found |= {(UNDELIVERED, name, f"{item.id} under {item.token}") for item in undelivered}
    return found


def _numbers(node: NodeName, tx: Transaction) -> set[int]:
    """Return the numbers of the items of a node."""
    return {item.seq for item, _ in contents(tx, node)}
