"""One-off links: an empty POST returns a `create-next` link, to which a message, or a batch, can be posted once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.rest.exchange import answer
from pubqueue.faces.rest.http import bodies
from pubqueue.faces.rest.http.problems import ProblemError
from pubqueue.faces.rest.star import batches, keys
from pubqueue.faces.rest.star.publishing import draft_in, message_url, publish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.faces.rest.http.links import Link
    from pubqueue.model.entities import Draft, ItemId


class OneOff(Struct, frozen=True):
    """What is posted to a one-off link: one message or a batch, and to which kind of node."""

    purpose: str
    rel: str
    below: str
    """The path of the resource that makes the links."""
    is_queue: bool

    def next(self, exchange: Exchange) -> Link:
        """Return a fresh link."""
        key = keys.new_key(exchange, self.purpose)
        place = exchange.destination(is_queue=self.is_queue)
        return exchange.link("create-next", *place, self.below, key)

    async def drafts(self, exchange: Exchange) -> tuple[Draft, ...]:
        """Return what the request publishes."""
        if self.purpose == keys.MESSAGE:
            return (await draft_in(exchange),)
        return await batches.drafts_in(exchange)

    def made(self, exchange: Exchange, ids: Sequence[ItemId]) -> list[tuple[str, str]]:
        """Return the headers that name the published messages."""
        if self.purpose == keys.MESSAGE:
            return [("Content-Location", message_url(exchange, ids[0], is_queue=self.is_queue))]
        name = f"once.{exchange.names['key']}"
        return [("Content-Location", batches.url(exchange, name, len(ids), is_queue=self.is_queue))]

    def done(self, exchange: Exchange, ids: Sequence[ItemId]) -> web.Response:
        """Return the answer after the first use of a link."""
        headers, links = self.made(exchange, ids), [self.next(exchange)]
        if self.purpose == keys.MESSAGE:
            return answer(200, headers, links)
        body = batches.listed(exchange, ids, is_queue=self.is_queue)
        return answer(200, headers, links, body=body, kind=batches.URI_LIST)

    def again(self, exchange: Exchange, ids: Sequence[ItemId]) -> ProblemError:
        """Return the answer to a repeated use of a link."""
        headers = [("Allow", "OPTIONS"), *self.made(exchange, ids)]
        headers.append(("Link", str(self.next(exchange))))
        return ProblemError(405, "already-done", "this link was used before", headers=headers)


async def begin(kind: OneOff, exchange: Exchange) -> web.Response:
    """Return a fresh one-off link; nothing is stored."""
    await bodies.none(exchange.request)
    await exchange.destined(is_queue=kind.is_queue)
    return answer(200, links=[kind.next(exchange)])


async def post(kind: OneOff, exchange: Exchange) -> web.Response:
    """Publish by a one-off link, if it is unused."""
    key = keys.check_key(exchange, kind.purpose, kind.rel, kind.below, is_queue=kind.is_queue)
    used = keys.once_key(exchange, key)
    try:
        drafts = await kind.drafts(exchange)
        reply = await publish(exchange, drafts, is_queue=kind.is_queue, key=used)
    except ProblemError:  # the link may have been used nevertheless, whatever is posted now
        if (ids := await keys.published_under(exchange, used.name)) is not None:
            raise kind.again(exchange, ids) from None
        raise
    if reply.again:
        raise kind.again(exchange, reply.ids)
    return kind.done(exchange, reply.ids)


async def look(kind: OneOff, exchange: Exchange) -> web.Response:
    """Refuse a GET; the header `Allow` shows whether the link is unused."""
    key = keys.check_key(exchange, kind.purpose, kind.rel, kind.below, is_queue=kind.is_queue)
    name = keys.once_key(exchange, key).name
    is_used = await keys.published_under(exchange, name) is not None
    allow = [("Allow", "OPTIONS" if is_used else "OPTIONS, POST")]
    raise ProblemError(405, "method-not-allowed", headers=allow)


ONE_OFFS: Final = tuple(
    OneOff(purpose, rel, below, is_queue)
    for purpose, rel, below in (
        (keys.MESSAGE, "post-message-once", "once"),
        (keys.BATCH, "post-batch-once", "batches-once"),
    )
    for is_queue in (True, False)
)
"""All kinds of one-off links."""


def handlers(kind: OneOff) -> tuple[Callable[[Exchange], Awaitable[web.Response]], ...]:
    """Return the handlers of a kind: to make a link, to post to it, and to look at it."""
    return partial(begin, kind), partial(post, kind), partial(look, kind)
