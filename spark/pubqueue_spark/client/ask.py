"""Sends requests to the service over this process's stream, and returns the answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pubqueue_spark import session
from pubqueue_spark.client.window import Limits, Task
from pubqueue_spark.errors import ServiceError
from pubqueue_xeps.errors import LoginFailed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

    from pubqueue_spark.client.option import Connection
    from pubqueue_spark.client.request import Request
    from pubqueue_spark.client.window import WindowCounts
    from pubqueue_xeps.wire.refusals import Refusal

    Answer = Element | Refusal


@dataclass(slots=True)
class _Answers:
    """Collects the answers to requests, refusals included."""

    given: dict[Request, Answer] = field(default_factory=dict)

    def taken(self, request: Request, answer: Element) -> None:
        self.given[request] = answer

    def refused(self, request: Request, refusal: Refusal, _retried: int) -> tuple[()]:
        self.given[request] = refusal
        return ()


def ask(
    settings: Connection,
    *questions: Request,
    retries: int | None = None,
    who: str = "the driver",
    application: str = "driver",
) -> list[Answer]:
    """Send requests and return their answers, in order; the last two arguments identify the requester.

    A request is repeated if the service asks to wait, or if the stream is lost before its answer, so it must be safe to
    repeat. Raises ServiceError if there is no answer after all retries.
    """
    answers, _ = session.run(_ask(settings, questions, retries, who, application))
    return answers


def ask_and_count(settings: Connection, question: Request) -> tuple[Answer, bool]:
    """Return the answer, and whether the request was sent more than once, so that it may be done already."""
    (answer,), counts = session.run(_ask(settings, [question], None))
    return answer, bool(counts.retries or counts.reconnects)


async def _ask(
    settings: Connection,
    questions: Sequence[Request],
    retries: int | None,
    who: str = "the driver",
    application: str = "driver",
) -> tuple[list[Answer], WindowCounts]:
    again = settings.retries if retries is None else retries
    limits = Limits(len(questions), settings.progress_timeout, again, settings.backoff)
    line = session.pool().session(session.account(settings), session.resource(application))
    answers = _Answers()
    try:
        number, window = await line.open(Task(settings.service, who), limits, answers)
    except LoginFailed as error:
        raise ServiceError(
            f"option jid={settings.jid}: {str(error).rstrip('.')} (options jid, {settings.secret.option},"
            " host, port, tls)."
        ) from None
    try:
        await window.put(questions)
        counts = await window.drain()
    finally:
        await line.close(number)
    return [answers.given[question] for question in questions], counts
