"""Calls of gRPC: how many have ended, by method and code, how long they took, and how many are open."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
"""The bounds of the buckets in which durations are counted."""

Method = tuple[str, str]
"""The name of a service, and the name of an rpc of it."""


class Durations(Struct, gc=False):
    """How long calls took: how many per bucket, the last one for those above all bounds; and the sum in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a call."""
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds


class GrpcCalls(Struct, gc=False):
    """Counts calls. Methods are those that are served, and codes those of gRPC, so the labels are bounded."""

    ended: dict[tuple[Method, str], int] = field(default_factory=dict)
    """By method and code."""
    durations: dict[Method, Durations] = field(default_factory=dict)
    """Of calls that are one request and one answer."""
    open: dict[Method, int] = field(default_factory=dict)
    outstanding: Callable[[], int] = lambda: 0
    """Returns how many messages streams have delivered without getting them back."""
    certificate_ends: Callable[[], float | None] = lambda: None
    """Returns when the certificate that new clients get expires, in seconds since 1970; None: there is none."""

    def begin(self, method: Method) -> None:
        """Count a call that begins."""
        self.open[method] = self.open.get(method, 0) + 1

    def end(self, method: Method, code: str, seconds: float | None) -> None:
        """Count a call that has ended, with its duration unless it was a stream."""
        self.open[method] -= 1
        self.ended[method, code] = self.ended.get((method, code), 0) + 1
        if seconds is not None:
            self.durations.setdefault(method, Durations()).add(seconds)
