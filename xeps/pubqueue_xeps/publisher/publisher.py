"""Publishes items, repeating each until the service has confirmed it.

    async with Publisher() as publisher:                        # the connection is in PUBQUEUE_URL
        await publisher.publish("jobs", {"flight": "LH 400"})

`BlockingPublisher` does the same without asyncio:

    with BlockingPublisher() as publisher:
        publisher.publish("jobs", {"flight": "LH 400"})
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from pubqueue_xeps.client.connection import Connect, Connection, connect
from pubqueue_xeps.client.connection_keeper import ConnectionKeeper
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.client.publications import MAX_REQUEST_BYTES, new_item
from pubqueue_xeps.client.threads import Blocking, Process, blocking, takes, wait_for
from pubqueue_xeps.errors import (
    ConfigurationError,
    NotAllPublished,
    Refused,
    ServerUnreachable,
)
from pubqueue_xeps.publisher.distribution import Distribution
from pubqueue_xeps.wire import waits
from pubqueue_xeps.wire.joins import Join
from pubqueue_xeps.wire.publication import carrying, new_id
from pubqueue_xeps.wire.times import Span, span, until
from pubqueue_xeps.wire.waits import as_json
from pubqueue_xeps.xep_qos.levels import Level, level_of
from pubqueue_xeps.xep_qos.pending_file import PendingFile

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from pubqueue_xeps.publisher.carried import CarriedPublications
    from pubqueue_xeps.publisher.replies import Reply
    from pubqueue_xeps.wire.publication import Carry, NewItem, Published, Retracted
    from pubqueue_xeps.wire.times import When
    from pubqueue_xeps.wire.waits import Hold, Signaled
    from pubqueue_xeps.xep_qos.levels import Pending


R = TypeVar("R")

TIMEOUT: Final = 60
IN_FLIGHT: Final = 100


class Publisher:
    """Publishes to the nodes of one service or several, as an async context manager.

    `where` stands for the keyword arguments `service`, `services`, `url`, `host`, `port`, `tls` and `ca_file`; `Connect`
    explains them. Without arguments the connection comes from `PUBQUEUE_URL`, and the password from `PUBQUEUE_PASSWORD` or
    `PUBQUEUE_PASSWORD_FILE`; arguments outrank these. If `jid` has no resource, the publisher picks a random one.
    Raises ConfigurationError, a ValueError, for an argument that is missing or wrong.

    `timeout`, in seconds or as a timedelta, is how long entering waits for an unreachable server, and how long a
    publish waits for its confirmation across lost answers, reconnects and restarts; each publish can set its own.
    `largest` is the maximum size of a request in bytes; XMPP servers close the stream when a request exceeds their
    limit. `headers` is a function that is called at each publish with the headers of that publish, or None, and returns
    the headers to send. `tracing.inject` is such a function.

    `level` sends each publish as a message at this level (urn:xmpp:qos); each publish can set its own. With `pending`,
    a file, unanswered publishes survive the process: the next publisher with this file continues them. With `assured`,
    a program may be killed at any point and publishes nothing twice. Only one process can have the file open. If `jid`
    has no resource, the file's is used, because pending messages continue only under the full JID that sent them.

    Any number of tasks may publish at the same time. Entering raises LoginFailed, LoginRefused or ServerUnreachable, and PendingFailed
    if the file cannot be used.

    With `services`, an item goes to one of them by its group, or by its id if it has no group, always the same one
    (`pubqueue_xeps.wire.services`). All are reached over one connection. Items of a service that is away wait, within
    their timeouts, and go to no other; the others are published meanwhile. Publish an id with the same group each time.

    When the connection breaks later, the publisher reconnects; publishes wait for it, each within its timeout. After
    a fork, a process must open its own publisher: using one that was open before raises RuntimeError.
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
        self._connection = connect("publisher", jid, password, where)
        self._level, self._file = _level(level), pending
        if pending is not None and self._level is None:
            raise ConfigurationError(
                "A file of pending publishes needs level= acknowledged or assured.",
                argument="pending",
            )
        self._timeout = span("timeout", timeout)
        self._largest, self._carry = largest, headers
        self._timings = timings or Timings()
        self._open: _Parts | None = None
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

    async def open(self) -> None:
        """Log in; entering the context manager does the same."""
        if self._open is not None:
            self._process.check()
            raise RuntimeError("The publisher is open already.")
        self._process = Process()
        parts = _parts(self._connection, self._timings, self._largest, self._file)
        try:
            async with asyncio.timeout(self._timeout):
                await parts.keeper.open()
        except TimeoutError:
            parts.carried.close()
            raise ServerUnreachable(
                f"{self._connection.account} could not log in within {self._timeout:g} seconds."
                + f" {parts.keeper.last_error}".rstrip()
            ) from None
        except BaseException:
            parts.carried.close()
            raise
        self._open = parts

    async def close(self) -> None:
        """Log out and give up publishes that are not confirmed yet. Closing twice, or after a fork, does nothing."""
        parts, self._open = self._open, None
        if parts is not None and self._process.is_ours:
            await parts.keeper.close()
            parts.carried.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def jid(self) -> str:
        """The full JID under which the publisher is logged in."""
        return self._parts().keeper.jid

    @property
    def is_open(self) -> bool:
        """Whether it was opened in this process, and not closed since; its connection may be lost for the moment."""
        return self._open is not None and self._process.is_ours

    @property
    def level(self) -> Level | None:
        """The level of a publish that sets none of its own; None: it is confirmed when it is on the service's disk."""
        return self._level

    def pending(self) -> list[Pending]:
        """Return the publishes in the file that have no final answer yet, oldest first."""
        return self._parts().carried.pending()

    async def publish(
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
        hold: Hold | None = None,
        joins: Join | None = None,
        timeout: Span | None = None,  # noqa: ASYNC109 - a promise
        level: Level | str | None = None,
    ) -> Published:
        """Publish an item; when this returns, the service has it on disk, under the `id` of the result.

        `level` sends the publish as a message (urn:xmpp:qos), by default at the level of the publisher; its result leaves
        `duplicate` and `dead` None. `acknowledged`: when this returns, the service has received the publish; a refusal
        is logged as `publisher.refused`. `assured`: when this returns, the item has been published exactly once, even
        without an `id`. `unacknowledged`: the publish is sent once, and may be lost.

        Without `type`, an Element is sent as it is and any other value as JSON. With `type`, a content type such as
        `text/csv`, the payload is a str (sent in UTF-8), bytes or an Element, and the worker finds it in `item.data` with
        `item.type`, whatever it contains; `type` replaces a header `content-type`. Without `id` the item gets a unique one. `delay` and `ttl` are
        seconds, a timedelta, or an aware datetime; `timeout` is seconds or a timedelta. `headers` (XEP-0131) are delivered
        with the payload. The node delivers items of one `group` in order, and only as many at a time as it is
        configured to. With `hold` it goes to no worker before a signal has come, or its time is over. With `joins` it is a member of a
        join, which waits until it is done.

        Publishing the same id and payload again makes no second item while the first exists, or within the node's
        `dedup_window`; `duplicate` reports this. So with an `id` it is safe to publish again after any error.

        Raises NoSuchNode, NotAQueue or Refused if the service refuses; the error's `condition`, `node` and `id` have
        the details. Raises ServiceUnavailable if the service could not be reached in time and the item was not
        published; NotConfirmed if no answer came in time and the item may have been published; TypeError or ValueError
        for a payload or header that cannot be sent.
        """
        beside = {
            "id": id,
            "priority": priority,
            "delay": delay,
            "ttl": ttl,
            "headers": headers,
            "group": group,
            "type": type,
            "hold": hold,
            "joins": joins,
        }
        item = carrying(new_item(payload, beside), self._carry)
        seconds, wanted = self._seconds(timeout), _level(level) or self._level
        return await self._parts().distribution.publish(node, item, seconds, wanted)

    async def publish_many(
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
        joins: Join | None = None,
        then: object = None,
        then_node: str | None = None,
        timeout: Span | None = None,  # noqa: ASYNC109 - a promise
        in_flight: int = IN_FLIGHT,
        level: Level | str | None = None,
    ) -> list[Published]:
        """Publish many items with one call, with at most `in_flight` of them in flight at a time.

        `items` are payloads, or `NewItem`s with their own ids, priorities and so on; the arguments apply to items that
        do not set their own. They are read from the iterable as room becomes free, and enqueued in roughly this order.
        Returns the results in the order of the items. `timeout` applies to each item. With several services each has an
        equal share of `in_flight`, and up to 1,000 items that are read wait for each.

        If some items cannot be published, the others still are, and NotAllPublished is raised at the end; its `results`
        has the result or error of each item, in order. To publish all or none, use `pubqueue_xeps.batch`.

        `then` is a payload, or a `NewItem`, for `then_node` (by default `node`): it goes to a worker once all of the items are done.
        It is a join, opened before the items and closed when all of them are published. If the call fails, or the program is
        killed, call it again: with ids for the items and for `then`, nothing is published or counted twice while they exist, or
        within the `dedup_window` of their nodes.
        """
        if in_flight < 1:
            raise ValueError(f"in_flight is at least 1, not {in_flight}.")
        beside = {
            "priority": priority,
            "delay": delay,
            "ttl": ttl,
            "headers": headers,
            "group": group,
            "type": type,
            "joins": joins,
        }
        seconds, wanted = self._seconds(timeout), _level(level) or self._level
        if then is not None:
            if joins is not None or wanted not in {None, Level.ASSURED}:
                raise ValueError("then goes with no joins=, and with items that are confirmed.")
            joins = await self._opened(then_node or node, new_item(then, {}), seconds)
            beside["joins"] = joins

        def make(payload: object) -> NewItem:
            return carrying(new_item(payload, beside), self._carry)

        distribution = self._parts().distribution
        results = await distribution.publish_each(
            node, items, make, seconds, wanted, in_flight=in_flight
        )
        published = _all_of(results, node)
        if then is not None and joins is not None:
            await self._closed(joins, seconds, is_known=bool(published))
        return published

    async def open_join(
        self,
        node: str,
        payload: object,
        *,
        hold: Hold | None = None,
        timeout: Span | None = None,  # noqa: ASYNC109 - a promise
    ) -> Join:
        """Publish an item that waits until its members are done, and return its name for `joins`.

        Members are items of any nodes of the service that are published with `joins`: up to a million, by publishers and owners of
        `node` and by this account. The join goes to a worker once it is closed and all of them are done; then `item.woken` is "count". A
        member that is cancelled counts. One that is dead does not, until it is redriven and done, unless the setting
        `join_dead` of `node` says otherwise. With `hold` a signal, or the end of its time, wakes it too.

        `payload` may be a `NewItem`, with an id. Opening it again under its id changes nothing. Raises what `publish` raises.
        """
        return await self._opened(node, new_item(payload, {"hold": hold}), self._seconds(timeout))

    async def _opened(self, node: str, item: NewItem, seconds: float) -> Join:
        whole = carrying(replace(item, join=True), self._carry)
        found = await self._parts().distribution.publish(node, whole, seconds, None)
        return Join(node, found.id)

    async def _closed(self, join: Join, seconds: float, *, is_known: bool) -> None:
        """Close a join. If we have members and may not close it, it is done and gone: we had its right as its author alone."""
        try:
            await self._parts().distribution.close_join(join, seconds)
        except Refused as no:
            if no.condition != "forbidden" or not is_known:
                raise

    async def close_join(
        self,
        join: Join,
        *,
        timeout: Span | None = None,  # noqa: ASYNC109 - a promise
    ) -> bool:
        """Add no more members to a join, so that it goes to a worker once those that it has are done; return whether it is still there.

        It may be repeated. Raises NoSuchNode; Refused if the item is no join, or the account may not close it, as one that is only its
        author may not when it is gone;
        ServiceUnavailable if the service could not be reached in time; NotConfirmed if no answer came in time.
        """
        return await self._parts().distribution.close_join(join, self._seconds(timeout))

    async def retract(
        self,
        node: str,
        id: str,  # noqa: A002 - the name of the attribute
        *,
        timeout: Span | None = None,  # noqa: ASYNC109 - a promise
    ) -> Retracted:
        """Cancel an item that this account published, or in a node that it owns (XEP-0060 7.2).

        When this returns, no worker gets the item any more. `there` is whether it was still in the node, `locked`
        whether a worker had it. A worker that has begun is not stopped, but is notified that its lock is lost. An item
        published later under the same id is a new one. Of several services all are asked, and the first that has the item
        counts.

        Raises NoSuchNode; Refused if another account published the item; ServiceUnavailable if the service could not be
        reached in time and nothing has changed; NotConfirmed if no answer came in time; ValueError for an invalid id.
        """
        return await self._parts().distribution.retract(node, id, self._seconds(timeout))

    async def signal(
        self,
        node: str,
        id: str,  # noqa: A002 - the name of the attribute
        name: str,
        data: object = None,
        *,
        signal_id: str | None = None,
        timeout: Span | None = None,  # noqa: ASYNC109 - a promise
    ) -> Signaled:
        """Send a signal to an item that waits for it, or will.

        For owners and publishers of the node, and for the account that published the item. `data` is a value that JSON can
        express, of up to 16 KiB. A signal counts once: repeat it under its `signal_id`, which is a new one by default. An
        item that is not held for `name` keeps the signal, up to 64 of them, until it is.

        Raises NoSuchNode; Refused if the item does not exist, or the account may not send it signals; ServiceUnavailable
        if the service could not be reached in time, or the item keeps as many signals as it may; NotConfirmed if no answer
        came in time; TypeError or ValueError for names and data that cannot be sent.
        """
        text = "" if data is None else as_json(data, "data")
        known = signal_id or new_id()
        question = waits.request(node, id, name, text, known)
        answer = await self._parts().distribution.signal(question, node, self._seconds(timeout))
        return waits.read_signaled(answer, node, id, known)

    async def signal_link(
        self,
        node: str,
        id: str,  # noqa: A002 - the name of the attribute
        name: str,
        *,
        at: str,
        within: When | None = None,
        timeout: Span | None = None,  # noqa: ASYNC109 - a promise
    ) -> str:
        """Return a link by which anyone who has it sends the item this signal, once: for a mail, or a chat.

        The link shows a page with a button, at the HTTP port of the service, which people reach at the address `at`. It holds
        for `within` (seconds, a timedelta, or an aware datetime; two days by default, up to 30), and for one wait of the
        item: the one that is, or else the next. So a handler may make it before it returns `Hold`. It is over as soon as the
        item is woken. An account that may `signal` may make it, and has to have that right when it is used.

        Raises what `signal` raises.
        """
        holds = None if within is None else until("within", within)
        question = waits.link_request(node, id, name, holds)
        answer = await self._parts().distribution.signal(question, node, self._seconds(timeout))
        return waits.read_link(answer, at)

    async def ask(
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
        timeout: Span = TIMEOUT,  # noqa: ASYNC109 - a promise
    ) -> Reply:
        """Publish an item, and return the reply that its worker sends with `item.reply`.

        After NoReply or a crash, ask again with the same `id`, from any process of the same account: the item is
        enqueued only once, and a reply that has already arrived is returned. Replies are kept for a day.

        Raises NoReply if no reply came within `timeout` seconds, QuestionDied as soon as the item has ended without
        having been done, and the exceptions of `publish`.
        """
        beside = {
            "id": id,
            "priority": priority,
            "ttl": ttl,
            "headers": headers,
            "group": group,
            "type": type,
        }
        item = carrying(new_item(payload, beside), self._carry)
        return await self._parts().distribution.ask(node, item, span("timeout", timeout))

    def _seconds(self, timeout: Span | None) -> float:
        return self._timeout if timeout is None else span("timeout", timeout)

    def _parts(self) -> _Parts:
        if self._open is None:
            raise RuntimeError("The publisher is not connected: enter it with `async with`.")
        self._process.check()
        return self._open


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of an open publisher."""

    keeper: ConnectionKeeper
    distribution: Distribution

    @property
    def carried(self) -> CarriedPublications:
        """What is published by message."""
        return self.distribution.carried


def _parts(
    connection: Connection, timings: Timings, largest: int, pending: str | Path | None
) -> _Parts:
    file = None if pending is None else PendingFile(pending)
    if file is not None and connection.is_resource_ours:
        # pending publishes continue only under the full JID that sent them
        resource = file.resource(connection.account)
        if resource is not None:
            connection = replace(connection, jid=f"{connection.account}/{resource}")
    keeper = ConnectionKeeper(connection, timings)
    distribution = Distribution(keeper, connection, timings, largest=largest, file=file)
    keeper.equip = distribution.carried.equip
    keeper.on_session, keeper.listen = distribution.look_again, distribution.read
    return _Parts(keeper, distribution)


def _level(level: Level | str | None) -> Level | None:
    return None if level is None else level_of(level)


def _all_of(results: list[Published | Exception], node: str) -> list[Published]:
    published = [result for result in results if not isinstance(result, Exception)]
    if len(published) == len(results):
        return published
    first = next(result for result in results if isinstance(result, Exception))
    missing = len(results) - len(published)
    raise NotAllPublished(
        f"{missing} of {len(results)} items were not published to {node!r}; the first: {first}",
        results,
    ) from first


class BlockingPublisher(Blocking[Publisher]):
    """A `Publisher` whose methods block, for programs without asyncio; a context manager, or used by `open` and `close`.

    The arguments and the exceptions are those of `Publisher`. The connection runs in its own thread, which also reads the
    items of `publish_many`, and any number of threads may share it: make one publisher for the program, not one for each
    item. After a fork, make a new one: using one that was opened before the fork raises RuntimeError.
    """

    @takes(Publisher.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - those of `Publisher`
        self._twin = Publisher(*args, **kwargs)
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
                self._wait(self._twin.open())
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
                self._wait(self._twin.close())
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
        return self._twin.jid

    def pending(self) -> list[Pending]:
        """Return the publishes in the file that have no final answer yet, oldest first."""

        async def look() -> list[Pending]:
            return self._twin.pending()

        return self._wait(look())

    publish = blocking(Publisher.publish)
    publish_many = blocking(Publisher.publish_many)
    open_join = blocking(Publisher.open_join)
    close_join = blocking(Publisher.close_join)
    retract = blocking(Publisher.retract)
    signal = blocking(Publisher.signal)
    signal_link = blocking(Publisher.signal_link)
    ask = blocking(Publisher.ask)

    def _wait(self, work: Coroutine[Any, Any, R]) -> R:
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
