"""Renders pages of events, items and nodes. A page ends before the stanza becomes too large for servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.faces.xmpp.xml.fields import shown as fields_of
from pubqueue.faces.xmpp.xml.payload import render
from pubqueue.faces.xmpp.xml.stanza import attribute, fitting, quoted, stamp
from pubqueue.model.transactions import name_of_transaction
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.model import replies

EVENTS: Final = f"{ns.PUBQUEUE}#events"
FEATURES: Final = (EVENTS, f"{ns.PUBQUEUE}#reads")


def _words(**given: object) -> str:
    """Return attributes, without those that are None; `_` in a name becomes `-`."""
    return "".join(
        f' {name.strip("_").replace("_", "-")}="{quoted(str(value))}"'
        for name, value in given.items()
        if value is not None
    )


def _element(name: str, words: str, entries: Sequence[bytes]) -> bytes:
    head = f'<{name} xmlns="{ns.PUBQUEUE}"{words}>'.encode()
    return head + b"".join(entries) + f"</{name}>".encode()


def _more(more: bool) -> str | None:  # noqa: FBT001  # it becomes an attribute
    return "true" if more else None


def events(page: replies.EventPage, _service: str) -> bytes:
    """Return as many events as fit; the next page has the rest."""
    entries = [_event(entry) for entry in page.entries]
    count = fitting(entries)
    if count < len(entries):
        page = replace(page, through=page.entries[count - 1].seq, more=True)
    words = _words(
        oldest=page.oldest, newest=page.newest, through=page.through, more=_more(page.more)
    )
    return _element("events", words, entries[:count])


def _event(entry: replies.EventEntry) -> bytes:
    event = entry.event
    words = _words(
        seq=entry.seq,
        at=stamp(entry.at),
        type=event.kind,
        node=event.node,
        item=event.item,
        attempt=event.attempt,
        worker=event.worker,
        publisher=event.publisher,
        age=event.age,
        held=event.held,
        from_=event.origin,
        to=event.to,
        detail=event.detail or None,
    )
    return f"<event{words}/>".encode()


def items(page: replies.ItemPage, _service: str) -> bytes:
    """Return as many items as fit."""
    entries = [_item(shown) for shown in page.entries]
    count = fitting(entries)
    if count < len(entries):
        last = page.entries[count - 1]
        letter = last.item.dead_letter
        through = letter.number if page.dead and letter else last.item.seq
        page = replace(page, through=through, more=True)
    words = _words(node=page.node, newest=page.newest, through=page.through, more=_more(page.more))
    return _element("items", words, entries[:count])


def _item(shown: replies.ItemEntry) -> bytes:
    item, letter = shown.item, shown.item.dead_letter
    key, version = item.transaction or (None, None)
    app = None if key is None else name_of_transaction(key)
    words = _words(
        id=item.id,
        seq=item.seq,
        state=item.state,
        priority=item.priority,
        group=item.group or None,
        published=stamp(item.published),
        publisher=item.publisher,
        not_before=None if item.due is None or item.finish else stamp(item.due),
        expires=None if item.expires is None else stamp(item.expires),
        acquired=item.acquired,
        failed=item.failed,
        error=item.failure if letter is None or item.failure != letter.reason else None,
        holder=item.holder,
        deadline=None if item.deadline is None else stamp(item.deadline),
        size=shown.size,
        txn_app=app,
        txn_version=version,
    )
    if (finish := item.finish) is not None:
        words += _words(
            delivered=None if finish.delivered is None else stamp(finish.delivered),
            done=stamp(finish.at),
            worker=finish.worker,
        )
    if letter is not None:
        words += _words(
            death=letter.number,
            dead_at=stamp(letter.at),
            reason=letter.reason,
            last_holder=letter.holder,
            origin=letter.origin,
        )
    payload = b"" if shown.payload is None else b"<payload>" + shown.payload + b"</payload>"
    return f"<item{words}>".encode() + payload + render(item.headers).encode() + b"</item>"


def nodes(page: replies.NodePage, _service: str) -> bytes:
    """Return as many nodes as fit."""
    entries = [_node(entry) for entry in page.entries]
    count = fitting(entries)
    words = _words(more=_more(page.more or count < len(entries)))
    return _element("nodes", words, entries[:count])


def _node(entry: replies.NodeEntry) -> bytes:
    words = _words(
        name=entry.node.name,
        queued=entry.queued,
        locked=entry.locked,
        delayed=entry.delayed,
        held=entry.held or None,
        dead=entry.dead,
        subscribers=entry.node.subscriptions,
        window_free=entry.window_free,
        oldest=None if entry.oldest is None else stamp(entry.oldest),
    )
    settings = fields_of(entry.node.config) if entry.owned else {}
    inner = "".join(
        f'<config var="{attribute(var)}" value="{quoted(value)}"/>'
        for var, value in settings.items()
    )
    return f"<node{words}>{inner}</node>".encode()
