"""For whoever watches the service: what each batch has done, how long it took, and what waits at a moment."""

from __future__ import annotations

from enum import StrEnum, unique
from typing import TYPE_CHECKING, Protocol

import structlog
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Decision, Reply
    from pubqueue.core.notices import Notice

log = structlog.get_logger(__name__)


@unique
class Phase(StrEnum):
    """How far this process is."""

    STARTING = "starting"
    """It has not reached its store or its server yet."""
    WAITING = "waiting"
    """Another instance has the place at the server; this one takes over when that is gone."""
    AT_WORK = "at work"
    STOPPING = "stopping"


class Took(Struct, frozen=True, gc=False):
    """How long a batch took, in seconds: deciding (loading and handing out with it), and from there until its commit was durable."""

    deciding: float
    committing: float


class Waiting(Struct, frozen=True, gc=False):
    """What waits: requests for a batch, requests that only read, bytes of news for crowds."""

    requests: int
    reads: int
    news: int


class Traffic(Struct, gc=False):
    """What has come and gone at a face: bytes, and how often its server has accepted it."""

    bytes_in: int = 0
    bytes_out: int = 0
    sessions: int = 0


class Watch(Protocol):
    """Is told of what is committed, on the event loop, after all who asked were answered. It must be quick."""

    def committed(
        self,
        requests: Iterable[Request],
        decisions: Sequence[Decision],
        deliveries: Sequence[Notice],
        took: Took,
    ) -> None:
        """Take note of a batch: its requests with their decisions, in order, and what was handed out."""

    def answered(self, reply: Reply) -> None:
        """Take note of the answer to a request that only reads."""


class Nobody:
    """Watches nothing."""

    def committed(
        self,
        requests: Iterable[Request],
        decisions: Sequence[Decision],
        deliveries: Sequence[Notice],
        took: Took,
    ) -> None:
        """Pass over it."""

    def answered(self, reply: Reply) -> None:
        """Pass over it."""


class Careful:
    """Passes on what another watch is told; a fault of that one is logged, and costs nobody's work."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def committed(
        self,
        requests: Iterable[Request],
        decisions: Sequence[Decision],
        deliveries: Sequence[Notice],
        took: Took,
    ) -> None:
        """Pass it on."""
        try:
            self._watch.committed(requests, decisions, deliveries, took)
        except Exception:  # the boundary between the work and who looks at it
            log.exception("watch.failed", requests=len(decisions))

    def answered(self, reply: Reply) -> None:
        """Pass it on."""
        try:
            self._watch.answered(reply)
        except Exception:  # the same boundary
            log.exception("watch.failed", reply=type(reply).__name__)
