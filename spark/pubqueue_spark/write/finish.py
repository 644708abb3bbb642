"""What the driver does when the tasks have ended: it commits or aborts, and logs one line, and others while a commit goes on."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from pubqueue_spark import logs
from pubqueue_spark.client.ask import ask, ask_until_done
from pubqueue_spark.client.refusals import explanation
from pubqueue_spark.errors import PubqueueSparkError, ServiceError
from pubqueue_spark.write.task import Written
from pubqueue_xeps.wire.refusals import Refusal
from pubqueue_xeps.wire.requests import transactions
from pubqueue_xeps.wire.requests.transactions import OnTaken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import WriterCommitMessage

    from pubqueue_spark.client.ask import Answer
    from pubqueue_spark.write.options import Settings
    from pubqueue_spark.write.task import Job
    from pubqueue_xeps.wire.requests.transactions import AtWork, Committed, Mark

REPORT_EVERY: Final = 5.0
"""Seconds between two log lines about the progress of a commit."""

UNKNOWING: Final = frozenset(
    {
        "internal-server-error",
        "remote-server-timeout",
        "remote-server-not-found",
        "service-unavailable",
    }
)
"""Conditions of a server that does not reach the service, or of one without its store: what came before may have been carried out."""

log = logging.getLogger(__name__)


def finished(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    """Return the results of tasks; Spark passes None for a task that failed."""
    return [message for message in messages if isinstance(message, Written)]


def commit(job: Job, mark: Mark, done: Sequence[Written]) -> None:
    """Make the items of the winning attempts visible, and log one line.

    A batch that was committed before is not written again; with `onReplay=fail` this is an error. An empty batch is not
    a transaction.
    """
    logs.make_audible()
    settings = job.settings
    touched = sum(it.items + it.replayed for it in done)
    if not job.transactional or not touched:
        return _print_done(settings, mark, done, None)
    answer, repeated = _certain(job, mark, done)
    if isinstance(answer, Refusal) and repeated and answer.condition in UNKNOWING:
        raise ServiceError(f"{settings.service}: {explanation(answer)}. {_unknown(mark)}")
    if isinstance(answer, Refusal):
        raise ServiceError(
            f"{settings.service} refused the commit of {mark}, and nothing of it is visible:"
            f" {explanation(answer)}.{_remedy(settings, answer)}"
        )
    committed = transactions.read_committed(answer)
    _warn_of_taken(settings, mark, committed)
    # Our own commit may have been carried out although its answer was lost.
    elsewhere = committed.already and not repeated
    if not elsewhere and not any(it.replayed for it in done):
        return _print_done(settings, mark, done, committed)
    if settings.on_replay == "fail":
        raise ServiceError(replayed(settings, mark))
    return log.warning("%s", replayed(settings, mark))


def _remedy(settings: Settings, refusal: Refusal) -> str:
    """Return a remedy for ids that are locked or dead; a retried batch would meet them again."""
    if settings.on_error != "fail" or not refusal.text.startswith("item"):
        return ""
    return " With onError=skip such items are left out, with onError=deadletter they go to deadLetterNode."


def _warn_of_taken(settings: Settings, mark: Mark, committed: Committed) -> None:
    if not committed.taken:
        return
    named = [f"{it.id!r} (node {it.node!r}, {it.state})" for it in committed.named]
    if committed.taken > len(named):
        named.append(f"and {committed.taken - len(named)} more")
    log.warning(
        "%s: %d items have ids that are taken by items that are locked or dead with other payloads"
        " (onError=%s): %s",
        mark,
        committed.taken,
        settings.on_error,
        ", ".join(named),
    )


def abort(job: Job, mark: Mark, done: Sequence[Written]) -> None:
    """Drop the items that these tasks have staged, but none that are committed.

    Spark also aborts after a commit with an unknown result.
    Nothing else is dropped: a driver that was taken for lost may already have a successor, whose tasks stage items for
    the same version. A task that fails drops its own items.
    """
    logs.make_audible()
    if not job.transactional:
        return log.warning("%s failed; items that were already published stay in the queue", mark)
    parts = [transactions.Part(it.partition, it.attempt, it.items, it.bytes) for it in done]
    try:
        answers = ask(job.settings, *transactions.aborts(mark, parts), retries=1) if parts else []
    except PubqueueSparkError as error:
        return _leave(mark, str(error))
    for answer in answers:
        if isinstance(answer, Refusal):
            return _leave(mark, explanation(answer))
    return log.warning("%s failed; items that its tasks had staged are dropped", mark)


def on_taken(settings: Settings) -> OnTaken:
    """Return what `onError` means for ids that are taken when the batch is committed."""
    match settings.on_error:
        case "deadletter":
            return OnTaken("dead-letter", settings.dead_letter_node)
        case chosen:
            return OnTaken(chosen)


def replayed(settings: Settings, mark: Mark) -> str:
    """Return the message about a batch that was committed before."""
    return (
        f"{mark} was committed to {settings.service} before, and is not written again"
        f" (onReplay={settings.on_replay})."
    )


class Progress:
    """Logs how far a commit is, now and then; the one line of a short commit comes at its end."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self._began = self._logged = time.monotonic()

    def reported(self, at_work: AtWork) -> None:
        """Log the progress if the last line is old enough."""
        now = time.monotonic()
        if now - self._logged >= REPORT_EVERY:
            self._logged = now
            log.info("%s: after %.0f s %s", self._mark, now - self._began, at_work)


def _certain(job: Job, mark: Mark, done: Sequence[Written]) -> tuple[Answer, bool]:
    settings = job.settings
    parts = [
        transactions.Part(it.partition, it.attempt, it.items, it.bytes) for it in done if it.items
    ]
    totals = transactions.Totals(
        sum(it.left_out for it in done),
        sum(it.dead_lettered for it in done),
        max(it.seconds for it in done),
    )
    try:
        question = transactions.commit(
            mark, parts, totals, on_taken(settings), progress=job.progress
        )
    except ValueError as error:
        raise ServiceError(str(error)) from None
    try:
        return ask_until_done(settings, question, Progress(mark).reported)
    except ServiceError as error:
        raise ServiceError(f"{error} {_unknown(mark)}") from None


def _unknown(mark: Mark) -> str:
    return (
        f"Whether {mark} is committed is not known. Run it again with the same txnAppId and"
        " txnVersion: the rows will be there exactly once (a stream retries by itself)."
    )


def _leave(mark: Mark, why: str) -> None:
    log.warning("%s failed, and its staged items stay until they expire: %s", mark, why)


def _print_done(
    settings: Settings, mark: Mark, done: Sequence[Written], reply: Committed | None
) -> None:
    """Write the one line of a batch."""
    known = reply.known if reply is not None else 0
    taken = reply.taken if reply is not None else 0
    skipped = taken if settings.on_error == "skip" else 0
    log.info(
        "%s to %s: %d items, %d bytes, %d known, %d rows left out, %d dead-lettered,"
        " %d requests retried, %d reconnects, longest task %.1f s",
        mark,
        settings.service,
        sum(it.items for it in done) - known - taken,
        sum(it.bytes for it in done),
        known,
        sum(it.left_out for it in done) + skipped,
        sum(it.dead_lettered for it in done) + taken - skipped,
        sum(it.retries for it in done),
        sum(it.reconnects for it in done),
        max((it.seconds for it in done), default=0.0),
    )
