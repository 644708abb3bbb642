"""How late the event loop is: a timer that measures its own delay."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from prometheus_client import Histogram

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

EVERY: Final = 0.25
"""Seconds between two measurements."""

BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Lag:
    """Measures the loop in which it runs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._late = Histogram(
            "loop_lag_seconds",
            "By how much a timer of the event loop was late.",
            namespace="pubqueue",
            registry=registry,
            buckets=BUCKETS,
        )

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + EVERY
            await asyncio.sleep(EVERY)
            self._late.observe(max(0.0, loop.time() - due))
