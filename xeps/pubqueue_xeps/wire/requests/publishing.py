"""A publish as text (XEP-0060 7.1): items with their payloads, and the elements that apply to them.

Requests are text, not stanza objects: publishing is a hot path, and slixmpp cannot write the attribute that asks for a
short answer. That answer is empty if all items were simply enqueued; otherwise it has details. So each item is sent
with an id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pubqueue_xeps.wire.joins import member, published
from pubqueue_xeps.wire.names import checked
from pubqueue_xeps.wire.ns import PUBQUEUE, PUBSUB, SHIM
from pubqueue_xeps.wire.times import until
from pubqueue_xeps.wire.xml_text import attributes, content, kept, quote

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.wire.joins import Awaited, Join
    from pubqueue_xeps.wire.times import When

SHORT: Final = f" xmlns:q='{PUBQUEUE}' q:answer='short'"
KNOWN: Final = f" xmlns:q='{PUBQUEUE}' q:answer='known'"
"""Asks for a short answer that names the items which already existed."""
DEAD: Final = f".//{{{PUBQUEUE}}}dead"
KNOWN_ITEM: Final = f".//{{{PUBQUEUE}}}known"
SKIPPED: Final = f".//{{{PUBQUEUE}}}skipped"
ITEMS: Final = f".//{{{PUBSUB}}}publish/{{{PUBSUB}}}item"


def item(name: str, payload: bytes) -> bytes:
    """Return an item; its id must be valid, and its payload one element with its namespaces."""
    return b"<item id=%b>%b</item>" % (quote(name).encode(), payload)


def publish(node: str, items: Iterable[bytes], beside: str = "", answer: str = SHORT) -> bytes:
    """Return the request to publish items; the elements of `beside` apply to each of them."""
    return b"<pubsub xmlns='%b'><publish node=%b%b>%b</publish>%b</pubsub>" % (
        PUBSUB.encode(),
        quote(node).encode(),
        answer.encode(),
        b"".join(items),
        beside.encode(),
    )


def beside(
    delay: When | None,
    priority: int | None,
    ttl: When | None,
    given: Mapping[str, str] | None,
    group: str | None = None,
    *,
    hold: Awaited | None = None,
    joins: Join | None = None,
    join: bool = False,
) -> str:
    """Return the elements that go with the items of a publish; raise ValueError for an invalid number, header or group."""
    waits_for = published(hold, join=join)
    waits_for += "" if joins is None else member(joins)
    return meta(**metadata(delay, priority, ttl, group)) + headers(given) + waits_for


def metadata(
    delay: When | None, priority: int | None, ttl: When | None, group: str | None
) -> dict[str, object]:
    """Return the attributes of `meta`; raise ValueError for an invalid number or group."""
    if priority is not None and (isinstance(priority, bool) or not isinstance(priority, int)):
        raise ValueError(f"priority is {priority!r}; it takes a whole number")
    span = {"delay": seconds("delay", delay), "ttl": seconds("ttl", ttl)}
    return {"priority": priority, "group": named(group), **span}


def named(group: str | None) -> str | None:
    """Return the name of a group; raise ValueError if it is invalid."""
    if group == "":
        raise ValueError("group is empty; it takes a name, or None for no group")
    return None if group is None else checked(group, f"group {group!r}")


def identified(id: object) -> str | None:  # noqa: A002 - the name of the attribute
    """Return the id of an item, or None for none; raise ValueError if it is invalid."""
    if id is None or (isinstance(id, str) and id):
        return id and checked(id, f"id {id!r}")
    raise ValueError(f"id is {id!r}; it takes a non-empty text, or None for a unique id")


def seconds(name: str, value: object) -> str | None:
    """Return the time from now as text; raise ValueError unless it is a duration or a time."""
    if value is None:
        return None
    return f"{until(name, value):.3f}".rstrip("0").rstrip(".")


def meta(
    *, delay: object = None, priority: object = None, ttl: object = None, group: object = None
) -> str:
    """Return the element with delay, priority, time to live and group of items; times in seconds."""
    given = attributes(delay=delay, priority=priority, ttl=ttl, group=group)
    return f"<meta xmlns='{PUBQUEUE}'{given}/>" if given else ""


def headers(given: Mapping[str, str | None] | None) -> str:
    """Return the element of headers (XEP-0131), without those whose value is None. Raises ValueError."""
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"headers are a mapping of names to texts, not {type(given).__name__}")
    written = [_header(name, value) for name, value in (given or {}).items() if value is not None]
    return f"<headers xmlns='{SHIM}'>{''.join(written)}</headers>" if written else ""


def skipped(answer: Element) -> bool:
    """Return whether the items were skipped: their version is committed already."""
    return len(answer) > 0 and answer.find(SKIPPED) is not None


def other_id(answer: Element, asked: Container[str]) -> str | None:
    """Return an id in the answer under which no item was to be published, or None: it was changed on the way."""
    found = (item.get("id", "") for item in answer.iterfind(ITEMS)) if len(answer) else ()
    return next((name for name in found if name not in asked), None)


def death(answer: Element) -> str | None:
    """Return why the published item is dead, or None if it is not."""
    dead = answer.find(DEAD) if len(answer) else None
    return None if dead is None else dead.get("reason", "")


def known(answer: Element) -> bool | None:
    """Return whether the item already existed, according to an answer to `KNOWN`.

    None: unknown, because the service does not support the attribute.
    """
    if len(answer) == 0:
        return False
    return True if answer.find(KNOWN_ITEM) is not None or answer.find(DEAD) is not None else None


def _header(name: object, value: object) -> str:
    if not isinstance(name, str) or not isinstance(value, str):
        wrong = "value" if isinstance(name, str) else "name"
        raise TypeError(f"header {name!r} has a {wrong} that is not text")
    if not name:
        raise ValueError("there is a header without a name")
    what = f"header {name!r}"
    return f"<header name={quote(checked(name, what))}>{content(kept(value, what))}</header>"
