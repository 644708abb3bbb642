"""The results of the rows of one attempt of a task, and the handling of bad rows."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from pubqueue_spark.client import refusals
from pubqueue_spark.client.refusals import Verdict
from pubqueue_spark.errors import RowError, ServiceError
from pubqueue_spark.write.rows import Publish
from pubqueue_xeps.wire.requests import publishing

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pubqueue_spark.client.request import Request
    from pubqueue_spark.write.bundles import Bundles
    from pubqueue_spark.write.options import Settings
    from pubqueue_spark.write.rows import Item, Rows
    from pubqueue_xeps.wire.refusals import Refusal

log = logging.getLogger(__name__)


class BadRows:
    """How many bad rows a task has had, at all of its services. Rows are read in one thread, and answers in another."""

    def __init__(self) -> None:
        self.count = 0
        self.lock = threading.Lock()


class RowResults:
    """Counts the rows that one service accepted, and handles each bad row by `onError`."""

    def __init__(
        self, rows: Rows, bundles: Bundles, settings: Settings, bad: BadRows | None = None
    ) -> None:
        self.items = 0
        """Accepted items; rows with the same node and id count once."""
        self.bytes = 0
        """Bytes of their payloads."""
        self.replayed = 0
        """Rows that the service skipped: their batch was committed before."""
        self.left_out = 0
        self.dead_lettered = 0
        self._rows = rows
        self._bundles = bundles
        self._settings = settings
        self._bad = bad or BadRows()
        # Hashes of ids that the user gave: they take a tenth of the memory of the text.
        self._sizes: dict[int, int] = {}

    def taken(self, request: Request, answer: Element) -> None:
        """Count the items of an accepted publish."""
        assert isinstance(request, Publish)
        other = publishing.other_id(answer, {item.id for item in request.items})
        if other is not None:
            raise ServiceError(
                f"{request} was changed on the way: the answer of {self._settings.service} names the item {other!r}."
            )
        if publishing.skipped(answer):
            self.skip(len(request.items))
            return
        for item in request.items:
            self.dead_lettered += item.raw is None
            before = self._before(item)
            self.items += before is None
            self.bytes += item.size - (before or 0)

    def skip(self, rows: int) -> None:
        """Count rows of a batch that was committed before."""
        with self._bad.lock:
            self.replayed += rows

    def refused(self, request: Request, refusal: Refusal, retried: int) -> list[Publish]:
        """Handle a publish that the service refused; if a row is the cause, as a bad row.

        With several rows the refusal does not name the cause, so they are sent again in two halves.
        """
        assert isinstance(request, Publish)
        verdict = refusals.judge(refusal)
        if len(request.items) > 1 and verdict in {Verdict.ROW, Verdict.FEWER}:
            return self._bundles.cut(request, too_many=verdict is Verdict.FEWER)
        service = self._settings.service
        failure = refusals.failure(refusal, request, service=service, retried=retried)
        item = request.items[0]
        if verdict is not Verdict.ROW or item.raw is None:
            raise failure
        reason = f"{service}: {refusals.explanation(refusal)}"
        with self._bad.lock:
            letter = self._bad_row(item.row, item.raw, str(failure), reason)
        return [] if letter is None else [self._rows.publish([letter])]

    def unfit(self, number: int, raw: object, reason: str) -> Item | None:
        """Handle a row that cannot become an item; return the item to send instead, if any."""
        sentence = (
            f"row {number} of partition {self._rows.partition} cannot become an item: {reason}."
        )
        with self._bad.lock:
            return self._bad_row(number, raw, sentence, reason)

    def _before(self, item: Item) -> int | None:
        """Return the size of the payload that this one replaces."""
        if item.generated:
            return None
        key = hash((item.node, item.id))
        before = self._sizes.get(key)
        self._sizes[key] = item.size
        return before

    def _bad_row(self, number: int, raw: object, sentence: str, reason: str) -> Item | None:
        chosen = self._settings
        self._bad.count += 1
        if chosen.on_error == "fail":
            raise RowError(sentence)
        if chosen.max_errors and self._bad.count > chosen.max_errors:
            raise RowError(
                f"partition {self._rows.partition} has more than maxErrors={chosen.max_errors} bad"
                f" rows; the last one: {sentence}"
            )
        if self._bad.count == 1:
            log.warning("the first bad row (onError=%s): %s", chosen.on_error, sentence)
        if chosen.on_error == "skip":
            self.left_out += 1
            return None
        assert chosen.dead_letter_node is not None, "checked with the options"
        return self._rows.letter(number, raw, chosen.dead_letter_node, reason)
