"""From replies and notices to bytes, without building stanza objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from pubqueue import __version__
from pubqueue.core.decision import (
    Affiliations,
    Announce,
    Created,
    Deleted,
    Deliver,
    Described,
    Done,
    Listed,
    MyAffiliations,
    MySubscriptions,
    Published,
    Purged,
    Redriven,
    Retracted,
    Retrieved,
    Subscribed,
    Touched,
    Unlocked,
)
from pubqueue.core.manage import ListItems
from pubqueue.core.pages import Events, Items, Nodes, Trimmed
from pubqueue.core.subscribe import SetOptions
from pubqueue.core.transactions import Committed, Marked, Skipped, Transactions
from pubqueue.faces.xmpp import disco, forms, headers, ns, reads, txn
from pubqueue.faces.xmpp.text import attribute, escape, stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.rules import Request
    from pubqueue.core import pages, transactions
    from pubqueue.core.decision import Notice
    from pubqueue.core.model import Item, ItemId, Jid, Millis, NodeName, Subscription

    Answer = (
        Done
        | Published
        | Subscribed
        | Created
        | Described
        | Listed
        | Affiliations
        | MyAffiliations
        | MySubscriptions
        | Touched
        | Redriven
        | Retrieved
        | transactions.Reply
        | pages.Reply
    )

_HINTS = f'<no-store xmlns="{ns.HINTS}"/><no-permanent-store xmlns="{ns.HINTS}"/>'
_NO_COPY = f'<no-copy xmlns="{ns.HINTS}"/>'


def result(request: Request, reply: Answer, service: str) -> str | bytes:  # noqa: C901, PLR0911, PLR0912  # one line a reply
    """Return what stands inside the IQ result, which is nothing where XEP-0060 says so."""
    match reply:
        case Done():
            return ""
        case Published():
            return _published(reply)
        case Subscribed():
            return _options(reply) if isinstance(request, SetOptions) else _subscribed(reply)
        case Created():
            return f'<pubsub xmlns="{ns.PUBSUB}"><create node="{attribute(reply.node)}"/></pubsub>'
        case Described():
            return _described(request, reply)
        case Listed():
            return disco.items(reply, service, of_node=isinstance(request, ListItems))
        case Affiliations():
            return affiliations(reply)
        case MyAffiliations() | MySubscriptions():
            return _mine(reply)
        case Retrieved():
            return _retrieved(reply)
        case Touched() | Redriven():
            return _ours(reply)
        case Skipped() | Committed() | Marked() | Transactions():
            return txn.render(reply)
        case Events() | Items() | Nodes() | Trimmed():
            return reads.render(reply)
        case _:
            assert_never(reply)


def software_version() -> str:
    """Return what program this is (XEP-0092)."""
    return (
        f'<query xmlns="{ns.VERSION}"><name>pubqueue</name><version>{__version__}</version></query>'
    )


def entity_time(now: Millis) -> str:
    """Return the time here, which is UTC (XEP-0202)."""
    return f'<time xmlns="{ns.TIME}"><tzo>Z</tzo><utc>{stamp(now)}</utc></time>'


def _published(reply: Published) -> str:
    items = "".join(f'<item id="{attribute(item)}"/>' for item in reply.ids)
    node = attribute(reply.node)
    dead = "".join(map(_death, reply.dead))
    return f'<pubsub xmlns="{ns.PUBSUB}"><publish node="{node}">{items}</publish>{dead}</pubsub>'


def _subscribed(reply: Subscribed) -> str:
    s = reply.subscription
    words = _subscription(s)
    options = ""
    if reply.queueing:
        options = f"<options>{forms.options_now(s, kind='result')}</options>"
    return f'<pubsub xmlns="{ns.PUBSUB}"><subscription {words}/>{options}</pubsub>'


def _subscription(s: Subscription) -> str:
    return (
        f'node="{attribute(s.node)}" jid="{attribute(s.jid)}" '
        f'subid="{attribute(s.subid)}" subscription="subscribed"'
    )


def _mine(reply: MyAffiliations | MySubscriptions) -> str:
    """Return what the asker has here (XEP-0060 5.6, 5.7)."""
    if isinstance(reply, MySubscriptions):
        name = "subscriptions"
        inner = "".join(f"<subscription {_subscription(s)}/>" for s in reply.entries)
    else:
        name = "affiliations"
        inner = "".join(
            f'<affiliation node="{attribute(node)}" affiliation="{affiliation.value}"/>'
            for node, affiliation in reply.entries
        )
    words = "" if reply.node is None else f' node="{attribute(reply.node)}"'
    return f'<pubsub xmlns="{ns.PUBSUB}"><{name}{words}>{inner}</{name}></pubsub>'


def _options(reply: Subscribed) -> str:
    s = reply.subscription
    inner = forms.options_now(s, kind="form") if reply.queueing else ""
    words = f'node="{attribute(s.node)}" jid="{attribute(s.jid)}" subid="{attribute(s.subid)}"'
    return f'<pubsub xmlns="{ns.PUBSUB}"><options {words}>{inner}</options></pubsub>'


def _described(request: Request, reply: Described) -> str:
    if getattr(request, "manage", False):
        node = attribute(reply.node.name)
        form = forms.node_config(reply.node.config)
        return f'<pubsub xmlns="{ns.OWNER}"><configure node="{node}">{form}</configure></pubsub>'
    return disco.node_info(reply)


def _ours(reply: Touched | Redriven) -> str:
    node = attribute(reply.node)
    if isinstance(reply, Redriven):
        return f'<redrive xmlns="{ns.OURS}" node="{node}" count="{reply.count}"/>'
    items = "".join(
        f'<item id="{attribute(item)}" deadline="{stamp(deadline)}"/>'
        for item, deadline in reply.entries
    )
    return f'<touch xmlns="{ns.OURS}" node="{node}">{items}</touch>'


def _retrieved(reply: Retrieved) -> bytes:
    """Return the items; what was left out is shown by the set beside them (XEP-0060 6.5.4)."""
    inner = b"".join(_item(item.id, item.publisher, payload) for item, payload in reply.items)
    beside = "".join(_death(item) for item, _ in reply.items if item.dead_letter)
    if not reply.whole and reply.items:
        first, last = reply.items[0][0].id, reply.items[-1][0].id
        beside += (
            f'<set xmlns="{ns.RSM}"><first>{escape(first)}</first><last>{escape(last)}</last></set>'
        )
    head = f'<pubsub xmlns="{ns.PUBSUB}">'.encode()
    return head + _items(reply.node.name, inner) + f"{beside}</pubsub>".encode()


def _death(item: Item) -> str:
    """Return what is kept of an item's end; an addition of ours beside the items."""
    letter = item.dead_letter
    if letter is None:
        return ""
    words = f'item="{attribute(item.id)}" published="{stamp(item.published)}"'
    words += f' at="{stamp(letter.at)}" reason="{attribute(letter.reason)}"'
    words += f' node="{attribute(letter.origin)}"' if letter.origin else ""
    words += f' holder="{attribute(letter.holder)}"' if letter.holder else ""
    return f'<dead xmlns="{ns.OURS}" {words}/>'


def affiliations(reply: Affiliations) -> str:
    """Return who is what to a node (XEP-0060 8.9.1)."""
    entries = "".join(
        f'<affiliation jid="{attribute(jid)}" affiliation="{affiliation.value}"/>'
        for jid, affiliation in reply.entries
    )
    node = attribute(reply.node)
    return (
        f'<pubsub xmlns="{ns.OWNER}"><affiliations node="{node}">{entries}</affiliations></pubsub>'
    )


# --- notices -------------------------------------------------------------------------------------


def notice(what: Notice, service: str, new_id: Callable[[], str]) -> bytes:
    """Return the message that carries a notice."""
    match what:
        case Deliver():
            return _delivery(what.to, what.item, what.payload, service)
        case Announce():
            draft = what.draft
            item = _item(draft.id, what.publisher, draft.payload)
            beside = headers.render(draft.headers)
            return _event(what.to, service, new_id(), _items(what.node, item), beside)
        case Retracted():
            gone = _each("retract", what.ids)
            return _event(what.to, service, new_id(), _items(what.node, gone))
        case Unlocked():
            free = _each(f'unlock xmlns="{ns.QUEUEING}"', what.ids)
            return _event(what.to, service, new_id(), _items(what.node, free))
        case Purged():
            inner = f'<purge node="{attribute(what.node)}"/>'.encode()
            return _event(what.to, service, new_id(), inner)
        case Deleted():
            inner = f'<delete node="{attribute(what.node)}"/>'.encode()
            return _event(what.to, service, new_id(), inner)
        case _:
            assert_never(what)


def delivery_id(item: Item) -> str:
    """Return the message id of a delivery: it names the very lock, so that a bounce can."""
    return f"pq-{item.seq}-{item.token}"


def _each(start: str, ids: tuple[ItemId, ...]) -> bytes:
    return "".join(f'<{start} id="{attribute(item)}"/>' for item in ids).encode()


def _item(item: ItemId, publisher: Jid, payload: bytes) -> bytes:
    head = f'<item id="{attribute(item)}" publisher="{attribute(publisher)}">'
    return head.encode() + payload + b"</item>"


def _items(node: NodeName, inner: bytes) -> bytes:
    return f'<items node="{attribute(node)}">'.encode() + inner + b"</items>"


def _event(to: Jid, service: str, message_id: str, inner: bytes, beside: str = "") -> bytes:
    """Return a message of type normal; headlines vanish when they cannot be routed (row 28)."""
    head = (
        f'<message from="{attribute(service)}" to="{attribute(to)}" id="{message_id}">'
        f'<event xmlns="{ns.EVENT}">'
    )
    hints = _HINTS + _NO_COPY if "/" in to else _HINTS
    return head.encode() + inner + f"</event>{beside}{hints}</message>".encode()


def _delivery(to: Jid, item: Item, payload: bytes, service: str) -> bytes:
    """Return a delivery with its lock beside the event (XEP-0254 2.2)."""
    deadline = "" if item.deadline is None else f' deadline="{stamp(item.deadline)}"'
    published = stamp(item.published)
    beside = (
        f'<lock xmlns="{ns.OURS}" token="{item.token}"{deadline} attempt="{item.acquired}" '
        f'published="{published}"/>'
    )
    if item.acquired > 1:  # row 30
        beside += f'<delay xmlns="{ns.DELAY}" from="{attribute(service)}" stamp="{published}"/>'
    if item.headers:
        beside += headers.render(item.headers)
    inner = _items(item.node, _item(item.id, item.publisher, payload))
    return _event(to, service, delivery_id(item), inner, beside)
