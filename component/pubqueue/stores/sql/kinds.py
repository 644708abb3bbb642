"""How SQL loads, writes and pages the rows of each kind."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct, json
from msgspec.structs import replace

from pubqueue.engine import listings as li
from pubqueue.engine.rows import (
    AFFILIATIONS,
    ANSWERED,
    APPS,
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
    Finished,
    NotedKey,
    NotedRow,
    StagedKey,
    StagedSize,
)
from pubqueue.model import records
from pubqueue.model.entities import ItemId, Jid, Millis, NodeName
from pubqueue.model.schedules import Definition, Schedule, Source
from pubqueue.model.sums import DAMAGED, has_key, key_half
from pubqueue.model.transactions import App, Version
from pubqueue.stores.sql import commits
from pubqueue.stores.sql.columns import affiliation_of, covered_sum, is_whole
from pubqueue.stores.sql.session import SqlSession, packed_keys, paged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pubqueue.engine.rows import AffiliationRow, Needs, RowKind, Rows, Write
    from pubqueue.model.changes import NoteSamples
    from pubqueue.stores.sql.session import Values

    Cells = tuple[Values, Values, Values]


# Messages of assured service.


def messages(_session: object, _kind: object, found: Iterable[Any]) -> list[records.KeptMessage]:
    """Return the messages of these rows, without their bytes."""
    return [
        records.KeptMessage(
            *(mark, sender, account, msg_id, iq_id),
            bytes(digest),
            byte_count,
            held=held != 0,
            answer=answer,
            until=until,
        )
        for mark, sender, account, msg_id, iq_id, digest, byte_count, held, answer, until in found
    ]


def cells(
    _session: object, _kind: object, row: records.KeptMessage
) -> tuple[Values, Values, Values]:
    """Return a message's facts, key and guard; one that has ended has no bytes."""
    held = int(row.held)
    facts = row.sender, row.account, row.msg_id, row.iq_id, row.digest, row.byte_count, held
    more = row.answer, row.until, row.message if row.held else None
    return (*facts, *more), (row.mark,), (row.digest, held, row.until)


def _bytes(session: SqlSession, which: li.MessageBytes, _after: None, limit: int) -> list[bytes]:
    return [bytes(message) for (message,) in session.rows("message_bytes", which.mark, limit)]


def _message_of(
    session: SqlSession, which: li.MessagesOf, _after: None, limit: int
) -> list[records.KeptMessage]:
    rows = session.rows("messages_of", which.account, int(which.held), limit)
    return messages(None, None, rows)


MESSAGE_PAGES: Final[dict[type, Callable[[SqlSession, Any, Any, int], list[Any]]]] = {
    li.MessageBytes: _bytes,
    li.MessagesOver: lambda session, which, _after, limit: messages(
        None, None, session.rows("messages_over", which.now, limit)
    ),
    li.MessagesOf: _message_of,
    li.MessageAccounts: paged(
        "message_accounts", "", lambda _, rows: [records.AccountMessages(*row) for row in rows]
    ),
}


# How SQL loads and writes the rows of each kind.
#
# A kind has four statements. The one with its name loads rows, whose columns are the fields of a row in their order; `add_`,
# `change_` and `drop_` write one row. `add_` takes the facts and the key, `change_` these and the guard, `drop_` the key and
# the guard. `SQL` has the kinds that differ from that.


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
    if (found := list(asked)) and (made := sql.made(session, kind, found)):
        rows.of[kind] = made


def sql_of(kind: RowKind[Any, Any]) -> KindInSql:
    """Return how rows of a kind are loaded and written."""
    return SQL.get(kind, PLAIN)


# --- kinds that differ ---


def _affiliations(session: SqlSession, _kind: object, found: list[Any]) -> list[AffiliationRow]:
    names = session.names({row[0] for row in found})
    return [affiliation_of(names[node], node, *rest) for node, *rest in found]


def _affiliation_cells(session: SqlSession, _kind: object, row: AffiliationRow) -> Cells:
    word, key = row.affiliation.value, (session.known_id(row.node), row.account)
    known = covered_sum("affiliation", (*key, word))
    return (word, known), key, ("" if row.damaged else word,)


def _finished(session: SqlSession, _kind: object, found: list[Any]) -> list[Finished]:
    names = session.names({row[0] for row in found})
    return [Finished(names[node], *facts) for node, *facts in found]


def _finished_cells(session: SqlSession, _kind: object, row: Finished) -> Cells:
    facts = row.digest, row.until
    return facts, (session.known_id(row.node), row.id), facts


def _ask_seeks(session: SqlSession, query: str, nodes: set[NodeName]) -> Iterable[Any]:
    known = session.ids(nodes)
    ids = sorted(known[node] for node in nodes if node in known)
    return session.ask_keys(query, ids) if ids else ()


def _seeks(session: SqlSession, _kind: object, found: list[Any]) -> list[records.SeekMark]:
    names = session.names({row[0] for row in found})
    return [records.SeekMark(names[node], *facts) for node, *facts in found]


def _seek_cells(session: SqlSession, _kind: object, row: records.SeekMark) -> Cells:
    return (row.since, row.at, row.through), (session.known_id(row.node),), (row.at,)


def _answered(_session: SqlSession, _kind: object, found: list[Any]) -> list[records.Answered]:
    return [records.Answered(token, arrived != 0, until) for token, arrived, until in found]


def _answered_cells(_session: SqlSession, _kind: object, row: records.Answered) -> Cells:
    arrived = int(row.arrived)
    return (arrived, row.until), (row.token,), (arrived,)


_IDS: Final = json.Decoder(tuple[ItemId, ...])


def _used_keys(_session: SqlSession, _kind: object, found: list[Any]) -> list[records.UsedKey]:
    return [
        records.UsedKey(mark, account, content, until, size, _IDS.decode(ids), _IDS.decode(known))
        for mark, account, content, until, size, ids, known in found
    ]


def _used_key_cells(_session: SqlSession, _kind: object, row: records.UsedKey) -> Cells:
    answer = [json.encode(ids).decode() for ids in (row.ids, row.known)]
    return (row.account, row.content, row.until, row.size, *answer), (row.mark,), (row.until,)


def _ask_apps(session: SqlSession, query: str, names: set[str]) -> Iterable[Any]:
    return session.ask_keys(query, [(name, key_half(name)) for name in names])


def _apps(_session: SqlSession, _kind: object, found: list[Any]) -> list[App]:
    """Make apps; a row that has another name, and the checksum of the one that was asked for, is that of a damaged app."""
    rows: dict[str, App] = {}
    for asked, name, owner, version, committed, used, known in found:
        whole = is_whole("txn_app", known, (name, owner, version, committed))
        if whole and name == asked:
            rows.setdefault(asked, App(name, owner, version, committed, used))
        elif name == asked or (not whole and has_key(known, asked)):
            rows[asked] = App(asked, owner, version, committed, used, damaged=True)
    return list(rows.values())


def _app_cells(_session: SqlSession, _kind: object, row: App) -> Cells:
    mark = row.owner, row.version, row.committed
    known = covered_sum("txn_app", (row.name, *mark), damaged=row.damaged)
    return (*mark, row.used, known), (row.name,), (row.owner, row.version)


def _versions(_session: SqlSession, _kind: object, found: list[Any]) -> list[Version]:
    """Make open versions: of committed ones that are whole there is none."""
    rows = []
    for app, items, size, *columns, known in found:
        _, number, owner, immediate, began, until, committed, *_ = columns
        whole = is_whole("txn", known, columns)
        if committed is None or not whole:
            times = began, until
            one = Version(app, number, owner, immediate != 0, *times, items, size, not whole)
            rows.append(one)
    return rows


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


def _registrations(
    _session: SqlSession, _kind: object, found: list[Any]
) -> list[records.Registration]:
    return [registration_of(row) for row in found]


def _schedules(_session: SqlSession, _kind: object, found: list[Any]) -> list[Schedule]:
    return [schedule_of(row) for row in found]


def _schedule_cells(_session: SqlSession, _kind: object, row: Schedule) -> Cells:
    facts = facts_of_schedule(row)
    known = covered_sum("schedule", (row.name, *facts))
    return (*facts, known), (row.name,), (row.revision,)


def _write_schedules(session: SqlSession, kind: Any, writes: Sequence[Write[Schedule]]) -> None:  # noqa: ANN401  # of schedules
    """Write schedules; what is damaged has no turn any more, and stays as it is."""
    for write in writes:
        if write.after is not None and write.after.damaged:
            session.must("stop_schedule", 1, write.after.name, write.after.revision)
    _write(session, kind, [one for one in writes if one.after is None or not one.after.damaged])


def _registration_cells(session: SqlSession, kind: Any, row: records.Registration) -> Cells:  # noqa: ANN401  # of registrations
    facts, key, guard = _cells(session, kind, row)
    known = covered_sum("registration", (*key, *facts[:-1]), damaged=row.damaged)
    return (*facts[:-1], known), key, guard


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
    KEPT_MESSAGES: KindInSql(made=messages, cells=cells, batched=True),
    MESSAGE_TOTALS: KindInSql(batched=True),
    APPS:         KindInSql(ask=_ask_apps, made=_apps, cells=_app_cells),
    VERSIONS:     KindInSql(made=_versions, write=commits.write_versions),
    ATTEMPTS:     KindInSql(write=commits.write_attempts),
    WAITING:      KindInSql(write=commits.write_waiting),
    REGISTRATIONS: KindInSql(made=_registrations, cells=_registration_cells),
    SCHEDULES:    KindInSql(made=_schedules, cells=_schedule_cells, write=_write_schedules),
    STAGED:       KindInSql(ask=_ask_staged, made=_staged),
    NOTED:        KindInSql(ask=_ask_noted, made=_noted),
}
# fmt: on


# What is kept for later: bundles of notices for an instance, and publishes that are not fed on yet.

HIGHEST: Final = "\x7f"
"""Greater than everything that follows the prefix of a mark."""


def _to(
    session: SqlSession, which: li.ForwardedTo, _after: None, limit: int
) -> list[records.Forwarded]:
    begin = which.beginning
    return [
        records.Forwarded(mark, bytes(notices))
        for mark, notices in session.rows("forwarded_to", begin, begin + HIGHEST, limit)
    ]


def _unfed(session: SqlSession, _which: li.Unfed, _after: None, limit: int) -> list[str]:
    return [mark for (mark,) in session.rows("unfed", limit)]


FORWARDED_PAGES: Final[dict[type, Callable[[SqlSession, Any, Any, int], list[Any]]]] = {
    li.ForwardedTo: _to,
    li.Unfed: _unfed,
}


# Pages of registrations.


def _registration_of(
    session: SqlSession, which: li.RegistrationsOf, after: str | None, limit: int
) -> list[records.Registration]:
    found = session.rows(
        "registrations_of", after or "", which.account or "", which.node or "", limit
    )
    made = map(registration_of, found)
    return [one for one in made if not one.damaged or not (which.account or which.node)]


def registration_of(row: Any) -> records.Registration:  # noqa: ANN401  # columns of either driver
    """Make a registration from its columns."""
    *columns, known = row
    name, account, node, queueing, words, disabled, *rest = columns
    if not is_whole("registration", known, columns):
        nothing = Jid(""), NodeName("")
        return records.Registration(
            *(name, *nothing, queueing != 0, b"", True),
            error=DAMAGED,
            revision=rest[-1],
            damaged=True,
        )
    return records.Registration(
        name, account, node, queueing != 0, bytes(words), disabled != 0, *rest
    )


REGISTRATION_PAGES: Final[dict[type, Callable[[SqlSession, Any, Any, int], list[Any]]]] = {
    li.RegistrationsOf: _registration_of
}


# Samples of the last hours, a row for each node and minute.


def note_samples(session: SqlSession, change: NoteSamples) -> None:
    """Add samples to the stored ones, and drop the oldest."""
    ids = session.ids({sample.node for sample in change.samples})
    rows = [
        (
            *(ids[one.node], one.at, one.queued, one.locked, one.delayed, one.dead),
            *(one.published, one.delivered, one.completed, one.failed, one.waited, one.longest),
        )
        for one in change.samples
        if one.node in ids
    ]
    session.many("add_sample", rows)
    session.run("drop_samples", change.before, change.limit)


def _samples(
    session: SqlSession, which: li.Samples, _after: object, limit: int
) -> list[records.Sample]:
    rows = session.rows("samples", packed_keys(sorted(set(which.nodes))), which.since, limit)
    return [records.Sample(*row) for row in rows]


SAMPLE_PAGES: Final[dict[type, Callable[[SqlSession, Any, Any, int], list[Any]]]] = {
    li.Samples: _samples
}


# The rows of schedules, which no other rows refer to.


_DEFINITION: Final = json.Decoder(Definition)


@lru_cache(maxsize=256)
def _definition(text: str) -> Definition:
    return _DEFINITION.decode(text)


def schedule_of(row: Sequence[Any]) -> Schedule:
    """Make a schedule from its columns."""
    *columns, known = row
    name, definition, source, author, through, due, last, error, tries, paused, revision = columns
    if not is_whole("schedule", known, columns):
        unknown = Definition(name, "", "", NodeName(""), b"")
        its = Source.FILE if source == Source.FILE.value else Source.COMMAND, Jid("")
        paused = Schedule(unknown, *its, Millis(0), due, error=DAMAGED, paused=True)
        return replace(paused, revision=revision, damaged=True)
    state = through, due, last, error, tries, paused != 0, revision
    return Schedule(_definition(definition), Source(source), author, *state)


def facts_of_schedule(one: Schedule) -> Values:
    """Return the columns of a schedule, without its name."""
    definition = msgspec.json.encode(one.definition).decode()
    state = one.fired_through, one.due, one.last, one.error, one.tries, int(one.paused)
    return definition, one.source.value, one.by, *state, one.revision


def _due(session: SqlSession, which: li.DueSchedules, _after: object, limit: int) -> list[str]:
    return [row[0] for row in session.rows("due_schedules", which.now, limit)]


SCHEDULE_PAGES: Final[dict[type, Callable[[SqlSession, Any, Any, int], list[Any]]]] = {
    li.Schedules: paged("all_schedules", "", lambda _, rows: [*map(schedule_of, rows)]),
    li.DueSchedules: _due,
}
