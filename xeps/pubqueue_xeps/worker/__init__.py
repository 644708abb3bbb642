"""Workers: a window of items, locks that are extended, handlers, and the settlement of items."""

from pubqueue_xeps.worker.worker import REQUESTS, Worker

__all__ = ["REQUESTS", "Worker"]
