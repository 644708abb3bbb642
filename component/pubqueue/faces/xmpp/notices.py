"""Notices as messages, straight to bytes.

They are of type normal, for headlines vanish when they cannot be routed, and carry one hint, that nothing is
to be stored (row 28 of XEP-0254): servers copy no message without a body to a user's other resources.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, assert_never

from pubqueue.core.decision import Announce, Deleted, Deliver, Purged, Retracted, Unlocked
from pubqueue.faces.xmpp import headers, ns
from pubqueue.faces.xmpp.text import attribute, in_bytes, stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.core.decision import Notice
    from pubqueue.core.model import Item

_END: Final = f'<no-store xmlns="{ns.HINTS}"/></message>'.encode()
_LOCK: Final = f'</event><lock xmlns="{ns.OURS}"'.encode()
_ITEM: Final = b'<items node="%b"><item id="%b" publisher="%b">%b</item></items>'
_RETRACT: Final = b"<retract"
_UNLOCK: Final = f'<unlock xmlns="{ns.QUEUEING}"'.encode()


def notice(what: Notice, service: str, new_id: Callable[[], str]) -> bytes:
    """Return the message that carries a notice."""
    match what:
        case Deliver():
            return _delivery(what, service)
        case Retracted():
            inner = _gone(what, _RETRACT)
        case Unlocked():
            inner = _gone(what, _UNLOCK)
        case Announce():
            inner = _announced(what)
        case Purged():
            inner = b'<purge node="%b"/></event>' % in_bytes(what.node)
        case Deleted():
            inner = b'<delete node="%b"/></event>' % in_bytes(what.node)
        case _:
            assert_never(what)
    start, event = _around(service, what.to)
    return b"%b%b%b%b%b" % (start, new_id().encode(), event, inner, _END)


def delivery_id(item: Item) -> str:
    """Return the message id of a delivery: it names the very lock, so that a bounce can."""
    return f"pq-{item.seq}-{item.token}"


@lru_cache(maxsize=4096)
def _around(service: str, to: str) -> tuple[bytes, bytes]:
    """Return what stands before and behind a message's id, up to what the event holds."""
    start = f'<message from="{attribute(service)}" to="{attribute(to)}" id="'
    return start.encode(), f'"><event xmlns="{ns.EVENT}">'.encode()


def _gone(what: Retracted | Unlocked, start: bytes) -> bytes:
    each = b"".join([b'%b id="%b"/>' % (start, in_bytes(item)) for item in what.ids])
    return b'<items node="%b">%b</items></event>' % (in_bytes(what.node), each)


def _announced(what: Announce) -> bytes:
    draft = what.draft
    names = in_bytes(what.node), in_bytes(draft.id), in_bytes(what.publisher)
    item = _ITEM % (*names, draft.payload)
    return b"%b</event>%b" % (item, headers.render(draft.headers).encode())


def _delivery(what: Deliver, service: str) -> bytes:
    """Return a delivery with its lock beside the event (XEP-0254 2.2)."""
    item = what.item
    start, event = _around(service, what.to)
    published = stamp(item.published)
    deadline = "" if item.deadline is None else f' deadline="{stamp(item.deadline)}"'
    lock = (
        f' token="{item.token}"{deadline} attempt="{item.acquired}" '
        f'published="{published}"/>{_beside(item, service, published)}'
    )
    return b"%b%b%b%b%b%b%b" % (
        start,
        delivery_id(item).encode(),
        event,
        _ITEM % (in_bytes(item.node), in_bytes(item.id), in_bytes(item.publisher), what.payload),
        _LOCK,
        lock.encode(),
        _END,
    )


def _beside(item: Item, service: str, published: str) -> str:
    """Return what stands beside the lock: that it is not the first (row 30), and the publisher's headers."""
    late = ""
    if item.acquired > 1:
        late = f'<delay xmlns="{ns.DELAY}" from="{attribute(service)}" stamp="{published}"/>'
    return late + headers.render(item.headers) if item.headers else late
