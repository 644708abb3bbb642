"""Publishing under keys: one-off links, and `Idempotency-Key`."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from pubqueue.faces.rest.http.problems import ProblemError, bad_request
from pubqueue.model.records import PublishKey
from pubqueue.rules.once import ReadUsedKey

if TYPE_CHECKING:
    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.model.decision import KeyUsed
    from pubqueue.model.entities import ItemId

MESSAGE: Final = "message"
BATCH: Final = "batch"
"""Purposes of one-off links."""

_GIVEN: Final = re.compile(r'"((?:[^"\\]|\\["\\])+)"|([!#-\[\]-~]+)')


def once_key(exchange: Exchange, key: str) -> PublishKey:
    """Return the key of a publish by a one-off link: it is used once, whatever is published."""
    return PublishKey(f"once.{key}", exchange.terms.once_for)


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
    return PublishKey(f"given.{mark.hexdigest()}", exchange.terms.once_for, strict=True)


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
    return face.one_off.is_valid(key, face.broker.now(), exchange.terms.once_for, *place)


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
