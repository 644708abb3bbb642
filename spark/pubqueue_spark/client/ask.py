"""Sends requests to the service over this process's stream, and returns the answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pubqueue_spark import session
from pubqueue_spark.client.window import Limits, Task
from pubqueue_spark.errors import ServiceError
from pubqueue_xeps.client.commits import until_done
from pubqueue_xeps.errors import LoginFailed, ServiceUnavailable
from pubqueue_xeps.wire.refusals import Refusal
from pubqueue_xeps.wire.requests.transactions import read_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from xml.etree.ElementTree import Element

    from pubqueue_spark.client.option import Connection
    from pubqueue_spark.client.request import Request
    from pubqueue_spark.client.window import WindowCounts
    from pubqueue_xeps.wire.requests.transactions import AtWork

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


def ask_until_done(
    settings: Connection, question: Request, reported: Callable[[AtWork], None]
) -> tuple[Answer, bool]:
    """Ask for a commit until it has ended; return the answer, and whether an earlier request may have done it already.

    `reported` is called with each progress. Raises ServiceError if the commit stands still for as long as the service may
    leave a request unanswered: `progressTimeout`, for each of the `retries` and once more.
    """
    return session.run(_until_done(settings, question, reported))


async def _until_done(
    settings: Connection, question: Request, reported: Callable[[AtWork], None]
) -> tuple[Answer, bool]:
    repeated = False

    async def once() -> Answer:
        nonlocal repeated
        (answer,), counts = await _ask(settings, [question], None)
        repeated |= bool(counts.retries or counts.reconnects or _progress(answer))
        return answer

    patience = settings.progress_timeout * (settings.retries + 1)
    try:
        answer = await until_done(once, _progress, patience=patience, reported=reported)
    except ServiceUnavailable as error:
        raise ServiceError(f"{settings.service}: {error}") from None
    return answer, repeated


def _progress(answer: Answer) -> AtWork | None:
    return None if isinstance(answer, Refusal) else read_progress(answer)


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
            " host, port, tls, tlsCaFile)."
        ) from None
    try:
        await window.put(questions)
        counts = await window.drain()
    finally:
        await line.close(number)
    return [answers.given[question] for question in questions], counts
