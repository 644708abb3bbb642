"""Posting messages: one, a batch, under a key, to a one-off link."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from aiohttp.helpers import parse_mimetype
from msgspec import Struct

from pubqueue.faces.http.problems import ProblemError, bad_request, not_found
from pubqueue.faces.rest import batches
from pubqueue.faces.rest.batches import at
from pubqueue.faces.rest.exchange import answer, none, of_either, only_if_new
from pubqueue.faces.rest.items import draft_of, wishes_of
from pubqueue.faces.rest.links import Link
from pubqueue.model.decision import Published, Refusal, Refused
from pubqueue.model.entities import ItemId, seconds
from pubqueue.model.records import PublishKey
from pubqueue.rules.publication import Publish
from pubqueue.rules.publish_keys import ReadUsedKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from aiohttp import web

    from pubqueue.faces.rest.batches import Entry
    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.model.decision import KeyUsed
    from pubqueue.model.entities import Draft, NodeName


# Posting a message: 201 after the commit that holds it.


async def post_to_queue(exchange: Exchange) -> web.Response:
    """Publish a message to a queue."""
    return await _post(exchange, is_queue=True)


async def post_to_topic(exchange: Exchange) -> web.Response:
    """Publish a message to a topic."""
    return await _post(exchange, is_queue=False)


async def post_to_node(exchange: Exchange) -> web.Response:
    """Publish a reply, to a node of either kind."""
    return await _post(exchange, is_queue=None)


async def _post(exchange: Exchange, *, is_queue: bool | None) -> web.Response:
    headers = exchange.request.headers
    only_new = only_if_new(headers.get("If-None-Match"))
    key = given_key(exchange)
    draft = await draft_in(exchange, is_queue=is_queue)
    reply = await publish(exchange, (draft,), is_queue=is_queue, key=key, only_new=only_new)
    item = reply.ids[0] if reply.ids else draft.id
    is_known = item in reply.known or item in reply.replaced
    where = message_url(exchange, item, is_queue=is_queue)
    return answer(200 if is_known else 201, [("Location", where)], [Link("self", where)])


def message_url(exchange: Exchange, item: ItemId, *, is_queue: bool | None) -> str:
    """Return the URL of a message."""
    kind = "nodes" if is_queue is None else exchange.destination(is_queue=is_queue)[0]
    return exchange.url(kind, exchange.node, "messages", item)


ON_LOOP: Final = 65_536
"""Bytes of a body that is read beside the others; larger ones are read in a thread, for who may publish them."""


async def draft_in(exchange: Exchange, *, is_queue: bool | None) -> Draft:
    """Return the item that a request publishes.

    Raises:
        ProblemError: its headers or its body have an error, or it is large and may not be published.

    """
    wishes = wishes_of(exchange.request.headers.items())
    length = exchange.request.content_length
    if is_queue is not None and (length is None or length > ON_LOOP):
        await check_publisher(exchange, is_queue=is_queue)
    body = await exchange.body()
    read = partial(draft_of, wishes, body, exchange.face.new_id, exchange.node_at)
    return read() if len(body) <= ON_LOOP else await asyncio.to_thread(read)


async def check_publisher(exchange: Exchange, *, is_queue: bool) -> None:
    """Refuse who may not publish to the destination, before anything of the body is looked at.

    Raises:
        ProblemError: the account may not, or there is no such destination.

    """
    described = await exchange.destined(is_queue=is_queue)
    if not described.may_publish:
        raise ProblemError(403, "forbidden", "the account may not publish here")


async def publish(
    exchange: Exchange,
    drafts: tuple[Draft, ...],
    *,
    is_queue: bool | None,
    key: PublishKey | None = None,
    only_new: bool = False,
) -> Published:
    """Publish these items, all or none.

    Raises:
        ProblemError: the publish is refused.

    """
    node: NodeName = exchange.node
    request = Publish(exchange.by, node, drafts, key=key, queueing=is_queue, only_new=only_new)
    sizes = [len(draft.payload) for draft in drafts]
    reply = await exchange.face.submit(exchange.by, request, sum(sizes))
    if isinstance(reply, Refused) and only_new and reply.refusal is Refusal.PRECONDITION_NOT_MET:
        raise ProblemError(412, "precondition-failed", reply.reason)
    published: Published = exchange.granted(reply, sizes)
    return published


# Batches: an Atom feed or a multipart body, published in one commit, all or none.

URI_LIST: Final = "text/uri-list"
_COUNT: Final = re.compile(r"[1-9]\d{0,3}")


async def _post_batch(exchange: Exchange, *, is_queue: bool) -> web.Response:
    given = given_key(exchange)
    entries = await entries_in(exchange, is_queue=is_queue)
    made = new_key(exchange, purpose(len(entries)))
    if given is None and any(entry.wishes.id for entry in entries):
        given = PublishKey(f"batch.{made}", seconds(exchange.settings.once_for))
    drafts = await drafts_of(exchange, entries, lambda at: f"{made}-{at}")
    reply = await publish(exchange, drafts, is_queue=is_queue, key=given)
    name = made if given is None else given.name
    where = url(exchange, name, len(reply.ids), is_queue=is_queue)
    body = listed(exchange, reply.ids, is_queue=is_queue)
    return answer(201, [("Location", where)], body=body, kind=URI_LIST)


async def _get(exchange: Exchange, *, is_queue: bool) -> web.Response:
    key, count = exchange.names["key"], exchange.names["count"]
    if not _COUNT.fullmatch(count):
        raise not_found()
    await exchange.destined(is_queue=is_queue)
    if is_valid(exchange, key, purpose(int(count))):
        # no entry had an id of its own, so the ids follow from the key
        ids: Sequence[ItemId] | None = [ItemId(f"{key}-{at}") for at in range(int(count))]
    else:
        ids = await published_under(exchange, key)
    if ids is None or len(ids) != int(count):
        raise not_found("there is no such batch, or it is forgotten")
    return answer(200, body=listed(exchange, ids, is_queue=is_queue), kind=URI_LIST)


post_batch_to_queue, post_batch_to_topic = of_either(_post_batch)
get_of_queue, get_of_topic = of_either(_get)


def purpose(count: int) -> str:
    """Return the purpose of the key of a batch of so many messages."""
    return f"batch of {count}"


def url(exchange: Exchange, name: str, count: int, *, is_queue: bool) -> str:
    """Return where the URLs of a batch can be read again."""
    place = exchange.destination(is_queue=is_queue)
    return exchange.url(*place, "batches", name, tail=f";n={count}")


def listed(exchange: Exchange, ids: Sequence[ItemId], *, is_queue: bool) -> bytes:
    """Return the URLs of messages, a line each (RFC 2483)."""
    urls = [message_url(exchange, one, is_queue=is_queue) for one in ids]
    return "".join([f"{one}\r\n" for one in urls]).encode()


async def drafts_in(exchange: Exchange, *, is_queue: bool) -> tuple[Draft, ...]:
    """Return the items that a batch publishes; those without an id have new ones.

    Raises:
        ProblemError: the batch, or an entry, has an error.

    """
    entries = await entries_in(exchange, is_queue=is_queue)
    return await drafts_of(exchange, entries, lambda _at: exchange.face.new_id())


async def drafts_of(
    exchange: Exchange, entries: Sequence[Entry], new_id: Callable[[int], str]
) -> tuple[Draft, ...]:
    """Return the items of entries.

    Raises:
        ProblemError: an entry has an error.

    """
    return await asyncio.to_thread(_drafts_of, exchange, entries, new_id)


def _drafts_of(
    exchange: Exchange, entries: Sequence[Entry], new_id: Callable[[int], str]
) -> tuple[Draft, ...]:
    found: list[Draft] = []
    for index, entry in enumerate(entries):
        try:
            made = draft_of(entry.wishes, entry.body, partial(new_id, index), exchange.node_at)
        except ProblemError as problem:
            raise at(index, problem) from None
        if (size := len(entry.body)) > exchange.settings.max_body:
            raise at(index, too_large(exchange.settings.max_body, size))
        found.append(made)
    return tuple(found)


def too_large(limit: int, size: int) -> ProblemError:
    """Return the problem of an entry above the limit of a message."""
    detail = f"a message has up to {limit} bytes here, and this one has {size}"
    return ProblemError(413, "too-large", detail, limit=limit)


async def entries_in(exchange: Exchange, *, is_queue: bool) -> list[Entry]:
    """Return the entries of the batch in a request.

    Raises:
        ProblemError: it may not be published, is not a batch, or an entry has an error.

    """
    request, settings = exchange.request, exchange.settings
    if request.content_type not in {batches.ATOM_TYPE, batches.MULTIPART_TYPE}:
        detail = f"a batch is {batches.ATOM_TYPE} or {batches.MULTIPART_TYPE}"
        raise ProblemError(415, "media-type", detail)
    await check_publisher(exchange, is_queue=is_queue)
    body = await exchange.body(settings.max_batch_body)
    if request.content_type == batches.ATOM_TYPE:
        entries = await asyncio.to_thread(batches.entries_of_feed, body, settings.max_batch)
    else:
        boundary = boundary_of(request.headers["Content-Type"])
        read = partial(batches.entries_of_parts, body, boundary, settings.max_batch)
        entries = await asyncio.to_thread(read)
    if not entries:
        raise bad_request("the batch is empty")
    return entries


def boundary_of(content_type: str) -> str:
    """Return the boundary that a media type names, or an empty text."""
    return parse_mimetype(content_type).parameters.get("boundary", "")


# Publishing under keys: one-off links, and `Idempotency-Key`.

MESSAGE: Final = "message"
BATCH: Final = "batch"
"""Purposes of one-off links."""

_GIVEN: Final = re.compile(r'"((?:[^"\\]|\\["\\])+)"|([!#-\[\]-~]+)')


def once_key(exchange: Exchange, key: str) -> PublishKey:
    """Return the key of a publish by a one-off link: it is used once, whatever is published."""
    return PublishKey(f"once.{key}", seconds(exchange.settings.once_for))


def given_key(exchange: Exchange) -> PublishKey | None:
    """Return the key that the client has chosen, in the header `Idempotency-Key`; None for none.

    Raises:
        ProblemError: it is neither a string nor a token.

    """
    header = exchange.request.headers.get("Idempotency-Key")
    if header is None:
        return None
    found = _GIVEN.fullmatch(header.strip())
    if found is None:
        raise bad_request("Idempotency-Key is a string in quotes")
    mark = blake2b((found[1] or found[2]).encode(errors="surrogateescape"), digest_size=20)
    return PublishKey(f"given.{mark.hexdigest()}", seconds(exchange.settings.once_for), strict=True)


async def published_under(exchange: Exchange, name: str) -> tuple[ItemId, ...] | None:
    """Return the ids that were published under a key; None if it is unused or forgotten."""
    used: KeyUsed = await exchange.ask(ReadUsedKey(exchange.by, exchange.node, name))
    return used.ids


def new_key(exchange: Exchange, purpose: str) -> str:
    """Return a new one-off key."""
    face = exchange.face
    return face.one_off.make(face.broker.now(), exchange.by.account, exchange.node, purpose)


def is_valid(exchange: Exchange, key: str, purpose: str) -> bool:
    """Return whether the key is one of ours for this account, node and purpose, and has not expired."""
    face = exchange.face
    place = exchange.by.account, exchange.node, purpose
    return face.one_off.is_valid(
        key, face.broker.now(), seconds(exchange.settings.once_for), *place
    )


def check_key(exchange: Exchange, purpose: str, rel: str, below: str, *, is_queue: bool) -> str:
    """Return the one-off key in the path.

    Raises:
        ProblemError: it is not one of ours, has expired, or is another account's; the answer links to the
            resource that creates one.

    """
    key = exchange.names["key"]
    if is_valid(exchange, key, purpose):
        return key
    link = exchange.link(rel, *exchange.destination(is_queue=is_queue), below)
    raise ProblemError(
        404, "not-found", "the one-off link is not valid any more", headers=[("Link", str(link))]
    )


# One-off links: an empty POST returns a `create-next` link, to which a message, or a batch, can be posted once.


class OneOff(Struct, frozen=True):
    """What is posted to a one-off link: one message or a batch, and to which kind of node."""

    purpose: str
    rel: str
    below: str
    """The path of the resource that makes the links."""
    is_queue: bool

    def next(self, exchange: Exchange) -> Link:
        """Return a fresh link."""
        key = new_key(exchange, self.purpose)
        place = exchange.destination(is_queue=self.is_queue)
        return exchange.link("create-next", *place, self.below, key)

    async def drafts(self, exchange: Exchange) -> tuple[Draft, ...]:
        """Return what the request publishes."""
        if self.purpose == MESSAGE:
            return (await draft_in(exchange, is_queue=self.is_queue),)
        return await drafts_in(exchange, is_queue=self.is_queue)

    def made(self, exchange: Exchange, ids: Sequence[ItemId]) -> list[tuple[str, str]]:
        """Return the headers that name the published messages."""
        if self.purpose == MESSAGE:
            return [("Content-Location", message_url(exchange, ids[0], is_queue=self.is_queue))]
        name = f"once.{exchange.names['key']}"
        return [("Content-Location", url(exchange, name, len(ids), is_queue=self.is_queue))]

    def done(self, exchange: Exchange, ids: Sequence[ItemId]) -> web.Response:
        """Return the answer after the first use of a link."""
        headers, links = self.made(exchange, ids), [self.next(exchange)]
        if self.purpose == MESSAGE:
            return answer(200, headers, links)
        body = listed(exchange, ids, is_queue=self.is_queue)
        return answer(200, headers, links, body=body, kind=URI_LIST)

    def again(self, exchange: Exchange, ids: Sequence[ItemId]) -> ProblemError:
        """Return the answer to a repeated use of a link."""
        headers = [("Allow", "OPTIONS"), *self.made(exchange, ids)]
        headers.append(("Link", str(self.next(exchange))))
        return ProblemError(405, "already-done", "this link was used before", headers=headers)


async def begin(kind: OneOff, exchange: Exchange) -> web.Response:
    """Return a fresh one-off link; nothing is stored."""
    await none(exchange.request)
    await exchange.destined(is_queue=kind.is_queue)
    return answer(200, links=[kind.next(exchange)])


async def post(kind: OneOff, exchange: Exchange) -> web.Response:
    """Publish by a one-off link, if it is unused."""
    key = check_key(exchange, kind.purpose, kind.rel, kind.below, is_queue=kind.is_queue)
    used = once_key(exchange, key)
    try:
        drafts = await kind.drafts(exchange)
        reply = await publish(exchange, drafts, is_queue=kind.is_queue, key=used)
    except ProblemError:  # the link may have been used nevertheless, whatever is posted now
        if (ids := await published_under(exchange, used.name)) is not None:
            raise kind.again(exchange, ids) from None
        raise
    if reply.again:
        raise kind.again(exchange, reply.ids)
    return kind.done(exchange, reply.ids)


async def look(kind: OneOff, exchange: Exchange) -> web.Response:
    """Refuse a GET; the header `Allow` shows whether the link is unused."""
    key = check_key(exchange, kind.purpose, kind.rel, kind.below, is_queue=kind.is_queue)
    name = once_key(exchange, key).name
    is_used = await published_under(exchange, name) is not None
    allow = [("Allow", "OPTIONS" if is_used else "OPTIONS, POST")]
    raise ProblemError(405, "method-not-allowed", headers=allow)


ONE_OFFS: Final = tuple(
    OneOff(purpose, rel, below, is_queue)
    for purpose, rel, below in (
        (MESSAGE, "post-message-once", "once"),
        (BATCH, "post-batch-once", "batches-once"),
    )
    for is_queue in (True, False)
)
"""All kinds of one-off links."""


def handlers(kind: OneOff) -> tuple[Callable[[Exchange], Awaitable[web.Response]], ...]:
    """Return the handlers of a kind: to make a link, to post to it, and to look at it."""
    return partial(begin, kind), partial(post, kind), partial(look, kind)
