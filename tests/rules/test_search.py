"""Searches in lists: what fits, in which order, and how an answer goes on; whatever the pages of the list are."""

from types import MappingProxyType

import pytest
from harness.batches.facts import ANN, BOB, BOSS, JOBS, NIGHTLY, NOW, queue, who, window
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pubqueue.model.decision import Decision, Done, Refusal, refuse
from pubqueue.model.entities import Affiliation, Jid, NodeName
from pubqueue.model.records import Alert, AlertPage, Registration, Registrations
from pubqueue.model.replies import (
    Affiliations,
    ClientState,
    ConnectionPage,
    Found,
    Part,
    Worker,
    WorkerPage,
)
from pubqueue.model.schedules import SchedulePage
from pubqueue.rules import search as s
from pubqueue.rules.alerts import ReadAlerts
from pubqueue.rules.inspect import ReadConnections, ReadWorkers
from pubqueue.rules.nodes import GetAffiliations
from pubqueue.rules.registrations import ListRegistrations
from pubqueue.rules.schedules import ListSchedules

ADMIN = who(BOSS, admin=True)


def page_of(alerts, within, size):
    rest = tuple(one for one in alerts if one.name > within.after)
    return Decision(AlertPage(rest[:size], len(rest) > size))


def searched(alerts, request, size=3):
    """Return one answer, and how many pages of the list it took."""
    steps = 0
    while True:
        steps += 1
        decision = s.search(request, s.SearchFacts(page_of(alerts, request.within, size)))
        if decision.then is None:
            return decision.reply, steps
        assert decision.reply == Done()
        request = decision.then


def everything(alerts, size=3, **wanted):
    """Return what a search finds, answer by answer."""
    after, found = ("", None), []
    for _ in range(len(alerts) + 2):
        within = ReadAlerts(ADMIN, after[0])
        reply, _ = searched(alerts, s.Search(ADMIN, within, after=after[1], **wanted), size)
        found += reply.page.entries
        if not reply.more:
            return found
        after = ("", reply.through) if wanted.get("sort") else (reply.through, None)
    raise AssertionError("it does not come to an end")


ALERTS = st.lists(
    st.builds(
        lambda kind, subject, since, over: Alert(f"{kind}:{subject}", NOW + since, over=over),
        st.sampled_from(["dead items", "target"]),
        st.text("abC", max_size=3),
        st.integers(0, 3),
        st.sampled_from([0, NOW]),
    ),
    max_size=12,
    unique_by=lambda one: one.name,
).map(lambda rows: sorted(rows, key=lambda one: one.name))


@given(
    alerts=ALERTS,
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    text=st.sampled_from(["", "a", "BC", "items"]),
    state=st.sampled_from(["", "raised", "over", "failing"]),
    sort=st.sampled_from(["", "since"]),
)
def test_all_that_fits_is_found_once_in_order_whatever_the_pages(alerts, sizes, text, state, sort):
    fits = s.KINDS[ReadAlerts].states.get(state, lambda _one: True)
    wanted = [one for one in alerts if fits(one) and text.casefold() in one.name.casefold()]
    if sort:
        wanted.sort(key=lambda one: (one.since, one.name))
    size, most = sizes
    found = everything(alerts, size, containing=text, state=state, sort=sort, most=most)
    assert found == wanted


MANY = [Alert(f"dead items:{n:03}", NOW - n) for n in range(20)]


def test_an_answer_looks_at_a_bounded_number_of_rows_and_says_so(monkeypatch):
    monkeypatch.setattr(s, "LOOKED_AT", 6)
    reply, steps = searched(MANY, s.Search(ADMIN, ReadAlerts(ADMIN), "019"))
    assert (reply.page.entries, reply.through, reply.more, reply.whole, steps) == (
        (),
        "dead items:005",
        True,
        True,
        2,
    )
    assert [one.name for one in everything(MANY, containing="019")] == ["dead items:019"]
    reply, steps = searched(MANY, s.Search(ADMIN, ReadAlerts(ADMIN), sort="since", most=2))
    assert [one.name[-2:] for one in reply.page.entries] == ["05", "04"]
    assert (reply.more, reply.whole, steps) == (True, False, 2)


def test_one_answer_keeps_no_more_rows_than_it_has_room_for():
    request = s.Search(ADMIN, ReadAlerts(ADMIN), sort="since", most=2)
    for _ in range(6):
        facts = s.SearchFacts(page_of(MANY, request.within, 3))
        request = s.search(request, facts).then
        assert len(request.known) == 3


def test_who_may_not_read_the_list_learns_nothing():
    no = refuse(Refusal.FORBIDDEN)
    assert s.search(s.Search(who(ANN), ReadAlerts(who(ANN)), "a"), s.SearchFacts(no)) == no


# --- each list ----------------------------------------------------------------------------------

WORKERS = (
    Worker(window(ANN, 4, in_flight=1), ()),
    Worker(window(BOB, 2, in_flight=2, available=False, quiet=True), ()),
    Worker(window("eve@x/1", 3, available=False, unanswered=2), ()),
)
CLIENTS = tuple(
    ClientState(Jid(f"{name}@x/stomp.0.1"), "stomp", peer, NOW + since, True, 1, holds, quiet=quiet)  # noqa: FBT003
    for name, peer, since, holds, quiet in (
        ("ann", "192.0.2.1", 2, 0, False),
        ("bob", "192.0.2.7", 1, 3, True),
    )
)
SCHEDULES = tuple(
    replace(
        NIGHTLY,
        definition=replace(NIGHTLY.definition, name=name, node=NodeName(node), enabled=enabled),
        **known,
    )
    for name, node, enabled, known in (
        ("a", "jobs", True, {"due": NOW + 5, "error": "node full"}),
        ("b", "mail", True, {"due": NOW + 1, "paused": True, "last": NOW}),
        ("c", "mail", False, {"due": None}),
    )
)
REGISTRATIONS = tuple(
    Registration(name, Jid("ann@x"), JOBS, queueing=True, words=b"{}", **known)
    for name, known in (
        ("a", {"failures": 1, "error": "timed out after 5 s"}),
        ("b", {"failures": 9, "disabled": True, "error": "404"}),
        ("c", {}),
    )
)
PEOPLE = (
    (Jid("ann@x"), Affiliation.MEMBER),
    (Jid("boss@x"), Affiliation.OWNER),
    (Jid("etl@x"), Affiliation.PUBLISHER),
)

LISTS = MappingProxyType(
    {
        "workers": (ReadWorkers(ADMIN, JOBS), WorkerPage(queue(), WORKERS, more=False)),
        "connections": (ReadConnections(ADMIN), ConnectionPage(CLIENTS, 2, NOW, more=False)),
        "schedules": (ListSchedules(ADMIN), SchedulePage(NOW, SCHEDULES)),
        "registrations": (ListRegistrations(ADMIN), Registrations(REGISTRATIONS)),
        "members": (GetAffiliations(ADMIN, JOBS), Affiliations(JOBS, PEOPLE, Part())),
    }
)

# fmt: off
FINDS = [
    ("workers", {"containing": "EVE"}, [2]),
    ("workers", {"state": "available"}, [0]),
    ("workers", {"state": "quiet"}, [1]),
    ("workers", {"state": "away"}, [2]),
    ("workers", {"sort": "holds"}, [1, 0, 2]),
    ("workers", {"sort": "window"}, [0, 2, 1]),
    ("workers", {"sort": "unanswered"}, [2, 0, 1]),
    ("connections", {"containing": "192.0.2.7"}, [1]),
    ("connections", {"state": "idle"}, [0]),
    ("connections", {"state": "busy"}, [1]),
    ("connections", {"state": "quiet"}, [1]),
    ("connections", {"sort": "holds"}, [1, 0]),
    ("connections", {"sort": "connected"}, [1, 0]),
    ("schedules", {"containing": "Mail"}, [1, 2]),
    ("schedules", {"containing": "mail", "state": "paused"}, [1]),
    ("schedules", {"state": "running"}, [0]),
    ("schedules", {"state": "not-enabled"}, [2]),
    ("schedules", {"state": "failing"}, [0]),
    ("schedules", {"reason": "* full"}, [0]),
    ("schedules", {"sort": "next"}, [1, 0, 2]),
    ("schedules", {"sort": "last"}, [1, 0, 2]),
    ("registrations", {"containing": "ann"}, [0, 1, 2]),
    ("registrations", {"state": "active"}, [0, 2]),
    ("registrations", {"state": "disabled"}, [1]),
    ("registrations", {"state": "failing"}, [0, 1]),
    ("registrations", {"reason": "timed out *"}, [0]),
    ("registrations", {"sort": "failures"}, [1, 0, 2]),
    ("members", {"containing": "b"}, [1]),
    ("members", {"state": "publisher"}, [2]),
    ("members", {"sort": "affiliation"}, [1, 2, 0]),
]
# fmt: on


@pytest.mark.parametrize(("name", "wanted", "expected"), FINDS)
def test_each_list_is_searched_by_what_its_rows_have(name, wanted, expected):
    within, page = LISTS[name]
    reply = s.search(s.Search(ADMIN, within, **wanted), s.SearchFacts(Decision(page))).reply
    assert isinstance(reply, Found)
    rows = s.KINDS[type(within)].rows
    assert rows(reply.page) == tuple(rows(page)[at] for at in expected)


def test_each_state_and_order_is_tried():
    tried = {
        (type(LISTS[name][0]), next(reversed(wanted.values())))
        for name, wanted, _ in FINDS
        if "containing" not in wanted or "state" in wanted
    }
    for kind, known in s.KINDS.items():
        if kind is ReadAlerts:
            continue  # above
        roles = {"member", "owner", "publish-only", "outcast"} if kind is GetAffiliations else set()
        words = {*known.states, *known.numbers} - roles
        assert {(kind, word) for word in words} <= tried


@pytest.mark.parametrize("name", LISTS)
def test_a_list_goes_on_after_its_last_row(name):
    within, page = LISTS[name]
    kind = s.KINDS[type(within)]
    if isinstance(within, GetAffiliations):
        within = replace(within, page=s.Page(None, 7))
    onward = kind.onward(within, kind.name(kind.rows(page)[-1]))
    after = onward.page.after if isinstance(onward, GetAffiliations) else onward.after
    assert after == kind.name(kind.rows(page)[-1])
