"""How connections and databases are told apart, and what is refused."""

import sqlite3
from contextlib import closing

import pytest
from django.db import connections
from harness.databases.outboxes import alias_of
from sqlalchemy import create_engine

from pubqueue import ConfigurationError, Outbox
from pubqueue_xeps.outbox.databases import database, source


@pytest.mark.parametrize("connection", [object(), 7, sqlite3])
def test_what_is_no_connection_is_refused(connection):
    with pytest.raises(TypeError, match="is not a connection that an outbox knows"):
        Outbox().add(connection, "jobs", 1)


async def test_a_connection_with_coroutines_of_its_own_is_refused(running_postgres):
    import psycopg  # noqa: PLC0415 - its asyncio is used here alone

    url = f"postgresql://postgres@{running_postgres.host}:{running_postgres.port}/queues"
    async with await psycopg.AsyncConnection.connect(url) as connection:
        with pytest.raises(TypeError, match=r"psycopg\.AsyncConnection is not"):
            database(connection)


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("mysql://u@h/d", "A database at mysql:// cannot have an outbox"),
        ("sqlite://", "names a file"),
        ("sqlite:///:memory:", "names a file"),
    ],
)
def test_a_url_that_is_none_of_ours_is_refused(where, error):
    with pytest.raises(ConfigurationError, match=error) as raised:
        source(where)
    assert raised.value.argument == "database"


def test_what_is_no_database_is_refused():
    with pytest.raises(TypeError, match=r"builtins\.int is no database"):
        source(7)


# Without a transaction an item would be published whatever becomes of the user's own changes.


def refuses(place, connection):
    with pytest.raises(RuntimeError, match="not in a transaction"):
        place.outbox.add(connection, "jobs", 1)
    assert place.rows() == []


def test_autocommit_of_a_driver_is_refused(place):
    with closing(place.connect()) as connection:
        if isinstance(connection, sqlite3.Connection):
            connection.isolation_level = None
        else:
            connection.autocommit = True
        refuses(place, connection)
        connection.execute("BEGIN")
        place.outbox.add(connection, "jobs", 1)
        connection.execute("COMMIT")
        assert len(place.rows()) == 1


def test_autocommit_of_sqlalchemy_is_refused(place):
    url = place.url.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        refuses(place, connection)
    engine.dispose()


def test_django_outside_of_atomic_is_refused(place):
    alias = alias_of(place)
    refuses(place, alias)
    connections[alias].close()
