"""The logger of the client side: events with keys, on the standard logger `pubqueue_xeps`.

The application's logging configuration decides what is written; without one, warnings go to stderr.
Neither payloads nor secrets are ever logged.
"""

import logging
from typing import Any, Final

import structlog
from structlog.typing import EventDict, WrappedLogger

_logfmt: Final = structlog.processors.LogfmtRenderer(key_order=["event"], bool_as_flag=False)


def _render(logger: WrappedLogger, name: str, event: EventDict) -> tuple[tuple[str], EventDict]:
    trace = event.pop("exc_info", None)  # the standard logger prints tracebacks best
    facts = dict(event)  # as separate attributes, for `pubqueue_xeps.worker.status` and others
    return (str(_logfmt(logger, name, event)),), {"exc_info": trace, "extra": {"pubqueue": facts}}


log: Final[Any] = structlog.wrap_logger(
    logging.getLogger("pubqueue_xeps"),
    processors=[structlog.stdlib.filter_by_level, _render],
    wrapper_class=structlog.stdlib.BoundLogger,
)
