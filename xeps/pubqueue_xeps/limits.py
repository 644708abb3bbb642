"""How often, how long and how many at a time: what bounds a handler, and what a failure comes to by that.

Failures are counted by the service, over all workers and restarts: `item.failures`. So a bound on retries holds
also for an item that kills its worker each time. Releases do not count; they are nobody's fault.
"""

from pubqueue_xeps.worker.handling.limits import Backoff, Limits, TimeLimit

__all__ = ["Backoff", "Limits", "TimeLimit"]
