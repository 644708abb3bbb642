"""Several subscriptions of one JID in batches: it gets the notices that its subscriptions request."""

import pytest
from harness.batches.facts import ANN, BOB, BOSS, JOBS, who
from harness.batches.queue_requests import publishes, retracts
from harness.batches.shell import Shell
from harness.depth import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pubqueue.engine.facts import managing as pages
from pubqueue.engine.facts import publishing
from pubqueue.model.decision import Refusal
from pubqueue.model.entities import Jid, Millis
from pubqueue.model.notices import ToAll, singly
from pubqueue.model.replies import Page, Subscribed, SubscriberPage, Unsubscribed
from pubqueue.model.several_subscriptions import MAX_OF_JID
from pubqueue.model.several_subscriptions import name_of as name_in_node
from pubqueue.rules import audience
from pubqueue.rules.audience import SERVICE, NextSubscribers
from pubqueue.rules.declare import Declare
from pubqueue.rules.discovery import ListMySubscriptions, name_of
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Delete
from pubqueue.rules.presence import Leave
from pubqueue.rules.subscribe import Lease, Options, SetOptions, Subscribe, Unsubscribe
from pubqueue.rules.subscribers import GetSubscriptions, SetSubscriptions, Wish

BY = who(BOSS, admin=True)
JIDS = (ANN, BOB, Jid("ann@x"))
ENTRIES = [(jid, f"{jid}-{number}") for jid in sorted(JIDS) for number in range(3)]


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    shell.do(declares())
    yield shell
    shell.close()


def declares(**more):
    people = {"owners": (Jid("boss@x"),), "publishers": (Jid("etl@x"),)}
    return Declare(BY, JOBS, Settings({"multi_subscribe": True, **more}), **people)


def joins(jid, subid, **options):
    return Subscribe(who(jid), JOBS, Jid(jid), subid, Options(**options) if options else None)


def reported(shell, request):
    """Return the notified JIDs, each with the ids of its subscriptions."""
    notices = shell.batch(request).decisions[0].notices
    return {one.to: one.subids for one in singly(notices)}


def everybody(shell):
    shell.batch(*[joins(jid, subid) for jid, subid in ENTRIES])


# --- what is told is what is asked for ------------------------------------------------------------

NUMBERS = st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(st.just("join"), st.sampled_from(JIDS), st.booleans(), st.none() | st.integers(1, 9)),
    st.tuples(st.just("leave"), st.sampled_from(JIDS), NUMBERS),
    st.tuples(st.just("deliver"), st.sampled_from(JIDS), NUMBERS, st.booleans()),
    st.tuples(st.just("go away"), st.sampled_from((ANN, BOB))),
    st.tuples(st.just("wait"), st.integers(1, 9)),
    st.just(("forget",)),
)


class Model:
    """The subscriptions of each JID: id, whether it gets notices, when it ends."""

    def __init__(self, shell):
        self.shell, self.mine, self.count = shell, {jid: {} for jid in JIDS}, 0

    def join(self, jid, deliver, lease):
        self.count += 1
        subid, end = f"s{self.count}", None
        options = {"deliver": deliver}
        if lease is not None:
            end = Millis(self.shell.now + lease * 1000)
            options["lease"] = Lease(end)
        assert isinstance(self.shell.do(joins(jid, subid, **options)), Subscribed)
        self.mine[jid][subid] = (deliver, end)

    def _some(self, jid, number):
        mine = list(self.mine[jid])
        return mine[number % len(mine)] if mine else None

    def leave(self, jid, number):
        if (subid := self._some(jid, number)) is not None:
            ended = self.shell.do(Unsubscribe(who(jid), JOBS, jid, subid))
            assert isinstance(ended, Unsubscribed)
            assert ended.subscription.subid == subid
            del self.mine[jid][subid]

    def deliver(self, jid, number, deliver):
        if (subid := self._some(jid, number)) is not None:
            asked = SetOptions(who(jid), JOBS, jid, subid, Options(deliver=deliver))
            assert self.shell.do(asked).subscription.subid == subid
            self.mine[jid][subid] = (deliver, self.mine[jid][subid][1])

    def go_away(self, jid):
        self.shell.do(Leave(jid))  # nothing was temporary

    def wait(self, seconds):
        self.shell.wait(seconds)
        self.shell.do(Expire())
        for mine in self.mine.values():
            over = [s for s, (_, end) in mine.items() if end is not None and end <= self.shell.now]
            for subid in over:
                del mine[subid]

    def forget(self):
        self.shell.changes.forget()  # what is known is read from the store again

    def expected(self):
        """Return the JIDs that an item is sent to: once if any subscription requests it, with the ids of several."""
        heard = {
            jid: [s for s, (deliver, _) in mine.items() if deliver]
            for jid, mine in self.mine.items()
        }
        return {
            jid: frozenset(ids if len(self.mine[jid]) > 1 else ())
            for jid, ids in heard.items()
            if ids
        }


@settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(STEPS, max_size=25))
def test_a_jid_is_notified_once_of_what_any_of_its_subscriptions_asks_for(tmp_path_factory, steps):
    shell = Shell(tmp_path_factory.mktemp("several") / "queue.db")
    try:
        shell.do(declares())
        model = Model(shell)
        for number, (what, *facts) in enumerate(steps):
            getattr(model, what.replace(" ", "_"))(*facts)
            heard = reported(shell, publishes(f"i{number}"))
            assert {jid: frozenset(ids) for jid, ids in heard.items()} == model.expected()
    finally:
        shell.close()


# --- lists and pages -------------------------------------------------------------------------------

MINE = [entry for entry in ENTRIES if entry[0] != BOB]
LISTS = {
    "of the node": (ENTRIES, lambda page: GetSubscriptions(BY, JOBS, page), lambda one: name_in_node(one, one.jid)),
    "of the account": (MINE, lambda page: ListMySubscriptions(who(ANN), page=page), name_of),
    "of the account there": (MINE, lambda page: ListMySubscriptions(who(ANN), JOBS, page), name_of),
}  # fmt: skip


@pytest.mark.parametrize(("expected", "ask", "name"), LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_each_is_listed_once_in_pages_of_any_size_both_ways(shell, expected, ask, name, size):
    everybody(shell)
    found, place = [], None
    while True:
        reply = shell.do(ask(Page(place, size)))
        found += [(one.jid, one.subid) for one in reply.entries]
        assert reply.part.total == len(expected)
        assert len(reply.entries) <= size
        if not reply.part.more:
            break
        place = name(reply.entries[-1])
    assert found == expected
    backward, place = [], ""
    while reply := shell.do(ask(Page(None, size, place))):
        backward = [(one.jid, one.subid) for one in reply.entries] + backward
        if reply.part.begins:
            break
        place = name(reply.entries[0])
    assert backward == expected


def test_a_page_goes_on_behind_one_that_has_ended(shell):
    everybody(shell)
    (first,) = shell.do(GetSubscriptions(BY, JOBS, Page(None, 1))).entries
    shell.do(Unsubscribe(who(first.jid), JOBS, first.jid, first.subid))
    rest = shell.do(GetSubscriptions(BY, JOBS, Page(name_in_node(first, first.jid)))).entries
    assert [(one.jid, one.subid) for one in rest] == ENTRIES[1:]


# --- counts and bounds -----------------------------------------------------------------------------


def test_an_account_has_so_many_of_them_whichever_jids_it_uses(shell):
    for number in range(MAX_OF_JID):
        assert isinstance(shell.do(joins(ANN, f"s{number}")), Subscribed)
    assert shell.do(joins(ANN, "more")).refusal is Refusal.TOO_MANY_SUBSCRIPTIONS
    assert isinstance(shell.do(joins(Jid("ann@x"), "bare")), Subscribed)


def test_the_quota_of_an_account_counts_each_of_them(shell, monkeypatch):
    made = shell.context
    terms = replace(made().terms, max_subscriptions=4)
    monkeypatch.setattr(shell, "context", lambda: replace(made(), terms=terms))
    for subid in ("one", "two", "three"):
        assert isinstance(shell.do(joins(ANN, subid)), Subscribed)
    assert isinstance(shell.do(joins(Jid("ann@x"), "four")), Subscribed)
    over = shell.do(joins(ANN, "five"))
    assert (over.refusal, over.limit) == (Refusal.TOO_MANY_SUBSCRIPTIONS, 4)
    wish = Wish(Jid("ann@x/2"), "subscribed", None, "by an owner")
    refused = shell.do(SetSubscriptions(BY, JOBS, (wish,)))
    assert refused.refusal is Refusal.NOT_ALL_CHANGED


def test_turned_off_what_is_there_stays_and_nothing_is_added(shell):
    everybody(shell)
    shell.do(Configure(BY, JOBS, Settings({"multi_subscribe": False})))
    reply = shell.do(joins(ANN, "new"))
    assert reply.subscription.subid == f"{ANN}-0"
    assert len(shell.do(GetSubscriptions(BY, JOBS)).entries) == len(ENTRIES)
    assert reported(shell, publishes("a"))[ANN] == tuple(f"{ANN}-{number}" for number in range(3))


def test_retracts_name_them_and_the_end_of_the_node_does_not(shell):
    everybody(shell)
    shell.do(publishes("a"))
    assert reported(shell, retracts("a"))[BOB] == tuple(f"{BOB}-{number}" for number in range(3))
    (news,) = shell.batch(Delete(BY, JOBS)).decisions[0].notices
    assert (set(news.to), news.subids) == (set(JIDS), {})


# --- crowds ----------------------------------------------------------------------------------------


def test_each_page_of_a_crowd_has_the_ids_of_multiple_subscriptions(shell, monkeypatch):
    monkeypatch.setattr(publishing, "CROWD", 1)
    for place in (pages, audience):
        monkeypatch.setattr(place, "PAGE", 2)
    everybody(shell)
    shell.batch(joins(Jid("zoe@x"), "one"))
    (news,) = shell.batch(publishes("a")).decisions[0].notices
    assert isinstance(news, ToAll)
    first = shell.do(NextSubscribers(SERVICE, JOBS))
    ids = {jid: tuple(f"{jid}-{number}" for number in range(3)) for jid in sorted(JIDS)}
    last = max(JIDS)
    assert first == SubscriberPage(
        tuple(sorted(JIDS)[:2]), sorted(JIDS)[1], {jid: ids[jid] for jid in sorted(JIDS)[:2]}
    )
    assert shell.do(NextSubscribers(SERVICE, JOBS, first.after)) == SubscriberPage(
        (last, Jid("zoe@x")), Jid("zoe@x"), {last: ids[last]}
    )
    shell.do(Delete(BY, JOBS))
    assert shell.do(NextSubscribers(SERVICE, JOBS)).subids == {}
