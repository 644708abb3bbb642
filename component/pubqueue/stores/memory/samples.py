"""Samples of the last hours, by node and time."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from pubqueue.app import listings as l
from pubqueue.core.model import Millis
from pubqueue.stores.memory.order import Order
from pubqueue.stores.memory.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pubqueue.core.reading.sampled import Sample
    from pubqueue.stores.memory.contents import Contents
    from pubqueue.stores.memory.table import Journal


class SampleTable:
    """The table of samples; nodes are known by their numbers."""

    def __init__(self, journal: Journal) -> None:
        self._samples: Table[tuple[int, Millis], Sample] = Table(journal, self._changed)
        self._places: Order[tuple[int, Millis]] = Order()
        self._times: Order[tuple[Millis, int]] = Order()

    def _changed(self, key: tuple[int, Millis], before: Sample | None, now: Sample | None) -> None:
        node, at = key
        if before is None and now is not None:
            self._places.add(key)
            self._times.add((at, node))
        elif before is not None and now is None:
            self._places.remove(key)
            self._times.remove((at, node))

    def add(self, node: int, sample: Sample) -> None:
        """Add what happened to what is known of that minute; what is there now takes the place of what was."""
        key = node, sample.at
        known = self._samples.rows.get(key)
        if known is not None:
            sample = replace(
                sample,
                published=known.published + sample.published,
                delivered=known.delivered + sample.delivered,
                completed=known.completed + sample.completed,
                failed=known.failed + sample.failed,
                waited=known.waited + sample.waited,
                longest=max(known.longest, sample.longest),
            )
        self._samples.put(key, sample)

    def drop(self, before: Millis, limit: int) -> None:
        """Drop the oldest ones that are from before this moment, so many at most."""
        for at, node in list(islice(self._times, limit)):
            if at >= before:
                break
            self._samples.put((node, at), None)

    def since(self, node: int, since: Millis) -> Iterator[Sample]:
        """Iterate over the samples of a node from a moment on."""
        for key in self._places.behind((node, Millis(since - 1))):
            if key[0] != node:
                break
            yield self._samples.rows[key]


def _samples(contents: Contents, which: l.Samples, _after: object) -> Iterator[Sample]:
    nodes = contents.nodes.nodes.rows
    for name in sorted(set(which.nodes) & nodes.keys()):
        yield from contents.samples.since(nodes[name].number, which.since)


LISTINGS: Final[dict[type, Callable[[Contents, Any, Any], Any]]] = {l.Samples: _samples}
