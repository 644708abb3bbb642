"""A publisher for programs without asyncio.

with BlockingPublisher() as publisher:
    publisher.publish("jobs", {"flight": "LH 400"})
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from pubqueue_xeps.client.ask import wait_for
from pubqueue_xeps.client.forks import Process
from pubqueue_xeps.client.publications import MAX_REQUEST_BYTES
from pubqueue_xeps.publisher.publisher import IN_FLIGHT, TIMEOUT, Publisher

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from pubqueue_xeps.client.connection import Connect
    from pubqueue_xeps.client.pace import Timings
    from pubqueue_xeps.publisher.replies import Reply
    from pubqueue_xeps.wire.published import Carry, NewItem, Published, Retracted
    from pubqueue_xeps.wire.times import Span, When
    from pubqueue_xeps.xep_qos.levels import Level, Pending

T = TypeVar("T")


class BlockingPublisher:
    """A `Publisher` whose methods block, for programs without asyncio; a context manager, or used by `open` and `close`.

    The arguments and the exceptions are those of `Publisher`. The connection runs in its own thread, and any number of
    threads may share it: make one publisher for the program, not one for each item. After a fork, make a new one: using
    one that was opened before the fork raises RuntimeError.
    """

    def __init__(
        self,
        jid: str | None = None,
        password: str | None = None,
        *,
        timeout: Span = TIMEOUT,
        largest: int = MAX_REQUEST_BYTES,
        headers: Carry | None = None,
        timings: Timings | None = None,
        level: Level | str | None = None,
        pending: str | Path | None = None,
        **where: Unpack[Connect],
    ) -> None:
        self._publisher = Publisher(
            jid,
            password,
            timeout=timeout,
            largest=largest,
            headers=headers,
            timings=timings,
            level=level,
            pending=pending,
            **where,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._changing = threading.Lock()
        self._process = Process()

    @classmethod
    def from_url(
        cls,
        url: str,
        password: str | None = None,
        *,
        timeout: Span = TIMEOUT,
        timings: Timings | None = None,
    ) -> Self:
        """Make a publisher for a URL such as `xmpp://etl@example.org/queue.example.org`; `password` comes from the environment by default."""
        return cls(url=url, password=password, timeout=timeout, timings=timings)

    def open(self) -> None:
        """Log in; entering the context manager does the same."""
        if self._loop is not None:
            self._process.check()  # first: the thread that has the lock may belong to the other process
        with self._changing:
            if self._loop is not None:
                raise RuntimeError("The publisher is open already.")
            self._process = Process()
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._run, args=(self._loop,), name="pubqueue publisher", daemon=True
            )
            self._thread.start()
            try:
                self._wait(self._publisher.open())
            except BaseException:
                self._end()
                raise

    def close(self) -> None:
        """Log out and give up publishes that are not confirmed yet. Closing twice, or after a fork, does nothing."""
        if not self._process.is_ours:
            return
        with self._changing:
            if self._loop is None:
                return
            try:
                self._wait(self._publisher.close())
            finally:
                self._end()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def jid(self) -> str:
        """The full JID under which the publisher is logged in."""
        return self._publisher.jid

    def pending(self) -> list[Pending]:
        """Return the publishes in the file that have no final answer yet, oldest first."""

        async def look() -> list[Pending]:
            return self._publisher.pending()

        return self._wait(look())

    def publish(
        self,
        node: str,
        payload: object,
        *,
        id: str | None = None,  # noqa: A002 - the name of the attribute
        priority: int | None = None,
        delay: When | None = None,
        ttl: When | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | None = None,
        type: str | None = None,  # noqa: A002 - the name of the attribute
        timeout: Span | None = None,
        level: Level | str | None = None,
    ) -> Published:
        """Publish an item; when this returns, the service has it. See `Publisher.publish`."""
        return self._wait(
            self._publisher.publish(
                node,
                payload,
                id=id,
                priority=priority,
                delay=delay,
                ttl=ttl,
                headers=headers,
                group=group,
                type=type,
                timeout=timeout,
                level=level,
            )
        )

    def publish_many(
        self,
        node: str,
        items: Iterable[object | NewItem],
        *,
        priority: int | None = None,
        delay: When | None = None,
        ttl: When | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | None = None,
        type: str | None = None,  # noqa: A002 - the name of the attribute
        timeout: Span | None = None,
        in_flight: int = IN_FLIGHT,
        level: Level | str | None = None,
    ) -> list[Published]:
        """Publish many items with one call; see `Publisher.publish_many`. `items` is read in the publisher's thread."""
        return self._wait(
            self._publisher.publish_many(
                node,
                items,
                priority=priority,
                delay=delay,
                ttl=ttl,
                headers=headers,
                group=group,
                type=type,
                timeout=timeout,
                in_flight=in_flight,
                level=level,
            )
        )

    def retract(
        self,
        node: str,
        id: str,  # noqa: A002 - the name of the attribute
        *,
        timeout: Span | None = None,
    ) -> Retracted:
        """Cancel an item, and return whether it was still there and whether a worker had it. See `Publisher.retract`."""
        return self._wait(self._publisher.retract(node, id, timeout=timeout))

    def ask(
        self,
        node: str,
        payload: object,
        *,
        id: str | None = None,  # noqa: A002 - the name of the attribute
        priority: int | None = None,
        ttl: When | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | None = None,
        type: str | None = None,  # noqa: A002 - the name of the attribute
        timeout: Span = TIMEOUT,
    ) -> Reply:
        """Publish an item and wait for its worker's reply. See `Publisher.ask`."""
        return self._wait(
            self._publisher.ask(
                node,
                payload,
                id=id,
                priority=priority,
                ttl=ttl,
                headers=headers,
                group=group,
                type=type,
                timeout=timeout,
            )
        )

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise RuntimeError("The publisher is not connected: enter it with `with`.")
        try:
            self._process.check()
        except RuntimeError:
            work.close()
            raise
        return wait_for(work, self._loop)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_forever()
        finally:
            loop.close()

    def _end(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
