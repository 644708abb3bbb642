"""Workers: a window of items, locks that are kept, handlers that do the work, and its outcome."""

from pubqueue_xeps.worker.worker import REQUESTS, Worker

__all__ = ["REQUESTS", "Worker"]
