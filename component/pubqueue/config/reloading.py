"""The configuration is read again while the service runs: what can be taken over is, and the rest is told."""

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
"""Keys that only a start reads; all others are taken over."""


@runtime_checkable
class AdoptingFace(Protocol):
    """A face that can serve by other settings than it was made with."""

    def adopt(
        self,
        *,
        admins: Iterable[Jid],
        anonymous: Iterable[str],
        settle_by_get: bool,
        auto_creates: bool,
    ) -> None:
        """Serve by these settings from now on."""


def trim_of(settings: Settings) -> Trim:
    """Return how much of the event log is kept."""
    return Trim(seconds(settings.event_log_days * 86_400), settings.event_log_size)


class Reloader:
    """Takes over, each time `asked` is set, what `read` returns.

    What cannot be used changes nothing, and is told as an error.
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
        """Wait for being asked, again and again; `settings` are those of the start. `reloading` is open while it reads."""
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
    """Serve by these settings from now on.

    Raises:
        ConfigError: a declared node or schedule does not fit; the rest is taken over.

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
    """Say by its keys what is taken over and what waits for a restart; return what holds from now on."""
    changed = [key for key in read.__struct_fields__ if getattr(read, key) != getattr(before, key)]
    later = [key for key in changed if key in AT_START]
    taken = [key for key in changed if key not in AT_START]
    log.info("config.read", taken_over=",".join(taken) or "nothing")
    if later:
        log.warning("config.needs_restart", keys=",".join(later))
    return replace(read, **{key: getattr(before, key) for key in later})
