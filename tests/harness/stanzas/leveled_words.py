"""Stanzas around deliveries at a level: what workers and owners say, and what the service says, in short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.stanzas.leveled_service import BOSS, PUBSUB, QOS
from harness.stanzas.wire import SERVICE

from pubqueue.rules.deliveries import Repeating

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.stanzas.leveled_service import Leveled
    from lxml.etree import _Element

BEE, ANT = "bee@localhost/one", "ant@localhost/two"
HOW: Final = Repeating(attempts=3, first=5, longest=60)
PAYLOAD: Final = "<job xmlns='urn:example:job' a='&lt;'>ä</job>"


def iq(name: str, sender: str, inner: str, space: str = PUBSUB) -> str:
    return (
        f"<iq type='set' id='{name}' from='{sender}' to='{SERVICE}'>"
        f"<pubsub xmlns='{space}'>{inner}</pubsub></iq>"
    )


def form(kind: str, **fields: Any) -> str:
    each = "".join(
        f"<field var='{var}'><value>{value}</value></field>" for var, value in fields.items()
    )
    kept = f"<field var='FORM_TYPE' type='hidden'><value>{PUBSUB}#{kind}</value></field>"
    return f"<x xmlns='jabber:x:data' type='submit'>{kept}{each}</x>"


def queue(name: str = "jobs", **fields: Any) -> str:
    known = {"x-queueing#enabled": 1, "pubsub#access_model": "open", "x-queueing#backoff_min": 0}
    config = form("node_config", **known, **fields)
    return iq("c", BOSS, f"<create node='{name}'/><configure>{config}</configure>")


def subscribes(jid: str = BEE, window: int = 10, node: str = "jobs", **fields: Any) -> str:
    options = form("subscribe_options", **{"pubsub#queue_requests": window}, **fields)
    return iq("s", jid, f"<subscribe node='{node}' jid='{jid}'/><options>{options}</options>")


def comes(jid: str = BEE) -> str:
    return f"<presence from='{jid}' to='{SERVICE}'/>"


def published(*items: str, node: str = "jobs") -> list[str]:
    return [
        iq("p", BOSS, f"<publish node='{node}'><item id='{item}'>{PAYLOAD}</item></publish>")
        for item in items
    ]


def result(asked: _Element | str, inner: str = "", *, sender: str = BEE) -> str:
    name = asked if isinstance(asked, str) else asked.get("id")
    return f"<iq type='result' id='{name}' from='{sender}' to='{SERVICE}'>{inner}</iq>"


def received(asked: _Element, *, name: str | None = None, sender: str = BEE) -> str:
    mine = name or asked.get("id")
    return result(asked, f"<received xmlns='{QOS}' msgId='{mine}'/>", sender=sender)


def error(asked: _Element, kind: str, condition: str, more: str = "", *, sender: str = BEE) -> str:
    stanzas = "urn:ietf:params:xml:ns:xmpp-stanzas"
    return (
        f"<iq type='error' id='{asked.get('id')}' from='{sender}' to='{SERVICE}'>"
        f"<error type='{kind}'><{condition} xmlns='{stanzas}'/>{more}</error></iq>"
    )


def shape(stanza: _Element) -> str:
    """Return what a stanza is: a message with an item, or a request with its verb."""
    kind = stanza.tag.rpartition("}")[2]
    if kind == "iq" and stanza.get("type") == "set":
        return stanza[0].tag.rpartition("}")[2]
    return f"{kind} {stanza.get('type', '')}".strip()


def deliveries(said: Iterable[_Element]) -> list[tuple[str, str, str]]:
    """Return who is delivered which item, and how."""
    return [
        (stanza.get("to"), stanza.find(".//{*}item").get("id"), shape(stanza))
        for stanza in said
        if stanza.find(".//{*}items") is not None and stanza.find(".//{*}lock") is not None
    ]


async def worker(service: Leveled, level: str, window: int = 10) -> None:
    """Make the queue and a worker for it."""
    await service.say(queue())
    await service.say(subscribes(BEE, window, **{"x-queueing#qos": level}), comes())


async def locked(service: Leveled) -> dict[str, str]:
    """Return the holders of what is locked, by item."""
    rows = await service.store.connection.run(
        lambda c: c.execute("SELECT id, holder FROM item WHERE state = 'locked'").fetchall()
    )
    return dict(rows)


async def changes(service: Leveled) -> int:
    """Return how many rows the service has written."""
    return await service.store.connection.run(
        lambda c: c.execute("SELECT total_changes()").fetchone()[0]
    )
