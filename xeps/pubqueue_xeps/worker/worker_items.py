"""The items of one worker, from all of its services: one line in which they wait, and one end.

Each service has its own stream and its own locks, so one that is away holds up no other: the worker begins as soon as
one service has granted its subscriptions, and the others are tried until they do. A draining service that refuses is
left, because it may be gone; any other ends the worker.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pubqueue_xeps.errors import PubqueueError
from pubqueue_xeps.log import log
from pubqueue_xeps.worker.held_items import HeldItems
from pubqueue_xeps.worker.queue_session import QueueSession
from pubqueue_xeps.worker.waiting_items import WaitingItems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pubqueue_xeps.client.connection import Connection
    from pubqueue_xeps.client.pace import Timings
    from pubqueue_xeps.item import Item
    from pubqueue_xeps.worker.weights import Turns
    from pubqueue_xeps.xep_qos.levels import Level

    Wanted = Callable[[Iterable[Item]], Item | None]
    """Picks one of the items that wait, or none of them for now."""


@dataclass(frozen=True, slots=True, eq=False)
class AtService:
    """A worker at one of its services: the session there, the items of it, and how many of each node may be here."""

    held_items: HeldItems
    session: QueueSession
    windows: Mapping[str, int]


class WorkerItems:
    """The items of one worker, from all of its services."""

    def __init__(
        self,
        connection: Connection,
        turns: Turns,
        timings: Timings,
        windows: Mapping[str, int],
        *,
        touch_for: float,
        level: Level | None,
    ) -> None:
        self.timings = timings
        self.name = ", ".join(windows)
        """The names of the nodes, for logs."""
        self.failure: PubqueueError | None = None
        self.ended = asyncio.Event()
        self.services = connection.services
        self._waiting = WaitingItems(turns)
        self.parts: list[AtService] = []
        for service in self.services.names:
            held_items = HeldItems(
                service,
                windows,
                timings,
                services=self.services,
                waiting=self._waiting,
                on_failure=self._failed,
            )
            session = QueueSession(
                connection.at(service).client(),
                held_items,
                timings,
                service=service,
                windows=windows,
                level=level,
            )
            held_items.hold(session, touch_for)
            self.parts.append(AtService(held_items, session, windows))
        self._by_service = {part.held_items.service: part.held_items for part in self.parts}
        self._opening: dict[asyncio.Task[None], AtService] = {}

    async def open(self) -> None:
        """Return when the first service has granted the subscriptions; the others follow. Raises errors that do not go away."""
        self._opening = {
            asyncio.create_task(part.session.open(), name="pubqueue opening"): part
            for part in self.parts
        }
        try:
            late = await self._first_opened()
        except BaseException:
            await self._end_opening()
            await self._close()
            raise
        for task in late:
            task.add_done_callback(self._opened)

    async def _first_opened(self) -> set[asyncio.Task[None]]:
        """Return those that are still opening when the first one is open."""
        left = set(self._opening)
        while left:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if (error := self._failure_of(task)) is not None:
                    raise error
            if any(task.exception() is None for task in done):
                break
        if all(task.done() and task.exception() is not None for task in self._opening):
            raise next(error for task in self._opening if (error := task.exception()))
        return left

    async def close(self) -> None:
        """Close all sessions, and ask no more for anything."""
        await self._end_opening()
        await self._close()
        for part in self.parts:
            await part.held_items.cease()

    async def take(self, wanted: Wanted | None = None) -> Item | None:
        """Return the next item, or the one that `wanted` picks, and mark it as in hand; None when no more items will come."""
        item = await (self._waiting.pick(wanted) if wanted else self._waiting.get())
        if item is None:
            self._waiting.put_nowait(None)  # for the other tasks that wait
            return None
        self._by_service[item.service].begin(item)
        return item

    def look_again(self) -> None:
        """Call `wanted` again."""
        self._waiting.look_again()

    @property
    def is_subscribed(self) -> bool:
        """Whether a service may have delivered anything."""
        return any(part.session.subscribed for part in self.parts)

    @property
    def in_hand(self) -> int:
        """The number of items that are begun."""
        return sum(part.held_items.in_hand for part in self.parts)

    @property
    def tally(self) -> Counter[str]:
        """How items that were begun ended: done, lost, or the type of an outcome."""
        tally: Counter[str] = Counter()
        for part in self.parts:
            tally.update(part.held_items.tally)
        return tally

    def stop(self) -> None:
        """Take no more items: unsubscribe everywhere, and release what is not begun."""
        if self.ended.is_set():
            return
        log.info("worker.stopping", node=self.name, in_hand=self.in_hand)
        for part in self.parts:
            part.session.unsubscribe()  # first, or unlocked items come right back (XEP-0254 section 4)
        self._end()

    def release_all(self) -> None:
        """Release also the items that are begun."""
        for part in self.parts:
            part.held_items.release_all()

    async def emptied(self) -> None:
        """Return when no item is in hand."""
        for part in self.parts:
            await part.held_items.emptied()

    def _end(self) -> None:
        if self.ended.is_set():
            return
        self.ended.set()
        for part in self.parts:
            part.held_items.end()
        self._waiting.put_nowait(None)

    def _failed(self, held_items: HeldItems, error: PubqueueError) -> None:
        """End all, unless the service is being drained while others serve."""
        service = held_items.service
        if self._is_left(held_items):
            log.warning("worker.left", node=self.name, why=str(error), service=service)
            return
        log.error("worker.failed", node=self.name, why=str(error), service=service)
        self.failure = self.failure or error
        self._end()

    def _is_left(self, held_items: HeldItems) -> bool:
        """Return whether the service is being drained, and others serve, or did until the worker was stopped."""
        if held_items.service not in self.services.draining:
            return False
        others = (part.held_items for part in self.parts if part.held_items is not held_items)
        stopped = self.ended.is_set() and self.failure is None
        return stopped or any(not one.ended.is_set() for one in others)

    def _failure_of(self, task: asyncio.Task[None]) -> BaseException | None:
        """Return the error of an opening, unless its service is being drained."""
        error, held_items = task.exception(), self._opening[task].held_items
        if isinstance(error, PubqueueError) and self._is_left(held_items):
            held_items.failed(error)
            return None
        return error

    def _opened(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, PubqueueError):
            self._opening[task].held_items.failed(error)
        elif error is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "A session could not be opened.", "exception": error, "task": task}
            )

    async def _end_opening(self) -> None:
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)

    async def _close(self) -> None:
        """Close the sessions that were opened; the others have closed themselves."""
        opened = [
            part.session
            for task, part in self._opening.items()
            if not task.cancelled() and task.exception() is None
        ]
        await asyncio.gather(*(session.close() for session in opened))
