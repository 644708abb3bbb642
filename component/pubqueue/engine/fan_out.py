"""Notices to large audiences, page by page, and what is called when a node changes or gets an item."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from pubqueue.engine.connections import InTurns
from pubqueue.engine.observe import NOTHING, Observer
from pubqueue.engine.outbox import Backlog
from pubqueue.engine.task import apart
from pubqueue.model.changes import ConfigureNode, CreateNode, DeleteNode, SetAffiliation
from pubqueue.model.notices import NOBODY, Announce, Deleted, Several, ToAll, ToEach, of_several
from pubqueue.model.replies import Newest, SubscriberPage, Unnotified
from pubqueue.rules.audience import SERVICE, ListUnnotified, NextSubscribers, NotifyFormer
from pubqueue.rules.retrieve import AskNewest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pubqueue.engine.observe import Took
    from pubqueue.engine.outbox import Outbox
    from pubqueue.model.decision import Decision, Reply, Request
    from pubqueue.model.entities import Jid, NodeName, Principal
    from pubqueue.model.notices import News, Notice

    Ask = ListUnnotified | NextSubscribers | NotifyFormer
    Waiting = News | Callable[[], None]


# Notices to large audiences, which are sent page by page, and calls that wait until they have been sent.
#
# A notice to a node with very many subscribers is one value here, however many they are. Of each node
# one run of notices is in progress: a page of the subscribers is read and notified, and when that has
# been sent the next one is read. Notices that wait together form a run: each page is read once for
# all of it. So a subscriber gets the notices of a node in the order of the events, and only a page of
# addresses and a run of notices are in memory. Notices of a node that has become small again in the
# meantime wait for their turn too.

EACH: Final = 1024
"""The weight of a notice apart from its payload."""

MAX_RUN_NEWS: Final = 100
MAX_RUN_BYTES: Final = 512 * 1024
"""Up to how many notices, and bytes of them, are sent to a page at once; the last notice may exceed it."""

RETRY: Final = 1.0
"""Seconds until another try to read a page after the store has failed."""


class FanOut:
    """Keeps notices to large audiences until they are sent. `send` also forwards them; `ask` submits a request to the broker."""

    def __init__(
        self,
        outbox: Outbox,
        send: Callable[[Sequence[Notice | ToEach]], object],
        ask: Callable[[Ask, Callable[[Reply], None]], None],
    ) -> None:
        self._outbox, self._send, self._ask = outbox, send, ask
        self._queues: dict[NodeName, deque[Waiting]] = {}
        self._backlog = Backlog(self._queues.keys(), partial(outbox.set_behind, self))
        self._put_off: list[ToAll] = []
        """Notices of deleted nodes that were due when no address could be reached."""
        self._has_looked = False

    @property
    def byte_count(self) -> int:
        """How many bytes of notices to large audiences are waiting."""
        return self._backlog.byte_count

    def keep(self, notices: Sequence[Notice | News]) -> Sequence[Notice | ToEach]:
        """Return the notices that can be sent at once, and keep those that have to wait for their turn."""
        if not self._queues and ToAll not in map(type, notices):
            return notices  # type: ignore[return-value]  # there is none of the others
        now: list[Notice | ToEach] = []
        begun: list[NodeName] = []
        for one in notices:
            if isinstance(one, ToAll) or (
                isinstance(one, ToEach) and one.what.node in self._queues
            ):
                if self._put(one.what.node, one):
                    begun.append(one.what.node)
            else:
                now.append(one)
        for node in begun:  # now all of it is there, and is one run
            self._go_on(node)
        return now

    def when_sent(self, nodes: Iterable[NodeName], call: Callable[[], None]) -> None:
        """Call when all notices of these nodes so far have been sent, or have no reachable address."""
        left = set(nodes)
        if not left:
            call()
            return

        def done(node: NodeName) -> None:
            left.remove(node)
            if not left:
                call()

        for node in tuple(left):
            if node in self._queues:
                self._add(node, partial(done, node))
            else:
                self._outbox.when_sent(node, partial(done, node))

    def resume(self) -> None:
        """Resume notices of deleted nodes that a process left unfinished, or that had no reachable address."""
        left, self._put_off = self._put_off, []
        for what in left:
            self._add(what.what.node, what)
        if not self._has_looked:
            self._has_looked = True
            self._look()

    def _look(self, after: int = 0) -> None:
        self._ask(ListUnnotified(SERVICE, after), partial(self._found, after))

    def _found(self, after: int, reply: Reply) -> None:
        if not isinstance(reply, Unnotified):
            asyncio.get_running_loop().call_later(RETRY, partial(self._look, after))
            return
        for node in reply.nodes:
            waiting = self._queues.get(node, ())
            if not any(isinstance(one, ToAll) and _is_end(one) for one in waiting):
                self._add(node, ToAll(Deleted(NOBODY, node)))
        if reply.after is not None:
            self._look(reply.after)

    # --- one node ---

    def _add(self, node: NodeName, what: Waiting) -> None:
        if self._put(node, what):
            self._go_on(node)

    def _put(self, node: NodeName, what: Waiting) -> bool:
        """Queue the notice; return whether it is its turn, because no other of the node waits."""
        self._backlog.count(_size(what))
        queue = self._queues.get(node)
        if queue is None:
            self._queues[node] = deque((what,))
            return True
        queue.append(what)
        return False

    def _go_on(self, node: NodeName, after: Jid | None = None, run: int = 0) -> None:
        """Send the next notices, up to one for all subscribers: of these request the next page.

        `run` is how many of the next notices go to each page, once a page has been notified.
        """
        queue = self._queues[node]
        while queue:
            first = queue[0]
            if isinstance(first, ToAll) and (self._outbox.is_open or not _is_end(first)):
                is_end = _is_end(first)
                asked = (
                    NotifyFormer(node, after) if is_end else NextSubscribers(SERVICE, node, after)
                )
                self._ask(asked, partial(self._notify_page, node, after, run or _run(queue)))
                return
            queue.popleft()
            after, run = None, 0  # their node has gone
            self._backlog.count(-_size(first))
            if isinstance(first, ToEach):
                self._send([first])
            elif isinstance(first, ToAll):
                self._put_off.append(first)
            else:
                self._outbox.when_sent(node, first)
        del self._queues[node]

    def _notify_page(self, node: NodeName, after: Jid | None, run: int, reply: Reply) -> None:
        """Send the whole run to a page, and continue when that has been sent."""
        if not isinstance(reply, SubscriberPage):
            loop = asyncio.get_running_loop()
            loop.call_later(RETRY, partial(self._go_on, node, after, run))
            return
        queue = self._queues[node]
        if reply.jids:
            page = Several(reply.jids, reply.subids)
            self._send(list(_for_page(page, islice(queue, run))))
        if reply.after is None:
            for _ in range(run):
                self._backlog.count(-_size(queue.popleft()))
            run = 0
        self._outbox.when_sent(node, partial(self._go_on, node, reply.after, run))


def _run(queue: Iterable[Waiting]) -> int:
    """Return how many of the waiting notices form a run: those for all subscribers, with no other between.

    The notice that a node is deleted is a run of its own, because it has another audience.
    """
    count = byte_count = 0
    for one in queue:
        if not isinstance(one, ToAll) or (count and _is_end(one)):
            break
        count, byte_count = count + 1, byte_count + _size(one)
        if _is_end(one) or count >= MAX_RUN_NEWS or byte_count >= MAX_RUN_BYTES:
            break
    return count


def _for_page(page: Several, run: Iterable[Waiting]) -> Iterator[ToEach]:
    """Return the run, addressed to a page."""
    for one in run:
        assert isinstance(one, ToAll)
        yield of_several(page, one.what, fleeting=one.fleeting)


def _is_end(news: ToAll) -> bool:
    """Return whether the notice is that the node is deleted, which goes to its former subscribers."""
    return isinstance(news.what, Deleted)


def _size(what: Waiting) -> int:
    if not isinstance(what, ToAll | ToEach):
        return 0
    draft = what.what.draft if isinstance(what.what, Announce) else None
    return EACH + (0 if draft is None else len(draft.payload))


# Calls the waiting followers of a node when it has a new item, whichever process has committed it.
#
# After a commit the highest number of an item is read in each node that is waited for, beside the batches; if it has changed, the
# followers of the node are called. So all ways in which an item is added are seen alike: publishes, commits, dead letters, moves,
# and writes of other processes. While no follower waits, nothing is read.

MAX_NODES: Final = 500
"""Nodes that are looked at in one read; other work has its turn between two reads."""

CALLS: Final = 32
"""Followers that are called in one turn of the loop: each one reads."""


class NewItems(Observer):
    """The waiting calls by node. One look runs at a time; a commit meanwhile causes another one."""

    fault = "new_items.failed"
    asks: frozenset[type] | None = NOTHING
    """Nothing while no call waits, then everything: an item comes in many ways."""

    def __init__(
        self, by: Principal, submit: Callable[[Request, Callable[[Reply], None]], None]
    ) -> None:
        self._by, self._submit = by, submit
        self._calls: dict[NodeName, dict[int, Callable[[], None]]] = {}
        self._fresh: dict[NodeName, set[int]] = {}
        """Calls that were added since the last look; each is made once in any case."""
        self._known: dict[NodeName, int] = {}
        self._left: list[NodeName] = []
        self._last = 0
        self._is_looking = self._is_wanted = False
        self._retry: asyncio.TimerHandle | None = None
        self._in_turns = InTurns(CALLS, self.fault)

    def wait(self, node: NodeName, call: Callable[[], None]) -> Callable[[], None]:
        """Call whenever the node may have a new item, until the function that is returned is called.

        The first call comes soon, so that earlier items are not missed. Rights are not checked here: the follower then
        reads (`ReadNewer`), and is refused there.
        """
        self._last += 1
        number = self._last
        self._calls.setdefault(node, {})[number] = call
        self.asks = None
        self._fresh.setdefault(node, set()).add(number)
        self.look()
        return partial(self._end, node, number)

    def _end(self, node: NodeName, number: int) -> None:
        calls = self._calls.get(node)
        if calls is None or calls.pop(number, None) is None:
            return
        if not calls:
            for table in (self._calls, self._fresh, self._known):
                table.pop(node, None)
            if not self._calls:
                self.asks = NOTHING

    def committed(
        self,
        requests: Sequence[Request],  # noqa: ARG002  # an item comes in many ways
        decisions: Sequence[Decision],
        deliveries: Sequence[Notice],  # noqa: ARG002
        took: Took,  # noqa: ARG002
    ) -> None:
        """Look, if something was changed."""
        if any(decision.changes for decision in decisions):
            self.look()

    def look(self) -> None:
        """Look for new items, if calls wait for one."""
        if not self._calls:
            return
        if self._is_looking:
            self._is_wanted = True
            return
        self._is_looking, self._left = True, list(self._calls)
        self._ask()

    def stop(self) -> None:
        """Make no more calls."""
        self._calls, self._fresh, self._known, self._left = {}, {}, {}, []
        self.asks = NOTHING
        if self._retry is not None:
            self._retry.cancel()

    def _ask(self) -> None:
        names, self._left = self._left[:MAX_NODES], self._left[MAX_NODES:]
        self._submit(AskNewest(self._by, tuple(names)), self._found)

    def _found(self, reply: Reply) -> None:
        if isinstance(reply, Newest):
            for node, number in reply.numbers:
                self._note(node, number)
        elif self._calls:
            self._retry = asyncio.get_running_loop().call_later(RETRY, self.look)
        if self._left:
            self._ask()
            return
        self._is_looking = False
        if self._is_wanted:
            self._is_wanted = False
            self.look()

    def _note(self, node: NodeName, number: int) -> None:
        calls = self._calls.get(node)
        if calls is None:
            return
        fresh = self._fresh.pop(node, set())
        is_new = self._known.get(node) != number
        self._known[node] = number
        for each in tuple(calls) if is_new or fresh else ():
            if is_new or each in fresh:
                self._in_turns.call(partial(self._call, node, each))

    def _call(self, node: NodeName, number: int) -> None:
        call = self._calls.get(node, {}).get(number)
        if call is not None:
            call()


# Calls functions that depend on the settings of nodes, and on affiliations, when these may have changed, whichever process has committed the change.

OF_NODES: Final = frozenset({CreateNode, ConfigureNode, DeleteNode, SetAffiliation})


class NodeChanges(Observer):
    """Calls each function without arguments: of other processes it is only known that they have written, not which nodes."""

    fault = "node_changes.failed"
    asks = OF_NODES

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []

    def watch(self, function: Callable[[], None]) -> None:
        """Have the function called whenever nodes may have changed."""
        self._calls.append(function)

    def committed(
        self,
        requests: Sequence[Request],  # noqa: ARG002  # nodes change in many ways
        decisions: Sequence[Decision],  # noqa: ARG002
        deliveries: Sequence[Notice],  # noqa: ARG002
        took: Took,  # noqa: ARG002
    ) -> None:
        """Call the functions, because this process may have changed a node."""
        self.call()

    def call(self) -> None:
        """Call the functions, because another process may have changed nodes."""
        for function in self._calls:
            with apart(self.fault):
                function()
