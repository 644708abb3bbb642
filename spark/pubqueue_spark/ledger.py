"""What became of the rows of one attempt of a task, and what is done about bad ones."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from pubqueue_spark import refusals, txn
from pubqueue_spark.errors import RowError
from pubqueue_spark.refusals import Verdict
from pubqueue_spark.rows import Publish

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pubqueue_spark.options import Settings
    from pubqueue_spark.refusals import Refusal
    from pubqueue_spark.request import Request
    from pubqueue_spark.rows import Rows

log = logging.getLogger(__name__)


class PartitionLedger:
    """Counts what the service took, and finds for each bad row what `onError` says."""

    def __init__(self, rows: Rows, settings: Settings) -> None:
        self.items = 0
        """Items that the service holds; rows that share node and id are one."""
        self.bytes = 0
        """Of their payloads."""
        self.replayed = 0
        """Rows that the service skipped: their batch was committed before."""
        self.left_out = 0
        self.dead_lettered = 0
        self._rows = rows
        self._settings = settings
        self._bad = 0
        # Rows are read in one thread, and answers in another.
        self._lock = threading.Lock()
        # Of ids that the user gave: a hash takes a tenth of the memory of the text.
        self._sizes: dict[int, int] = {}

    def taken(self, request: Request, answer: Element) -> None:
        """Count an accepted publish."""
        assert isinstance(request, Publish)
        if answer.find(txn.SKIPPED) is not None:
            self.replayed += 1
            return
        self.dead_lettered += request.raw is None
        before = self._before(request)
        self.items += before is None
        self.bytes += request.size - (before or 0)

    def refused(self, request: Request, refusal: Refusal, retried: int) -> Publish | None:
        """Treat a publish that the service will not take: as a bad row, if the row is to blame."""
        assert isinstance(request, Publish)
        service = self._settings.service
        failure = refusals.failure(refusal, request, service=service, retried=retried)
        if refusals.judge(refusal) is not Verdict.ROW or request.raw is None:
            raise failure
        with self._lock:
            return self._bad_row(request.row, request.raw, str(failure), f"{service}: {refusal}")

    def unfit(self, number: int, raw: object, reason: str) -> Publish | None:
        """Treat a row that cannot become an item."""
        sentence = (
            f"row {number} of partition {self._rows.partition} cannot become an item: {reason}."
        )
        with self._lock:
            return self._bad_row(number, raw, sentence, reason)

    def _before(self, publish: Publish) -> int | None:
        """Return the size of the payload that this one replaces."""
        if publish.generated:
            return None
        key = hash((publish.node, publish.item_id))
        before = self._sizes.get(key)
        self._sizes[key] = publish.size
        return before

    def _bad_row(self, number: int, raw: object, sentence: str, reason: str) -> Publish | None:
        chosen = self._settings
        self._bad += 1
        if chosen.on_error == "fail":
            raise RowError(sentence)
        if chosen.max_errors and self._bad > chosen.max_errors:
            raise RowError(
                f"partition {self._rows.partition} has more than maxErrors={chosen.max_errors} bad"
                f" rows; the last one: {sentence}"
            )
        if self._bad == 1:
            log.warning("the first bad row (onError=%s): %s", chosen.on_error, sentence)
        if chosen.on_error == "skip":
            self.left_out += 1
            return None
        assert chosen.dead_letter_node is not None, "checked with the options"
        return self._rows.letter(number, raw, chosen.dead_letter_node, reason)
