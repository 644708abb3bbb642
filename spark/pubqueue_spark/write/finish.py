"""What the driver does when the tasks have ended: it commits or aborts at each service, and logs one line for each, and others while a commit goes on."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pubqueue_spark import logs
from pubqueue_spark.client.ask import ask, ask_until_done
from pubqueue_spark.client.refusals import explanation
from pubqueue_spark.errors import PubqueueSparkError, ServiceError
from pubqueue_spark.write import placement
from pubqueue_spark.write.task import TaskWritten
from pubqueue_xeps.wire.refusals import Refusal
from pubqueue_xeps.wire.requests import transactions
from pubqueue_xeps.wire.requests.transactions import OnTaken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import WriterCommitMessage

    from pubqueue_spark.client.ask import Answer
    from pubqueue_spark.write.options import Settings
    from pubqueue_spark.write.task import Job, Written
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
    """Return the results of tasks, one for each service; Spark passes None for a task that failed."""
    return [
        written
        for message in messages
        if isinstance(message, TaskWritten)
        for written in message.written
    ]


def commit(job: Job, mark: Mark, done: Sequence[Written]) -> None:
    """Make the items of the winning attempts visible at each service, and log one line for each.

    A batch that was committed before is not written again; with `onReplay=fail` this is an error. An empty batch is not
    a transaction. With several services the commits follow each other: a driver that ends between two of them has
    committed a part, and the same batch, run again with the same services, completes it.
    """
    logs.make_audible()
    settings = job.settings
    shares = [(at, [it for it in done if it.service == at.service]) for at in settings.each()]
    touched = [at.service for at, own in shares if any(it.items or it.replayed for it in own)]
    if job.transactional and not settings.services.is_one:
        placement.check(settings, mark, touched)
    replays = []
    for at, own in shares:
        if job.transactional and at.service in touched:
            replays.append(_commit_at(replace(job, settings=at), settings, mark, own))
        elif own:
            _print_done(at, mark, own, None)
    if not replays or not all(replays):
        return None
    if settings.on_replay == "fail":
        raise ServiceError(replayed(settings, mark))
    return log.warning("%s", replayed(settings, mark))


def _commit_at(job: Job, all_of: Settings, mark: Mark, done: Sequence[Written]) -> bool:
    """Commit at one service; return whether the batch was committed there before, which only is logged if others follow."""
    settings = job.settings
    if not all_of.services.is_one:
        placement.note(settings, all_of, mark)
    answer, repeated = _certain(job, mark, done)
    if isinstance(answer, Refusal) and repeated and answer.condition in UNKNOWING:
        raise ServiceError(f"{settings.service}: {explanation(answer)}. {_unknown(mark)}")
    if isinstance(answer, Refusal):
        others = "" if all_of.services.is_one else f" at {settings.service}"
        raise ServiceError(
            f"{settings.service} refused the commit of {mark}, and nothing of it is visible{others}:"
            f" {explanation(answer)}.{_remedy(settings, answer)}"
        )
    committed = transactions.read_committed(answer)
    _warn_of_taken(settings, mark, committed)
    # Our own commit may have been carried out although its answer was lost.
    elsewhere = committed.already and not repeated
    if elsewhere or any(it.replayed for it in done):
        return True
    _print_done(settings, mark, done, committed)
    return False


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
    for at in job.settings.each():
        if (
            why := _abort_at(at, mark, [it for it in done if it.service == at.service])
        ) is not None:
            return log.warning(
                "%s failed, and its staged items stay until they expire: %s", mark, why
            )
    return log.warning("%s failed; items that its tasks had staged are dropped", mark)


def _abort_at(settings: Settings, mark: Mark, done: Sequence[Written]) -> str | None:
    """Drop at one service what these tasks have staged; return why that was not possible."""
    parts = [transactions.Part(it.partition, it.attempt, it.items, it.bytes) for it in done]
    try:
        answers = ask(settings, *transactions.aborts(mark, parts), retries=1) if parts else []
    except PubqueueSparkError as error:
        return str(error)
    return next((explanation(it) for it in answers if isinstance(it, Refusal)), None)


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
