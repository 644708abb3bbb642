"""The log of the service under test: on the standard logger `pubqueue.service`, where pytest shows it beside a failure.

Otherwise structlog would print it between other output. Logging by other threads is not changed.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

_THREADS: Final[set[int]] = set()
_LOCK: Final = threading.Lock()
_logfmt: Final = structlog.processors.LogfmtRenderer(key_order=["event"], bool_as_flag=False)


@contextmanager
def diverted() -> Iterator[None]:
    """Send what this thread logs to the standard logger during the body."""
    thread = threading.get_ident()
    with _LOCK:
        _THREADS.add(thread)
        unset = not structlog.is_configured()
        _put(first=True)
    try:
        yield
    finally:
        with _LOCK:
            _THREADS.discard(thread)
            if not _THREADS:
                _put(first=False)
            if unset and not _THREADS:
                structlog.reset_defaults()


def _put(*, first: bool) -> None:
    """Make `_divert` the first of structlog's processors, or remove it."""
    others = [one for one in structlog.get_config()["processors"] if one is not _divert]
    structlog.configure(processors=[_divert, *others] if first else others)


def _divert(logger: Any, name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:  # noqa: ANN401  structlog's
    if threading.get_ident() not in _THREADS:
        return event
    level = logging.getLevelNamesMapping().get(name.upper(), logging.ERROR)
    trace = event.pop("exc_info", None)
    logging.getLogger("pubqueue.service").log(level, _logfmt(logger, name, event), exc_info=trace)
    raise structlog.DropEvent
