"""Writes requests as text and reads their answers, one module for each kind of request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

IqKind = Literal["get", "set"]


@dataclass(frozen=True, slots=True)
class IqRequest:
    """One IQ. `words` name it in messages, without any payload."""

    kind: IqKind
    words: str
    inner: str
    """The child of the IQ."""
    rows: int = 1
    """Its weight where work is counted."""

    def __str__(self) -> str:
        return self.words

    @property
    def body(self) -> bytes:
        """Everything after the start tag of the IQ, its end tag included."""
        return f"{self.inner}</iq>".encode()
