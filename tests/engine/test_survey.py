"""All queues at once: problems of each, totals, and pages in any order, for any number of queues."""

import math

import pytest
from harness.batches.facts import ANN, BOSS, ETL, EVE, JOBS, NOW, after, queue, who
from harness.batches.queue_requests import a_queue, joins, publishes, unlocks
from harness.batches.shell import Shell
from msgspec.structs import replace

from pubqueue.engine.facts import reading
from pubqueue.engine.observe import Rates
from pubqueue.model.decision import Refusal
from pubqueue.model.entities import Millis, NodeName
from pubqueue.model.replies import NodeEntry, Totals
from pubqueue.operations.model import Given, UnfitError
from pubqueue.operations.searching import place_from, place_in_words
from pubqueue.operations.service import OVERVIEW, in_words
from pubqueue.rules import survey
from pubqueue.rules.settle import Outcome
from pubqueue.rules.survey import OLD, PROBLEMS, Problem, ReadSurvey, Sort, place_of, problems_of

OWNER, ADMIN = who(BOSS), who(EVE, admin=True)


@pytest.fixture(params=[1, 2, 50])
def shell(tmp_path, monkeypatch, request):
    monkeypatch.setattr(reading, "MAX_NODES", request.param)
    shell = Shell(tmp_path / "queue.db")
    yield shell
    shell.close()


def entry(subscriptions=1, *, oldest=None, rate=0.0, failing=0.0, **facts):
    counts = {name: facts.pop(name, 0) for name in ("queued", "locked", "delayed", "dead")}
    free, too_large = facts.pop("window_free", 0), facts.pop("too_large", 0)
    node = replace(queue(**facts), subscriptions=subscriptions)
    counts |= {"window_free": free, "oldest": oldest, "rate": rate, "failing": failing}
    return NodeEntry(node, **counts, too_large=too_large)


OLD_ENOUGH = Millis(NOW - OLD - 1)


@pytest.mark.parametrize(
    ("known", "problems"),
    [
        (entry(), ()),
        (entry(0), ()),
        (entry(0, queued=1), (Problem.NO_WORKERS,)),
        (entry(2, queued=1), (Problem.NO_WORKERS,)),
        (entry(2, queued=1, window_free=1), ()),
        (entry(2, queued=1, locked=1), ()),
        (entry(0, queued=1, paused=True), (Problem.PAUSED,)),
        (entry(oldest=OLD_ENOUGH), (Problem.OLD,)),
        (entry(oldest=Millis(NOW - OLD)), ()),
        (entry(oldest=OLD_ENOUGH, paused=True), (Problem.PAUSED,)),
        (entry(too_large=1), (Problem.TOO_LARGE,)),
        (entry(too_large=1, paused=True), (Problem.PAUSED,)),
        (entry(dead=1), (Problem.DEAD,)),
        (entry(rate=1.0, failing=1.0), ()),
        (entry(rate=1.0, failing=1.1), (Problem.FAILING,)),
        (entry(publish_paused=True), (Problem.CLOSED,)),
        (
            entry(
                *(0,),
                queued=1,
                oldest=OLD_ENOUGH,
                dead=1,
                failing=1.0,
                too_large=1,
                publish_paused=True,
            ),
            tuple(one for one in PROBLEMS if one is not Problem.PAUSED),
        ),
    ],
)
def test_the_problems_of_a_queue(known, problems):
    assert problems_of(known, NOW) == problems


def furnish(shell):
    """Make a queue without workers, one with a dead item, a paused one, a healthy one, and a plain node."""
    for name in ("alone", "dead", "idle", "paused", "well"):
        shell.do(a_queue(NodeName(name), paused=name == "paused"))
    shell.do(a_queue(NodeName("plain"), queueing=False))
    shell.batch(*(joins(ANN, 9, node=NodeName(name)) for name in ("dead", "paused", "well")))
    shell.batch(publishes("a", "b", node=NodeName("alone")), publishes("p", node=NodeName("plain")))
    shell.batch(publishes("c", node=NodeName("dead")), publishes(*"def", node=NodeName("well")))
    shell.do(unlocks(ANN, "c", node=NodeName("dead"), outcome=Outcome.REJECT, reason="no"))


def names(found):
    return [row.entry.node.name for row in found.rows]


def test_problems_come_first_and_totals_are_of_all(shell):
    furnish(shell)
    for by in (OWNER, ADMIN):
        found = shell.do(ReadSurvey(by))
        assert names(found) == ["alone", "dead", "paused", "idle", "well"]
        assert [row.problems for row in found.rows[:3]] == [
            (Problem.NO_WORKERS,),
            (Problem.DEAD,),
            (Problem.PAUSED,),
        ]
        counts = tuple((one, 1) for one in (Problem.NO_WORKERS, Problem.DEAD, Problem.PAUSED))
        assert found.totals == Totals(5, 1, 3, 2, 3, 0, 1, 0.0, counts)
        assert (found.more, found.whole) == (False, True)
    assert in_words(found.totals, whole=True) == (
        "5 queues, 3 with problems (1 without workers, 1 with dead items, 1 paused), and 1 plain node."
        " 2 waiting, 0 delayed, 3 in flight, 1 dead, 0.0 done per minute."
    )


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        (Sort.NAME, "alone"),
        (Sort.WAITING, "alone"),
        (Sort.IN_FLIGHT, "well"),
        (Sort.DEAD, "dead"),
        (Sort.OLDEST, "alone"),
        (Sort.SUBSCRIBERS, "dead"),
        (Sort.ITEMS, "well"),
    ],
)
def test_any_order_goes_on_where_a_page_ended(shell, sort, first):
    furnish(shell)
    found, place, more = [], None, True
    while more:
        page = shell.do(ReadSurvey(OWNER, sort, after=place, most=2))
        found += names(page)
        place, more = place_of(page.rows[-1], sort), page.more
        assert place_from(place_in_words(place)) == place
    assert (found[0], sorted(found)) == (first, ["alone", "dead", "idle", "paused", "well"])


def test_plain_nodes_stand_apart_and_names_are_searched(shell):
    furnish(shell)
    assert names(shell.do(ReadSurvey(OWNER, plain=True))) == ["plain"]
    paused = shell.do(ReadSurvey(OWNER, problem=Problem.PAUSED))
    assert names(paused) == ["paused"]
    assert paused.totals == shell.do(ReadSurvey(OWNER)).totals
    found = shell.do(ReadSurvey(OWNER, containing="EA"))
    assert (names(found), found.totals.queues) == (["dead"], 1)


def test_only_the_first_of_very_many_nodes_are_surveyed(shell, monkeypatch):
    monkeypatch.setattr(survey, "MAX_NODES", 2)
    monkeypatch.setattr(reading, "MAX_NODES", 1)
    furnish(shell)
    found = shell.do(ReadSurvey(OWNER))
    assert (names(found), found.whole) == (["alone", "dead"], False)
    assert in_words(found.totals, whole=False).startswith("The first 2 queues, ")


def test_a_long_queue_is_counted_in_slices_on_the_way(shell, monkeypatch):
    monkeypatch.setattr(reading, "COUNTED", 1)
    monkeypatch.setattr(reading, "SCANNED", 1)
    furnish(shell)
    found = shell.do(ReadSurvey(OWNER))
    assert (found.totals.queued, found.totals.locked, found.totals.dead) == (2, 3, 1)


def test_only_managers_of_a_node_see_any(shell):
    furnish(shell)
    for by in (ETL, ANN):
        assert shell.do(ReadSurvey(who(by))).refusal is Refusal.FORBIDDEN
    assert names(shell.do(ReadSurvey(ADMIN, containing="none"))) == []


def test_a_place_that_means_none_is_refused():
    assert place_from("") is None
    assert place_from(place_in_words((math.inf, "a:b"))) == (math.inf, "a:b")
    for odd in ("a", "1", "x:a"):
        with pytest.raises(UnfitError, match=r"^after: the place of a row"):
            OVERVIEW.ask(OWNER, Given(after=(odd,)))


def test_recent_failures_are_counted(tmp_path):
    shell, counted = Shell(tmp_path / "queue.db"), Rates()
    shell.do(a_queue())
    shell.batch(joins(ANN, 9), publishes("a", "b", "c"))
    counted.note(NOW, [], [])
    for outcome, name in ((Outcome.FAILED, "a"), (Outcome.REJECT, "b"), (Outcome.RELEASE, "c")):
        request = unlocks(ANN, name, outcome=outcome)
        counted.note(shell.now, [request], shell.batch(request).decisions)
    assert counted.failed_per_minute(JOBS, after(1)) == 2.0
    assert counted.per_minute(JOBS, after(1)) == 0.0
    assert counted.failed_per_minute(JOBS, after(3_600)) == 0.0
    shell.close()
