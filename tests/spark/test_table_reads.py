"""Reading the log page by page, with a service that loses events at the worst moments."""

from datetime import UTC, datetime

import pytest

from pubqueue_spark.errors import ServiceError
from pubqueue_spark.read import table_reads
from pubqueue_spark.read.options import settings
from pubqueue_spark.read.table_reads import ReadPartition
from pubqueue_xeps.wire.requests.pages import Event, EventPage

LEAST = {"service": "q", "jid": "etl@localhost", "password": "x", "table": "events"}
PAGE = 3


class Log:
    """A service with events 1 to 10; nodes a and b by turns."""

    def __init__(self, **options):
        self.settings = settings(LEAST | options, stream=False)
        self.oldest, self.newest = 1, 10
        self.asked = []

    def events(self, node, after, until=None, most=None):
        self.asked.append((node, after, until))
        end = min(self.newest, until or self.newest)
        seqs = [n for n in range(max(self.oldest, after + 1), end + 1) if node in (None, of(n))]
        page = seqs[: most or PAGE]
        more = len(seqs) > len(page)
        through = page[-1] if more else max(end, after)
        return EventPage(tuple(map(event, page)), self.oldest, self.newest, through, more)


def of(seq):
    return "ab"[seq % 2]


def event(seq):
    at = datetime(2026, 11, 21, tzinfo=UTC)
    return Event(seq, at, "published", of(seq), "i", 0, None, "p", 0, None, None, None, None)


def numbers(log, part):
    return [row[0] for row in table_reads.of(log).rows(part)]


def test_a_part_is_read_over_all_its_pages_and_no_further():
    log = Log()
    assert numbers(log, ReadPartition(None, 1, 9)) == list(range(2, 10))
    assert [after for _, after, _ in log.asked] == [1, 4, 7]


def test_one_node_is_asked_for_and_several_are_picked():
    one, several = Log(node="a"), Log(node="a,z*")
    (part,) = table_reads.of(one).parts(0, 10)
    assert (part.node, numbers(one, part)) == ("a", [2, 4, 6, 8, 10])
    (part,) = table_reads.of(several).parts(0, 10)
    assert (part.node, numbers(several, part)) == (None, [2, 4, 6, 8, 10])


def test_the_log_begins_behind_what_it_has_forgotten():
    log = Log()
    assert table_reads.of(log).ends() == (0, 10)
    log.oldest = 5
    assert table_reads.of(log).ends() == (4, 10)
    log.oldest = log.newest = 0
    assert table_reads.of(log).ends() == (0, 0)


def test_events_forgotten_before_the_plan_fail_it():
    log = Log()
    log.oldest = 4
    with pytest.raises(ServiceError, match=r"^q has deleted events 2 to 3 .*failOnDataLoss=false"):
        table_reads.of(log).parts(1, 10)
    assert len(table_reads.of(log).parts(3, 10)) == 1


def test_events_forgotten_between_two_pages_fail_the_task():
    log = Log()
    rows = table_reads.of(log).rows(ReadPartition(None, 0, 10))
    assert [next(rows)[0] for _ in range(PAGE)] == [1, 2, 3]
    log.oldest = 7
    with pytest.raises(ServiceError, match=r"^q has deleted events 4 to 6 "):
        next(rows)


def test_without_them_the_read_goes_on_and_reports_it(caplog):
    log = Log(failOnDataLoss="false")
    log.oldest = 7
    assert numbers(log, ReadPartition(None, 0, 10)) == [7, 8, 9, 10]
    assert "q has deleted events 1 to 6 (event_log_days, event_log_size); continuing" in caplog.text


def test_a_log_that_is_shorter_than_it_was_has_lost_events(caplog):
    log = Log()
    table_reads.of(log).check(10, 10)
    with pytest.raises(ServiceError, match=r"^the log of q ends at 10 and once went to 11;"):
        table_reads.of(log).check(11, 10)
    with pytest.raises(ServiceError, match=r"^the log of q ends at 10 and once went to 12;"):
        numbers(log, ReadPartition(None, 8, 12))
    table_reads.of(Log(failOnDataLoss="false")).check(11, 10)
    assert "once went to 11; continuing without them" in caplog.text
