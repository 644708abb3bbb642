"""`google.pubsub.v1.Subscriber.StreamingPull`: messages as long as there is credit, and acknowledgements.

A stream asks for as many items as it has room for (`rules.take`), and asks again when they have been sent. So
nothing is locked for a client that does not read. When the stream ends, its client keeps the delivered messages until they are
acknowledged or their deadlines end.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.grpc import subscriptions, topics
from pubqueue.faces.grpc.calls import DISMISSED, Credit
from pubqueue.faces.grpc.fields import USUAL_DEADLINE, add_received, is_ordered
from pubqueue.faces.grpc.statuses import STOPPING, CallError, invalid
from pubqueue.faces.grpc.subscriptions import MAX_DEADLINE, Verdict
from pubqueue.faces.grpc.wire import v1
from pubqueue.model.decision import Taken
from pubqueue.model.entities import seconds
from pubqueue.model.waits import size_of
from pubqueue.rules.take import MAX_WAIT, Take

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from pubqueue.faces.grpc.calls import Call, OpenStream
    from pubqueue.faces.grpc.subscriptions import Settled
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Item, Node


MESSAGES: Final = 1_000
BYTES: Final = 100 << 20
"""Credit of a stream that names none."""

MAX_ANSWER: Final = 100
MAX_ANSWER_BYTES: Final = 1 << 20
"""Messages and bytes of one answer, which has one message at least."""


class _Stream(Struct):
    """The settings of a stream, and the input of its client: answers to send, and how it ends."""

    call: Call
    opened: OpenStream
    node: Node
    name: str
    credit: Credit
    deadline: int
    answers: list[v1.StreamingPullResponse]
    settling: asyncio.Lock
    """Held while a request is being settled."""
    is_over: bool = False


async def streaming_pull(
    call: Call, requests: AsyncIterator[v1.StreamingPullRequest]
) -> AsyncIterator[v1.StreamingPullResponse]:
    """Serve a stream until its client ends it.

    Raises:
        CallError: the subscription is gone, or a request is invalid.

    """
    opened = call.backend.open_stream(call)
    try:
        first = await _first(opened, requests)
        if first is None:
            return
        stream = await _opened(call, opened, first)
        reading = asyncio.create_task(_read(stream, first, requests), name="stream")
        try:
            async for answer in _answers(stream):
                yield answer
        finally:
            try:
                async with stream.settling:
                    pass  # acknowledgements that have come count, also if the client has cancelled since
            finally:
                reading.cancel()
                _leave(stream)
                await asyncio.gather(reading, return_exceptions=True)
    finally:
        call.backend.streams.leave(opened)


async def _first(
    opened: OpenStream, requests: AsyncIterator[v1.StreamingPullRequest]
) -> v1.StreamingPullRequest | None:
    """Return the first request, None if there is none; the stream may have to end before."""
    reading = asyncio.ensure_future(_next(requests))
    reading.add_done_callback(lambda _reading: opened.changed.set())
    try:
        await opened.changed.wait()
    finally:
        if not reading.done():
            reading.cancel()
    if opened.problem is not None:
        raise opened.problem
    return await reading


async def _next(
    requests: AsyncIterator[v1.StreamingPullRequest],
) -> v1.StreamingPullRequest | None:
    return await anext(requests, None)


def _leave(stream: _Stream) -> None:
    """Forget the delivered messages, which the client keeps until their deadlines, unless an administrator has ended the stream."""
    call = stream.call
    if stream.opened.problem is DISMISSED:
        call.release(stream.node.name, call.backend.outstanding.names(stream.credit))
    call.backend.outstanding.leave(stream.credit)


async def _opened(call: Call, opened: OpenStream, first: v1.StreamingPullRequest) -> _Stream:
    deadline = _deadline(first.stream_ack_deadline_seconds)
    if first.max_outstanding_messages < 0 or first.max_outstanding_bytes < 0:
        messages, size = None, None
    else:
        messages = first.max_outstanding_messages or MESSAGES
        size = first.max_outstanding_bytes or BYTES
    node = await subscriptions.found(call, first.subscription)
    subscriptions.check_attached(node)
    opened.node, opened.credit = node.name, Credit(messages, size, opened.changed.set)
    subscription, settling = first.subscription, asyncio.Lock()
    return _Stream(call, opened, node, subscription, opened.credit, deadline, [], settling)


def _deadline(given: int) -> int:
    if not USUAL_DEADLINE <= given <= MAX_DEADLINE:
        raise invalid(
            f"stream_ack_deadline_seconds must be from {USUAL_DEADLINE} to {MAX_DEADLINE}"
        )
    return given


# --- in -------------------------------------------------------------------------------------------


async def _read(
    stream: _Stream,
    first: v1.StreamingPullRequest,
    requests: AsyncIterator[v1.StreamingPullRequest],
) -> None:
    """Process the client's requests, until it sends no more."""
    try:
        await _settle(stream, first)
        async for request in requests:
            _check_later(request)
            if request.stream_ack_deadline_seconds:
                stream.deadline = _deadline(request.stream_ack_deadline_seconds)
            await _settle(stream, request)
    except CallError as problem:
        stream.opened.problem = problem
    finally:
        stream.is_over = True
        stream.opened.changed.set()


def _check_later(request: v1.StreamingPullRequest) -> None:
    for name in ("subscription", "max_outstanding_messages", "max_outstanding_bytes"):
        if getattr(request, name):
            raise invalid(f"{name} may be set only in the first request of a stream")


async def _settle(stream: _Stream, request: v1.StreamingPullRequest) -> None:
    """Acknowledge, and set deadlines; messages that do not exist any more are not errors."""
    call, name = stream.call, stream.name
    spans, named = request.modify_deadline_seconds, request.modify_deadline_ack_ids
    if len(spans) != len(named):
        raise invalid("modify_deadline_seconds and modify_deadline_ack_ids differ in length")
    by_span: dict[int, list[str]] = {}
    for span, ack_id in zip(spans, named, strict=True):
        by_span.setdefault(span, []).append(ack_id)
    nacks = {0: by_span.pop(0)} if stream.node.config.group_ahead and 0 in by_span else {}
    async with stream.settling:
        await _set_deadlines(stream, nacks)  # they recall later messages, which must not be done
        if request.ack_ids:
            settled = await subscriptions.settle(call, name, request.ack_ids, subscriptions.ACK)
            confirm(stream.answers, settled, "acknowledge_confirmation")
        await _set_deadlines(stream, by_span)
    stream.opened.changed.set()


async def _set_deadlines(stream: _Stream, by_span: Mapping[int, Sequence[str]]) -> None:
    for span, ack_ids in by_span.items():
        change = subscriptions.Change(span)
        settled = await subscriptions.settle(stream.call, stream.name, ack_ids, change)
        confirm(stream.answers, settled, "modify_ack_deadline_confirmation")


# --- out ------------------------------------------------------------------------------------------


async def _answers(stream: _Stream) -> AsyncIterator[v1.StreamingPullResponse]:
    """Yield answers, until the client ends the stream or it cannot continue."""
    taking: asyncio.Task[Reply] | None = None
    try:
        while True:
            stream.opened.changed.clear()
            if taking is not None and taking.done():
                reply, taking = taking.result(), None
                assert isinstance(reply, Taken)
                items = [*reply.items]
                del reply
                async for answer in _sent(stream, items):
                    yield answer
                stream.opened.changed.set()
                if stream.call.backend.is_stopping:
                    raise STOPPING
            if stream.opened.problem is not None:
                raise stream.opened.problem
            if stream.is_over:
                return
            for answer in stream.answers:
                yield answer
            stream.answers.clear()
            taking = await _asking(stream, taking)
            await stream.opened.changed.wait()
    finally:
        if taking is not None:
            taking.cancel()
            with suppress(asyncio.CancelledError, CallError):
                stream.call.give_back(await taking)  # it may have got items before it was cancelled


async def _asking(
    stream: _Stream, taking: asyncio.Task[Reply] | None
) -> asyncio.Task[Reply] | None:
    """Return the request for items: a new one if there is room, and none while the stream is quiet, unless it is answered already."""
    if not stream.opened.quiet:
        if taking is None and (room := stream.credit.room(MAX_ANSWER)):
            taking = asyncio.create_task(_take(stream, room), name="taking")
            taking.add_done_callback(lambda _task: stream.opened.changed.set())
        return taking
    if taking is None or taking.done():
        return taking
    taking.cancel()
    await asyncio.wait([taking])
    return None if taking.cancelled() else taking


async def _take(stream: _Stream, room: int) -> Reply:
    """Wait for items, as many as there is room for."""
    call = stream.call
    byte_room = stream.credit.byte_room
    return await call.take(
        Take(
            *(stream.opened.by, stream.node.name, room, MAX_WAIT),
            bytes=MAX_ANSWER_BYTES if byte_room is None else min(byte_room, MAX_ANSWER_BYTES),
            span=seconds(stream.deadline),
            ahead=True,
        ),
        stream.name,
    )


async def _sent(
    stream: _Stream, items: list[tuple[Item, bytes]]
) -> AsyncIterator[v1.StreamingPullResponse]:
    """Yield answers with these items, which are outstanding from now on."""
    for item, _ in items:
        stream.call.backend.outstanding.add(item, stream.credit)
    items.reverse()
    while items:
        some = [items.pop()]
        size = _size(some[0])
        while items and size + _size(items[-1]) <= MAX_ANSWER_BYTES:
            size += _size(items[-1])
            some.append(items.pop())
        answer = _answer(stream)
        await subscriptions.converted(some, partial(add_received, answer, stream.node))
        yield answer


def _size(one: tuple[Item, bytes]) -> int:
    item, payload = one
    return len(payload) + size_of(item.wait)


def _answer(stream: _Stream) -> v1.StreamingPullResponse:
    answer = v1.StreamingPullResponse()
    properties = answer.subscription_properties
    properties.message_ordering_enabled = is_ordered(stream.node)
    properties.exactly_once_delivery_enabled = topics.has(stream.node.config, topics.EXACTLY_ONCE)
    return answer


# Subscriptions that deliver exactly once: the results that clients get for each ack id. Pure.


LISTS: Final = {
    Verdict.WORTHLESS: "invalid_ack_ids",
    Verdict.FAILED: "temporary_failed_ack_ids",
}
"""The lists of a confirmation that are not for what is done."""


def confirm(answers: list[v1.StreamingPullResponse], settled: Settled, field: str) -> None:
    """Add an answer with the results of acknowledgements or deadlines over a stream, in this field."""
    if not settled.is_exact:
        return
    answer = v1.StreamingPullResponse()
    confirmation = getattr(answer, field)
    for text, verdict in settled.verdicts.items():
        getattr(confirmation, LISTS.get(verdict, "ack_ids")).append(text)
    answers.append(answer)
