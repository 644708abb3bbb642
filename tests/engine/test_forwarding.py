"""Notices for connections of other instances: how they are stored, their order, and that a failing store loses none."""

import pytest
from harness.patience import until
from msgspec.structs import replace

from pubqueue.engine import forwarding
from pubqueue.engine.forwarding import Forwarding
from pubqueue.engine.outbox import Outbox
from pubqueue.engine.ports import Instance, ThisProcess
from pubqueue.model.changes import DropRow, PutRow
from pubqueue.model.decision import Done, Refusal, Refused
from pubqueue.model.entities import Draft, ItemId, Jid, NodeConfig, NodeName, SubscriptionState
from pubqueue.model.notices import (
    NOBODY,
    Announce,
    Configured,
    Deleted,
    Deliver,
    Purged,
    Retracted,
    SubscriptionChanged,
    ToEach,
    Unlocked,
)
from pubqueue.model.records import Forwarded
from pubqueue.rules.messages import (
    EndForward,
    EndForwardFacts,
    Forward,
    ForwardFacts,
    end_forward,
    forward,
    mark_for,
    marks_for,
)

SERVICE = Jid("queue.x")
NEWS = NodeName("news")
HERE, THERE, ALSO = (Jid(f"bee@{SERVICE}/stomp.{place}") for place in ("1.1", "2.1", "2.2"))
FAR = Jid("ann@elsewhere/x")
DRAFT = Draft(ItemId("a"), b"<a/>", headers=(("content-type", "text/plain"),), type="urn:x")
NEWS_OF_A = Announce(NOBODY, NEWS, DRAFT, Jid("etl@x"))

KEPT = [
    NEWS_OF_A,
    replace(NEWS_OF_A, draft=None, publisher=None, late=7),
    Retracted(NOBODY, NEWS, (ItemId("a"), ItemId("b"))),
    Deleted(NOBODY, NEWS, "xmpp:elsewhere"),
    SubscriptionChanged(NOBODY, NEWS, SubscriptionState.NONE, "s"),
]


@pytest.mark.parametrize("notice", KEPT)
def test_a_notice_that_is_kept_comes_out_as_it_was(notice):
    kept = forwarding.bundled([THERE, ALSO], notice)
    assert forwarding.read(forwarding.write([kept])) == [ToEach((THERE, ALSO), notice)]


def test_the_end_of_a_lock_comes_out_for_each_holder():
    kept = forwarding.bundled([THERE], Unlocked(THERE, NEWS, (ItemId("a"),)))
    assert forwarding.read(forwarding.write([kept])) == [Unlocked(THERE, NEWS, (ItemId("a"),))]


@pytest.mark.parametrize(
    "notice",
    [
        Purged(THERE, NEWS),
        Configured(THERE, NEWS, NodeConfig()),
        SubscriptionChanged(THERE, NEWS, SubscriptionState.NONE, about=FAR),
    ],
)
def test_notices_that_no_connection_face_sends_are_not_stored(notice):
    assert forwarding.bundled([THERE], notice) is None


class Submitted(list):
    """Requests with their answers."""

    def __call__(self, request, answer):
        self.append((request, answer))


@pytest.fixture
def submitted():
    return Submitted()


@pytest.fixture
def way(submitted):
    outbox = Outbox(lambda: None)
    return Forwarding(None, outbox, ThisProcess(Instance(1)), SERVICE, submitted)


async def test_notices_for_other_processes_are_forwarded(way, submitted):
    to_all = ToEach((HERE, FAR, THERE, ALSO), NEWS_OF_A)
    mine = Retracted(HERE, NEWS, (ItemId("b"),))
    assert way.own([to_all, mine]) == [ToEach((HERE, FAR), NEWS_OF_A), mine]
    assert way.own([ToEach((THERE,), NEWS_OF_A)]) == []
    await until(lambda: submitted)
    ((request, _),) = submitted
    (bundle,) = request.bundles
    assert bundle.mark.startswith(marks_for(2))
    assert forwarding.read(bundle.notices) == [
        ToEach((THERE, ALSO), NEWS_OF_A),
        ToEach((THERE,), NEWS_OF_A),
    ]


def test_a_process_without_subscribers_elsewhere_forwards_nothing(way, submitted):
    notices = [ToEach((FAR, HERE), NEWS_OF_A), Retracted(FAR, NEWS, ())]
    assert list(way.own(notices)) == notices
    assert submitted == []


async def test_bundles_are_bounded_and_a_store_that_fails_is_asked_again(
    way, submitted, monkeypatch
):
    monkeypatch.setattr(forwarding, "BUNDLE", 1)
    monkeypatch.setattr(forwarding, "PAGE", 2)
    monkeypatch.setattr(forwarding, "RETRY", 0)
    for number in range(3):
        draft = replace(DRAFT, id=ItemId(f"{number}"))
        way.own([ToEach((THERE,), replace(NEWS_OF_A, draft=draft))])
    await until(lambda: submitted)
    request, answer = submitted.pop()
    assert len(request.bundles) == 2
    answer(Refused(Refusal.STORE_FAILED))
    await until(lambda: submitted)
    again, answer = submitted.pop()
    assert again == request
    answer(Done())
    last, answer = submitted.pop()
    answer(Done())
    marks = [one.mark for one in (*request.bundles, *last.bundles)]
    assert (marks, submitted) == (sorted(set(marks)), [])


async def test_nodes_of_which_too_much_waits_accept_no_more(submitted):
    outbox = Outbox(lambda: None)
    way = Forwarding(None, outbox, ThisProcess(Instance(0)), SERVICE, submitted)
    large = replace(NEWS_OF_A, draft=replace(DRAFT, payload=b"x" * (5 << 20)))
    for _ in range(2):
        way.own([ToEach((THERE,), large)])
    assert outbox.is_behind(NEWS)
    assert not outbox.is_behind(NodeName("jobs"))
    await until(lambda: submitted)
    assert not outbox.is_behind(NEWS)


def test_a_delivery_is_never_forwarded(way):
    delivery = Deliver(THERE, None, b"")
    assert way.own([delivery]) == [delivery]


def test_bundles_are_kept_once_and_dropped_if_they_are_there():
    bundles = tuple(Forwarded(mark_for(2, "w", number), b"n") for number in (1, 2))
    assert forward(Forward(bundles), ForwardFacts(bundles[:1])).changes == (PutRow(bundles[1]),)
    marks = tuple(one.mark for one in bundles)
    assert end_forward(EndForward(marks), EndForwardFacts(bundles[1:])).changes == (
        DropRow(Forwarded, bundles[1].mark),
    )
