"""Distributes the items of one publisher among its services, over one stream; each service is waited for by itself.

A service that is away takes only its share: its items wait, each within its timeout, and the others go on. An item never
goes to another service than the one of its key, because order in a group, and ids that are published once, hold at one
service only.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from pubqueue_xeps.client.publications import Publications, placed
from pubqueue_xeps.errors import NoSuchNode, PubqueueError
from pubqueue_xeps.publisher.carried import CarriedPublications
from pubqueue_xeps.publisher.replies import Replies

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.client.connection import Connection
    from pubqueue_xeps.client.connection_keeper import ConnectionKeeper
    from pubqueue_xeps.client.pace import Timings
    from pubqueue_xeps.publisher.replies import Reply
    from pubqueue_xeps.wire.joins import Join
    from pubqueue_xeps.wire.publication import NewItem, Published, Retracted
    from pubqueue_xeps.wire.requests import IqRequest
    from pubqueue_xeps.xep_qos.levels import Level
    from pubqueue_xeps.xep_qos.pending_file import PendingFile

    Result = Published | Exception

T = TypeVar("T")

WAITING: Final = 1000
"""Items of one call that may wait for one service; the next ones are read when there is room."""


class Distribution:
    """What a publisher does at each of its services."""

    def __init__(
        self,
        keeper: ConnectionKeeper,
        connection: Connection,
        timings: Timings,
        *,
        largest: int,
        file: PendingFile | None,
    ) -> None:
        self._services = services = connection.services
        self._publications = {
            one: Publications(keeper, one, timings, largest=largest) for one in services.names
        }
        self.carried = CarriedPublications(
            keeper, services.names, timings, largest=largest, file=file
        )
        self._replies = {
            one: Replies(keeper, publications, one, connection.account, timings)
            for one, publications in self._publications.items()
        }

    def read(self, stanza: Element) -> bool:
        """Read a reply, or an answer to a publish by message."""
        replies = self._replies.get(stanza.get("from", ""))
        return (replies is not None and replies.read(stanza)) or self.carried.read(stanza)

    def look_again(self) -> None:
        """Look for what has come while there was no stream."""
        for replies in self._replies.values():
            replies.look_again()

    async def publish(
        self, node: str, new: NewItem, seconds: float, level: Level | None
    ) -> Published:
        """Publish an item at its service."""
        service, new = placed(self._services, new)
        return await self._publish(service, node, new, seconds, level)

    async def publish_each(
        self,
        node: str,
        items: Iterable[object],
        make: Callable[[object], NewItem],
        seconds: float,
        level: Level | None,
        *,
        in_flight: int,
    ) -> list[Result]:
        """Publish each item, `in_flight` at a time; return the results in order. An exception of the iterable is raised.

        With several services, each has an equal share of `in_flight`, and up to `WAITING` further items wait for it.
        """
        if self._services.is_one:
            return await _each(
                items, lambda one: self.publish(node, make(one), seconds, level), in_flight
            )
        lanes = Lanes(
            self._services.names,
            lambda one: placed(self._services, make(one)),
            lambda service, new, left: self._publish(service, node, new, left, level),
            seconds,
            max(1, in_flight // len(self._services.names)),
        )
        return await lanes.run(items)

    async def ask(self, node: str, new: NewItem, seconds: float) -> Reply:
        """Publish an item at its service, and wait for the reply there."""
        service, new = placed(self._services, new)
        return await self._replies[service].ask(node, new, seconds)

    async def retract(self, node: str, name: str, seconds: float) -> Retracted:
        """Retract an item, wherever it is."""
        return await self._anywhere(
            lambda publications: publications.retract(node, name, seconds),
            lambda done: done.there is True,
        )

    async def close_join(self, joins: Join, seconds: float) -> bool:
        """Close a join at its service; return whether it is still there."""
        service = self._services.place(joins.id)
        return await self._publications[service].close_join(joins, seconds)

    async def signal(self, question: IqRequest, node: str, seconds: float) -> Element:
        """Send a signal to an item, wherever it is."""
        return await self._anywhere(
            lambda publications: publications.signal(question, node, seconds), lambda _: True
        )

    async def _publish(
        self, service: str, node: str, new: NewItem, seconds: float, level: Level | None
    ) -> Published:
        if level is None:
            return await self._publications[service].publish(node, new, seconds)
        return await self.carried.publish(node, new, level, seconds, service)

    async def _anywhere(
        self, do: Callable[[Publications], Awaitable[T]], is_found: Callable[[T], bool]
    ) -> T:
        """Do something at all services; return the first result of one that has the item.

        An id alone does not show where an item is: it may have a group, or an earlier list may have placed it. Without
        such a result, an error outranks the answer that there is no such item.
        """
        if self._services.is_one:
            return await do(self._publications[self._services.first])

        async def ask(publications: Publications) -> T:
            return await do(publications)

        asked = [asyncio.create_task(ask(one)) for one in self._publications.values()]
        try:
            for next_one in asyncio.as_completed(asked):
                try:
                    found = await next_one
                except PubqueueError:
                    continue
                if is_found(found):
                    return found
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        errors = [task.exception() for task in asked]
        serious = [error for error in errors if error is not None and not _is_missing(error)]
        for task, error in zip(asked, errors, strict=True):
            if error is None and not serious:
                return task.result()
        raise next(error for error in (*serious, *errors) if error is not None)


def _is_missing(error: BaseException) -> bool:
    """Return whether an error means no more than that the item is not at this service."""
    condition = getattr(error, "condition", None)
    return isinstance(error, NoSuchNode) or condition == "item-not-found"


async def _each(
    items: Iterable[object], publish: Callable[[object], Awaitable[Published]], in_flight: int
) -> list[Result]:
    """Publish each item, `in_flight` at a time; return the results in order. An exception of the iterable is raised."""
    left = enumerate(items)
    results: dict[int, Result] = {}

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


class Lanes:
    """Publishes the items of one call, in a lane for each service: one that is away fills its own, and no other.

    The time of an item begins when it is read, so what waits in a lane for a service that is away ends with it.
    """

    def __init__(
        self,
        services: Iterable[str],
        place: Callable[[object], tuple[str, NewItem]],
        publish: Callable[[str, NewItem, float], Awaitable[Published]],
        seconds: float,
        at_once: int,
    ) -> None:
        self._place, self._publish, self._seconds = place, publish, seconds
        self._at_once = at_once
        self._loop = asyncio.get_running_loop()
        self._lanes: dict[str, asyncio.Queue[tuple[int, NewItem, float] | None]] = {
            one: asyncio.Queue(WAITING) for one in services
        }
        self._results: dict[int, Result] = {}

    async def run(self, items: Iterable[object]) -> list[Result]:
        """Publish all; return the results in order. An exception of the iterable is raised."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read(items))
                for service in self._lanes:
                    for _ in range(self._at_once):
                        tasks.create_task(self._work(service))
        except BaseExceptionGroup as failed:  # of the iterable
            raise failed.exceptions[0] from None
        return [self._results[number] for number in range(len(self._results))]

    async def _read(self, items: Iterable[object]) -> None:
        for number, payload in enumerate(items):
            try:
                service, new = self._place(payload)
            except Exception as error:  # of one item: the others are published all the same
                self._results[number] = error
            else:
                ends = self._loop.time() + self._seconds
                await self._lanes[service].put((number, new, ends))
        for lane in self._lanes.values():
            for _ in range(self._at_once):
                await lane.put(None)

    async def _work(self, service: str) -> None:
        while (entry := await self._lanes[service].get()) is not None:
            number, new, ends = entry
            left = max(0.0, ends - self._loop.time())
            try:
                self._results[number] = await self._publish(service, new, left)
            except Exception as error:  # of one item, as above
                self._results[number] = error
