"""Reloads the configuration while the service runs: applies what it can, and logs the settings that need a restart."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import structlog
from msgspec.structs import replace

from pubqueue import logs
from pubqueue.config import nodes, schedules
from pubqueue.config.settings import ConfigError
from pubqueue.core.model import Jid, seconds
from pubqueue.core.reading.trim import Trim

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from pubqueue.app.broker import Broker
    from pubqueue.app.store.ports import Store
    from pubqueue.app.tasks.reaper import Reaper
    from pubqueue.config.settings import Settings
    from pubqueue.core.model import Principal

log = structlog.get_logger(__name__)

AT_START: Final = frozenset(
    {
        *("jid", "secret", "secret_file", "server", "store"),
        *("http", "http_token_file", "http_admin_token_file"),
    }
)
"""Keys that are read only at the start; all others are applied."""


@runtime_checkable
class AdoptingFace(Protocol):
    """A face whose settings can be changed while it serves."""

    def adopt(
        self,
        *,
        admins: Iterable[Jid],
        anonymous: Iterable[str],
        settle_by_get: bool,
        auto_creates: bool,
    ) -> None:
        """Apply these settings."""


def trim_of(settings: Settings) -> Trim:
    """Return how much of the event log is kept."""
    return Trim(seconds(settings.event_log_days * 86_400), settings.event_log_size)


class Reloader:
    """Applies the settings that `read` returns, each time `asked` is set.

    Settings with an error change nothing, and the error is logged.
    """

    def __init__(self, asked: asyncio.Event, read: Callable[[], Settings]) -> None:
        self._asked = asked
        self._read = read

    async def run(
        self,
        settings: Settings,
        *,
        by: Principal,
        parts: tuple[Broker, Store, Reaper],
        faces: Sequence[object],
        reloading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Apply the settings each time `asked` is set; `settings` are those of the start. `reloading` is open meanwhile."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            with reloading():
                try:
                    settings = _merge(settings, self._read())
                    await _take_over(settings, by, parts, faces)
                except ConfigError as problem:
                    log.error("config.refused", why=str(problem))  # noqa: TRY400  # the operator's mistake needs no trace


async def _take_over(
    settings: Settings,
    by: Principal,
    parts: tuple[Broker, Store, Reaper],
    faces: Sequence[object],
) -> None:
    """Apply these settings.

    Raises:
        ConfigError: a declared node or schedule is invalid; all other settings have been applied.

    """
    broker, store, reaper = parts
    logs.configure(settings.log_level, settings.log_format)
    broker.adopt(
        policy=settings.node_creation,
        limits=settings.transactions.limits(),
        max_subscriptions=settings.subscriptions_per_account,
        auto_creation=settings.auto_creation,
        operators=(Jid(admin) for admin in settings.admins),
        quotas=settings.limits.quotas(),
    )
    reaper.adopt(trim_of(settings))
    for face in faces:
        if isinstance(face, AdoptingFace):
            face.adopt(
                admins=(Jid(admin) for admin in settings.admins),
                anonymous=settings.anonymous_domains,
                settle_by_get=settings.settle_by_get,
                auto_creates=settings.auto_creates,
            )
    await nodes.bring_nodes(broker, store, settings.node, by)
    await schedules.bring_schedules(broker, settings.schedule, by)


def _merge(before: Settings, read: Settings) -> Settings:
    """Log the keys that are applied and those that need a restart; return the settings that now apply."""
    changed = [key for key in read.__struct_fields__ if getattr(read, key) != getattr(before, key)]
    later = [key for key in changed if key in AT_START]
    taken = [key for key in changed if key not in AT_START]
    log.info("config.read", taken_over=",".join(taken) or "nothing")
    if later:
        log.warning("config.needs_restart", keys=",".join(later))
    return replace(read, **{key: getattr(before, key) for key in later})
