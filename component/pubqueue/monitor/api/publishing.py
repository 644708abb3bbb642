"""Publishing over the HTTP API: items in JSON, each judged by itself, and each answered after its commit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from pubqueue.faces.xmpp.xml import refusals
from pubqueue.faces.xmpp.xml.payload import UnfitPayloadError, from_json, from_text, from_xml
from pubqueue.model.decision import Published, Refusal, Refused
from pubqueue.model.entities import NO_TIME, Draft, ItemId, NodeName, seconds
from pubqueue.monitor.asking import AT_REST, TIMEOUT, RefusedError, SilentError
from pubqueue.operations.model import UnfitError
from pubqueue.rules.discovery import Describe
from pubqueue.rules.publication import Publish
from pubqueue_xeps.wire.names import ILLEGAL
from pubqueue_xeps.wire.publication import new_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.broker import Broker
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Principal

MAX_BODY: Final = 4 << 20
"""Maximum bytes of a request."""

MAX_ITEMS: Final = 1_000

ON_LOOP: Final = 65_536
"""Bytes of a body that is read beside other work; larger ones are read in a thread, for who may publish them."""

AT_ONCE: Final = 100
"""Items of a request that are under way at once."""

_Span = Annotated[float, Meta(ge=0, le=10**9)]


class NewItem(Struct, forbid_unknown_fields=True):
    """An item as a request has it. `delay` and `ttl` are in seconds."""

    payload: Raw | UnsetType = UNSET
    id: str | None = None
    priority: Annotated[int, Meta(ge=-(2**31), lt=2**31)] = 0
    delay: _Span | None = None
    ttl: _Span | None = None
    headers: dict[str, str] = {}
    group: str = ""


class Items(Struct, forbid_unknown_fields=True):
    """The body of a request."""

    items: Annotated[list[NewItem], Meta(min_length=1, max_length=MAX_ITEMS)]


_ITEMS: Final = msgspec.json.Decoder(Items)


def drafts_in(body: bytes) -> list[Draft]:
    """Return the items of a body; those without an id get a new one.

    Raises:
        UnfitError: it is no such body.

    """
    try:
        items = _ITEMS.decode(body).items
    except (msgspec.DecodeError, RecursionError) as wrong:
        raise UnfitError(f"the body: {wrong}") from None
    return [_draft(at, one) for at, one in enumerate(items)]


def _draft(at: int, one: NewItem) -> Draft:
    try:
        payload, space = (b"", "") if one.payload is UNSET else _payload(one.payload)
    except UnfitPayloadError as wrong:
        raise UnfitError(f"items[{at}]: {wrong}") from None
    texts = [one.id or "", one.group, *one.headers, *one.headers.values()]
    if any(ILLEGAL.search(text) for text in texts) or "" in one.headers or one.id == "":
        raise UnfitError(
            f"items[{at}]: an id, a header or a group is empty, or has a character that XML does not have"
        )
    return Draft(
        ItemId(new_id() if one.id is None else one.id),
        payload,
        one.priority,
        NO_TIME if one.delay is None else seconds(one.delay),
        None if one.ttl is None else seconds(one.ttl),
        headers=tuple(one.headers.items()),
        type=space,
        group=one.group,
    )


def _payload(raw: Raw) -> tuple[bytes, str]:
    """Return a payload, and its namespace: a text is XML or JSON, any other value is JSON itself."""
    value = msgspec.json.decode(raw)
    if not isinstance(value, str):
        return from_json(value)
    return from_xml(value, in_any=False) if value.lstrip().startswith("<") else from_text(value)


class Publishing:
    """Publishes for callers. `broker_of` returns the broker, or None while there is none."""

    def __init__(self, broker_of: Callable[[], Broker | None]) -> None:
        self._broker_of = broker_of

    async def check(self, by: Principal, node: str) -> None:
        """Refuse who may not publish to the node, before anything of a large body is read.

        Raises:
            RefusedError: the caller may not, or there is no such node.
            SilentError: the service does not respond now.

        """
        reply = await self._answered(
            by, Describe(by, NodeName(node), manage=False, known=True), size=0
        )
        if isinstance(reply, Refused):
            raise RefusedError(reply)
        if not getattr(reply, "may_publish", False):
            raise RefusedError(Refused(Refusal.FORBIDDEN))

    async def publish(self, by: Principal, node: str, body: bytes) -> dict[str, Any]:
        """Publish the items of a body, and return the result of each after its commit.

        Raises:
            UnfitError: it has no items, or one that no account can publish.
            SilentError: the service does not respond now: some may be published, and the same ids may be published again.

        """
        is_small = len(body) <= ON_LOOP
        drafts = drafts_in(body) if is_small else await asyncio.to_thread(drafts_in, body)
        results: list[dict[str, Any]] = []
        for begin in range(0, len(drafts), AT_ONCE):
            some = drafts[begin : begin + AT_ONCE]
            requests = [(Publish(by, NodeName(node), (one,)), len(one.payload)) for one in some]
            replies = await asyncio.gather(
                *(self._answered(by, request, size) for request, size in requests)
            )
            results += [_result(one, reply) for one, reply in zip(some, replies, strict=True)]
        return {"node": node, "results": results}

    def _broker(self) -> Broker:
        if (broker := self._broker_of()) is None:
            raise SilentError(AT_REST)
        return broker

    async def _answered(self, by: Principal, request: Publish | Describe, size: int) -> Reply:
        try:
            async with asyncio.timeout(TIMEOUT):
                reply = await self._broker().handle_for(by, request, size)
        except TimeoutError:
            raise SilentError("The store does not answer.") from None
        if isinstance(reply, Refused) and reply.refusal is Refusal.STORE_FAILED:
            raise SilentError(reply.reason or "The store does not answer.")
        return reply


def _result(draft: Draft, reply: Reply) -> dict[str, Any]:
    if not isinstance(reply, Published):
        refused = reply if isinstance(reply, Refused) else Refused(Refusal.FORBIDDEN)
        return {"id": draft.id, "error": error_of(refused)}
    dead = next((one.error or "" for one in reply.dead if one.id == draft.id), None)
    duplicate = draft.id in reply.known or dead is not None
    return {"id": draft.id, "duplicate": duplicate} | ({} if dead is None else {"dead": dead})


def error_of(refused: Refused) -> dict[str, str]:
    """Return a refusal as XMPP has it: type, condition, the more precise condition, and the sentence."""
    return stanza_error(refusals.words(refused))


def stanza_error(error: refusals.StanzaError) -> dict[str, str]:
    """Return a stanza error as an object."""
    words = {"type": error.type, "condition": error.condition}
    more = {"detail": error.detail, "text": error.text}
    return words | {name: text for name, text in more.items() if text}
