"""The logger of the client side: events with keys, on the standard logger `pubqueue_xeps`.

The application's logging configuration decides what is written; without one, warnings go to stderr as sentences.
Neither payloads nor secrets are ever logged.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import selectors
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import structlog

from pubqueue_xeps.sentences import LOGGER

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger


_logfmt: Final = structlog.processors.LogfmtRenderer(key_order=["event"], bool_as_flag=False)


def _render(logger: WrappedLogger, name: str, event: EventDict) -> tuple[tuple[str], EventDict]:
    trace = event.pop("exc_info", None)  # the standard logger prints tracebacks best
    facts = dict(event)  # as separate attributes, for `pubqueue_xeps.sentences` and others
    return (str(_logfmt(logger, name, event)),), {"exc_info": trace, "extra": {"pubqueue": facts}}


log: Final[Any] = structlog.wrap_logger(
    LOGGER,
    processors=[structlog.stdlib.filter_by_level, _render],
    wrapper_class=structlog.stdlib.BoundLogger,
)


# Trims tracebacks to the frames of the user's own program.

HOME: Final = str(Path(__file__).parent)
CALLERS: Final = (
    *(str(Path(module.__file__ or "").parent) for module in (asyncio, concurrent.futures)),
    str(selectors.__file__),
)
"""Files between this library and a handler: removed before the first frame of the user's program, kept after it."""


def trimmed(error: BaseException) -> BaseException:
    """Remove our frames from the tracebacks of an exception and of its causes; return the exception."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = _chain(_of_the_user(one.__traceback__))
        left += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            left += one.exceptions
    return error


def _of_the_user(trace: TracebackType | None) -> list[TracebackType]:
    kept: list[TracebackType] = []
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not is_ours(file) and (kept or not is_theirs(file)):
            kept.append(trace)
        trace = trace.tb_next
    return kept


def is_ours(file: str) -> bool:
    """Return whether a file belongs to this library."""
    return file.startswith(HOME)


def is_theirs(file: str) -> bool:
    """Return whether a file belongs to the code that calls handlers for this library."""
    return file.startswith(CALLERS)


def _chain(kept: list[TracebackType]) -> TracebackType | None:
    made: TracebackType | None = None
    for trace in reversed(kept):
        made = TracebackType(made, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
    return made
