"""Logs: events with keys, one line each, on standard error. Never a payload, never a secret."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Final, TextIO, cast

import structlog

if TYPE_CHECKING:
    from structlog.typing import Processor

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}

_RENDERERS: Final[dict[str, Processor]] = {
    "logfmt": structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
    "json": structlog.processors.JSONRenderer(),
}


class _WhatStderrTakes:
    """Standard error as long as it can be written: a full disk costs log lines, and does not stop the service."""

    def write(self, text: str) -> None:
        with suppress(OSError):
            sys.stderr.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()


class _Libraries(logging.Handler):
    """Formats the log records of libraries like our own."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log its name and its message; an error with its traceback."""
        log = structlog.get_logger(record.name)
        try:
            says, traced = record.getMessage(), {"exc_info": record.exc_info or False}
        except Exception:  # as logging's own handlers do: a line that cannot be written is dropped, and the service goes on
            says, traced = str(record.msg), {}
        log.log(record.levelno, "library", name=record.name, says=says, **traced)


LIBRARIES: Final = _Libraries(logging.WARNING)
"""The debug lines of these libraries would show stanzas, so only warnings and errors are logged."""


def configure(level: str, style: str = "logfmt") -> None:
    """Write log lines of this level and above to standard error; `style` is logfmt or json."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _RENDERERS[style],
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", _WhatStderrTakes())),
    )
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    if LIBRARIES not in root.handlers:
        root.addHandler(LIBRARIES)


PLACES: Final = 3
"""Places of a fault that are logged, the innermost first."""


def fault(problem: BaseException) -> dict[str, str]:
    """Return the keys of a log line: the type of the exception, and where it was raised.

    Its message is left out, because it may contain a payload.
    """
    places = [
        f"{Path(one.filename).name}:{one.lineno}" for one in extract_tb(problem.__traceback__)
    ]
    return {"kind": type(problem).__name__, "at": " ".join(places[: -PLACES - 1 : -1])}
