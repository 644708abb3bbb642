"""Publishes items, repeating each request under the same id until the service confirms the item.

Publishing the same id and payload changes nothing if the item exists (XEP-0060 7.1 with the queue's idempotence rule),
so an unanswered request is simply repeated: across reconnects, and while the service or its server is away. A permanent
refusal is raised at once.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from pubqueue_xeps.client.ask import Denied, Unanswered
from pubqueue_xeps.client.pace import BytesInFlight, NoRoom
from pubqueue_xeps.errors import (
    NotConfirmed,
    OtherId,
    PubqueueError,
    Refused,
    ServiceUnavailable,
)
from pubqueue_xeps.log import log
from pubqueue_xeps.wire import refusals
from pubqueue_xeps.wire.joins import close
from pubqueue_xeps.wire.publication import (
    NewItem,
    Published,
    Retracted,
    new_id,
    publication,
    wrapped,
)
from pubqueue_xeps.wire.refusals import Refusal
from pubqueue_xeps.wire.requests import pages, publishing, queueing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.client.pace import Timings
    from pubqueue_xeps.wire.joins import Join
    from pubqueue_xeps.wire.requests import IqRequest
    from pubqueue_xeps.wire.services import Services

MAX_REQUEST_BYTES: Final = 256 * 1024 - 1024
"""The maximum size of a request that Prosody and ejabberd accept from a client in Debian's configuration, in bytes,
with room for addresses. A larger request ends the stream and everything in flight on it."""

MAX_PAUSE: Final = 30
"""The longest wait for an answer before a request is repeated, in seconds; the wait doubles with each silence."""


class Stream(Protocol):
    """The stream that requests are sent over."""

    async def ready(self) -> None:
        """Wait until the stream is open; raise the error that ended it for good."""

    async def ask(self, service: str, question: IqRequest, timeout: float) -> Element:  # noqa: ASYNC109 - raises an error of its own
        """Return the answer; raise Denied for an error, Unanswered if no answer can or does come."""


class Publications:
    """Publishes at one service."""

    def __init__(
        self, stream: Stream, service: str, timings: Timings, *, largest: int = MAX_REQUEST_BYTES
    ) -> None:
        self._stream = stream
        self._service = service
        self._timings = timings
        self._largest = largest
        self._room = BytesInFlight()

    async def publish(self, node: str, new: NewItem, timeout: float | None) -> Published:  # noqa: ASYNC109 - a promise
        """Return when the service has the item; `timeout` is in seconds, None for no limit.

        Raises NoSuchNode, NotAQueue or Refused if the service refuses; ServiceUnavailable if it could not be reached in
        time; NotConfirmed if it is unknown whether it has the item; TypeError or ValueError for an item that cannot be
        sent.
        """
        name, question = request(node, new, self._largest, publishing.KNOWN)
        try:
            answer, first = await self._in_its_turn(question, node, timeout)
        except PubqueueError as error:
            if error.node is not None:  # else it is the stream's error, which all requests get
                error.id = name
            raise
        return _read(answer, node, name, self._service, first=first)

    async def _in_its_turn(
        self,
        question: IqRequest,
        node: str,
        timeout: float | None,  # noqa: ASYNC109 - a promise
    ) -> tuple[Element, bool]:
        """Send the request when there is room; the wait counts towards the timeout."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with self._room.of(len(question.body), timeout):
                left = None if timeout is None else max(0.0, timeout - (loop.time() - began))
                return await self.confirmed(question, node, left)
        except NoRoom:
            raise ServiceUnavailable(
                f"{question} was given up after {timeout:g} seconds: others are not confirmed either.",
                node=node,
            ) from None

    async def retract(self, node: str, item: str, timeout: float | None) -> Retracted:  # noqa: ASYNC109 - a promise
        """Return when the service has deleted the item, or has answered that it does not exist; `timeout` is in seconds.

        Raises NoSuchNode, Refused, ServiceUnavailable or NotConfirmed.
        """
        question = queueing.request(node, item)
        try:
            answer, first = await self._answered(question, node, timeout)
            if not isinstance(answer, Refusal):
                return Retracted(node, item, there=True, locked=queueing.locked(answer))
            if answer.condition != "item-not-found":
                raise refusals.failure(answer, self._service, node)
            await self._find(node, timeout)
        except PubqueueError as error:
            if error.node is not None:
                error.id = item
            raise
        return Retracted(
            node, item, there=False if first else None, locked=False if first else None
        )

    async def close_join(self, joins: Join, timeout: float | None) -> bool:  # noqa: ASYNC109 - a promise
        """Return when a join is closed, and whether it is still there; raises NoSuchNode, Refused, ServiceUnavailable or NotConfirmed."""
        answer, _ = await self._answered(close(joins), joins.node, timeout, "close it again")
        if not isinstance(answer, Refusal):
            return True
        if answer.condition != "item-not-found":
            raise refusals.failure(answer, self._service, joins.node)
        await self._find(joins.node, timeout)
        return False

    async def signal(self, question: IqRequest, node: str, timeout: float | None) -> Element:  # noqa: ASYNC109 - a promise
        """Return the answer to a signal; raises NoSuchNode also for an item that does not exist, Refused, ServiceUnavailable or NotConfirmed."""
        answer, _ = await self._answered(question, node, timeout, "send it again under its id")
        if isinstance(answer, Refusal):
            if answer.condition == "item-not-found":
                await self._find(node, timeout)
                raise Refused(f"{node!r} has no such item.", condition=answer.condition, node=node)
            raise refusals.failure(answer, self._service, node)
        return answer

    async def _find(self, node: str, timeout: float | None) -> None:  # noqa: ASYNC109 - a promise
        """Raise NoSuchNode if the node does not exist: a retract gets the same refusal for a missing node and a missing item."""
        answer, _ = await self._answered(pages.request(self._service, node), node, timeout)
        if isinstance(answer, Refusal) and answer.condition == "item-not-found":
            raise refusals.failure(answer, self._service, node)

    async def confirmed(
        self,
        question: IqRequest,
        node: str,
        timeout: float | None,  # noqa: ASYNC109 - a promise
    ) -> tuple[Element, bool]:
        """Ask until there is an answer; return it, and whether the request can have arrived only once."""
        again = "publish it again under its id"
        answer, first = await self._answered(question, node, timeout, again)
        if isinstance(answer, Refusal):
            raise refusals.failure(answer, self._service, node)
        return answer, first

    async def _answered(
        self,
        question: IqRequest,
        node: str,
        timeout: float | None,  # noqa: ASYNC109 - a promise
        again: str = "ask again",
    ) -> tuple[Element | Refusal, bool]:
        """Ask until there is a final answer, which may be a permanent refusal; raise if none comes in time."""
        unsure, why = 0, "there is no connection"
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                for asked in itertools.count():
                    await self._stream.ready()
                    wait = min(MAX_PAUSE, self._timings.answer * 2 ** min(unsure, 8))
                    unsure += 1
                    try:
                        return await self._stream.ask(self._service, question, wait), unsure == 1
                    except Unanswered as silence:
                        unsure -= not silence.sent
                        why = f"{self._service} does not answer" if silence.sent else why
                    except Denied as no:
                        if not no.refusal.is_transient:
                            return no.refusal, unsure == 1
                        unsure -= no.refusal.condition != "internal-server-error"
                        why = f"{self._service} answers {no.refusal.summary}"
                        log.info("publisher.waiting", node=node, service=self._service, why=why)
                    await asyncio.sleep(self._timings.pause(asked))
        except TimeoutError:
            if not limit.expired():
                raise
        if unsure:
            raise NotConfirmed(
                f"{question} was not confirmed within {timeout:g} seconds; {again}.",
                node=node,
            )
        raise ServiceUnavailable(
            f"{question} was given up after {timeout:g} seconds: {why}.", node=node
        )


def placed(services: Services, new: NewItem) -> tuple[str, NewItem]:
    """Return the service of an item, and the item: with an id if its service depends on one.

    A join, and its members, are at the service of the join's id. Raises ValueError for an invalid id or group.
    """
    if services.is_one:
        return services.first, new
    if new.join or new.joins is not None:
        return _placed_by_join(services, new)
    group, name = publishing.named(new.group), publishing.identified(new.id)
    if group is not None:
        return services.place(group), new
    if name is not None:
        return services.place(name), new
    name = new_id()
    return services.place_of_new(name), replace(new, id=name)


def _placed_by_join(services: Services, new: NewItem) -> tuple[str, NewItem]:
    if publishing.named(new.group) is not None:
        raise ValueError(
            "Among several services, a join or a member of one has no group: the group may be at another service."
        )
    if new.joins is None:
        name = publishing.identified(new.id) or new_id()
        return services.place(name), replace(new, id=name)
    if new.join:
        raise ValueError(
            "Among several services, a join is no member of a join: their services may differ."
        )
    return services.place(new.joins.id), new


def request(node: str, new: NewItem, largest: int, answer: str) -> tuple[str, IqRequest]:
    """Return the id of an item, and the request to publish it, of up to `largest` bytes.

    Raises TypeError or ValueError for an item that cannot be sent.
    """
    name = publishing.identified(new.id) or new_id()
    size = _size(new.payload)
    new = wrapped(new)
    beside = publishing.beside(
        *(new.delay, new.priority, new.ttl, new.headers, new.group),
        hold=new.hold,
        joins=new.joins,
        join=bool(new.join),
    )
    question = publication(name, node, new.payload, beside, answer)
    if len(question.body) > largest:
        raise ValueError(
            f"The item {name!r} has {len(question.body)} bytes as it is sent{size}; XMPP servers take"
            f" {largest} of a client. Put what is large elsewhere, and publish where it is."
        )
    return name, question


def _size(payload: object) -> str:
    """Return a phrase for the size of a payload that is sent in another form, such as base64."""
    if isinstance(payload, (str, bytes, bytearray)):
        size = len(payload.encode("utf-8", "replace") if isinstance(payload, str) else payload)
        return f", with a payload of {size}"
    return ""


def new_item(payload: object, beside: Mapping[str, Any]) -> NewItem:
    """Return the item to publish: a NewItem from a payload, or a given NewItem completed with the common arguments."""
    if not isinstance(payload, NewItem):
        return NewItem(payload=payload, **beside)
    own = {
        name: value
        for name in NewItem.__dataclass_fields__
        if (value := getattr(payload, name)) is not None
    }
    return NewItem(**{"payload": None, **beside, **own})


def _read(answer: Element, node: str, name: str, service: str, *, first: bool) -> Published:
    if (other := publishing.other_id(answer, (name,))) is not None:
        raise OtherId(node=node, id=name, other=other)
    known, dead = publishing.known(answer), publishing.death(answer)
    if dead is not None:
        log.warning("publisher.dead_already", node=node, id=name)
    # an item that a repeated request finds may be its own first publish
    duplicate = None if known and not first and dead is None else known
    return Published(node, name, duplicate, dead, service)
