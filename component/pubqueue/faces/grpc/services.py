"""The services of a binding, each with a row for every rpc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pubqueue.faces.grpc.wire.statuses import unimplemented

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from pubqueue.faces.grpc.calls import Call

    Unary = Callable[[Call, Any], Awaitable[Any]]
    Streaming = Callable[[Call, AsyncIterator[Any]], AsyncIterator[Any]]


class Service(Struct, frozen=True):
    """The rpcs of a service, by their names; those in `waits` may wait for a message."""

    name: str
    unary: Mapping[str, Unary]
    streaming: Mapping[str, Streaming] = {}
    waits: frozenset[str] = frozenset()


def refused(what: str) -> Unary:
    """Return the row of an rpc that is not supported."""

    async def refuse(_call: Call, _request: Any) -> None:  # noqa: ANN401  # as the other rows
        raise unimplemented(what)

    return refuse
