"""Logs: events with keys, one line each, on standard error. Never a payload, never a secret."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Final, TextIO, cast

import structlog

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class _WhatStderrTakes:
    """Standard error as long as it can be written to: a full disk costs log lines, and not the service."""

    def write(self, text: str) -> None:
        with suppress(OSError):
            sys.stderr.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()


def configure(level: str) -> None:
    """Write log lines of this level and above to standard error."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", _WhatStderrTakes())),
    )
    # Libraries: their debug lines would show stanzas, so nothing below a warning is let through.
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING,
        format="level=%(levelname)s event=%(name)s %(message)s",
    )
