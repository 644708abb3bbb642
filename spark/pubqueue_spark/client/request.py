"""The requests of a stream to the service, and the possible answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.wire.refusals import Refusal
    from pubqueue_xeps.wire.requests.iq import IqKind


class Request(Protocol):
    """One IQ. As a text it is what messages call it; no word of a payload."""

    @property
    def kind(self) -> IqKind:
        """The type of the IQ."""

    @property
    def body(self) -> bytes:
        """Everything after the start tag of the IQ, its end tag included."""

    @property
    def rows(self) -> int:
        """How many rows it stands for."""


class AnswerHandler(Protocol):
    """Takes note of what became of each request of one window."""

    def taken(self, request: Request, answer: Element) -> None:
        """Count a request that the service has carried out."""

    def refused(self, request: Request, refusal: Refusal, retried: int) -> Sequence[Request]:
        """Return what to send instead, if anything; or raise what the task fails with."""
