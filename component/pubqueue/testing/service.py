"""A queue service in this process: the real one on a store in memory, without a server, a socket or a file.

    async def test_what_fails_twice_is_dead():
        with Service() as service:
            service.create("jobs", max_failures=2)
            service.publish("jobs", {"order": 7}, id="a")
            await service.work(handle, node="jobs")
            assert service.dead("jobs") == ["a"]

It runs in a thread of its own, so that blocking code and any event loop can use it. Its time stands still,
except that `advance`, `settled` and `work` move it on, the last two as far as items have to wait. Only the service's time
moves: a worker sees it as if its machine had been suspended meanwhile, so a lock that it would have extended times out.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypedDict, TypeVar
from urllib.parse import quote
from uuid import uuid4

from pubqueue.model.records import EventKind
from pubqueue.testing.engine import DOMAIN, PASSWORD, SERVICE, Engine, Loop, diverted
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.client.xmpp_client import IN_PROCESS
from pubqueue_xeps.errors import NoSuchNode
from pubqueue_xeps.wire import waits
from pubqueue_xeps.wire.publication import NewItem, Retracted, wrapped, written
from pubqueue_xeps.wire.requests import publishing, queueing
from pubqueue_xeps.wire.times import span
from pubqueue_xeps.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from types import TracebackType

    from pubqueue.model.replies import ItemEntry
    from pubqueue.testing.engine import Option
    from pubqueue_xeps.client.xmpp_client import Tls
    from pubqueue_xeps.handlers import Handlers
    from pubqueue_xeps.item import Item
    from pubqueue_xeps.wire.times import Span, When
    from pubqueue_xeps.wire.waits import Signaled

T = TypeVar("T")

HOST: Final = "127.80.113.1"
"""A loopback address that is not in use: a client that connects after the end of the service is refused there."""

TIMEOUT: Final = 30.0
"""Seconds of the machine's time that a test waits before it gives up."""

MOMENT: Final = 0.25
"""Seconds of the machine's time for which a handler of batches waits for items that have been published already."""

_ports: Final = itertools.count(1)


class Account(TypedDict):
    """What `Worker` needs to connect: `Worker(**service.account("bot"), node="jobs")`."""

    jid: str
    password: str
    service: str
    host: str
    port: int
    tls: Tls


@dataclass(frozen=True, slots=True)
class Kept:
    """An item in a node.

    `state` is queued, locked, delayed, held or dead. `attempts` is how often it was delivered, `failures`
    how many of these attempts failed. `reason` is why it is dead. `due_in` is the number of seconds
    until a delayed item may be delivered, or the time of a held one is over.
    """

    id: str
    state: str
    payload: bytes
    attempts: int
    failures: int
    headers: dict[str, str]
    reason: str | None
    due_in: float | None


class Service:
    """Use it once, as a context manager: `with Service() as service`. `Services` is several of them.

    Any account of `localhost` may log in with the service's password, publish, and work.
    """

    password: Final = PASSWORD
    """The password of each account."""

    def __init__(self, address: str = SERVICE) -> None:
        self.address: Final = address
        """The JID of the service."""
        self._place = (HOST, next(_ports))
        self._started: Future[Engine] = Future()
        self._thread = threading.Thread(target=self._run, name="pubqueue service", daemon=True)
        self._engine: Engine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._engine = self._started.result(TIMEOUT)
        IN_PROCESS[self._place] = self._engine.accept
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        IN_PROCESS.pop(self._place, None)
        engine, self._engine = self._at_work, None
        if self._loop is not None:
            with suppress(RuntimeError):  # it ended by itself
                self._loop.call_soon_threadsafe(engine.stop)
        self._thread.join(TIMEOUT)

    def account(self, name: str = "bot") -> Account:
        """Return how this account connects, as `Worker` takes it."""
        host, port = self._place
        return Account(
            jid=f"{name}@{DOMAIN}",
            password=PASSWORD,
            service=self.address,
            host=host,
            port=port,
            tls="off",
        )

    def url(self, account: str = "bot", *, node: str | None = None) -> str:
        """Return the connection of an account in the form of `PUBQUEUE_URL`; the password is `service.password`."""
        host, port = self._place
        worker = "" if node is None else f"&node={quote(node, safe='')}"
        return f"xmpp://{account}@{DOMAIN}/{self.address}?host={host}&port={port}&tls=off{worker}"

    def join(self, other: Service) -> None:
        """Let clients of this service reach another one over the same connection; both are running."""
        self._call(lambda engine: engine.join(other._at_work))

    def clear(self) -> None:
        """Disconnect all clients, and delete every node; the time is not changed."""
        self._call(lambda engine: engine.clear())

    def create(self, node: str, **options: Option) -> None:
        """Create a queue with these settings, or set them in an existing one; all other settings are those of a new queue.

        Only `backoff_jitter` is 0 unless you set it, so that pauses are as long in every run.

        A setting is named as in the node configuration without its prefix (`max_failures=3`, `lock_timeout=60`,
        `dead_letter_node="dead"`), or in full by `**{"pubsub#max_items": 10}`. Durations are in seconds.

        Raises:
            ValueError: there is no such setting, or its value does not fit.

        """
        self._call(lambda engine: engine.create(node, options))

    def publish(
        self,
        node: str,
        payload: object,
        *,
        id: str | None = None,  # noqa: A002  the name of the attribute
        priority: int | None = None,
        delay: When | None = None,
        ttl: When | None = None,
        headers: Mapping[str, str] | None = None,
        type: str | None = None,  # noqa: A002  the name of the attribute
    ) -> str:
        """Publish an item and return its id, as any publisher would; times are given as to `Publisher.publish`.

        An Element is used as the payload; any other value is sent as JSON (XEP-0335). With `type`, a str, bytes or
        an Element is sent with that content type.

        Raises:
            pubqueue_xeps.errors.NoSuchNode: there is no such node.
            pubqueue_xeps.errors.PubqueueError: the service refuses it for another reason.
            TypeError, ValueError: it cannot be written.

        """
        name = publishing.identified(id) or uuid4().hex
        new = wrapped(NewItem(payload=payload, headers=headers, type=type))
        beside = publishing.beside(delay, priority, ttl, new.headers)
        content = publishing.publish(
            node, [publishing.item(name, written(new.payload).encode())], beside
        )
        self._call(lambda engine: engine.ask(node, content))
        return name

    def retract(self, node: str, id: str) -> Retracted:  # noqa: A002  the name of the attribute
        """Retract an item, as its publisher or an owner would; return whether a worker had it.

        Raises:
            LookupError: there is no such item in the node, or no such node.

        """
        question = queueing.request(node, id)
        try:
            answer = self._call(lambda engine: engine.ask(node, question.inner.encode()))
        except NoSuchNode:
            raise LookupError(f"there is no item {id!r} in {node!r}") from None
        return Retracted(node, id, there=True, locked=queueing.locked(answer))

    def signal(
        self,
        node: str,
        id: str,  # noqa: A002  the name of the attribute
        name: str,
        data: object = None,
        *,
        signal_id: str | None = None,
    ) -> Signaled:
        """Send an item a signal, as an owner would; it counts once for each `signal_id`, which is a new one by default.

        Raises:
            LookupError: there is no such item in the node, or no such node.
            TypeError, ValueError: the data cannot be expressed in JSON, or is too long.

        """
        text, known = "" if data is None else waits.as_json(data, "data"), signal_id or uuid4().hex
        question = waits.request(node, id, name, text, known)
        try:
            answer = self._call(lambda engine: engine.ask(node, question.inner.encode()))
        except NoSuchNode:
            raise LookupError(f"there is no item {id!r} in {node!r}") from None
        return waits.read_signaled(answer, node, id, known)

    def advance(self, seconds: Span) -> None:
        """Let this many seconds, or a timedelta, pass at once: delays, backoff, locks and lifetimes that end by then have ended.

        Workers process the items that this delivers when their event loop runs.

        Raises:
            ValueError: the number is negative.

        """
        count = span("seconds", seconds)
        self._call(lambda engine: engine.advance(count))

    async def settled(self, node: str | Sequence[str], *, within: Span = TIMEOUT) -> None:
        """Return when each item of the node, or of several nodes, is done, held, dead, or moved to its dead-letter node.

        The service's time moves on as far as delayed items have to wait; `within` is seconds of the machine's
        time, or a timedelta.

        Raises:
            LookupError: there is no such node.
            TimeoutError: items are left after that time; the message lists them.

        """
        engine, nodes = self._at_work, [node] if isinstance(node, str) else list(node)
        seconds = span("within", within)
        coming = self._submit(lambda engine: engine.settled(nodes))
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wrap_future(coming)
        except TimeoutError:
            there = [it.item for name in nodes for it in await self._on(engine.items(name))]
            left = ", ".join(f"{item.id} {item.state}" for item in there)
            what = ", ".join(map(repr, nodes))
            raise TimeoutError(
                f"{what} is not settled within {seconds:g} seconds: {left}"
            ) from None

    async def work(
        self,
        handler: Callable[[Item], Awaitable[object]] | Handlers,
        *,
        node: str | Sequence[str],
        requests: int = 1,
        within: Span = TIMEOUT,
    ) -> None:
        """Let one worker, with one or several handlers, process the items of one or several nodes, until `settled`.

        Schedules that handlers declare are not created, and batches wait for no more items than have been published.

        Raises:
            LookupError: there is no such node.
            TimeoutError: items are left after `within` seconds of the machine's time.

        """
        worker = Worker(
            **self.account(),
            node=node,
            requests=requests,
            schedules=False,
            signals=(),
            timings=Timings(gather=MOMENT),
        )
        await self.run(worker, handler, node=node, within=within)

    async def run(
        self,
        worker: Worker,
        handler: Callable[[Item], Awaitable[object]] | Handlers,
        *,
        node: str | Sequence[str],
        within: Span = TIMEOUT,
    ) -> None:
        """Run a worker of this service until its node, or all its nodes, are `settled`, then drain it.

        Raises:
            LookupError, TimeoutError: as `settled`.
            pubqueue_xeps.errors.PubqueueError: the worker ended with this error.

        """
        working = asyncio.create_task(worker.run(handler), name="worker")
        settling = asyncio.create_task(self.settled(node, within=within), name="settled")
        try:
            await asyncio.wait({working, settling}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                await working
            await settling
            if not working.done():
                worker.stop()
                await working
        finally:
            for task in (working, settling):
                task.cancel()
            await asyncio.gather(working, settling, return_exceptions=True)

    def items(self, node: str) -> list[Kept]:
        """Return the items in the node, the oldest first.

        Raises:
            LookupError: there is no such node.

        """
        engine = self._at_work
        return [_kept(entry, engine) for entry in self._call(lambda engine: engine.items(node))]

    def done(self, node: str) -> list[str]:
        """Return the ids of the items that workers have retracted from the node, in that order.

        Raises:
            LookupError: there is no such node.

        """
        return self._ids(node, EventKind.COMPLETED)

    def dead(self, node: str) -> list[str]:
        """Return the ids of the dead items in the node, the oldest first; `items` returns the reasons.

        Raises:
            LookupError: there is no such node.

        """
        return [item.id for item in self.items(node) if item.state == "dead"]

    def attempts(self, node: str, id: str) -> int:  # noqa: A002  the name of the attribute
        """Return how often the node has delivered an item, also after the item was removed.

        Raises:
            LookupError: there is no such node.

        """
        return self._ids(node, EventKind.DELIVERED).count(id)

    def _ids(self, node: str, kind: EventKind) -> list[str]:
        entries = self._call(lambda engine: engine.events(node, kind))
        return [entry.event.item for entry in entries if entry.event.item is not None]

    # --- the thread ---

    def _run(self) -> None:
        with diverted(), asyncio.Runner(loop_factory=Loop) as runner:
            self._loop = runner.get_loop()
            try:
                runner.run(self._serve())
            except Exception as problem:
                if self._started.done():
                    raise
                self._started.set_exception(problem)

    async def _serve(self) -> None:
        engine = Engine(self.address)

        def ready() -> None:
            if not self._started.done():
                self._started.set_result(engine)

        await engine.serve(ready)

    def _call(self, ask: Callable[[Engine], Coroutine[Any, Any, T]]) -> T:
        return self._submit(ask).result(TIMEOUT)

    def _submit(self, ask: Callable[[Engine], Coroutine[Any, Any, T]]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(ask(self._at_work), self._at_loop)

    async def _on(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._at_loop))

    @property
    def _at_work(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("The service does not run: enter it with `with`.")
        return self._engine

    @property
    def _at_loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "there is no engine without"
        return self._loop


def _kept(entry: ItemEntry, engine: Engine) -> Kept:
    item = entry.item
    return Kept(
        id=item.id,
        state=str(item.state),
        payload=entry.payload or b"",
        attempts=item.acquired,
        failures=item.failed,
        headers=dict(item.headers),
        reason=None if item.dead_letter is None else item.dead_letter.reason,
        due_in=engine.due_in(item),
    )
