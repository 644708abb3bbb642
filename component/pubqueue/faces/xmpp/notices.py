"""Notices as messages, straight to bytes.

They are of type normal, for headlines vanish when they cannot be routed, and carry one hint, that nothing is
to be stored (row 28 of XEP-0254): servers copy no message without a body to a user's other resources.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, assert_never

from pubqueue.core.decision import (
    Announce,
    ApprovalWanted,
    Deleted,
    Deliver,
    Purged,
    Retracted,
    SubscriptionChanged,
    Unlocked,
)
from pubqueue.faces.xmpp import forms, headers, ns
from pubqueue.faces.xmpp.text import attribute, quoted, stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.core.decision import Notice
    from pubqueue.core.model import Item, Jid

# what does not change in them
_EVENT: Final = f'"><event xmlns="{ns.EVENT}">'
_ITEMS: Final = f'{_EVENT}<items node="'
_LOCK: Final = f'</item></items></event><lock xmlns="{ns.OURS}" token="'
_END: Final = f'<no-store xmlns="{ns.HINTS}"/></message>'
_UNLOCK: Final = f'unlock xmlns="{ns.QUEUEING}"'


def notice(what: Notice, service: str, new_id: Callable[[], str]) -> bytes:
    """Return the message that carries a notice."""
    if isinstance(what, Deliver):
        again = f"-{new_id()}" if what.again else ""
        return _delivery(what, service, f"{delivery_id(what.item)}{again}")
    return head(service, what.to, new_id()) + rest(what)


def head(service: str, to: Jid, message_id: str) -> bytes:
    """Return how the message of any other notice begins; only that differs from addressee to addressee."""
    return f"{_start(service, to)}{message_id}".encode()


Rest = Announce | Retracted | Unlocked | Purged | Deleted | SubscriptionChanged | ApprovalWanted

ADDRESSEE: Final = b"\x00"
"""Stands in front of what is told to many if their addresses are in it, and in the place of each address."""


def rest(what: Rest) -> bytes:
    """Return what stands behind the message's id."""
    match what:
        case Retracted():
            inner = _gone(what, "retract")
        case Unlocked():
            inner = _gone(what, _UNLOCK)
        case Announce():
            return _announced(what)
        case Purged():
            inner = f'{_EVENT}<purge node="{attribute(what.node)}"/>'
        case Deleted():
            inner = f'{_EVENT}<delete node="{attribute(what.node)}"/>'
        case SubscriptionChanged():
            return _changed(what)
        case ApprovalWanted():  # it may wait for the owner: nothing says that it is not to be stored
            return f'">{forms.authorization(what)}</message>'.encode()
        case _:
            assert_never(what)
    return f"{inner}</event>{_END}".encode()


def to_one(text: bytes, to: Jid) -> bytes:
    """Return what is told to many as it is told to one of them."""
    if not text.startswith(ADDRESSEE):
        return text
    return text[1:].replace(ADDRESSEE, attribute(to).encode())


def _changed(what: SubscriptionChanged) -> bytes:
    """Return how a subscription stands (XEP-0060 12.14, 12.19); whoever is away reads it later."""
    jid = what.about or what.to
    expiry = "" if what.expiry is None else f'expiry="{stamp(what.expiry)}" '
    subid = f' subid="{quoted(what.subid)}"' if what.subid else ""
    text = (
        f'{_EVENT}<subscription {expiry}node="{attribute(what.node)}" '
        f'jid="{attribute(jid) if jid else ADDRESSEE.decode()}"{subid} subscription="{what.state.value}"/>'
        "</event></message>"
    ).encode()
    return text if jid else ADDRESSEE + text


def delivery_id(item: Item) -> str:
    """Return the message id of a delivery: it names the very lock, so that a bounce can.

    One that is sent again has an id of its own, which begins with this (XEP-0060 12.4).
    """
    return f"pq-{item.seq}-{item.token}"


@lru_cache(maxsize=4096)
def _start(service: str, to: str) -> str:
    """Return what stands before a message's id."""
    return f'<message from="{attribute(service)}" to="{attribute(to)}" id="'


def _gone(what: Retracted | Unlocked, start: str) -> str:
    each = "".join([f'<{start} id="{attribute(item)}"/>' for item in what.ids])
    return f'{_ITEMS}{attribute(what.node)}">{each}</items>'


def _announced(what: Announce) -> bytes:
    draft = what.draft
    before = (
        f'{_ITEMS}{attribute(what.node)}">'
        f'<item id="{attribute(draft.id)}" publisher="{attribute(what.publisher)}">'
    )
    tail = f"</item></items></event>{headers.render(draft.headers)}{_END}"
    return before.encode() + draft.payload + tail.encode()


def _delivery(what: Deliver, service: str, name: str) -> bytes:
    """Return a delivery with its lock beside the event (XEP-0254 2.2)."""
    item = what.item
    before = (
        f'{_start(service, what.to)}{name}{_ITEMS}{attribute(item.node)}">'
        f'<item id="{attribute(item.id)}" publisher="{attribute(item.publisher)}">'
    )
    deadline = "" if item.deadline is None else f' deadline="{stamp(item.deadline)}"'
    beside = "" if item.acquired == 1 and not item.headers else _beside(item, service)
    tail = (
        f'{_LOCK}{item.token}"{deadline} attempt="{item.acquired}" '
        f'published="{stamp(item.published)}"/>{beside}{_END}'
    )
    return before.encode() + what.payload + tail.encode()


def _beside(item: Item, service: str) -> str:
    """Return that the attempt is not the first (row 30), and the publisher's headers."""
    late = ""
    if item.acquired > 1:
        published = stamp(item.published)
        late = f'<delay xmlns="{ns.DELAY}" from="{attribute(service)}" stamp="{published}"/>'
    return late + headers.render(item.headers)
