"""Reloads the configuration while the service runs: applies what it can, and logs the settings that need a restart."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import structlog
from msgspec import Struct
from msgspec.structs import replace

from pubqueue import logs
from pubqueue.config import nodes
from pubqueue.config.users import locals_of, service_of, users_of
from pubqueue.engine.context import Terms
from pubqueue.engine.face import RETRY
from pubqueue.engine.ports import UnreachableStoreError, waited_for
from pubqueue.faces.checks import ConfigError
from pubqueue.faces.table import FACES
from pubqueue.model.entities import seconds
from pubqueue.rules.read import Trim

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.config.settings import Settings
    from pubqueue.engine.broker import Broker
    from pubqueue.engine.ports import Store
    from pubqueue.engine.reaper import Reaper

log = structlog.get_logger(__name__)

AT_START: Final = frozenset(
    {
        *("jid", "secret", "secret_file", "server", "store"),
        *("http", "http_certificate", "http_key", "http_proxies", "local_key_file"),
    }
).union(*(row.at_start for row in FACES.values()))
"""Keys that are read only at the start; all others are applied. A key of a table has the table's name before it."""


@runtime_checkable
class SettingsTaker(Protocol):
    """A face that applies settings while it serves."""

    def take_settings(self, settings: Settings) -> None:
        """Apply what has changed."""


@runtime_checkable
class ListeningPart(Protocol):
    """A part that reads files of its own, such as certificates."""

    async def reload(self) -> None:
        """Read them again; what cannot be used is logged, and all stays."""


class Parts(Struct, frozen=True):
    """The parts of a run of the service that settings apply to; `others` are its faces and hosts."""

    broker: Broker
    store: Store
    reaper: Reaper
    accounts: Accounts
    others: Sequence[object]


def terms_of(settings: Settings) -> Terms:
    """Return the settings that requests are judged by."""
    return Terms(
        policy=settings.node_creation,
        limits=settings.transactions.limits(),
        max_subscriptions=settings.subscriptions_per_account,
        auto_creation=settings.auto_creation,
        operators=frozenset(settings.administrators()),
        quotas=settings.limits.quotas(),
        messages=settings.qos.limits(),
    )


def trim_of(settings: Settings) -> Trim:
    """Return how much of the event log is kept."""
    return Trim(seconds(settings.event_log_days * 86_400), settings.event_log_size)


class Reloader:
    """Applies the settings that `read` returns, each time `asked` is set. The context `reloading` is open meanwhile.

    Settings with an error change nothing, and the error is logged.
    """

    def __init__(self, asked: asyncio.Event, read: Callable[[], Settings]) -> None:
        self._asked = asked
        self._read = read
        self._are_settings_due = False
        self.reloading: Callable[[], AbstractContextManager[None]] = nullcontext

    async def read_files(self, parts: Sequence[object]) -> None:
        """Have these parts read their files each time `asked` is set, while nothing is served; `run` applies the settings.

        A standby may wait for months, and answers over HTTPS in that time.
        """
        while True:
            await self._asked.wait()
            self._asked.clear()
            self._are_settings_due = True
            with self.reloading():
                await _read_files(parts)

    async def run(self, settings: Settings, parts: Parts) -> None:
        """Apply the settings each time `asked` is set; `settings` are those of the start."""
        if self._are_settings_due:
            self._are_settings_due = False
            self._asked.set()
        while True:
            await self._asked.wait()
            self._asked.clear()
            with self.reloading():
                await _read_files(parts.others)
                try:
                    settings = _merge(settings, self._read())
                    await _take_over(settings, parts)
                except ConfigError as problem:
                    log.error("config.refused", why=str(problem))  # noqa: TRY400  # the operator's mistake needs no trace


async def _read_files(parts: Sequence[object]) -> None:
    for part in parts:
        if isinstance(part, ListeningPart):
            await part.reload()


async def _take_over(settings: Settings, parts: Parts) -> None:
    """Apply these settings; nodes and schedules again while the store fails.

    Raises:
        ConfigError: a declared node or schedule is invalid; all other settings have been applied.

    """
    logs.configure(settings.log_level, settings.log_format)
    parts.broker.adopt(terms_of(settings))
    parts.reaper.adopt(trim_of(settings))
    for part in parts.others:
        if isinstance(part, SettingsTaker):
            part.take_settings(settings)
    principals = parts.accounts.principals
    principals.appoint(settings.administrators())
    principals.bar(settings.anonymous_domains)
    principals.welcome(locals_of(settings))
    parts.accounts.adopt(users_of(settings))
    by = service_of(settings)
    while True:
        try:
            with waited_for():
                await nodes.bring_nodes(parts.broker, parts.store, settings.node, by)
                return await nodes.bring_schedules(parts.broker, settings.schedule, by)
        except UnreachableStoreError as problem:
            log.warning("store.unreachable", why=str(problem))
            await asyncio.sleep(RETRY)


def _merge(before: Settings, read: Settings) -> Settings:
    """Log the keys that are applied and those that need a restart; return the settings that now apply."""
    changed = [key for key in read.__struct_fields__ if getattr(read, key) != getattr(before, key)]
    later = [key for key in changed if key in AT_START]
    taken = [key for key in changed if key not in AT_START]
    tables = {key: attrgetter(key) for key in sorted(AT_START) if "." in key}
    inner = [key for key, value_in in tables.items() if value_in(before) != value_in(read)]
    log.info("config.read", taken_over=",".join(taken) or "nothing")
    if later or inner:
        log.warning("config.needs_restart", keys=",".join([*later, *inner]))
    merged = replace(read, **{key: getattr(before, key) for key in later})
    for key in inner:
        table, _, name = key.partition(".")
        kept = replace(getattr(merged, table), **{name: tables[key](before)})
        merged = replace(merged, **{table: kept})
    return merged
