"""The same for programs without asyncio: a publisher, and what handlers that are plain functions are given.

with BlockingPublisher() as publisher:
    publisher.publish("jobs", {"flight": "LH 400"})

def handle(item: BlockingItem) -> None:
    rebook(item.decode(Flight))

Worker(node="jobs", requests=10).run_blocking(handle)
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pubqueue_xeps.client.forks import Process
from pubqueue_xeps.client.publications import LARGEST
from pubqueue_xeps.handler import is_async, name_of
from pubqueue_xeps.handlers import Handlers
from pubqueue_xeps.publisher import IN_FLIGHT, TIMEOUT, Publisher
from pubqueue_xeps.wire.payloads.payload import Content

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
    from datetime import datetime
    from types import TracebackType
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.client.timings import Timings
    from pubqueue_xeps.client.xmpp_client import Tls
    from pubqueue_xeps.item import Item
    from pubqueue_xeps.replies import Reply
    from pubqueue_xeps.wire.published import Carry, NewItem, Published, Retracted
    from pubqueue_xeps.wire.times import Span, When

T = TypeVar("T")


class BlockingPublisher:
    """A `Publisher` whose methods wait, for programs without asyncio; as a context manager, or by `open` and `close`.

    The arguments, and what is raised, are those of `Publisher`. It keeps its connection in a thread of its own, and
    may be shared by any number of threads: make one for a program, not one for each item. After a fork, make another: RuntimeError is
    raised where this one was open before.
    """

    def __init__(
        self,
        jid: str | None = None,
        password: str | None = None,
        *,
        service: str | None = None,
        url: str | None = None,
        host: str | None = None,
        port: int | None = None,
        tls: Tls | None = None,
        ca_file: str | None = None,
        timeout: Span = TIMEOUT,
        largest: int = LARGEST,
        headers: Carry | None = None,
        timings: Timings | None = None,
    ) -> None:
        self._publisher = Publisher(
            jid,
            password,
            service=service,
            url=url,
            host=host,
            port=port,
            tls=tls,
            ca_file=ca_file,
            timeout=timeout,
            largest=largest,
            headers=headers,
            timings=timings,
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
        """Make one for `xmpp://etl@example.org/queue.example.org`; the password is in the environment, if not here."""
        return cls(url=url, password=password, timeout=timeout, timings=timings)

    def open(self) -> None:
        """Log in, as entering does."""
        if self._loop is not None:
            self._process.check()  # first: the thread that has the lock may be of the other process
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
        """Log out; what was not confirmed by then is given up. Closing again does nothing, and neither does it after a fork."""
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
        """The full JID under which it is logged in."""
        return self._publisher.jid

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
        timeout: Span | None = None,
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
                timeout=timeout,
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
        timeout: Span | None = None,
        in_flight: int = IN_FLIGHT,
    ) -> list[Published]:
        """Publish many items with one wait; see `Publisher.publish_many`. `items` is read in the publisher's thread."""
        return self._wait(
            self._publisher.publish_many(
                node,
                items,
                priority=priority,
                delay=delay,
                ttl=ttl,
                headers=headers,
                group=group,
                timeout=timeout,
                in_flight=in_flight,
            )
        )

    def retract(
        self,
        node: str,
        id: str,  # noqa: A002 - the name of the attribute
        *,
        timeout: Span | None = None,
    ) -> Retracted:
        """Take back an item; says whether it was still there, and whether a worker had it. See `Publisher.retract`."""
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
        timeout: Span = TIMEOUT,
    ) -> Reply:
        """Publish an item, and wait for what its worker replies. See `Publisher.ask`."""
        return self._wait(
            self._publisher.ask(
                node,
                payload,
                id=id,
                priority=priority,
                ttl=ttl,
                headers=headers,
                group=group,
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
        return _waited(work, self._loop)

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


class BlockingItem(Content):
    """An `Item` for a handler that is a plain function; what becomes of it, `Worker.run_blocking` sees to.

    Its methods wait, and are called from the handler's thread or others that it starts.
    """

    __slots__ = ("_item", "_loop")

    def __init__(self, item: Item, loop: asyncio.AbstractEventLoop) -> None:
        self._item = item
        self._loop = loop

    @property
    def id(self) -> str:
        """The item's id, unique in its node: what a worker remembers to do nothing twice."""
        return self._item.id

    @property
    def node(self) -> str:
        """The queue it comes from."""
        return self._item.node

    @property
    def payload(self) -> Element | None:
        """The payload as an element, or None where the item has none."""
        return self._item.payload

    @property
    def publisher(self) -> str | None:
        """The JID that published it, where the service tells."""
        return self._item.publisher

    @property
    def headers(self) -> Mapping[str, str]:
        """What the publisher says beside the payload (XEP-0131); of one name the last value."""
        return self._item.headers

    @property
    def attempt(self) -> int:
        """How often it has been handed out, this time included; 1 where the service does not say."""
        return self._item.attempt

    @property
    def failures(self) -> int:
        """How often it has failed: a lock that timed out, a worker lost, work that failed; 0 where nobody says."""
        return self._item.failures

    @property
    def published(self) -> datetime | None:
        """When it was published by the service's clock, where the service tells."""
        return self._item.published

    @property
    def deadline(self) -> datetime | None:
        """When the lock times out by the service's clock, where the service tells."""
        return self._item.deadline

    @property
    def wants_reply(self) -> bool:
        """Whether it was asked by `Publisher.ask`; what the handler returns is the reply then."""
        return self._item.wants_reply

    @property
    def lock_lost(self) -> bool:
        """Whether the item is no longer ours: what can be stopped, and saves something by it, may stop."""
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
        timeout: Span | None = None,
    ) -> Published:
        """Publish follow-up work on the worker's own stream. See `Item.publish`."""
        return _waited(
            self._item.publish(
                node,
                payload,
                id=id,
                priority=priority,
                delay=delay,
                ttl=ttl,
                headers=headers,
                group=group,
                timeout=timeout,
            ),
            self._loop,
        )

    def reply(self, payload: object, *, timeout: Span | None = None) -> Published:
        """Send a result to who has asked for this item. See `Item.reply`."""
        return _waited(self._item.reply(payload, timeout=timeout), self._loop)

    def touch(self, seconds: When | None = None) -> datetime | None:
        """Extend the lock to `seconds` from now, at most the queue's lock timeout. See `Item.touch`."""
        return _waited(self._item.touch(seconds), self._loop)


@contextmanager
def in_threads(
    handler: Callable[[BlockingItem], object], number: int
) -> Iterator[Callable[[Item], Awaitable[object]]]:
    """Give what runs a plain function in one of `number` threads; ends when the last of them is free."""
    if isinstance(handler, Handlers):
        raise TypeError("Handlers are given to `run`, which has threads for those that block.")
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

        handle.__name__ = name_of(handler)  # what it is called where a worker speaks of it
        yield handle


def _waited(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:  # interrupted, above all: nobody waits for it any more
        future.cancel()
        raise
