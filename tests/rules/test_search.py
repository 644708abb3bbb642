"""Searches in lists: what fits, in which order, and how an answer goes on; whatever the pages of the list are."""

from types import MappingProxyType

import pytest
from harness.batches.facts import (
    ANN,
    BOB,
    BOSS,
    JOBS,
    NIGHTLY,
    NOW,
    plain,
    queue,
    waiting,
    who,
    window,
)
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pubqueue.model.decision import Decision, Done, Refusal, refuse
from pubqueue.model.entities import Affiliation, DeadLetter, ItemId, Jid, NodeName, State
from pubqueue.model.records import (
    AccountMessages,
    Alert,
    AlertPage,
    KeptMessages,
    Registration,
    Registrations,
)
from pubqueue.model.replies import (
    Affiliations,
    ClientState,
    ConnectionPage,
    Found,
    ItemEntry,
    ItemPage,
    NodeEntry,
    NodePage,
    Part,
    ReasonCount,
    ReasonPage,
    Worker,
    WorkerPage,
)
from pubqueue.model.schedules import SchedulePage
from pubqueue.rules import search as s
from pubqueue.rules.alerts import ReadAlerts
from pubqueue.rules.dead_letters import ReadReasons
from pubqueue.rules.inspect import ReadConnections, ReadWorkers
from pubqueue.rules.messages import ListMessages
from pubqueue.rules.nodes import GetAffiliations
from pubqueue.rules.read import Counting, ReadItems, ReadNodes
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

NODES = tuple(
    NodeEntry(
        replace(
            plain() if name == "news" else queue(name=name, **config),
            items=items,
            subscriptions=subs,
        ),
        *counts,
        0,
        oldest,
        rate=rate,
    )
    for name, config, items, subs, counts, oldest, rate in (
        ("eu mail", {}, 9, 1, (5, 1, 1, 2), NOW, 1.0),
        ("eu", {"paused": True}, 10, 2, (1, 2, 6, 1), NOW - 5, 0.0),
        ("us", {"publish_paused": True}, 8, 3, (2, 0, 0, 6), None, 2.0),
        ("news", {}, 0, 0, (0, 0, 0, 0), None, 0.0),
    )
)
ITEMS = tuple(
    ItemEntry(
        waiting(
            seq, id=ItemId(name), priority=priority, failed=failed, published=at, holder=holder
        ),
        size,
    )
    for name, seq, priority, failed, at, holder, size in (
        ("a", 7, 1, 0, NOW, None, 10),
        ("b", 8, 3, 2, NOW - 1, Jid("ann@x/1"), 30),
        ("c", 9, 2, 1, NOW + 1, None, 20),
    )
)
REASONS = tuple(
    ReasonCount(name, count, NOW + first, NOW + last)
    for name, count, first, last in (("timed out", 5, 2, 3), ("404 Not Found", 3, 1, 4))
)
HELD = tuple(
    AccountMessages(f"{name}@x", messages, size, NOW + until)
    for name, messages, size, until in (("ann", 1, 30, 3), ("bob", 3, 10, 2), ("eve", 2, 20, 1))
)

LISTS = MappingProxyType(
    {
        "workers": (ReadWorkers(ADMIN, JOBS), WorkerPage(queue(), WORKERS, more=False)),
        "connections": (ReadConnections(ADMIN), ConnectionPage(CLIENTS, 2, NOW, more=False)),
        "schedules": (ListSchedules(ADMIN), SchedulePage(NOW, SCHEDULES)),
        "registrations": (ListRegistrations(ADMIN), Registrations(REGISTRATIONS)),
        "queues": (ReadNodes(ADMIN), NodePage(NODES, more=False, now=NOW)),
        "items": (ReadItems(ADMIN, JOBS), ItemPage(JOBS, ITEMS, 9, 9, more=False)),
        "reasons": (ReadReasons(ADMIN, JOBS), ReasonPage(JOBS, REASONS, 9, False, True)),  # noqa: FBT003
        "messages": (ListMessages(ADMIN), KeptMessages(HELD, 9, 9, 0)),
        "members": (GetAffiliations(ADMIN, JOBS), Affiliations(JOBS, PEOPLE, Part())),
    }
)

# fmt: off
FINDS = [
    ("queues", {"containing": "EU"}, [0, 1]),
    ("queues", {"state": "running"}, [0, 2]),
    ("queues", {"state": "paused"}, [1]),
    ("queues", {"state": "closed"}, [2]),
    ("queues", {"state": "plain"}, [3]),
    ("queues", {"state": "empty"}, [3]),
    ("queues", {"sort": "waiting"}, [0, 2, 1, 3]),
    ("queues", {"sort": "in-flight"}, [1, 0, 3, 2]),
    ("queues", {"sort": "delayed"}, [1, 0, 3, 2]),
    ("queues", {"sort": "dead"}, [2, 0, 1, 3]),
    ("queues", {"sort": "oldest"}, [1, 0, 3, 2]),
    ("queues", {"sort": "rate"}, [2, 0, 1, 3]),
    ("queues", {"sort": "subscribers"}, [2, 1, 0, 3]),
    ("queues", {"sort": "items"}, [1, 0, 2, 3]),
    ("items", {"containing": "ANN@"}, [1]),
    ("items", {"containing": "c"}, [2]),
    ("items", {"sort": "priority"}, [1, 2, 0]),
    ("items", {"sort": "failures"}, [1, 2, 0]),
    ("items", {"sort": "size"}, [1, 2, 0]),
    ("items", {"sort": "published"}, [1, 0, 2]),
    ("reasons", {"containing": "TIMED"}, [0]),
    ("reasons", {"sort": "last"}, [1, 0]),
    ("reasons", {"sort": "first"}, [1, 0]),
    ("messages", {"containing": "E@"}, [2]),
    ("messages", {"sort": "messages"}, [1, 2, 0]),
    ("messages", {"sort": "bytes"}, [0, 2, 1]),
    ("messages", {"sort": "until"}, [2, 1, 0]),
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
    name = kind.name(kind.rows(page)[-1])
    assert after == (int(name) if isinstance(within, ReadItems) else name)


def test_a_page_that_takes_several_steps_is_waited_for():
    counting = ReadNodes(ADMIN, counted=Counting(JOBS))
    wanted = s.Search(ADMIN, ReadNodes(ADMIN), "eu")
    decision = s.search(wanted, s.SearchFacts(Decision(Done(), then=counting)))
    assert decision.then == replace(wanted, within=counting)
    assert decision.then.looked == 0


def test_a_page_without_rows_is_followed_by_the_next_and_counts_as_looked_at(monkeypatch):
    monkeypatch.setattr(s, "LOOKED_AT", 2 * s.PAGE)
    request = s.Search(ADMIN, ReadNodes(ADMIN, containing="x"), state="paused")
    empty = Decision(NodePage((), more=True, now=NOW, through=NodeName("m")))
    first = s.search(request, s.SearchFacts(empty))
    assert (first.then.within.after, first.then.looked) == ("m", s.PAGE)
    last = s.search(first.then, s.SearchFacts(empty)).reply
    assert (last.page.entries, last.through, last.more) == ((), "m", True)


def test_dead_items_go_on_by_the_numbers_of_their_deaths():
    letter = DeadLetter(3, NOW, "why")
    entry = ItemEntry(replace(ITEMS[0].item, state=State.DEAD, dead_letter=letter), 1)
    for dead, number in ((True, 3), (False, 7)):
        page = ItemPage(JOBS, (entry,), 9, 9, more=False, dead=dead)
        ((name, _),) = s.KINDS[ReadItems].rows(page)
        assert int(name) == number
