"""`pubqueue outbox`: what operators type, and the sentences for what is wrong."""

import sqlite3

import pytest
from click.testing import CliRunner
from harness.databases.outboxes import made

from pubqueue.cli import main


def run(*words, **environment):
    return CliRunner().invoke(main, ["outbox", *map(str, words)], env=environment)


@pytest.fixture
def place(tmp_path):
    return made(f"sqlite:///{tmp_path / 'shop.db'}")


@pytest.fixture
def refused(place):
    for name in ("a", "b", "c"):
        place.add("jobs", 1, id=name)
    place.execute("UPDATE outbox_of_tests SET refused = 'no\n\x1b[2J' WHERE id <> 'c'")
    return ("--database", place.url, "--table", place.outbox.table)


def test_refused_rows_are_listed_retried_and_dropped(place, refused):
    listed = run("list", *refused)
    assert listed.output == "1 waiting, 2 refused\njobs  a  no \\x1b[2J\njobs  b  no \\x1b[2J\n"
    assert run("retry", *refused, "--id", "a").output == "1 to be published again\n"
    assert run("drop", *refused, input="n\n").exit_code == 1
    assert run("drop", *refused, "--node", "jobs", "--yes").output == "1 deleted\n"
    assert place.rows("id, refused") == [("a", None), ("c", None)]


def test_the_database_may_be_in_the_environment(place, refused):
    found = run("list", *refused[2:], DATABASE_URL=place.url)
    assert found.output.startswith("1 waiting, 2 refused\n")


def test_the_statements_are_those_that_create_the_table(tmp_path):
    printed = run("sql", "--dialect", "sqlite", "--table", "mine").output
    with sqlite3.connect(tmp_path / "new.db") as connection:
        connection.executescript(printed)
        assert connection.execute("SELECT COUNT(*) FROM mine").fetchone() == (0,)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("list", "--database", "mysql://h/d"), 2, "a database at mysql:// cannot have an outbox"),
        (("list", "--database", "no_alias"), 2, "no_alias is no URL"),
        (
            ("list", "--database", "sqlite:////no/such/folder/x.db"),
            1,
            "the database: unable to open",
        ),
        (("sql", "--dialect", "sqlite", "--table", "a b"), 2, "table is 'a b'"),
        (("relay", "--database", "sqlite:///x.db", "--url", "xmpp://a@b"), 2, "not of the form"),
    ],
)
def test_what_is_wrong_is_one_sentence(words, code, sentence):
    found = run(*words, PUBQUEUE_PASSWORD="x")
    assert (found.exit_code, found.output.count("\n")) == (code, 1)
    assert sentence.lower() in found.output.lower()


def test_a_relay_without_its_table_ends(tmp_path):
    url = "xmpp://etl@localhost/queue.localhost?host=127.0.0.1&port=7&tls=off"
    database = f"sqlite:///{tmp_path / 'empty.db'}"
    found = run("relay", "--database", database, "--url", url, PUBQUEUE_PASSWORD="x")
    assert found.exit_code == 1
    assert found.output == "pubqueue: the database: no such table: pubqueue_outbox\n"
