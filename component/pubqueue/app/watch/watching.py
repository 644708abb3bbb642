"""What observers get in addition to requests and decisions: phases, the duration of a batch, the amount of waiting work."""

from __future__ import annotations

from enum import StrEnum, unique
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections import Counter

    from pubqueue.app.watch.connections import Connections
    from pubqueue.app.watch.grpc_calls import GrpcCalls
    from pubqueue.app.watch.http_requests import HttpRequests


@unique
class Phase(StrEnum):
    """The phase of this process."""

    STARTING = "starting"
    """It has not reached its store or its server yet."""
    WAITING = "waiting"
    """Another instance has the place at the server; this one takes over when that is gone."""
    AT_WORK = "at work"
    STOPPING = "stopping"


class Took(Struct, frozen=True, gc=False):
    """How long a batch took, in seconds: deciding (with loading and dispatch), and from there until its commit was durable."""

    deciding: float
    committing: float


class Waiting(Struct, frozen=True, gc=False):
    """The waiting work: requests for a batch, requests that only read, bytes of notices for crowds, takes for an item."""

    requests: int
    reads: int
    news: int
    takes: int = 0


class MessageCounts(Struct, gc=False):
    """How many steps of carried messages were done, by level, and how many were refused, by the kind of the event."""

    taken: Counter[str]
    refused: Counter[str]


class Traffic(Struct, gc=False):
    """The traffic of a face: bytes, and how often its server has accepted it."""

    bytes_in: int = 0
    bytes_out: int = 0
    sessions: int = 0
    connections: Connections | None = None
    """The connections of its clients, if it listens for them."""
    requests: HttpRequests | None = None
    """Its requests over HTTP, if it answers any."""
    pushes: dict[str, int] | None = None
    """How many of its pushes ended with which outcome, if it pushes items; the outcomes are words of the program."""
    messages: MessageCounts | None = None
    """The messages that were carried to it (urn:xmpp:qos), if it takes any."""
    calls: GrpcCalls | None = None
    """Its gRPC calls, if it answers any."""
    repeated: int = 0
    """How many requests that carry deliveries were sent again (urn:xmpp:qos)."""
    given_up: int = 0
    """How many items were freed because their worker left the deliveries unanswered."""
