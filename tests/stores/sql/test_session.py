"""The statements that both stores say alike stand once."""

import re

import pytest
from harness.stores.rows import needs_of
from msgspec.structs import replace
from stores.steps import EMPTY, make

from pubqueue.model.changes import CreateNode
from pubqueue.model.entities import NodeName
from pubqueue.stores.postgres import schema as postgres
from pubqueue.stores.sql.session import NodeIds, common, own
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.stores.sqlite import schema as sqlite

DIALECTS = [sqlite, postgres]


def plain(text):
    """Return a statement without what only says the same in other words: placeholders, casts, lists, lines."""
    if "$" not in text:
        places = iter(range(1, 99))
        text = re.sub(r"\?(\d*)", lambda at: f"${at[1] or next(places)}", text)
    text = re.sub(r"::\w+(\[\])?", "", text)
    text = re.sub(r"\(SELECT value FROM json_each\((\S+)\)\)", r"%(list \1)s", text)
    text = re.sub(r"\(SELECT json_array_elements_text\((\S+)\)\)", r"%(list \1)s", text)
    text = " ".join(re.sub(r"--.*", "", text).split())
    ignoring = re.fullmatch(r"INSERT OR IGNORE (INTO .* VALUES \([^()]*\))", text)
    return f"INSERT {ignoring[1]} ON CONFLICT DO NOTHING" if ignoring else text


def alike(one, other):
    """Return the names under which both say the same."""
    return sorted(
        name for name in one.keys() & other.keys() if plain(one[name]) == plain(other[name])
    )


def test_a_statement_that_is_the_same_in_both_dialects_is_a_common_one():
    assert alike(own(sqlite.__package__), own(postgres.__package__)) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_dialect_repeats_a_common_statement(dialect):
    said = {name: dialect.DIALECT.write(text) for name, text in common().items()}
    assert alike(own(dialect.__package__), said) == []


def test_a_common_statement_is_that_of_both():
    assert not common().keys() & own(sqlite.__package__).keys() & own(postgres.__package__).keys()
    assert len(common()) > 80


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a FROM t WHERE b = ? AND c = ?", "SELECT a\n    FROM t WHERE b = $1 AND c = $2"),
        ("SELECT ?2, ?1", "SELECT $2::bigint, $1"),
        (
            "a IN (SELECT value FROM json_each(?3))",
            "a IN (SELECT json_array_elements_text($3::json))",
        ),
        (
            "INSERT OR IGNORE INTO t (a) VALUES (?)",
            "INSERT INTO t (a) VALUES ($1) ON CONFLICT DO NOTHING",
        ),
    ],
)
def test_what_is_the_same_in_other_words_is_seen(one, other):
    assert alike({"it": one}, {"it": other}) == ["it"]
    assert alike({"it": one}, {"it": other + " LIMIT 1"}) == []


def test_a_common_statement_is_written_in_each_dialect():
    text = "SELECT a::text FROM t %(join)s u ON u.b = $2::bigint WHERE c IN %(list 1)s"
    assert sqlite.DIALECT.write(text) == (
        "SELECT a FROM t CROSS JOIN u ON u.b = ?2 WHERE c IN (SELECT value FROM json_each(?1))"
    )
    assert postgres.DIALECT.write(text) == (
        "SELECT a::text FROM t JOIN u ON u.b = $2::bigint"
        " WHERE c IN (SELECT json_array_elements_text($1::json))"
    )


class CountedName(str):
    """A name that counts how often its hash is taken, which is once for each look at it."""

    __slots__ = ()
    looks = 0

    def __hash__(self):
        CountedName.looks += 1
        return super().__hash__()


class NoRows:
    """A store that is asked for nothing."""

    def rows(self, query, *values):
        raise AssertionError((query, values))


@pytest.mark.parametrize("many", [10, 1_000])
def test_the_id_of_a_known_node_is_found_without_a_look_at_all_others(many):
    names = [CountedName(f"queue{number}") for number in range(many)]
    ids = NodeIds()
    for number, name in enumerate(names):
        ids.note(name, number)
        ids.note_contents(name, number)
    CountedName.looks = 0
    assert ids.ids(NoRows(), [names[3]])["queue3"] == 3
    assert ids.contents(NoRows(), [names[3]])["queue3"] == 3
    assert ids.names(NoRows(), {3})[3] == "queue3"
    assert ids.holding(NoRows(), {3})[3] == "queue3"
    assert ids.knows([names[3]])
    assert CountedName.looks < 10


async def test_only_the_marks_of_the_asked_queues_are_read(tmp_path):
    store = SqliteStore(tmp_path / "queue.db")
    await store.open()
    names = [NodeName(f"queue{number}") for number in range(9)]
    await make(store, *(CreateNode(replace(EMPTY, name=name)) for name in names))
    run = []

    def look(tx):
        tx.load(needs_of(nodes=set(names)))
        store.connection.raw.set_trace_callback(run.append)
        return tx.load(needs_of(seeks={names[3]}))

    await store.batch(look)
    await store.close()
    asked = [line for line in run if "JOIN seek" in line or "FROM seek" in line]
    assert [line.count("[4]") for line in asked] == [1], run
