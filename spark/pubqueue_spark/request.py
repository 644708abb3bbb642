"""What a stream carries to the service, and what the service may say to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pubqueue_spark.refusals import Refusal

Kind = Literal["get", "set"]


class Request(Protocol):
    """One IQ. As a text it is what messages call it; no word of a payload."""

    @property
    def kind(self) -> Kind:
        """The type of the IQ."""

    @property
    def body(self) -> bytes:
        """Everything after the start tag of the IQ, its end tag included."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request that publishes nothing."""

    kind: Kind
    words: str
    inner: str

    def __str__(self) -> str:
        return self.words

    @property
    def body(self) -> bytes:
        """See Request."""
        return f"{self.inner}</iq>".encode()


class Ledger(Protocol):
    """Takes note of what became of each request of one window."""

    def taken(self, request: Request, answer: Element) -> None:
        """Count a request that the service has carried out."""

    def refused(self, request: Request, refusal: Refusal, retried: int) -> Request | None:
        """Return what to send instead, if anything; or raise what the task fails with."""
