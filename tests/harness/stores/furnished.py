"""A SQLite store that has something of everything: rows of every table, in every state, drawn from a seed.

Columns that this file does not name, because they were added later, get a value of their kind as well.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any, Final

from msgspec.json import encode

from pubqueue.model.entities import NodeConfig, NodeName, Terms
from pubqueue.model.schedules import Definition
from pubqueue.model.sums import sum_of
from pubqueue.model.waits import Came, Wait
from pubqueue.stores.sql.columns import (
    COVERED,
    covered_sum,
    packed,
    packed_config,
    packed_terms,
    packed_wait,
    unpacked,
)
from pubqueue.stores.sql.session import MOST_IN_ROW
from pubqueue.stores.sqlite.schema import prepare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Rows = Iterator[tuple[str, dict[str, Any]]]

NODES: Final = 6
LATER: Final = 1 << 40
"""The first number of the contents of a node that was purged."""
HIGHEST: Final = (1 << 63) - 1
LATEST: Final = 4_102_444_800_000
"""The year 2100, in milliseconds: calendars end long before the highest number."""
OF_A_KIND: Final = {"INTEGER": 1, "TEXT": "later", "BLOB": b"later", "REAL": 0.5}
SIGNS: Final = "abcxyz0189-_.:+~ äß€漢😀\u200f"


def furnish(path: Path, seed: int = 0, items: int = 60) -> None:
    """Make a store with everything in it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        prepare(connection, path)
        connection.execute("BEGIN")
        connection.execute("DELETE FROM sequence")
        for table, row in rows(seed, items):
            _insert(connection, table, row)
        for table in ("item", "done_item"):
            where = f"length(payload) > {MOST_IN_ROW}"
            connection.execute(
                f"INSERT INTO large_payload SELECT seq, payload FROM {table} WHERE {where}"
            )
            connection.execute(f"UPDATE {table} SET payload = x'' WHERE {where}")
        for table in ("node", "txn"):  # the last of them has gone
            connection.execute("UPDATE sqlite_sequence SET seq = seq + 5 WHERE name = ?", (table,))
        connection.execute("COMMIT")


def rows(seed: int = 0, items: int = 60) -> Rows:
    """Yield each row, with its table, in an order in which they can be written."""
    yield from _everything(Random(seed), items)


def _insert(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    info = connection.execute(f"PRAGMA table_info({table})").fetchall()
    later = {name: OF_A_KIND[kind] for _, name, kind, *_ in info if name not in row}
    if table in COVERED:
        key, rest = COVERED[table]
        later["sum"] = covered_sum(table, [row[name] for name in (*key, *rest)])
    elif "sum" in later:
        content = row["id"], row["payload"], row["group_name"] or "", unpacked(row["headers"])
        later["sum"] = sum_of(*content)
    values = row | later
    columns, marks = ", ".join(f'"{name}"' for name in values), ", ".join("?" for _ in values)
    connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(values.values()))


def _everything(draw: Random, items: int) -> Rows:
    yield from _people(draw)
    yield from _items(draw, items)
    for seq in range(items + 7_001, items + 7_009):
        yield "done_item", _done(draw, seq)
    yield from _transactions(draw)
    for seq in (3, 4, 9):
        yield "event", _event(draw, seq)
    for name in ("item", "token", "told", "told-3"):
        yield "sequence", {"name": name, "next": draw.choice((1, 900, HIGHEST))}


def _people(draw: Random) -> Rows:
    for number in range(1, NODES + 1):
        config = NodeConfig(title=_name(draw), queueing=number % 2 == 0, event_log=number == 2)
        facts = {"created": draw.randrange(HIGHEST), "items": number, "subscriptions": 2}
        facts["spent"] = (0, HIGHEST)[number % 2]
        facts["bytes"] = (1 << 40, 7, 0)[number % 3]
        facts["done"], facts["done_bytes"] = (4, HIGHEST) if number == 2 else (0, 0)
        who = {"name": f"{_name(draw)}/{number}", "creator": "boss@x"}
        yield "node", {"id": number, "config": packed_config(config), **who, **facts}
        purged = number == 1
        yield "contents", {"id": number, "node_id": None if purged else number}
        if purged:
            yield "contents", {"id": LATER, "node_id": number}
        for place in range(2):
            yield "subscription", _subscription(draw, number, place)
        for account, role in (("boss@x", "owner"), (f"{_name(draw)}@x", "outcast")):
            yield "affiliation", {"node_id": number, "jid": account, "affiliation": role}
    yield "review", {"node_id": 2}
    yield "trim", {"node_id": 3}
    times = {"since": draw.randrange(LATEST), "at": draw.randrange(LATEST)}
    yield "seek", {"node_id": 4, "through": HIGHEST, **times}
    yield "moved_node", {"name": _name(draw), "uri": f"xmpp:x?;node={_name(draw)}"}
    for number in (20, 21):
        yield "former_node", {"id": number, "name": _name(draw), "telling": number % 2}
        yield "subscription", _subscription(draw, number, 0)
    for paused in (0, 1):
        yield "schedule", _schedule(draw, paused)
    for minute in range(2):
        yield "sample", _sample(draw, minute)
    for number in (2, 5):
        yield (
            "resource",
            {"id": number, "jid": f"ann@x/{number}", "account": "ann@x", "qos": number == 2},
        )


def _definition(draw: Random) -> str:
    """Return the definition of a schedule, as a column."""
    node = NodeName(_name(draw))
    return encode(Definition(_name(draw), "0 3 * * *", "UTC", node, b"<job/>")).decode()


def _sample(draw: Random, minute: int) -> dict[str, Any]:
    there = ("queued", "locked", "delayed", "dead", "published", "delivered", "completed", "failed")
    counts = {name: draw.randrange(HIGHEST) for name in (*there, "waited", "longest")}
    return {"node_id": 2, "at": minute * 60_000, **counts}


def _schedule(draw: Random, paused: int) -> dict[str, Any]:
    return {
        "name": f"{_name(draw)}/{paused}",
        "definition": _definition(draw),
        "source": ("file", "command")[paused],
        "author": "boss@x",
        "fired_through": draw.randrange(LATEST),
        "due": None if paused else draw.randrange(LATEST),
        "last": draw.randrange(LATEST),
        "error": "node full\nagain",
        "tries": draw.randrange(9),
        "paused": paused,
        "revision": draw.randrange(1, HIGHEST),
    }


def _subscription(draw: Random, node: int, place: int) -> dict[str, Any]:
    ends = draw.randrange(HIGHEST)
    return {
        "id": node * 10 + place,
        "node_id": node,
        "jid": f"bot{place}@x/{_name(draw)}",
        "account": f"bot{place}@x",
        "subid": f"sub{node}-{place}",
        "queue_requests": draw.randrange(1, 50),
        "in_flight": draw.randrange(3),
        "last_served": draw.randrange(HIGHEST),
        "available": place,
        "unanswered": draw.randrange(3),
        "state": "subscribed" if place else "pending",
        "deliver": draw.randrange(2),
        "expire": ends,
        "remind": draw.choice((None, ends)) if place else ends,
        "temporary": draw.randrange(2),
        "lock_timeout": (None, HIGHEST)[place],
        "qos": (None, "assured")[place],
        "several": _several(node, place) if place else None,
        "quiet": draw.randrange(2),
    }


def _several(node: int, place: int) -> str | None:
    first = f"sub{node}-{place}"
    return packed_terms((Terms(first), Terms(f"{first}b", deliver=False)))


def _items(draw: Random, items: int) -> Rows:
    for seq in range(10, 10 + items):
        row = _item(draw, seq)
        yield "item", row
        if seq % 3 == 0:
            yield "receipt", {"seq": seq, "jid": f"bot@x/{_name(draw)}"}
        if seq % 5 == 0:
            yield "overwritten", {"seq": seq, "contents_id": row["node_id"], "place": seq - 5}
        if seq % 4 == 0:
            facts = {"digest": draw.randbytes(16), "until": draw.randrange(HIGHEST)}
            yield (
                "settled",
                {"token": seq, "whose": draw.randbytes(16), "verdict": "retract", "until": seq},
            )
            used = {"account": f"a{seq}@x", "content": draw.randbytes(16), "until": seq, "size": 9}
            yield "used_key", {"mark": f"{seq:032x}", "ids": '["a"]', "known": "[]", **used}
            yield "ping_answer", {"jid": f"bot@x/ä{seq}", "at": seq, "until": HIGHEST}
            yield "answered", {"token": seq, "arrived": seq % 2, "until": HIGHEST}
            alert = {"name": f"dead items:{seq}", "since": seq, "detail": "x", "over_at": 0}
            yield "alert", alert | {"reported": seq}
            yield "alert_watch", {"name": f"watch {seq}", "runner": "1", "until": seq}
            yield "secret", {"name": f"secret {seq}", "value": draw.randbytes(32)}
            yield "registration", _registration(draw, seq)
            yield "kept_message", _kept_message(draw, seq)
            yield (
                "message_total",
                {"account": f"a{seq}@x", "messages": 1, "byte_count": 20, "remembered": 2},
            )
            yield "forwarded", {"mark": f"{seq:012d}.a", "notices": draw.randbytes(20)}
            yield "feeding", {"mark": f"{seq:015d}.a.0", "place": seq, "what": draw.randbytes(20)}
            yield "fed_message", {"name": f"{seq:015d}.a.0.0", "draft": draw.randbytes(20)}
            yield "key_total", {"account": f"a{seq}@x", "bytes": 9}
            yield "finished", {"node_id": row["node_id"], "id": f"done{seq}", **facts}


def _kept_message(draw: Random, seq: int) -> dict[str, Any]:
    held = draw.random() < 0.5
    return {
        "mark": f"{seq:032x}",
        "sender": "etl@x/spark",
        "account": "etl@x",
        "msg_id": f"m{seq}",
        "iq_id": f"i{seq}",
        "digest": draw.randbytes(16),
        "byte_count": 20,
        "held": int(held),
        "answer": "",
        "until": seq,
        "message": draw.randbytes(20) if held else None,
    }


def _registration(draw: Random, seq: int) -> dict[str, Any]:
    return {
        "name": f"r{seq}",
        "account": f"a{seq}@x",
        "node": _name(draw),
        "queueing": seq % 8 == 0,
        "words": draw.randbytes(20),
        "disabled": seq % 8 != 0,
        "failures": seq,
        "error": "500",
        "position": seq,
        "following": f"http://x/{seq}",
        "runner": "one",
        "until": HIGHEST,
        "revision": seq,
    }


def _item(draw: Random, seq: int) -> dict[str, Any]:
    state = ("queued", "locked", "delayed", "dead")[seq % 4]
    held, dead = state == "locked", state == "dead" or seq % 5 == 0
    time = draw.randrange(HIGHEST)
    # an item that is put aside has its turn, or is of no group
    group = f"kunde ä{seq % 5}" if seq % 3 == 0 and seq % 8 != 2 else None
    return {
        "seq": seq,
        "node_id": LATER if seq % 7 == 0 else draw.randrange(1, NODES + 1),
        "id": f"{_name(draw)}{seq}",
        "state": state,
        "publisher": f"etl@x/{_name(draw)}",
        "published": time,
        "priority": draw.choice((0, -HIGHEST, 7)),
        "due": time if state == "delayed" else None,
        "expires": draw.choice((None, time)),
        "acquired": draw.randrange(9),
        "failed": max(draw.randrange(9), int(seq % 5 == 0)),
        "failure": "no seat\nyet" if seq % 5 == 0 else None,
        "size": (0, seq, HIGHEST)[seq % 3],
        "released": draw.randrange(9),
        "holder": "bot1@x/ä" if held else None,
        "deadline": time if held else None,
        "token": draw.choice((0, seq, HIGHEST)),
        "avoid": draw.choice((None, "bot0@x")),
        "aside": int(state == "delayed" and seq % 8 == 2),
        "dead_at": time if dead else None,
        "dead_reason": "no seat\nleft" if dead else None,
        "dead_from": draw.choice((None, "jobs")),
        "last_holder": draw.choice((None, "bot1@x/ä")),
        "death": seq if dead else None,
        "taken": time if held else None,
        "txn_app": draw.choice((None, "nightly")),
        "txn_version": draw.choice((None, 3)),
        "group_name": group,
        "turn": seq + 5_000 if group and (held or seq % 2) and state != "dead" else None,
        "headers": packed((("kind", _name(draw)), ("kind", '"\\\x01')))
        if seq % 2
        else draw.choice((None, "[]")),
        "payload": draw.randbytes(draw.choice((0, 1, 300, 70_000))),
        "wait": packed_wait(Wait(carry="\u00e4\n", came=(CAME,))) if seq % 6 == 1 else None,
    }


CAME: Final = Came("s1", "paid", '{"by": "ann"}', "boss@x", HIGHEST)


def _done(draw: Random, seq: int) -> dict[str, Any]:
    """Return an item that is done, also of a node that was purged."""
    kept = (
        *("seq", "node_id", "id", "publisher", "published", "priority", "token", "expires"),
        *("headers", "txn_app", "txn_version", "group_name", "size", "payload"),
    )
    row = _item(draw, seq)
    how = {"acquired": draw.randrange(9), "failed": draw.randrange(9), "worker": "ann@x/1"}
    times = {"done_at": draw.randrange(LATEST), "delivered": draw.randrange(LATEST)}
    return {**how, **times, **{name: row[name] for name in kept}}


def _transactions(draw: Random) -> Rows:
    for number, version in ((1, 4), (2, None)):
        facts = {"version": version, "committed": version, "used": draw.randrange(HIGHEST)}
        yield "txn_app", {"id": number, "name": f"app{number}", "owner": "etl@x", **facts}
        for committed in (None, 9):
            yield "txn", _version(draw, number, committed)
    for number, of in ((1, 10), (2, None), (3, 19)):
        counts = {
            "items": 4,
            "bytes": 40,
            "known": number,
            "grouped": number,
            "committed": int(number == 3),
        }
        yield "attempt", {"id": number, "txn_id": of, "part": 0, "number": number, **counts}
        for place in range(4):
            yield "staged", _staged(draw, number, place)
    for account in ("etl@x", ""):
        yield "staged_usage", {"account": account, "items": 12, "bytes": 120}


def _version(draw: Random, app: int, committed: int | None) -> dict[str, Any]:
    totals = ("skipped", "dead_lettered") if committed else ()
    return {
        "id": app * 10 + (committed or 0),
        "app_id": app,
        "owner": "etl@x",
        "version": committed or 5,
        "immediate": app % 2,
        "began": draw.randrange(HIGHEST),
        "until": draw.randrange(HIGHEST),
        "items": 4,
        "bytes": 40,
        "committed": committed,
        **dict.fromkeys(("skipped", "dead_lettered"), None),
        **dict.fromkeys(totals, 2),
        "seconds": draw.choice((0.1, 1e300, 1.0)) if committed else None,
        "on_taken": draw.choice(("fail", "skip", "dead-letter")),
        "dead_letter_node": "dead" if committed else None,
    }


def _staged(draw: Random, attempt: int, place: int) -> dict[str, Any]:
    return {
        "attempt_id": attempt,
        "row": place,
        "txn_id": 10,
        "node": _name(draw),
        "id": f"{_name(draw)}{attempt}.{place}",
        "state": "delayed" if place == 1 else "queued",
        "priority": place,
        "pause": 60 if place == 1 else None,
        "life": draw.choice((None, 5)),
        "known": place % 2,
        "size": 10,
        "headers": packed((("a", "b"),)) if place == 2 else None,
        "group_name": "g" if place == 1 else None,
        "payload": draw.randbytes(10),
    }


def _event(draw: Random, seq: int) -> dict[str, Any]:
    numbers = {name: draw.choice((seq, HIGHEST)) for name in ("at", "attempt", "age", "held")}
    words = {name: _name(draw) for name in ("item", "worker", "publisher", "origin", "went_to")}
    facts: dict[str, Any] = numbers | words
    if seq == 4:
        facts |= dict.fromkeys(("attempt", "worker", "age", "held", "origin", "went_to"), None)
    return {"seq": seq, "kind": "published", "node_id": 2, "detail": _name(draw), **facts}


def _name(draw: Random) -> str:
    return "".join(draw.choices(SIGNS, k=draw.randrange(1, 40)))
