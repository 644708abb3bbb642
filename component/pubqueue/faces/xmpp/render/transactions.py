"""Renders answers about transactions, in our own namespace (`urn:x-pubqueue:0`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.xml.text import attribute, stamp
from pubqueue.model.transactions import name_of_transaction
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.model.transactions import (
        Committed,
        LastVersion,
        Record,
        Skipped,
        TakenId,
        Transactions,
    )

FEATURE: Final = f"{ns.PUBQUEUE}#transactions"


def skipped(reply: Skipped) -> str:
    """Return the result of a publish to a version that is already committed."""
    items = "".join(f'<item id="{attribute(item)}"/>' for item in reply.ids)
    publish = f'<publish node="{attribute(reply.node)}">{items}</publish>'
    skipped = f'<skipped xmlns="{ns.PUBQUEUE}" version="{reply.version}"/>'
    return f'<pubsub xmlns="{ns.PUBSUB}">{publish}{skipped}</pubsub>'


def committed(reply: Committed, _service: str) -> bytes:
    """Return the counts of a commit."""
    already = "true" if reply.already else "false"
    start = (
        f'<committed xmlns="{ns.PUBQUEUE}" version="{reply.version}" '
        f'published="{reply.published}" known="{reply.known}" already="{already}"'
    )
    if not reply.taken:
        return f"{start}/>".encode()
    named = "".join(map(_taken, reply.named))
    return f'{start} taken="{reply.taken}">{named}</committed>'.encode()


def _taken(found: TakenId) -> str:
    words = {"node": attribute(found.node), "id": attribute(found.id), "state": found.state.value}
    attributes = "".join(f' {name}="{value}"' for name, value in words.items())
    return f"<item{attributes}/>"


def last_version(reply: LastVersion, _service: str) -> bytes:
    """Return the last committed version of an app."""
    version = "" if reply.version is None else f' version="{reply.version}"'
    at = "" if reply.at is None else f' at="{stamp(reply.at)}"'
    return f'<txn xmlns="{ns.PUBQUEUE}" app="{attribute(reply.app)}"{version}{at}/>'.encode()


def transactions(reply: Transactions, _service: str) -> bytes:
    """Return a page of records."""
    more = ' more="true"' if reply.more else ""
    inner = "".join(_record(record, reply.now) for record in reply.records)
    return f'<transactions xmlns="{ns.PUBQUEUE}"{more}>{inner}</transactions>'.encode()


def _record(record: Record, now: int) -> str:
    totals = record.totals
    words = {
        "id": record.id,
        "app": attribute(name_of_transaction(record.app)),
        "version": record.version,
        "publisher": attribute(record.owner),
        "rows": record.items,
        "bytes": record.bytes,
        "began": stamp(record.began),
        "committed": None if record.committed is None else stamp(record.committed),
        "age": max(0, (now - record.began) // 1000) if record.committed is None else None,
        "skipped": totals.skipped,
        "dead-lettered": totals.dead_lettered,
        "seconds": totals.seconds,
    }
    attributes = "".join(f' {name}="{value}"' for name, value in words.items() if value is not None)
    return f"<transaction{attributes}/>"
