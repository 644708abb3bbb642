"""Faults in the bytes of a frame. The side at fault gets an ERROR, and no more is read from it."""

from __future__ import annotations

from enum import StrEnum, unique

from msgspec import Struct


@unique
class Cause(StrEnum):
    """The cause; the value is the header `message` of an ERROR."""

    MALFORMED = "malformed frame"
    """A line, an escape, a length or an end that no version, or not this one, allows."""
    UNKNOWN_COMMAND = "unknown command"
    """A command that this side does not send in this version."""
    HEADER_MISSING = "header missing"
    """A missing header that the command requires."""
    TOO_MANY_HEADERS = "too many headers"
    HEADER_TOO_LONG = "header too long"
    """A line, or all lines of a frame together."""
    BODY_TOO_LARGE = "body too large"


class Fault(Struct, frozen=True):
    """A frame that cannot be read. Nothing after it is read either."""

    cause: Cause
    sentence: str
    """The fault in words, with the limit or the name in question; never a value that was sent."""
    receipt: str | None = None
    """The header `receipt` of the frame, if its headers could be read."""


class FrameError(Exception):
    """Carries the fault that the reader returns; it never leaves the reader."""

    def __init__(self, cause: Cause, sentence: str, receipt: str | None = None) -> None:
        super().__init__(sentence)
        self.fault = Fault(cause, sentence, receipt)
