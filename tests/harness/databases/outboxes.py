"""The databases and the kinds of connection that an outbox knows, each by its name."""

import inspect
import os
import sqlite3
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from itertools import count

import psycopg
from django import setup
from django.conf import settings
from django.db import connections, transaction
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from pubqueue import Outbox

NUMBERS = count()

os.environ.setdefault(
    "DJANGO_ALLOW_ASYNC_UNSAFE", "1"
)  # a test has a loop, which waits for nothing meanwhile


async def result(found):
    """Return what an outbox returns, of either kind of connection."""
    return await found if inspect.isawaitable(found) else found


@dataclass
class Place:
    """A database with an outbox."""

    outbox: Outbox
    url: str

    def connect(self):
        if self.url.startswith("sqlite"):
            return sqlite3.connect(self.url.removeprefix("sqlite:///"))
        return psycopg.connect(self.url)

    def add(self, *args, **kwargs):
        """Add an item in a transaction of its own."""
        with closing(self.connect()) as connection:
            name = self.outbox.add(connection, *args, **kwargs)
            connection.commit()
            return name

    def do(self, name, **kwargs):
        """Do something with refused rows, or count."""
        with closing(self.connect()) as connection:
            found = getattr(self.outbox, name)(connection, **kwargs)
            connection.commit()
            return found

    def execute(self, sql):
        """Run a statement of the test's own, and commit it."""
        with closing(self.connect()) as connection:
            connection.execute(sql)
            connection.commit()

    def rows(self, columns="node, id"):
        with closing(self.connect()) as connection:
            found = connection.execute(f"SELECT {columns} FROM {self.outbox.table} ORDER BY seq")
            return found.fetchall()


# kinds of connection: each yields one in a transaction, which is committed unless the block raises


@asynccontextmanager
async def direct(place):
    with closing(place.connect()) as connection:
        yield connection
        connection.commit()


@asynccontextmanager
async def session(place):
    engine = create_engine(place.url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with Session(engine) as made, made.begin():
            yield made
    finally:
        engine.dispose()


@asynccontextmanager
async def connection(place):
    engine = create_engine(place.url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.begin() as made:
            yield made
    finally:
        engine.dispose()


def async_engine(place):
    url = place.url.replace("postgresql:", "postgresql+psycopg:")
    return create_async_engine(url.replace("sqlite:", "sqlite+aiosqlite:"))


@asynccontextmanager
async def async_session(place):
    engine = async_engine(place)
    try:
        async with AsyncSession(engine) as made, made.begin():
            yield made
    finally:
        await engine.dispose()


@asynccontextmanager
async def async_connection(place):
    engine = async_engine(place)
    try:
        async with engine.begin() as made:
            yield made
    finally:
        await engine.dispose()


def alias_of(place):
    """Return the alias of the database in Django, of which there is one in each process."""
    if not settings.configured:
        memory = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
        settings.configure(DATABASES={"default": memory}, USE_TZ=True, LOGGING_CONFIG=None)
        setup()
    alias = f"outbox{next(NUMBERS)}"
    if place.url.startswith("sqlite"):
        given = {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": place.url.removeprefix("sqlite:///"),
        }
    else:
        info = psycopg.conninfo.conninfo_to_dict(place.url)
        given = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": info["dbname"],
            "USER": info["user"],
            "HOST": info["host"],
            "PORT": info["port"],
        }
    connections.databases[alias] = connections.configure_settings({"default": {}, alias: given})[
        alias
    ]
    return alias


@asynccontextmanager
async def django(place):
    alias = alias_of(place)
    try:
        with transaction.atomic(using=alias):
            yield connections[alias]
    finally:
        connections[alias].close()


@asynccontextmanager
async def django_alias(place):
    alias = alias_of(place)
    try:
        with transaction.atomic(using=alias):
            yield alias
    finally:
        connections[alias].close()


KINDS = {
    one.__name__: one
    for one in (direct, session, connection, async_session, async_connection, django, django_alias)
}


def made(url):
    place = Place(Outbox("outbox_of_tests"), url)
    with closing(place.connect()) as opened:
        opened.execute("DROP TABLE IF EXISTS outbox_of_tests")
        place.outbox.create_table(opened)
        opened.commit()
    return place
