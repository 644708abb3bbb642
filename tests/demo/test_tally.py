import math

import pytest

from pubqueue_demo.report import (
    Delivered,
    Done,
    Lost,
    Ready,
    Result,
    Stalling,
    Unlocked,
    emit,
    read,
)  # fmt: skip
from pubqueue_demo.tally import Figures, Spread, Tally, WorkerCount, spread


def tally(*lines) -> Tally:
    """Feed lines of (worker, report)."""
    filled = Tally()
    for worker, line in lines:
        filled.add(worker, line)
    return filled


def delivered(item, *, attempt=1, published=0.0, at=1.0):
    return Delivered(id=item, attempt=attempt, published=published, at=at)


def life(worker, item, *, attempt=1, at=1.0, took=0.5, minutes=0):
    """The reports of an item that goes well."""
    return [
        (worker, delivered(item, attempt=attempt, at=at)),
        (worker, Result(id=item, minutes=minutes, at=at + took)),
        (worker, Done(id=item, at=at + took)),
    ]


def test_a_run_without_trouble():
    lines = [*life("a", "1", at=1, took=1, minutes=40), *life("b", "2", at=2, took=2)]
    assert tally(*lines).figures({"1", "2"}, ()) == Figures(
        published=2, completed=2, unconfirmed=0, redelivered=0, duplicates=0, remaining=0, lost=0,
        rate=0.5, publish_to_delivery=Spread(1, 2), delivery_to_done=Spread(1, 2), minutes=40,
    )  # fmt: skip


def test_an_item_that_is_neither_done_nor_in_the_queue_is_lost():
    figures = tally(*life("a", "1")).figures({"1", "2"}, ())
    assert (figures.lost, figures.good) == (1, False)


def test_a_delivery_alone_does_not_save_an_item_from_being_lost():
    assert tally(("a", delivered("1"))).figures({"1"}, ()).lost == 1


def test_an_item_still_in_the_queue_is_not_lost_but_the_run_is_not_good():
    figures = tally(*life("a", "1")).figures({"1", "2"}, {"2"})
    assert (figures.lost, figures.remaining, figures.good) == (0, 1, False)


def test_a_confirmed_item_that_is_in_the_queue_again_is_not_completed():
    figures = tally(*life("a", "1")).figures({"1"}, {"1"})
    assert (figures.completed, figures.good) == (0, False)


def test_work_whose_confirmation_died_with_its_worker_is_completed_and_shown():
    lines = [("a", delivered("1")), ("a", Result(id="1", minutes=5, at=2))]
    figures = tally(*lines).figures({"1"}, ())
    assert (figures.completed, figures.unconfirmed, figures.good) == (1, 1, True)


def test_an_item_that_was_never_published_is_not_counted_as_completed():
    assert tally(*life("a", "1"), *life("a", "2")).figures({"1"}, ()).completed == 1


def test_a_second_attempt_is_a_redelivery_and_work_done_twice_is_a_duplicate():
    lines = [
        *life("a", "1")[:2],
        ("a", Lost(id="1", at=9)),
        *life("b", "1", attempt=2, at=7, took=0.25),
    ]
    counted = tally(*lines)
    figures = counted.figures({"1"}, ())
    assert (figures.redelivered, figures.duplicates, figures.completed) == (1, 1, 1)
    # the age of a redelivered item is the lock timeout's, and a lost lock is not done
    assert figures.publish_to_delivery == Spread(1, 1)
    assert figures.delivery_to_done == Spread(0.25, 0.25)
    assert counted.workers == {
        "a": WorkerCount(delivered=1, lost_locks=1),
        "b": WorkerCount(delivered=1, done=1),
    }


def test_unlocks_are_counted_by_worker_and_talk_is_not():
    lines = [("a", Ready()), ("a", Stalling(seconds=7)), ("a", Unlocked(id="1", at=1))]
    assert tally(*lines).workers == {"a": WorkerCount(unlocked=1)}


def test_nothing_at_all_has_no_percentiles_and_no_rate():
    figures = Tally().figures((), ())
    assert (figures.published, figures.completed, figures.rate) == (0, 0, 0)
    assert math.isnan(figures.publish_to_delivery.p50)


@pytest.mark.parametrize(
    ("values", "p50", "p99"),
    [([3.0], 3, 3), ([1.0, 2.0], 1, 2), ([*map(float, range(1, 101))], 50, 99),
     ([*map(float, range(200, 0, -1))], 100, 198)],
)  # fmt: skip
def test_percentiles_are_by_nearest_rank(values, p50, p99):
    assert spread(values) == Spread(p50, p99)


@pytest.mark.parametrize("line", [Ready(), delivered("1"), Result(id="ü\n", minutes=-3, at=1.5)])
def test_a_report_is_one_line_and_reads_back_equal(line, capsys):
    emit(line)
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert read(said) == line
