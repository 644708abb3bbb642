"""Around a handler: what is done for every item, whatever its kind of work.

    class Slowly:
        async def __call__(self, item, call_next):
            await asyncio.sleep(1)
            return await call_next(item)

A middleware calls `call_next` once and returns what that returns. What it raises is what the handler would have
raised; what it swallows has not happened, and the item is retracted. One that returns without having awaited
`call_next`, and without having settled the item itself, has failed: the work is not done. The first in a list is the outermost.
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
