"""What `pubqueue doctor --config` checks on the host of the service: its configuration, its store, its disk.

The store is only read, while the service uses it.
"""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urlsplit

from pubqueue.cli.output import bad, good, look
from pubqueue.config.alerts import shown_target
from pubqueue.config.loading import load
from pubqueue.config.users import locked_out, summary, users_of
from pubqueue.faces.checks import ConfigError
from pubqueue.faces.table import FACES
from pubqueue.operations.model import count
from pubqueue.stores import shown_address
from pubqueue.stores.reading_errors import in_the_way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pubqueue.cli.output import Finding
    from pubqueue.config.settings import Settings


LITTLE: Final = 1 << 30
TOO_LITTLE: Final = 100 << 20
"""Bytes that are free."""


def local_findings(config: Path) -> Iterator[Finding]:
    """Check everything, and yield each finding as it comes."""
    try:
        settings = load(config, {}, with_secret=False)
    except ConfigError as problem:
        yield bad("configuration", str(problem))
        return
    yield good(
        "configuration", f"{config} can be read, {count(len(settings.node), 'declared node')}"
    )
    yield from _declared(settings)
    yield from _users(settings)
    if settings.server:
        try:
            settings.shared_secret()
        except (
            ConfigError
        ) as problem:  # the service may have it all the same: systemd hands it over
            yield look("secret", str(problem))
        yield _reached("component port", settings.server, settings.address())
    yield from _addresses(settings)
    if targets := settings.alerts.targets:
        yield good("alerts", f"they go to {', '.join(map(shown_target, targets))}")
    address = urlsplit(settings.store)
    if address.scheme == "sqlite":
        yield from _file(Path(unquote(address.path).replace("//", "/", 1)))
    elif address.scheme == "postgresql":
        yield from _database(settings.store)
    kept = f"events are kept for {settings.event_log_days:g} days, up to {settings.event_log_size}"
    yield good("event log", kept)


def _declared(settings: Settings) -> Iterator[Finding]:
    """Yield declared queues that name a node which the file does not declare; it may have been created otherwise."""
    names = {node.name for node in settings.node}
    for node in settings.node:
        target = node.options.get("x-queueing#dead_letter_node")
        if target and target not in names:
            sentence = f"dead items of {node.name} go to {target}, which the file does not declare"
            yield look("configuration", sentence)
        source = node.options.get("x-queueing#source")
        if source and source not in names:
            sentence = f"{node.name} is fed by {source}, which the file does not declare"
            yield look("configuration", sentence)


def _users(settings: Settings) -> Iterator[Finding]:
    """Yield how many users the file has, and those without a way to log in."""
    if users := users_of(settings):
        yield good("users", summary(users))
        for sentence in locked_out(users):
            yield look("users", sentence)


def _addresses(settings: Settings) -> Iterator[Finding]:
    """Check the places where faces are to be served; a place of the system's choice is not known."""
    asked = [each for row in FACES.values() for each in row.asked(settings)]
    for about, places in asked:
        for place in places:
            if place.port:
                yield _reached(about, place.shown, (place.host or "localhost", place.port))


def _reached(about: str, shown: str, address: tuple[str, int]) -> Finding:
    try:
        with closing(socket.create_connection(address, 5)):
            return good(about, f"{shown} can be reached")
    except OSError as problem:
        return bad(about, f"{shown} cannot be reached: {problem.strerror or problem}")


def _file(path: Path) -> Iterator[Finding]:
    """Check a store of SQLite: its disk, and its pages."""
    if not os.path.exists(path):  # false as well where this user may not look
        why = in_the_way(path)
        unseen = f"cannot be seen{why}" if why else "does not exist; `pubqueue serve` creates it"
        yield bad("store", f"{path} {unseen}")
        return
    free = shutil.disk_usage(path.parent).free
    sentence = f"{free >> 20} MiB are free on the disk of {path}"
    if free < TOO_LITTLE:
        yield bad("disk", sentence)
    else:
        yield look("disk", sentence) if free < LITTLE else good("disk", sentence)
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as store:
            (result,) = store.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as problem:
        yield bad("store", f"{path} cannot be read: {problem}{in_the_way(path)}")
        return
    size = path.stat().st_size
    if result == "ok":
        yield good("store", f"{path} is intact, {size >> 10} KiB")
    else:
        yield bad("store", f"{path} is damaged: {result}")


def _database(address: str) -> Iterator[Finding]:
    """Check a store of PostgreSQL: whether it answers, and what its settings may lose."""
    try:
        import psycopg  # noqa: PLC0415  # an extra

        from pubqueue.stores.postgres.schema import doubts  # noqa: PLC0415
    except ImportError:
        yield bad("store", "postgresql:// needs psycopg: install pubqueue[postgres]")
        return
    try:
        with psycopg.connect(address, connect_timeout=5, cursor_factory=psycopg.RawCursor) as store:
            size = store.execute("SELECT pg_database_size(current_database())").fetchone()
            sentences = doubts(store)
    except psycopg.Error as problem:
        why = str(problem).strip().splitlines()[0] if str(problem).strip() else "no answer"
        yield bad("store", f"{shown_address(address)} cannot be used: {why}")
        return
    yield good("store", f"{shown_address(address)} answers, {(size or (0,))[0] >> 20} MiB")
    for sentence in sentences:
        yield look("store", sentence)
