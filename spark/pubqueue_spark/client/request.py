"""A request to the service, and the receiver of its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.wire.refusals import Refusal
    from pubqueue_xeps.wire.requests import IqKind


class Request(Protocol):
    """One IQ. Its `str` names it in messages, without the payload."""

    @property
    def kind(self) -> IqKind:
        """The type of the IQ."""

    @property
    def body(self) -> bytes:
        """Everything after the start tag of the IQ, its end tag included."""

    @property
    def rows(self) -> int:
        """How many rows it publishes."""


class AnswerHandler(Protocol):
    """Notes the result of each request of one window."""

    def taken(self, request: Request, answer: Element) -> None:
        """Count a request that was accepted."""

    def refused(self, request: Request, refusal: Refusal, retried: int) -> Sequence[Request]:
        """Return the requests to send instead, if any; or raise the error that fails the task."""
