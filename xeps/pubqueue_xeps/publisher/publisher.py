"""Publishes items of work, each until the service has confirmed it.

    async with Publisher() as publisher:                        # the connection is in PUBQUEUE_URL
        await publisher.publish("jobs", {"flight": "LH 400"})

Without asyncio it is `pubqueue_xeps.publisher.blocking.BlockingPublisher`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self, Unpack

from pubqueue_xeps.client.connection import Connect, Connection, connect
from pubqueue_xeps.client.connection_keeper import ConnectionKeeper
from pubqueue_xeps.client.forks import Process
from pubqueue_xeps.client.publications import MAX_REQUEST_BYTES, Publications, new_item
from pubqueue_xeps.client.timings import Timings
from pubqueue_xeps.errors import NotAllPublished, ServerUnreachable
from pubqueue_xeps.publisher.replies import Replies, Reply
from pubqueue_xeps.wire.published import carrying
from pubqueue_xeps.wire.times import Span, span

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from types import TracebackType

    from pubqueue_xeps.wire.published import Carry, NewItem, Published, Retracted
    from pubqueue_xeps.wire.times import When

TIMEOUT: Final = 60
IN_FLIGHT: Final = 100


class Publisher:
    """Publishes to the nodes of one service, as an async context manager.

    `where` stands for the keyword arguments `service`, `url`, `host`, `port`, `tls` and `ca_file`; `Connect` explains them.
    Without arguments it takes the connection from `PUBQUEUE_URL`, and the password from `PUBQUEUE_PASSWORD` or
    `PUBQUEUE_PASSWORD_FILE`; arguments outrank these. If `jid` has no resource, a random
    one is chosen. Raises ConfigurationError, a ValueError, for an argument that is missing or wrong.

    `timeout`, in seconds or as a timedelta, is how long entering waits for a server that cannot be reached, and a publish for its
    confirmation, over lost answers, reconnects and restarts; each publish may say otherwise. `largest` is how many bytes a
    request may have; XMPP servers end the stream for one that is larger than they take. `headers` is a function that is
    asked at each publish, where that is called: given the headers of the publish, or None, it returns those that the
    item carries. `tracing.inject` is one.

    Any number of tasks may publish at the same time. Entering raises LoginFailed, LoginRefused or ServerUnreachable. A connection
    that breaks later is made again; publishes wait for it, each within its time. A process that was forked opens a
    publisher of its own: RuntimeError is raised where it uses one that was open before.
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
        **where: Unpack[Connect],
    ) -> None:
        self._connection = connect("publisher", jid, password, where)
        self._timeout = span("timeout", timeout)
        self._largest, self._carry = largest, headers
        self._timings = timings or Timings()
        self._open: tuple[ConnectionKeeper, Publications, Replies] | None = None
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

    async def open(self) -> None:
        """Log in, as entering does."""
        if self._open is not None:
            self._process.check()
            raise RuntimeError("The publisher is open already.")
        self._process = Process()
        keeper, publications, replies = _parts(self._connection, self._timings, self._largest)
        try:
            async with asyncio.timeout(self._timeout):
                await keeper.open()
        except TimeoutError:
            raise ServerUnreachable(
                f"{self._connection.account} could not log in within {self._timeout:g} seconds."
                + f" {keeper.last_error}".rstrip()
            ) from None
        self._open = keeper, publications, replies

    async def close(self) -> None:
        """Log out; what was not confirmed by then is given up. Closing again does nothing, and neither does it after a fork."""
        parts, self._open = self._open, None
        if parts is not None and self._process.is_ours:
            await parts[0].close()

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
        """The full JID under which it is logged in."""
        return self._parts()[0].jid

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
        timeout: Span | None = None,  # noqa: ASYNC109 - a promise
    ) -> Published:
        """Publish an item; when this returns, the service has it, on disk, under the `id` of the result.

        An Element is sent as it is, anything else as JSON (`pubqueue_xeps.wire.payloads.encoding`). Without `id` the item gets a unique
        one. `delay` and `ttl` are seconds, a timedelta, or an aware datetime until when; `timeout` is seconds or a timedelta.
        `headers` (XEP-0131) are delivered beside the payload. Of items
        of one `group` the node hands out as many at a time as it is set to, in their order.

        The same id with the same payload makes no second item while the first is there, or within the node's
        `dedup_window`: `duplicate` tells that. So it is safe to publish again whatever went wrong.

        Raises NoSuchNode, NotAQueue or Refused when the service says no: the error's `condition`, `node` and `id`
        say what and about what; ServiceUnavailable when it could not be reached in time, and the item is not there;
        NotConfirmed when its answer did not come in time; TypeError or ValueError for a payload or header that
        cannot be sent.
        """
        beside = {
            "id": id,
            "priority": priority,
            "delay": delay,
            "ttl": ttl,
            "headers": headers,
            "group": group,
        }
        item = carrying(new_item(payload, beside), self._carry)
        return await self._parts()[1].publish(node, item, self._seconds(timeout))

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
        timeout: Span | None = None,  # noqa: ASYNC109 - a promise
        in_flight: int = IN_FLIGHT,
    ) -> list[Published]:
        """Publish many items with one wait, at most `in_flight` of them under way at a time.

        `items` are payloads, or `NewItem`s, which have ids, priorities and so on of their own; the arguments go for
        those that do not say otherwise. They are taken from the iterable as room is free, and put into the queue
        in about this order. Returns the results in the order of the items. `timeout` goes for each.

        If some could not be published, the others are all the same, and NotAllPublished is raised at the end: its
        `results` are, in order, what was published and what went wrong. All or none is what `pubqueue_xeps.batch` does.
        """
        if in_flight < 1:
            raise ValueError(f"One item at a time is the least, not {in_flight}.")
        beside = {
            "priority": priority,
            "delay": delay,
            "ttl": ttl,
            "headers": headers,
            "group": group,
        }
        publications, seconds = self._parts()[1], self._seconds(timeout)

        async def publish(payload: object) -> Published:
            item = carrying(new_item(payload, beside), self._carry)
            return await publications.publish(node, item, seconds)

        return _all_of(await _each(items, publish, in_flight), node)

    async def retract(
        self,
        node: str,
        id: str,  # noqa: A002 - the name of the attribute
        *,
        timeout: Span | None = None,  # noqa: ASYNC109 - a promise
    ) -> Retracted:
        """Take back an item that this account has published, or that is in a node of its own (XEP-0060 7.2).

        When this returns, no worker gets the item any more: `there` says whether it was still in the node, `locked`
        whether a worker had it. One that has begun is not stopped; it is told that its lock is lost. Published again
        under its id, the item is new.

        Raises NoSuchNode; Refused where the item is another's; ServiceUnavailable when the service could not be reached in
        time, and nothing has changed; NotConfirmed when its answer did not come in time; ValueError for an id that is none.
        """
        return await self._parts()[1].retract(node, id, self._seconds(timeout))

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
        timeout: Span = TIMEOUT,  # noqa: ASYNC109 - a promise
    ) -> Reply:
        """Publish an item, and wait for what its worker replies by `item.reply`.

        Ask again with the same `id` in doubt, after NoReply or a crash, from this process or another of the same
        account: what was asked is there once, and a reply that has come meanwhile is returned. Replies are kept for a
        day.

        Raises NoReply when there was none within `timeout` seconds, ItemDead when the item is there already and
        dead, and what `publish` raises.
        """
        beside = {
            "id": id,
            "priority": priority,
            "ttl": ttl,
            "headers": headers,
            "group": group,
        }
        item = carrying(new_item(payload, beside), self._carry)
        return await self._parts()[2].ask(node, item, span("timeout", timeout))

    def _seconds(self, timeout: Span | None) -> float:
        return self._timeout if timeout is None else span("timeout", timeout)

    def _parts(self) -> tuple[ConnectionKeeper, Publications, Replies]:
        if self._open is None:
            raise RuntimeError("The publisher is not connected: enter it with `async with`.")
        self._process.check()
        return self._open


def _parts(
    connection: Connection, timings: Timings, largest: int
) -> tuple[ConnectionKeeper, Publications, Replies]:
    keeper = ConnectionKeeper(connection, timings)
    publications = Publications(keeper, connection.service, timings, largest=largest)
    replies = Replies(keeper, publications, connection, timings)
    keeper.listen, keeper.on_session = replies.read, replies.look_again
    return keeper, publications, replies


async def _each(
    items: Iterable[object], publish: Callable[[object], Awaitable[Published]], in_flight: int
) -> list[Published | Exception]:
    """Publish each item, `in_flight` at a time; return the results in the order of the items. Raises what the iterable raises."""
    left = enumerate(items)
    results: dict[int, Published | Exception] = {}

    async def work() -> None:
        for number, payload in left:
            try:
                results[number] = await publish(payload)
            except Exception as error:  # of one item: the others are published all the same
                results[number] = error

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(in_flight):
                tasks.create_task(work())
    except BaseExceptionGroup as failed:  # of the iterable
        raise failed.exceptions[0] from None
    return [results[number] for number in range(len(results))]


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
