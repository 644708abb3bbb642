"""The workers of a process: one for each subscription with an endpoint that may be called.

Each instance has its own workers: an item is pushed by one of them, because it is locked to one. Which subscriptions have an
endpoint is read again whenever this process has changed a node or another process has written, and from time to time; and
only if anything may be pushed at all.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.faces.faults import fault
from pubqueue.faces.grpc.push.worker import Worker, endpoint_of
from pubqueue.model.records import PushedNodes
from pubqueue.rules.registrations import ListPushed

if TYPE_CHECKING:
    from pubqueue.faces.grpc.calls import Backend
    from pubqueue.model.entities import Node, NodeName

log = structlog.get_logger(__name__)

RESCAN: Final = 60.0
"""Seconds between two looks, if nothing has changed."""


class Pushers:
    """The workers by their queues, and the task that looks for queues without one."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._workers: dict[NodeName, tuple[Worker, asyncio.Task[None]]] = {}
        self._scanning: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    @property
    def working(self) -> dict[NodeName, str]:
        """The endpoints of the workers by queue, "" for one that has just begun."""
        workers = {name: worker.endpoint for name, (worker, _) in self._workers.items()}
        return {name: "" if one is None else one.url for name, one in workers.items()}

    def start(self) -> None:
        """Look for subscriptions with an endpoint, if anything may be pushed at all."""
        if self._backend.terms.push_to and self._scanning is None:
            self._scanning = asyncio.create_task(self._scan(), name="push scan")

    async def stop(self) -> None:
        """End all workers; their current items are released at their deadlines."""
        tasks = [task for _, task in self._workers.values()]
        if self._scanning is not None:
            tasks.append(self._scanning)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._workers.clear()
        self._scanning = None

    def look(self) -> None:
        """Look soon: nodes may have changed."""
        self._news.set()

    async def _scan(self) -> None:
        while True:
            self._news.clear()
            try:
                await self._look_at_all()
            except Exception as problem:  # the next look may succeed
                log.error("push.scan_failed", **fault(problem))  # noqa: TRY400  # no trace of contents
            with suppress(TimeoutError):
                async with asyncio.timeout(RESCAN):
                    await self._news.wait()

    async def _look_at_all(self) -> None:
        """Start the workers that are missing, and have those that are out of date look at their queues again."""
        service, after = self._backend.service, None
        left = set(self._workers)
        while True:
            page = await self._backend.handle(service, ListPushed(service, after))
            if not isinstance(page, PushedNodes):
                return
            for node in page.nodes:
                self._see(node)
                left.discard(node.name)
                after = node.name
            if not page.more:
                break
        for name in left & self._workers.keys():
            self._workers[name][0].look()

    def _see(self, node: Node) -> None:
        if (found := self._workers.get(node.name)) is not None:
            found[0].see(node)
        elif endpoint_of(node, self._backend.terms.push_to) is not None:
            worker = Worker(self._backend, node.name)
            task = asyncio.create_task(worker.run(), name="pushing")
            self._workers[node.name] = worker, task
            task.add_done_callback(lambda done: self._ended(node, done))

    def _ended(self, node: Node, task: asyncio.Task[None]) -> None:
        """Forget a worker. If its queue has an endpoint again by then, the next look starts another one."""
        if (found := self._workers.get(node.name)) is not None and found[1] is task:
            del self._workers[node.name]
            if task.cancelled() or (problem := task.exception()) is None:
                self.look()
            else:
                log.error("push.failed", node=node.name, **fault(problem))
