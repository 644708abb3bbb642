"""The log of a run: nothing of it is shown, and what must never stand in it is a violation."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping

NEVER: Final = frozenset(
    {
        "request.failed",
        "reaper.failed",
        "answer.failed",
        "presence.given_up",
        "schedule.calendar_failed",
    }
)
"""Faults of ours."""


@contextmanager
def listening(object_to: Callable[[str], None]) -> Iterator[None]:
    """Listen to the log meanwhile."""

    def listen(_logger: object, _level: str, entry: MutableMapping[str, Any]) -> str:
        if entry["event"] in NEVER:
            object_to(f"the log tells of a fault of ours: {entry}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[listen], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)
