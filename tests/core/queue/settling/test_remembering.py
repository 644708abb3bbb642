"""A repeated settle with the same token gets the first answer, if the first one asked to be remembered."""

import pytest
from harness.batches.facts import ANN, BOB, BOSS, ETL, JOBS, NOW, after, held, queue, waiting, who
from msgspec.structs import replace

from pubqueue.model.changes import PutRow, RemoveItem
from pubqueue.model.decision import Decision, Done, Refusal, Refused
from pubqueue.model.entities import Affiliation, ItemId, Jid, Millis, NodeName, seconds
from pubqueue.model.records import MAX_SETTLED_REMEMBERED, Settled, whose
from pubqueue.rules.settle import Outcome, Settle, SettleFacts, Verb, settle
from pubqueue.rules.settle_each import LockName, SettleEach, settle_once
from pubqueue.rules.validity import of_each, of_settle

MINUTE = seconds(60)
ACCOUNT = Jid("ann@x")
MINE = whose(JOBS, ItemId("i1"), ACCOUNT)
WAS = Settled(9, MINE, "retract", after(60))
UNLOCKED = Settled(9, MINE, "unlock", after(60))


def ask(item, *, verb=Verb.RETRACT, by=ANN, settled=None, node=None, remember=MINUTE, **facts):
    request = Settle(who(by), JOBS, (ItemId("i1"),), verb, token=9, remember=remember)
    known = {"affiliation": Affiliation.NONE, "receipts": frozenset(), "subscribed": True} | facts
    return settle_once(
        request,
        SettleFacts(now=NOW, node=node or queue(), items=(item,), settled=settled, **known),
    )


@pytest.mark.parametrize(("verb", "row"), [(Verb.RETRACT, WAS), (Verb.UNLOCK, UNLOCKED)])
def test_the_lock_is_noted_with_what_settles_it(verb, row):
    item = held(1, token=9)
    plain = ask(item, verb=verb, remember=None)
    decision = ask(item, verb=verb)
    assert decision == replace(plain, changes=(*plain.changes, PutRow(row)))
    assert decision.reply == Done()


@pytest.mark.parametrize("item", [None, waiting(token=9), held(1, holder=BOB, token=12)])
@pytest.mark.parametrize(("verb", "row"), [(Verb.RETRACT, WAS), (Verb.UNLOCK, UNLOCKED)])
def test_a_repetition_has_the_same_answer_whatever_became_of_the_item(item, verb, row):
    assert ask(item, verb=verb, settled=row) == Decision(Done(again=True))


@pytest.mark.parametrize(("verb", "row"), [(Verb.UNLOCK, WAS), (Verb.RETRACT, UNLOCKED)])
def test_the_other_verdict_comes_too_late(verb, row):
    decision = ask(None, verb=verb, settled=row)
    assert decision.reply.refusal is Refusal.LOCK_LOST


@pytest.mark.parametrize(
    ("row", "by"),
    [
        (WAS, BOB),  # another account
        (replace(WAS, whose=whose(NodeName("other"), ItemId("i1"), ACCOUNT)), ANN),
        (replace(WAS, whose=whose(JOBS, ItemId("i2"), ACCOUNT)), ANN),
        (replace(WAS, until=NOW), ANN),
        (None, ANN),
    ],
)
def test_records_of_other_or_expired_locks_do_not_count(row, by):
    assert ask(None, by=by, settled=row) == Decision(Refused(Refusal.ITEM_NOT_FOUND))


def test_without_the_node_nothing_is_remembered():
    request = Settle(who(ANN), JOBS, (ItemId("i1"),), Verb.RETRACT, token=9, remember=seconds(60))
    facts = SettleFacts(NOW, None, Affiliation.NONE, (), frozenset(), subscribed=False, settled=WAS)
    assert settle_once(request, facts) == Decision(Refused(Refusal.NODE_NOT_FOUND))


@pytest.mark.parametrize(
    ("by", "affiliation"), [(BOSS, Affiliation.OWNER), (ETL, Affiliation.PUBLISHER)]
)
def test_a_withdrawal_is_no_answer_to_a_worker(by, affiliation):
    item = held(1, token=9)
    assert ask(item, by=by, affiliation=affiliation).changes == (RemoveItem(item),)


def test_a_refusal_is_not_remembered():
    assert ask(waiting(token=9), receipts=frozenset({(1, ANN)})).changes == ()


def test_a_rejected_item_is_remembered_as_unlocked():
    item = held(1, token=9)
    said = {"outcome": Outcome.REJECT, "token": 9, "remember": seconds(60)}
    request = Settle(who(ANN), JOBS, (item.id,), Verb.UNLOCK, **said)
    facts = SettleFacts(
        NOW, queue(), Affiliation.NONE, (item,), frozenset(), subscribed=True, places=(None,)
    )
    assert settle_once(request, facts).changes[1:] == (PutRow(UNLOCKED),)
    assert settle_once(request, facts).changes[:1] == settle(request, facts).changes


def request(*ids, token=9, remember=MINUTE):
    names = tuple(map(ItemId, ids))
    return Settle(who(ANN), JOBS, names, Verb.RETRACT, token=token, remember=remember)


def test_one_lock_is_remembered_for_an_hour():
    assert of_settle(request("a")) is None
    assert of_settle(request("a", remember=MAX_SETTLED_REMEMBERED)) is None
    wrong = (
        request("a", "b"),
        request("a", token=None),
        request(),
        request("a", remember=Millis(MAX_SETTLED_REMEMBERED + 1)),
        request("a", remember=Millis(0)),
    )
    assert {of_settle(each).refusal for each in wrong} == {Refusal.BAD_REQUEST}


def each_of(said):
    return SettleEach(said, (LockName(ItemId("a"), 9), LockName(ItemId("b"), 10)))


def test_many_locks_are_each_remembered_for_the_same_time():
    assert of_each(each_of(request())) is None
    assert of_each(each_of(request(remember=None))) is None
    assert (
        of_each(each_of(request(remember=Millis(MAX_SETTLED_REMEMBERED + 1)))).refusal
        is Refusal.BAD_REQUEST
    )
