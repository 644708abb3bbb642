"""What observers get in addition to requests and decisions: phases, the duration of a batch, how much waits at a moment."""

from __future__ import annotations

from enum import StrEnum, unique

from msgspec import Struct


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
    """How long a batch took, in seconds: deciding (with loading and dispatch), and from there until its commit was durable."""

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
