"""The logger of the client side: events with keys, on the standard logger `pubqueue_xeps`.

The application's logging configuration decides what is written; without one, warnings go to stderr.
Neither payloads nor secrets are ever logged.
"""

import logging
from typing import Any, Final

import structlog
from structlog.typing import EventDict, WrappedLogger

FORMERLY: Final = {
    "handler.orphaned": "handler.left_behind",
    "item.released": "item.let_go",
    "worker.drain_timeout": "worker.grace_over",
}
"""Renamed events and their former names; for one release, the key `formerly` has the former name, for existing filters."""

_logfmt: Final = structlog.processors.LogfmtRenderer(key_order=["event"], bool_as_flag=False)


def _render(logger: WrappedLogger, name: str, event: EventDict) -> tuple[tuple[str], EventDict]:
    trace = event.pop("exc_info", None)  # the standard logger prints tracebacks best
    if (old := FORMERLY.get(event.get("event", ""))) is not None:
        event["formerly"] = old
    facts = dict(event)  # as separate attributes, for `pubqueue_xeps.worker.status` and others
    return (str(_logfmt(logger, name, event)),), {"exc_info": trace, "extra": {"pubqueue": facts}}


log: Final[Any] = structlog.wrap_logger(
    logging.getLogger("pubqueue_xeps"),
    processors=[structlog.stdlib.filter_by_level, _render],
    wrapper_class=structlog.stdlib.BoundLogger,
)
