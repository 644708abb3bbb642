"""Renders notices as messages, directly to bytes.

Messages of a queue are of type normal, because servers drop headlines that they cannot route. They have one hint, not to store them (row
28 of XEP-0254); servers do not copy messages without a body to a user's other
resources. Messages of a plain node are headlines, unless its owner chooses otherwise
(XEP-0060 12.7): servers do not store these, even without a hint.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, assert_never

from pubqueue.faces.xmpp.xml import forms
from pubqueue.faces.xmpp.xml.payload import render
from pubqueue.faces.xmpp.xml.stanza import (
    MAX_PAYLOAD_BYTES,
    attribute,
    escape,
    quoted,
    stamp,
)
from pubqueue.model import notices
from pubqueue.model.entities import Millis, mark_of
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.model.entities import Headers, Item, Jid
    from pubqueue.model.joins import Join
    from pubqueue.model.waits import Wait

# the constant parts
_EVENT: Final = f'"><event xmlns="{ns.EVENT}">'
_ITEMS: Final = f'{_EVENT}<items node="'
_LOCK: Final = f'</item></items></event><lock xmlns="{ns.PUBQUEUE}" token="'
_BARE_END: Final = "</message>"
_END: Final = f'<no-store xmlns="{ns.HINTS}"/></message>'
_UNLOCK: Final = f'unlock xmlns="{ns.QUEUEING}"'


def notice(what: notices.Notice, service: str, new_id: Callable[[], str]) -> bytes:
    """Return the message for a notice."""
    if type(what) is notices.Deliver:
        again = f"-{new_id()}" if what.again else ""
        return _delivery(what, service, f"{delivery_id(what)}{again}")
    return head(service, what.to, new_id()) + rest(what, service)


def head(service: str, to: Jid, message_id: str) -> bytes:
    """Return the beginning of the message for any other notice, the only part that differs between addressees."""
    return f"{_start(service, to)}{message_id}".encode()


ADDRESSEE: Final = b"\x00"
"""Marks a notice to many whose text contains the addressee: at its beginning, and in place of each address."""


def rest(
    what: notices.ForMany | notices.Unlocked | notices.ApprovalWanted,
    service: str,
    *,
    fleeting: bool = False,
) -> bytes:
    """Return the part of the message after its id; a fleeting notice is a headline."""
    kind, end = ('" type="headline', _BARE_END) if fleeting else ("", _END)
    match what:
        case notices.Retracted():
            inner = _gone(what, "retract")
            end = _with_subids(end, what) if what.subids else end
        case notices.Unlocked():
            inner = _gone(what, _UNLOCK)
        case notices.Announce():
            end = _with_subids(end, what) if what.subids else end
            return _announced(what, service, kind, end)
        case notices.Purged():
            inner = f'{_EVENT}<purge node="{attribute(what.node)}"/>'
        case notices.Deleted():
            inner = f"{_EVENT}{_deleted(what)}"
        case notices.Configured():
            inner = f"{_EVENT}{_configured(what)}"
        case notices.SubscriptionChanged():
            return _changed(what)
        case notices.ApprovalWanted():  # servers may store it until the owner is online, so it has no hint
            return f'">{forms.authorization(what)}</message>'.encode()
        case _:
            assert_never(what)
    return f"{kind}{inner}</event>{end}".encode()


def _with_subids(end: str, what: notices.Announce | notices.Retracted) -> str:
    """Return the end of a message that names subscriptions, as in XEP-0060 7.1.2.4.

    The publisher's headers come first, because a message has only one headers element.
    """
    known: Headers = ()
    if isinstance(what, notices.Announce) and what.draft is not None:
        known = what.draft.headers
    ids = tuple(("SubID", subid) for subid in what.subids)
    return f"{end.removesuffix(_BARE_END)}{render((*known, *ids))}{_BARE_END}"


def _deleted(what: notices.Deleted) -> str:
    node = attribute(what.node)
    if not what.uri:
        return f'<delete node="{node}"/>'
    return f'<delete node="{node}"><redirect uri="{attribute(what.uri)}"/></delete>'


def _configured(what: notices.Configured) -> str:
    node = attribute(what.node)
    if what.config is None:
        return f'<configuration node="{node}"/>'
    form = forms.node_config(what.config, kind="result")
    return f'<configuration node="{node}">{form}</configuration>'


def to_one(text: bytes, to: Jid) -> bytes:
    """Return a notice to many for one addressee."""
    if not text.startswith(ADDRESSEE):
        return text
    return text[1:].replace(ADDRESSEE, attribute(to).encode())


def _changed(what: notices.SubscriptionChanged) -> bytes:
    """Return a notice of a subscription's state (XEP-0060 12.14, 12.19); servers store it for an offline addressee."""
    jid = what.about or what.to
    expiry = "" if what.expiry is None else f'expiry="{stamp(what.expiry)}" '
    subid = f' subid="{quoted(what.subid)}"' if what.subid else ""
    text = (
        f'{_EVENT}<subscription {expiry}node="{attribute(what.node)}" '
        f'jid="{attribute(jid) if jid else ADDRESSEE.decode()}"{subid} subscription="{what.state.value}"/>'
        "</event></message>"
    ).encode()
    return text if jid else ADDRESSEE + text


def delivery_id(what: notices.Deliver) -> str:
    """Return the message id of a delivery. It contains the lock and its subscription, so a bounce identifies them.

    A repeated message has another id, which begins with this one (XEP-0060 12.4).
    """
    return f"pq-{what.item.seq}-{what.item.token}-{_mark(what.subid)}"


_mark: Final = lru_cache(maxsize=4096)(mark_of)


@lru_cache(maxsize=4096)
def _start(service: str, to: str) -> str:
    """Return the part of a message before its id."""
    return f'<message from="{attribute(service)}" to="{attribute(to)}" id="'


def _gone(what: notices.Retracted | notices.Unlocked, start: str) -> str:
    each = "".join([f'<{start} id="{attribute(item)}"/>' for item in what.ids])
    return f'{_ITEMS}{attribute(what.node)}">{each}</items>'


def _announced(what: notices.Announce, service: str, kind: str, end: str) -> bytes:
    draft, node = what.draft, attribute(what.node)
    if draft is None:
        return f'{kind}{_ITEMS}{node}"/></event>{end}'.encode()
    words = f'id="{attribute(draft.id)}"'
    if what.publisher is not None:
        words += f' publisher="{attribute(what.publisher)}"'
    payload = (
        draft.payload if len(draft.payload) <= MAX_PAYLOAD_BYTES else b""
    )  # there is room for the item's id
    if not payload:
        before, tail = f'{kind}{_ITEMS}{node}"><item {words}/>', "</items></event>"
    else:
        before, tail = f'{kind}{_ITEMS}{node}"><item {words}>', "</item></items></event>"
    late = "" if what.late is None else _late(what.late, service)
    given = "" if what.subids else render(draft.headers)  # otherwise they are in the end
    tail += f"{late}{given}{end}"
    return before.encode() + payload + tail.encode()


def _delivery(what: notices.Deliver, service: str, name: str) -> bytes:
    """Return a delivery, with its lock beside the event (XEP-0254 2.2)."""
    item = what.item
    before = (
        f'{_start(service, what.to)}{name}{_ITEMS}{attribute(item.node)}">'
        f'<item id="{attribute(item.id)}" publisher="{attribute(item.publisher)}">'
    )
    deadline = "" if item.deadline is None else f' deadline="{stamp(item.deadline)}"'
    plain = item.acquired == 1 and not item.headers and item.wait is None
    beside = "" if plain else _beside(item, service)
    failed = f' failed="{item.failed}"' if item.failed else ""
    tail = (
        f'{_LOCK}{item.token}"{deadline} attempt="{item.acquired}"{failed} '
        f'published="{stamp(item.published)}"/>{beside}{_END}'
    )
    return before.encode() + what.payload + tail.encode()


def carried(what: notices.Deliver, service: str, name: str) -> bytes:
    """Return the message of a delivery inside a request, without addresses and without the hint to servers."""
    whole = _delivery(what, service, name)
    start = len(_start(service, what.to).encode())
    before = f'<message xmlns="{ns.CLIENT}" id="'.encode()
    return before + whole[start : -len(_END)] + _BARE_END.encode()


def _beside(item: Item, service: str) -> str:
    """Return the count of attempts, if it is not the first (row 30), and the publisher's headers."""
    late = _late(item.published, service) if item.acquired > 1 else ""
    return late + render(item.headers) + ("" if item.wait is None else _waited(item.wait))


def _waited(wait: Wait) -> str:
    """Return what woke an item, what it carries, and the signals that have come; an extension of ours."""
    woken = "" if wait.woken is None else f' woken="{wait.woken.value}"'
    carry = f"<carry>{escape(wait.carry)}</carry>" if wait.carry else ""
    came = "".join(
        [
            f'<signal id="{quoted(one.id)}" name="{quoted(one.name)}" by="{quoted(one.by)}" '
            f'stamp="{stamp(Millis(one.at))}">{escape(one.data)}</signal>'
            for one in wait.came
        ]
    )
    members = "" if wait.join is None else _members(wait.join)
    return f'<wait xmlns="{ns.PUBQUEUE}"{woken}>{carry}{came}{members}</wait>'


def _members(join: Join) -> str:
    """Return how many members of a join are to come, how many of these are dead, and how many there were."""
    is_open = ' open="true"' if join.is_open else ""
    return f'<join to-come="{join.to_come}" dead="{join.dead}" total="{join.total}"{is_open}/>'


def _late(published: Millis, service: str) -> str:
    """Return the publish time for a late notice (XEP-0203)."""
    return f'<delay xmlns="{ns.DELAY}" from="{attribute(service)}" stamp="{stamp(published)}"/>'
