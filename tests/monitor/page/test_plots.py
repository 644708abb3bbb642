"""Plots: what holds in minutes without a sample, and what the lines are."""

from harness.batches.facts import JOBS

from pubqueue.model.records import SLOT, Sample
from pubqueue.monitor.page.plots import KINDS, SMALL, draw

ITEMS, RATES, LATENCY = KINDS
BEGIN, END = 10 * SLOT, 14 * SLOT


def at(minute, **facts):
    return Sample(JOBS, minute * SLOT, **facts)


def paths(kind, *samples, now=None):
    plot = draw(kind, samples, BEGIN, END, now or at(13))
    return [line.path for line in plot.lines]


def test_what_is_there_stays_as_it_was_and_ends_as_it_is():
    (path,) = paths(SMALL, at(10, queued=4), at(12, queued=2), now=at(13, queued=1))
    assert path == "M0.0 0.0H300.0V60.0H450.0V90.0H600.0"


def test_what_was_there_before_the_picture_is_there_at_its_beginning():
    (path,) = paths(SMALL, at(3, queued=4), now=at(13, queued=4))
    assert path == "M0.0 0.0H600.0"


def test_a_line_begins_where_something_is_known():
    (path,) = paths(SMALL, at(12, queued=4), now=at(13, queued=4))
    assert path == "M300.0 0.0H600.0"


def test_a_queue_in_which_nothing_happened_is_as_it_is():
    (path,) = paths(SMALL, now=at(13, queued=7))
    assert path == "M0.0 0.0H600.0"


def test_a_queue_that_is_younger_than_the_picture_is_drawn_from_then_on():
    plot = draw(SMALL, [], BEGIN, END, at(13, queued=7), made=12 * SLOT)
    assert [line.path for line in plot.lines] == ["M300.0 0.0H600.0"]


def test_an_empty_queue_is_drawn_at_the_bottom():
    (path,) = paths(SMALL)
    assert path == "M0.0 120.0H600.0"


def test_a_minute_without_a_sample_is_one_in_which_nothing_was_published():
    published = paths(RATES, at(11, published=6))[0]
    assert published == "M0.0 120.0H150.0V0.0H300.0V120.0H600.0"


def test_of_how_long_work_took_nothing_is_known_while_none_was_done():
    done = {"completed": 2, "waited": 6_000, "longest": 6_000}
    mean, longest = paths(LATENCY, at(10, **done), at(12, **done), at(13, failed=1))
    assert mean == "M0.0 60.0H150.0M300.0 60.0H450.0"
    assert longest == "M0.0 0.0H150.0M300.0 0.0H450.0"


def test_a_picture_can_be_read_aloud():
    plot = draw(LATENCY, [at(12, completed=2, waited=6_000, longest=5_000)], BEGIN, END, at(13))
    assert plot.summary == (
        "From publish to done from 00:10 to 00:14 UTC. mean: last 3 s, most 3 s; longest: last 5 s, most 5 s."
    )
