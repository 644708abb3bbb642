"""Limits of a handler: retries, backoff, time and concurrency, and the outcome of a failure.

The service counts failures across all workers and restarts: `item.failures`. So a limit on retries also holds for an
item that kills its worker each time. Releases do not count as failures.
"""

from pubqueue_xeps.worker.handling.limits import Backoff, Limits, TimeLimit

__all__ = ["Backoff", "Limits", "TimeLimit"]
