"""The boundaries between what different people have asked for: what one part meets ends no other, nor the service."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pubqueue.core.decision import Reply

log = structlog.get_logger(__name__)


@contextmanager
def apart(event: str) -> Iterator[None]:
    """Log a fault of the body under this name, and continue after it."""
    try:
        yield
    except Exception:  # that is what a boundary is
        log.exception(event)


def answer_with(answer: Callable[[Reply], None], reply: Reply) -> None:
    """Answer; an answer that fails does not keep the others from being sent."""
    try:
        answer(reply)
    except Exception:  # the same
        log.exception("answer.failed", reply=type(reply).__name__)
