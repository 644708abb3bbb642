"""The boundaries between work for different accounts: a fault in one part ends neither the other parts nor the service."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pubqueue.model.decision import Reply

log = structlog.get_logger(__name__)


@contextmanager
def apart(event: str) -> Iterator[None]:
    """Log an exception of the body as this event, and continue after the body."""
    try:
        yield
    except Exception:  # a boundary catches everything
        log.exception(event)


def answer_with(answer: Callable[[Reply], None], reply: Reply) -> None:
    """Call `answer`; an exception is logged, so that the other answers are still sent."""
    try:
        answer(reply)
    except Exception:  # a boundary catches everything
        log.exception("answer.failed", reply=type(reply).__name__)
