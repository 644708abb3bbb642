"""Alerts: what is wrong with a queue, when it is said, when it is over; and who may store what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pubqueue.model.changes import DropRow, PutRow
from pubqueue.model.decision import Decision, Done, Refusal, Refused, refuse
from pubqueue.model.entities import Jid, Millis, Node, NodeConfig, NodeName, Principal
from pubqueue.model.records import Alert, AlertPage, AlertWatch
from pubqueue.model.replies import NodeEntry
from pubqueue.rules import alerts as a

NOW = Millis(100_000_000)
SERVICE, ANN = Principal(Jid("q.x"), admin=True), Principal(Jid("ann@x"))
TERMS = a.AlertTerms()
WAIT, OVER = 1_000, 2_000
BAD = a.Sight(a.Wrong.NO_WORKERS, "jobs", bad=True, patience=Millis(WAIT))
WELL = replace(BAD, bad=False)


def mark(since=0, *, raised=False, well=None):
    """Return a mark with moments as milliseconds before now."""
    return a.Mark(Millis(NOW - since), raised, None if well is None else Millis(NOW - well))


NOTHING, RAISE, END = a.Step.NOTHING, a.Step.RAISE, a.Step.END


@pytest.mark.parametrize(
    ("before", "sight", "after", "step"),
    [
        (None, WELL, None, NOTHING),
        (None, BAD, mark(), NOTHING),
        (None, replace(BAD, patience=Millis(0)), mark(raised=True), RAISE),
        (mark(WAIT - 1), BAD, mark(WAIT - 1), NOTHING),
        (mark(WAIT), BAD, mark(WAIT, raised=True), RAISE),
        (mark(WAIT - 1), WELL, None, NOTHING),
        (mark(9_000, raised=True), BAD, mark(9_000, raised=True), NOTHING),
        (mark(9_000, raised=True), WELL, mark(9_000, raised=True, well=0), NOTHING),
        (
            mark(9_000, raised=True, well=OVER - 1),
            WELL,
            mark(9_000, raised=True, well=OVER - 1),
            NOTHING,
        ),
        (mark(9_000, raised=True, well=OVER), WELL, None, END),
        (mark(9_000, raised=True, well=OVER), BAD, mark(9_000, raised=True), NOTHING),
        # of a clock that was ahead
        (mark(-5_000), BAD, mark(), NOTHING),
        (mark(9_000, raised=True, well=-5_000), WELL, mark(9_000, raised=True, well=0), NOTHING),
    ],
)
def test_what_is_remembered_and_said(before, sight, after, step):
    assert a.judge(before, sight, NOW, Millis(OVER)) == (after, step)


SIGHTS = st.lists(st.tuples(st.integers(0, 4_000), st.booleans()), max_size=60)


@given(SIGHTS)
def test_it_is_said_once_and_once_when_it_is_over_and_never_too_early(sights):
    """An oracle that knows the whole past says the same."""
    now, known, raised = 0, None, False
    past = []
    for passed, bad in sights:
        now += passed
        past.append((now, bad))
        known, step = a.judge(known, replace(BAD, bad=bad), Millis(now), Millis(OVER))
        run = len(past)  # where the present stretch of equal looks begins
        while run > 0 and past[run - 1][1] is bad:
            run -= 1
        lasted = now - past[run][0]
        if not raised and bad and lasted >= WAIT:
            assert step is RAISE
            raised = True
        elif raised and not bad and lasted >= OVER:
            assert step is END
            raised = False
        else:
            assert step is NOTHING
        assert (known is not None and known.raised) is raised


# --- a look at a queue ---------------------------------------------------------------------------


def entry(*, queued=0, locked=0, dead=0, window=0, subscriptions=0, age=None, **config):
    node = Node(NodeName("jobs"), NodeConfig(queueing=True, **config), Jid("ann@x"), NOW)
    node = replace(node, subscriptions=subscriptions)
    oldest = None if age is None else Millis(NOW - age)
    return NodeEntry(node, queued, locked, 0, dead, window, oldest)


def wrong(one, terms=TERMS):
    return {sight.wrong for sight in a.look_at(one, terms, NOW) if sight.bad}


NO_WORKERS, OLD, DEAD = a.Wrong.NO_WORKERS, a.Wrong.OLD, a.Wrong.DEAD
AGED = TERMS.rules[0].oldest


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (entry(), set()),
        (entry(dead=1), {DEAD}),
        (entry(queued=1, age=1), {NO_WORKERS}),
        (entry(queued=1, subscriptions=1), {NO_WORKERS}),  # none of them is available
        (entry(queued=1, subscriptions=1, window=1), set()),
        (entry(queued=1, subscriptions=1, locked=1), set()),  # it is at work, and full
        (entry(locked=1), set()),
        (entry(queued=1, subscriptions=1, window=1, age=AGED), set()),
        (entry(queued=1, subscriptions=1, window=1, age=AGED + 1), {OLD}),
        (entry(queued=1, age=AGED + 1, dead=2, paused=True), {DEAD}),
    ],
)
def test_what_is_wrong_with_a_queue(one, expected):
    assert wrong(one) == expected


def test_a_plain_node_has_no_alerts():
    plain = entry(queued=1, dead=1, age=AGED + 1)
    plain = replace(plain, node=replace(plain.node, config=NodeConfig()))
    assert list(a.look_at(plain, TERMS, NOW)) == []


def test_the_first_rule_that_covers_a_name_applies_and_0_looks_at_nothing():
    trouble = entry(queued=1, dead=3, age=AGED + 1)
    off = a.QueueRule(("j?bs", "mail-*"), 0, Millis(0), Millis(0))
    some = a.QueueRule(("jobs",), 4, AGED, Millis(0))
    assert wrong(trouble, a.AlertTerms(rules=(off, a.QueueRule()))) == set()
    assert wrong(trouble, a.AlertTerms(rules=(some, off))) == {OLD}
    assert wrong(trouble, a.AlertTerms(rules=(a.QueueRule(("JOBS",)),))) == set()


def test_a_disk_and_an_account_have_to_be_better_than_the_bound_before_it_is_over():
    bound = TERMS.disk_free
    for free, raised, bad in (
        (bound, False, False),
        (bound - 1, False, True),
        (bound, True, True),
        (int(bound * 1.2), True, False),
    ):
        assert a.look_at_disk("/d", free, TERMS, raised=raised).bad is bad
    for share, raised, bad in (
        (0.89, False, False),
        (0.9, False, True),
        (0.89, True, True),
        (0.8, True, False),
    ):
        assert a.look_at_account("ann@x", share, TERMS, raised=raised).bad is bad


@pytest.mark.parametrize(
    ("millis", "words"),
    [(0, "0 s"), (-5, "0 s"), (119_999, "119 s"), (120_000, "2 min"), (7_200_000, "2 h")],
)
def test_times_are_in_words(millis, words):
    assert a.span(millis) == words


# --- the requests --------------------------------------------------------------------------------

MINE = AlertWatch(a.WATCH, "1", Millis(NOW + a.LEASE))
OTHERS = replace(MINE, runner="2")
ALERT = Alert("dead items:jobs", NOW, "1 dead")


@pytest.mark.parametrize(
    ("known", "has"),
    [
        (None, True),
        (MINE, True),
        (OTHERS, False),
        (replace(OTHERS, until=NOW), True),  # it is over
        (replace(OTHERS, until=Millis(NOW + a.LEASE + 1)), True),  # of a clock that was ahead
    ],
)
def test_one_instance_has_the_watch(known, has):
    decision = a.watch(a.WatchAlerts(SERVICE, "1"), a.WatchFacts(NOW, known))
    assert decision == (Decision(MINE, (PutRow(MINE),)) if has else Decision(known))


@pytest.mark.parametrize("known", [None, OTHERS])
def test_only_the_instance_with_the_watch_stores_alerts(known):
    request = a.NoteAlerts(SERVICE, "1", (ALERT,), ("old item:jobs",))
    gone = replace(ALERT, name="old item:jobs")
    stored = a.note(request, a.NoteFacts(MINE, (gone,)))
    assert stored == Decision(Done(), (PutRow(ALERT), DropRow(Alert, gone.name)))
    assert a.note(request, a.NoteFacts(known, (gone,))) == refuse(Refusal.LOCK_LOST)


def test_so_many_alerts_are_stored_at_once():
    many = tuple(replace(ALERT, name=f"{at}") for at in range(a.AT_ONCE))
    assert a.fault_of_note(a.NoteAlerts(SERVICE, "1", many)) is None
    refused = a.fault_of_note(a.NoteAlerts(SERVICE, "1", many, ("x",)))
    assert refused == Refused(Refusal.TOO_MANY_ITEMS, limit=a.AT_ONCE)


def test_why_a_target_fails_is_stored_and_forgotten_and_the_same_again_changes_nothing():
    def noted(why, known=None):
        return a.note_target(a.NoteTarget(SERVICE, "room@x", why), a.TargetFacts(NOW, known))

    row = Alert("target:room@x", NOW, "closed", reported=NOW)
    assert noted("closed") == Decision(Done(), (PutRow(row),))
    assert noted("closed", row) == noted("") == Decision(Done())
    since = replace(row, since=Millis(5))
    assert noted("full", since) == Decision(Done(), (PutRow(replace(since, detail="full")),))
    assert noted("", row) == Decision(Done(), (DropRow(Alert, row.name),))


def test_a_page_of_alerts():
    rows = tuple(replace(ALERT, name=f"{at}") for at in range(3))
    read = a.read_alerts(a.ReadAlerts(SERVICE, most=2), a.AlertsFacts(rows))
    assert read == Decision(AlertPage(rows[:2], more=True))


@pytest.mark.parametrize(
    ("rule", "request_"),
    [
        (lambda r: a.watch(r, a.WatchFacts(NOW, None)), a.WatchAlerts(ANN, "1")),
        (lambda r: a.note(r, a.NoteFacts(MINE)), a.NoteAlerts(ANN, "1")),
        (lambda r: a.note_target(r, a.TargetFacts(NOW, None)), a.NoteTarget(ANN, "x", "y")),
        (lambda r: a.read_alerts(r, a.AlertsFacts(())), a.ReadAlerts(ANN)),
    ],
)
def test_others_may_do_nothing_of_this(rule, request_):
    assert rule(request_) == refuse(Refusal.FORBIDDEN, a.FOR_ADMINS)


# --- the text ------------------------------------------------------------------------------------


def test_a_report_has_the_worst_first_and_then_what_is_over():
    over = replace(ALERT, name="old item:mail", over=Millis(NOW + 180_000))
    none = replace(ALERT, name="no workers:jobs", detail="3 waiting")
    assert a.text_of(a.Report("q.x", (over, ALERT, none))) == (
        "q.x:\n"
        "ALERT jobs: no workers: 3 waiting\n"
        "ALERT jobs: dead items: 1 dead\n"
        "OVER mail: old item, after 3 min"
    )
    assert a.text_of(a.Report("q.x", (ALERT,))) == "q.x: ALERT jobs: dead items: 1 dead"


def test_a_text_is_bounded_whatever_the_number_of_alerts_and_the_length_of_names():
    many = tuple(replace(ALERT, name=f"dead items:{'x' * 1_000}{at}") for at in range(10_000))
    text = a.text_of(a.Report("q.x", many))
    assert text.endswith("\n... and 9980 more")
    assert len(text) < 5_000


@pytest.mark.parametrize(
    ("known", "rule", "moment"),
    [
        ({"oldest": NOW}, {"oldest": 600_000}, NOW + 600_001),
        ({"oldest": None}, {"oldest": 600_000}, None),
        ({"oldest": NOW}, {"oldest": 0}, None),
        ({"oldest": NOW, "paused": True}, {"oldest": 600_000}, None),
        ({"oldest": NOW, "queueing": False}, {"oldest": 600_000}, None),
        ({"oldest": NOW}, {"oldest": 600_000, "nodes": ("mail-*",)}, None),
    ],
)
def test_an_item_is_too_old_from_the_first_moment_at_which_a_look_says_so(known, rule, moment):
    terms = a.AlertTerms(rules=(a.QueueRule(**rule),))
    config = NodeConfig(queueing=known.get("queueing", True), paused=known.get("paused", False))
    node = Node(NodeName("jobs"), config, ANN.jid, NOW, 1, 1)
    entry = NodeEntry(node, 1, 0, 0, 0, 1, known["oldest"])
    assert a.too_old_at(entry, terms) == moment
    for at in (NOW + 600_000, NOW + 600_001):
        sights = a.look_at(entry, terms, Millis(at))
        bad = any(one.bad for one in sights if one.wrong is a.Wrong.OLD)
        assert bad is (moment is not None and at >= moment)
