"""Settings that a program makes for its whole process, restored after a test that ran it in its own process.

These are the configuration of structlog, the levels and handlers of logging, the environment, and the thresholds of garbage
collection. New loggers keep their settings: a module may set them when it is imported, which happens once.
"""

from __future__ import annotations

import gc
import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def process_as_before() -> Iterator[None]:
    """Restore the process to its earlier state."""
    configured, structure = structlog.is_configured(), structlog.get_config()
    loggers = [(logger, logger.level, list(logger.handlers)) for logger in _loggers()]
    environment, often = dict(os.environ), gc.get_threshold()
    yield
    if configured:
        structlog.configure(**structure)
    else:
        structlog.reset_defaults()
    for logger, level, handlers in loggers:
        if logger.level != level:
            logger.setLevel(level)
        logger.handlers[:] = handlers
    if os.environ != environment:
        os.environ.clear()
        os.environ.update(environment)
    if gc.get_threshold() != often:
        gc.set_threshold(*often)
        gc.unfreeze()


def _loggers() -> Iterator[logging.Logger]:
    yield logging.getLogger()
    logging.getLogger("slixmpp")  # commands silence it; so it is not new to the test that runs one
    for found in tuple(logging.getLogger().manager.loggerDict.values()):
        if isinstance(found, logging.Logger):
            yield found
