"""Middleware: code that runs around every handler, whatever the kind of work.

    class Slowly:
        async def __call__(self, item, call_next):
            await asyncio.sleep(1)
            return await call_next(item)

A middleware calls `call_next` once and returns its result. An exception that it raises counts as the handler's own;
if it swallows one, the item is retracted. A middleware that returns without having awaited `call_next`, and without
having settled the item itself, has failed: the work is not done. The first middleware in a list is the outermost.
"""

from pubqueue_xeps.worker.handling.middleware import (
    ErrorReporting,
    Facts,
    Middleware,
    Next,
    NotCalledOn,
    Timed,
    Timing,
)

__all__ = ["ErrorReporting", "Facts", "Middleware", "Next", "NotCalledOn", "Timed", "Timing"]
