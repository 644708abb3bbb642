"""How SQL loads and writes the rows of each kind.

A kind has four statements. The one with its name loads rows, whose columns are the fields of a row in their order; `add_`,
`change_` and `drop_` write one row. `add_` takes the facts and the key, `change_` these and the guard, `drop_` the key and
the guard. `SQL` has the kinds that differ from that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, json

from pubqueue.engine.rows import (
    AFFILIATIONS,
    ANSWERED,
    ATTEMPTS,
    FINISHED,
    KEPT_MESSAGES,
    KEY_TOTALS,
    MESSAGE_TOTALS,
    NOTED,
    PING_ANSWERS,
    REGISTRATIONS,
    SCHEDULES,
    SEEKS,
    SETTLED,
    STAGED,
    USED_KEYS,
    VERSIONS,
    WAITING,
    AffiliationRow,
    Finished,
    NotedKey,
    NotedRow,
    StagedKey,
    StagedSize,
)
from pubqueue.model.entities import Affiliation, ItemId
from pubqueue.model.records import Answered, SeekMark, UsedKey
from pubqueue.model.transactions import Version
from pubqueue.stores.sql import kept_messages as kept
from pubqueue.stores.sql.registrations import registration_of
from pubqueue.stores.sql.schedules import facts_of_schedule, schedule_of
from pubqueue.stores.sql.session import SqlSession
from pubqueue.stores.sql.writing import staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pubqueue.engine.rows import Needs, RowKind, Rows, Write
    from pubqueue.model.entities import NodeName
    from pubqueue.model.records import Registration
    from pubqueue.model.schedules import Schedule
    from pubqueue.stores.sql.session import Values

    Cells = tuple[Values, Values, Values]


def _made(_session: SqlSession, kind: RowKind[Any, Any], found: list[Any]) -> list[Any]:
    return [kind.row(*columns) for columns in found]


def _cells(_session: SqlSession, kind: RowKind[Any, Any], row: object) -> Cells:
    facts, key, guard = (
        tuple([getattr(row, field) for field in fields])
        for fields in (kind.facts, kind.key, kind.guard)
    )
    return facts, key, guard


def _write(session: SqlSession, kind: RowKind[Any, Any], writes: Sequence[Write[Any]]) -> None:
    """Write rows: first drop, then change and add."""
    sql = sql_of(kind)
    rows: dict[str, list[Values]] = {"drop": [], "change": [], "add": []}
    for write in writes:
        believed: Values = ()
        if write.before is not None:
            _, key, guard = sql.cells(session, kind, write.before)
            believed = *key, *guard
        if write.after is None:
            rows["drop"].append(believed)
        else:
            facts, key, _ = sql.cells(session, kind, write.after)
            rows["change" if believed else "add"].append((*facts, *(believed or key)))
    for what, values in rows.items():
        if sql.batched:
            session.each(f"{what}_{kind.one}", values)
        else:
            for each in values:
                session.must(f"{what}_{kind.one}", 1, *each)


class KindInSql(Struct, frozen=True):
    """How rows of a kind are loaded and written."""

    ask: Callable[[SqlSession, str, Any], Iterable[Any]] = SqlSession.ask_keys
    """Asks for the rows of keys, by the name of the statement."""
    made: Callable[[SqlSession, RowKind[Any, Any], list[Any]], list[Any]] = _made
    """Makes rows from their columns."""
    cells: Callable[[SqlSession, RowKind[Any, Any], Any], Cells] = _cells
    """Returns a row's facts, key and guard as columns."""
    batched: bool = False
    """Whether the statements that write take many rows at once (in PostgreSQL, arrays)."""
    write: Callable[[SqlSession, RowKind[Any, Any], Sequence[Write[Any]]], None] = _write


def load_kind(
    session: SqlSession, kind: RowKind[Any, Any], needs: Needs, rows: Rows
) -> Iterator[None]:
    """Ask for the rows of a kind; on the second step, make them."""
    sql = sql_of(kind)
    asked = sql.ask(session, kind.name, needs.of[kind])
    yield
    if found := list(asked):
        rows.of[kind] = sql.made(session, kind, found)


def sql_of(kind: RowKind[Any, Any]) -> KindInSql:
    """Return how rows of a kind are loaded and written."""
    return SQL.get(kind, PLAIN)


# --- kinds that differ ---


def _affiliations(session: SqlSession, _kind: object, found: list[Any]) -> list[AffiliationRow]:
    names = session.names({row[0] for row in found})
    return [AffiliationRow(names[node], jid, Affiliation(word)) for node, jid, word in found]


def _affiliation_cells(session: SqlSession, _kind: object, row: AffiliationRow) -> Cells:
    word = (row.affiliation.value,)
    return word, (session.known_id(row.node), row.account), word


def _finished(session: SqlSession, _kind: object, found: list[Any]) -> list[Finished]:
    names = session.names({row[0] for row in found})
    return [Finished(names[node], *facts) for node, *facts in found]


def _finished_cells(session: SqlSession, _kind: object, row: Finished) -> Cells:
    facts = row.digest, row.until
    return facts, (session.known_id(row.node), row.id), facts


def _ask_seeks(session: SqlSession, query: str, nodes: set[NodeName]) -> Iterable[Any]:
    ids = list(session.ids(nodes).values())
    return session.ask_keys(query, ids) if ids else ()


def _seeks(session: SqlSession, _kind: object, found: list[Any]) -> list[SeekMark]:
    names = session.names({row[0] for row in found})
    return [SeekMark(names[node], *facts) for node, *facts in found]


def _seek_cells(session: SqlSession, _kind: object, row: SeekMark) -> Cells:
    return (row.since, row.at, row.through), (session.known_id(row.node),), (row.at,)


def _answered(_session: SqlSession, _kind: object, found: list[Any]) -> list[Answered]:
    return [Answered(token, arrived != 0, until) for token, arrived, until in found]


def _answered_cells(_session: SqlSession, _kind: object, row: Answered) -> Cells:
    arrived = int(row.arrived)
    return (arrived, row.until), (row.token,), (arrived,)


_IDS: Final = json.Decoder(tuple[ItemId, ...])


def _used_keys(_session: SqlSession, _kind: object, found: list[Any]) -> list[UsedKey]:
    return [
        UsedKey(mark, account, content, until, size, _IDS.decode(ids), _IDS.decode(known))
        for mark, account, content, until, size, ids, known in found
    ]


def _used_key_cells(_session: SqlSession, _kind: object, row: UsedKey) -> Cells:
    answer = [json.encode(ids).decode() for ids in (row.ids, row.known)]
    return (row.account, row.content, row.until, row.size, *answer), (row.mark,), (row.until,)


def _versions(_session: SqlSession, _kind: object, found: list[Any]) -> list[Version]:
    return [
        Version(app, number, owner, immediate != 0, *facts)
        for app, number, owner, immediate, *facts in found
    ]


def _ask_staged(session: SqlSession, query: str, keys: set[StagedKey]) -> Iterable[Any]:
    lists: dict[tuple[object, ...], dict[str, list[str]]] = {}
    for key in keys:
        nodes = lists.setdefault((key.app, key.version, key.part, key.attempt), {})
        nodes.setdefault(key.node, []).append(key.id)
    return session.ask_keys(query, [(*place, nodes) for place, nodes in lists.items()])


def _staged(_session: SqlSession, _kind: object, found: list[Any]) -> list[StagedSize]:
    return [StagedSize(StagedKey(*row[:-1]), row[-1]) for row in found]


def _ask_noted(session: SqlSession, query: str, keys: set[NotedKey]) -> Iterable[Any]:
    lists: dict[tuple[object, ...], dict[str, list[str]]] = {}
    for key in keys:
        lists.setdefault((key.app, key.version), {}).setdefault(key.node, []).append(key.id)
    return session.ask_keys(query, [(*place, nodes) for place, nodes in lists.items()])


def _noted(_session: SqlSession, _kind: object, found: list[Any]) -> list[NotedRow]:
    """Take one of the attempts that noted an id: all noted the same."""
    rows: dict[NotedKey, NotedRow] = {}
    for *place, payload, known in found:
        key = NotedKey(*place)
        rows.setdefault(key, NotedRow(key, payload, known != 0))
    return list(rows.values())


def _registrations(_session: SqlSession, _kind: object, found: list[Any]) -> list[Registration]:
    return [registration_of(row) for row in found]


def _schedules(_session: SqlSession, _kind: object, found: list[Any]) -> list[Schedule]:
    return [schedule_of(row) for row in found]


def _schedule_cells(_session: SqlSession, _kind: object, row: Schedule) -> Cells:
    return facts_of_schedule(row), (row.name,), (row.revision,)


PLAIN: Final = KindInSql()

# fmt: off
SQL: Final[dict[RowKind[Any, Any], KindInSql]] = {
    AFFILIATIONS: KindInSql(ask=SqlSession.ask_by_node, made=_affiliations, cells=_affiliation_cells),
    FINISHED:     KindInSql(ask=SqlSession.ask_by_node, made=_finished, cells=_finished_cells, batched=True),
    SEEKS:        KindInSql(ask=_ask_seeks, made=_seeks, cells=_seek_cells),
    SETTLED:      KindInSql(batched=True),
    USED_KEYS:    KindInSql(made=_used_keys, cells=_used_key_cells, batched=True),
    KEY_TOTALS:   KindInSql(batched=True),
    PING_ANSWERS: KindInSql(batched=True),
    ANSWERED:     KindInSql(made=_answered, cells=_answered_cells, batched=True),
    KEPT_MESSAGES: KindInSql(made=kept.messages, cells=kept.cells, batched=True),
    MESSAGE_TOTALS: KindInSql(batched=True),
    VERSIONS:     KindInSql(made=_versions, write=staging.write_versions),
    ATTEMPTS:     KindInSql(write=staging.write_attempts),
    WAITING:      KindInSql(write=staging.write_waiting),
    REGISTRATIONS: KindInSql(made=_registrations),
    SCHEDULES:    KindInSql(made=_schedules, cells=_schedule_cells),
    STAGED:       KindInSql(ask=_ask_staged, made=_staged),
    NOTED:        KindInSql(ask=_ask_noted, made=_noted),
}
# fmt: on
