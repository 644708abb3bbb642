"""Calls the waiting followers of a node when it has a new item, whichever process has committed it.

After a commit the highest number of an item is read in each node that is waited for, beside the batches; if it has changed, the
followers of the node are called. So all ways in which an item is added are seen alike: publishes, commits, dead letters, moves,
and writes of other processes. While no follower waits, nothing is read.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from pubqueue.app.boundaries import apart
from pubqueue.app.watch.observers import Observer
from pubqueue.model.replies import Newest
from pubqueue.rules.retrieve import AskNewest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.app.rules import Request
    from pubqueue.app.watch.watching import Took
    from pubqueue.model.decision import Decision, Reply
    from pubqueue.model.entities import NodeName, Principal
    from pubqueue.model.notices import Notice

MAX_NODES: Final = 500
"""Nodes that are looked at in one read; other work has its turn between two reads."""

RETRY: Final = 1.0
"""Seconds until the next look if the store did not answer."""


class NewItems(Observer):
    """The waiting calls by node. One look runs at a time; a commit meanwhile causes another one."""

    fault = "new_items.failed"

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

    def wait(self, node: NodeName, call: Callable[[], None]) -> Callable[[], None]:
        """Call whenever the node may have a new item, until the function that is returned is called.

        The first call comes soon, so that earlier items are not missed. Rights are not checked here: the follower then
        reads (`ReadNewer`), and is refused there.
        """
        self._last += 1
        number = self._last
        self._calls.setdefault(node, {})[number] = call
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

    def committed(
        self,
        requests: Sequence[Request],  # noqa: ARG002  # an item comes in many ways
        decisions: Sequence[Decision],
        deliveries: Sequence[Notice],  # noqa: ARG002
        took: Took,  # noqa: ARG002
    ) -> None:
        """Look, if something was changed and calls wait."""
        if self._calls and any(decision.changes for decision in decisions):
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
        for each, call in list(calls.items()) if is_new or fresh else ():
            if is_new or each in fresh:
                with apart(self.fault):
                    call()
