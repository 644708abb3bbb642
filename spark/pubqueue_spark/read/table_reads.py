"""How each table is read: where its numbers end, how it is split into tasks, and its rows.

The driver calls `ends` and `parts`, a task calls `rows` of a part. Reading locks and changes nothing, so a part can be
read again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol

from pyspark.sql.datasource import InputPartition

from pubqueue_spark import content_types
from pubqueue_spark.errors import OptionError, ServiceError
from pubqueue_spark.read import tables
from pubqueue_spark.read.options import patterned
from pubqueue_spark.read.ranges import cut
from pubqueue_xeps.wire.requests.pages import Walk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from pubqueue_spark.read.service_pages import ServicePages
    from pubqueue_spark.read.tables import Row
    from pubqueue_xeps.wire.requests.pages import EventPage, ReadItem, ReadNode

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReadPartition(InputPartition):
    """A range of numbers, of one node or all chosen ones of a service, for one task."""

    node: str | None
    after: int
    until: int
    service: str = ""
    """The service, which a table itself does not know."""


class TableRead(Protocol):
    """One table of a service."""

    def ends(self) -> tuple[int, int]:
        """Return the number after which the table starts, and its newest; raise an error about the nodes."""

    def first(self, after: int) -> tuple[int, datetime] | None:
        """Return number and time of the first entry after a number."""

    def check(self, read: int, newest: int) -> None:
        """Check that the table still has the entries up to which a stream has read."""

    def parts(self, after: int, until: int) -> list[ReadPartition]:
        """Split a range into the parts of tasks."""

    def rows(self, part: ReadPartition) -> Iterator[Row]:
        """Yield the rows of a part, page by page."""


def of(service: ServicePages) -> TableRead:
    """Return the table that the settings choose."""
    match service.settings.table:
        case "events":
            return _Events(service)
        case "items" | "deadletters":
            return _Items(service)
        case "nodes" | "transactions":
            return _Whole(service)


def _nodes(service: ServicePages) -> list[str]:
    """Return the names of the chosen nodes that the account may read."""
    wanted = service.settings.nodes
    if wanted and not any(map(patterned, wanted)):
        return list(wanted)
    return _matching(service, [node.name for node in _all_nodes(service)])


def _all_nodes(service: ServicePages) -> Iterator[ReadNode]:
    walk = Walk[str | None](None)
    while walk.more:
        yield from walk.take(service.nodes(walk.after)).entries


def _matching(service: ServicePages, found: list[str]) -> list[str]:
    settings = service.settings
    for name in settings.nodes:
        if not patterned(name) and name not in found:
            raise OptionError(
                f"option node: {settings.service} has no node {name!r} that {settings.jid} may read."
            )
    return [name for name in found if _meant(name, settings.nodes)]


def _meant(name: str, wanted: tuple[str, ...]) -> bool:
    return not wanted or any(fnmatchcase(name, pattern) for pattern in wanted)


class _Events:
    """The event log. Events of all nodes share one number, so a range is split without regard to nodes."""

    def __init__(self, service: ServicePages) -> None:
        self._service = service
        self._settings = service.settings
        only = len(self._settings.nodes) == 1 and not patterned(self._settings.nodes[0])
        self._node = self._settings.nodes[0] if only else None

    def ends(self) -> tuple[int, int]:
        named: list[str | None] = [it for it in self._settings.nodes if not patterned(it)]
        pages = [self._service.events(name, 0, most=1) for name in named or [None]]
        return max(0, pages[0].oldest - 1), pages[0].newest

    def first(self, after: int) -> tuple[int, datetime] | None:
        walk = Walk(after)
        while walk.more:
            for event in walk.take(self._service.events(self._node, walk.after, most=1)).entries:
                return event.seq, event.at
        return None

    def check(self, read: int, newest: int) -> None:
        if newest < read:
            service = self._settings.service
            self._lost(f"the log of {service} ends at {newest} and once went to {read}")

    def parts(self, after: int, until: int) -> list[ReadPartition]:
        ranges = cut(after, until, self._settings.partitions)
        if ranges:
            self._see(self._service.events(self._node, after, until, most=1), after, until)
        return [ReadPartition(self._node, *range_) for range_ in ranges]

    def rows(self, part: ReadPartition) -> Iterator[Row]:
        walk = Walk(part.after, part.until)
        while walk.more:
            page = self._service.events(part.node, walk.after, part.until)
            self._see(page, walk.after, part.until)
            for event in walk.take(page).entries:
                if _meant(event.node, self._settings.nodes):
                    yield tables.event(event)

    def _see(self, page: EventPage, after: int, until: int) -> None:
        """Check that the log still has the requested events."""
        if page.oldest > after + 1:
            service = self._settings.service
            lost = f"{service} has deleted events {after + 1} to {min(page.oldest - 1, until)}"
            self._lost(f"{lost} (event_log_days, event_log_size)")
        self.check(until, page.newest)

    def _lost(self, what: str) -> None:
        if self._settings.fail_on_loss:
            raise ServiceError(f"{what}; failOnDataLoss=false continues without them.")
        log.warning("%s; continuing without them (failOnDataLoss=false)", what)


class _Items:
    """All items, or the dead ones. Their numbers increase in the whole service; nodes are read one by one."""

    def __init__(self, service: ServicePages) -> None:
        self._service = service
        self._settings = service.settings
        self._dead = self._settings.table == "deadletters"
        self._row = tables.dead_letter if self._dead else tables.item
        self._data = content_types.reader() if self._settings.data else None

    def ends(self) -> tuple[int, int]:
        pages = [self._service.items(node, 0, most=1) for node in _nodes(self._service)]
        return 0, max((page.newest for page in pages), default=0)

    def first(self, after: int) -> tuple[int, datetime] | None:
        pages = [self._service.items(node, after, most=1) for node in _nodes(self._service)]
        return min((self._place(item) for page in pages for item in page.entries), default=None)

    def check(self, read: int, newest: int) -> None:
        """Do nothing: the newest dead items may have been redriven or deleted."""

    def parts(self, after: int, until: int) -> list[ReadPartition]:
        nodes = _nodes(self._service) if after < until else []
        wanted = self._settings.partitions
        pieces = None if wanted is None else max(1, wanted // max(1, len(nodes)))
        found = []
        for node in nodes:
            page = self._service.items(node, after, until, most=1)
            if page.entries:
                begin, end = self._place(page.entries[0])[0] - 1, min(until, page.newest)
                found += [ReadPartition(node, *range_) for range_ in cut(begin, end, pieces)]
        return found

    def rows(self, part: ReadPartition) -> Iterator[Row]:
        assert part.node is not None, "items are read node by node"
        walk, payload = Walk(part.after, part.until), self._settings.payload
        while walk.more:
            page = self._service.items(part.node, walk.after, part.until, payload=payload)
            for item in walk.take(page).entries:
                row = self._row(item)
                yield row if self._data is None else (*row, *self._data(item))

    def _place(self, item: ReadItem) -> tuple[int, datetime]:
        if not self._dead:
            return item.seq, item.published
        assert item.dead_letter is not None, "those in the state dead have died"
        return item.dead_letter.seq, item.dead_letter.at


class _Whole:
    """A table without numbers, which one task reads."""

    def __init__(self, service: ServicePages) -> None:
        self._service = service

    def ends(self) -> tuple[int, int]:
        return 0, 0

    def first(self, after: int) -> None:
        del after

    def check(self, read: int, newest: int) -> None:
        del read, newest

    def parts(self, after: int, until: int) -> list[ReadPartition]:
        return [ReadPartition(None, after, until)]

    def rows(self, part: ReadPartition) -> Iterator[Row]:
        del part
        nodes = self._service.settings.table == "nodes"
        return self._node_rows() if nodes else self._record_rows()

    def _node_rows(self) -> Iterator[Row]:
        wanted = self._service.settings.nodes
        found: list[str] = []
        for node in _all_nodes(self._service):
            found.append(node.name)
            if _meant(node.name, wanted):
                yield tables.node(node)
        _matching(self._service, found)

    def _record_rows(self) -> Iterator[Row]:
        walk = Walk(0)
        while walk.more:
            yield from map(tables.record, walk.take(self._service.records(walk.after)).entries)
