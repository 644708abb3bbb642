"""Items for handlers that are plain functions, and the threads that these run in.

def handle(item: BlockingItem) -> None:
    rebook(item.decode(Flight))

Worker(node="jobs", requests=10).run_blocking(handle)
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pubqueue_xeps.client.ask import wait_for
from pubqueue_xeps.wire.payloads.payload import Content, header_of
from pubqueue_xeps.worker.handling.handler import is_async, name_of
from pubqueue_xeps.worker.handling.handlers import Handlers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from datetime import datetime
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.wire.published import Published
    from pubqueue_xeps.wire.times import Span, When
    from pubqueue_xeps.worker.item import Item


class BlockingItem(Content):
    """An `Item` for a handler that is a plain function; `Worker.run_blocking` settles it.

    Its methods block. Call them from the handler's thread, or from threads that the handler starts.
    """

    __slots__ = ("_item", "_loop")

    def __init__(self, item: Item, loop: asyncio.AbstractEventLoop) -> None:
        self._item = item
        self._loop = loop

    @property
    def id(self) -> str:
        """The item's id, unique in its node; record it to avoid doing the same work twice."""
        return self._item.id

    @property
    def node(self) -> str:
        """The queue that the item comes from."""
        return self._item.node

    @property
    def payload(self) -> Element | None:
        """The payload as an element, or None if the item has none."""
        return self._item.payload

    @property
    def publisher(self) -> str | None:
        """The JID that published the item, or None if the service does not report it."""
        return self._item.publisher

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that the publisher sent with the payload (XEP-0131); for a repeated name, the last value."""
        return self._item.headers

    def _header(self) -> str | None:
        return header_of(self.headers)

    @property
    def attempt(self) -> int:
        """How often the item has been delivered, including this time; 1 if the service does not report it."""
        return self._item.attempt

    @property
    def failures(self) -> int:
        """How often the item has failed: lock timeouts, lost workers, failed handlers; 0 if the service does not report it."""
        return self._item.failures

    @property
    def published(self) -> datetime | None:
        """When the item was published, by the service's clock, or None if the service does not report it."""
        return self._item.published

    @property
    def deadline(self) -> datetime | None:
        """When the lock times out, by the service's clock, or None if the service does not report it."""
        return self._item.deadline

    @property
    def wants_reply(self) -> bool:
        """Whether the item was published by `Publisher.ask`; the handler's return value is then the reply."""
        return self._item.wants_reply

    @property
    def lock_lost(self) -> bool:
        """Whether the lock is lost: a handler that can stop early may check this."""
        return self._item.lock_lost.is_set()

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
    ) -> Published:
        """Publish follow-up work on the worker's own stream. See `Item.publish`."""
        return wait_for(
            self._item.publish(
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
            ),
            self._loop,
        )

    def reply(
        self,
        payload: object,
        *,
        type: str | None = None,  # noqa: A002 - the name of the attribute
        timeout: Span | None = None,
    ) -> Published:
        """Send a result to the account that asked for this item. See `Item.reply`."""
        return wait_for(self._item.reply(payload, type=type, timeout=timeout), self._loop)

    def touch(self, seconds: When | None = None) -> datetime | None:
        """Extend the lock to `seconds` from now, up to the queue's lock timeout. See `Item.touch`."""
        return wait_for(self._item.touch(seconds), self._loop)


@contextmanager
def in_threads(
    handler: Callable[[BlockingItem], object], number: int
) -> Iterator[Callable[[Item], Awaitable[object]]]:
    """Yield a coroutine function that runs `handler`, a plain function, in one of `number` threads; wait for the threads at the end."""
    if isinstance(handler, Handlers):
        raise TypeError("Pass Handlers to `run`, which runs blocking ones in threads.")
    if not callable(handler):
        raise TypeError(f"The handler is {handler!r}; it takes a plain function.")
    if is_async(handler):
        raise TypeError(
            f"The handler {name_of(handler)} is a coroutine function: give it to `run`."
        )

    def call(item: BlockingItem) -> object:
        result = handler(item)
        if inspect.iscoroutine(result):
            result.close()
            raise TypeError("The handler returns a coroutine: give it to `run`.")
        return result

    with ThreadPoolExecutor(number, "pubqueue handler") as threads:

        async def handle(item: Item) -> object:
            loop = asyncio.get_running_loop()
            context = contextvars.copy_context()
            return await loop.run_in_executor(threads, context.run, call, BlockingItem(item, loop))

        handle.__name__ = name_of(handler)  # the name of the handler in logs
        yield handle
