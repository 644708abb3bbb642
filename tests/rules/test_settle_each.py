"""Many locks in one request, each settled separately, with the same answer as a request for it alone."""

from itertools import product

import pytest
from harness.batches.facts import (
    ANN,
    BOB,
    BOSS,
    ETL,
    EVE,
    JOBS,
    NOW,
    after,
    held,
    plain,
    queue,
    waiting,
    who,
)
from msgspec.structs import replace

from pubqueue.model.changes import Extend, GiveUp, PutRow, RemoveItem
from pubqueue.model.decision import (
    DecidedInParts,
    Decision,
    Done,
    Refusal,
    Refused,
    SettledEach,
    Touched,
    Withdrawn,
    singly,
    steps,
)
from pubqueue.model.entities import (
    AccessModel,
    Affiliation,
    ItemId,
    Jid,
    Millis,
    NodeName,
    Policy,
    account_of,
    seconds,
)
from pubqueue.model.notices import Retracted, Unlocked
from pubqueue.model.records import MAX_SETTLED_REMEMBERED, Settled, whose
from pubqueue.rules.give_back import DeadLetterPlace
from pubqueue.rules.settle import Outcome, Settle, SettleFacts, Verb, settle
from pubqueue.rules.settle_each import LockName, SettleEach, settle_each, settle_once
from pubqueue.rules.unlock import Touch
from pubqueue.rules.validity import of_each, of_settle

LOST = Refused(Refusal.LOCK_LOST, "the item is no longer under the lock of this token")
GONE = Refused(Refusal.ITEM_NOT_FOUND)
NOT_YOURS = Refused(Refusal.NOT_YOURS)


def one(item, *, node=None, affiliation=Affiliation.NONE, subscribed=True, **facts):
    known = queue() if node is None else node
    return SettleFacts(
        NOW, known, affiliation, (item,), frozenset(), subscribed=subscribed, **facts
    )


def retract(*locks, by=ANN, **said):
    return SettleEach(Settle(who(by), JOBS, (), Verb.RETRACT, **said), locks)


def unlock(*locks, by=ANN, **said):
    return SettleEach(Settle(who(by), JOBS, (), Verb.UNLOCK, **said), locks)


def named(number, token=None, holder=None):
    return LockName(ItemId(f"i{number}"), token, holder)


@pytest.mark.parametrize(
    ("affiliation", "views", "refusal"),
    [
        (Affiliation.MEMBER, (), None),
        (Affiliation.NONE, (), Refusal.CLOSED_NODE),
        (Affiliation.NONE, (account_of(ANN),), None),
        (Affiliation.OUTCAST, (account_of(ANN),), Refusal.FORBIDDEN),
    ],
)
@pytest.mark.parametrize("say", [retract, unlock])
def test_of_the_admitted_alone_a_lock_is_settled_if_its_account_may_know_of_the_node(
    say, affiliation, views, refusal
):
    closed = queue(access_model=AccessModel.WHITELIST, policy=Policy("", (), views))
    facts = (one(held(1, token=7), node=closed, affiliation=affiliation),)
    asked = replace(say(named(1, 7)), admitted=True)
    decision = settle_each(asked, facts)
    assert bool(decision.changes) is (refusal is None)
    assert refusal is None or decision.reply == Refused(refusal)
    if affiliation is Affiliation.NONE:
        assert settle_each(replace(asked, admitted=False), facts).changes, "a lock is a right"


def test_each_lock_has_its_own_answer_and_what_can_be_done_is_done():
    first, third = held(1, token=7), held(3, token=9)
    request = retract(named(1, 7), named(2, 8), named(3, 8), named(3, 9))
    decision = settle_each(request, (one(first), one(None), one(third), one(third)))
    assert decision.reply == SettledEach(JOBS, (Done(), GONE, LOST, Done()))
    assert decision.changes == (RemoveItem(first), RemoveItem(third))
    assert decision.notices == (Retracted(ANN, JOBS, (first.id, third.id)),)


def test_a_lock_that_is_named_twice_is_settled_once_and_answered_twice():
    item = held(1, token=7)
    request = unlock(named(1, 7), named(1), named(1, 7))
    decision = settle_each(request, (one(item), one(item), one(item)))
    assert decision.reply == SettledEach(JOBS, (Done(), Done(), Done()))
    assert [change.item for change in decision.changes] == [item]
    assert decision.notices == (Unlocked(ANN, JOBS, (item.id,)),)


def test_locks_of_other_addresses_of_the_account_are_settled_in_their_names():
    mine, other = held(1, holder="ann@x/2"), held(2, holder=BOB)
    request = retract(named(1), named(1, None, "ann@x/2"), named(2, None, BOB))
    decision = settle_each(
        request, (one(mine), one(mine))
    )  # there is none for what is named as another's
    conflict = Refused(Refusal.LOCKED_BY_ANOTHER)
    assert decision.reply == SettledEach(JOBS, (conflict, Done(), NOT_YOURS))
    assert decision.notices == (Retracted("ann@x/2", JOBS, (mine.id,)),)
    assert other.holder == BOB


def test_locks_are_extended_each_for_itself():
    item = held(1, token=7, deadline=after(1))
    request = SettleEach(Touch(who(ANN), JOBS, (), seconds(60)), (named(1, 7), named(2, 7)))
    decision = settle_each(request, (one(item), one(held(2, token=8))))
    touched = Touched(JOBS, ((item.id, after(60)),))
    assert decision.reply == SettledEach(JOBS, (touched, LOST))
    assert decision.changes == (Extend(item, after(60)),)


def test_an_owner_withdraws_what_is_locked_to_others():
    item = held(1, holder=BOB)
    decision = settle_each(retract(named(1), by=BOSS), (one(item, affiliation=Affiliation.OWNER),))
    assert decision.reply == SettledEach(JOBS, (Withdrawn((item.id,)),))


def test_all_that_die_share_the_room_of_the_dead_letter_node():
    dead, items = NodeName("dead"), [held(number) for number in (1, 2, 3)]
    place = DeadLetterPlace(dead, exists=True, taken=False, room=2)
    request = unlock(*map(named, (1, 2, 3)), outcome=Outcome.REJECT)
    decision = settle_each(request, tuple(one(item, places=(place,)) for item in items))
    assert [change.to for change in decision.changes] == [dead, dead, None]
    assert all(isinstance(change, GiveUp) for change in decision.changes)
    assert [changes for _, changes in steps(request, decision)] == [
        (change,) for change in decision.changes
    ]


@pytest.mark.parametrize(
    ("facts", "refusal"),
    [
        (
            SettleFacts(NOW, None, Affiliation.NONE, (), frozenset(), subscribed=False),
            "NODE_NOT_FOUND",
        ),
        (
            one(None, node=queue(access_model=AccessModel.WHITELIST), subscribed=False),
            "CLOSED_NODE",
        ),
        (one(held(), affiliation=Affiliation.OUTCAST), "FORBIDDEN"),
        (one(waiting(), node=plain(), affiliation=Affiliation.OWNER), "NOT_A_QUEUE"),
    ],
)
def test_an_error_of_the_node_is_reported_once(facts, refusal):
    decision = settle_each(retract(named(1), named(2), by=EVE), (facts, facts))
    assert decision == Decision(Refused(Refusal[refusal]))


def test_no_ids_change_nothing():
    assert settle_each(retract(), ()).reply == SettledEach(JOBS, ())


def test_each_is_judged_as_a_request_for_it_alone():
    judged, expected = {}, {}
    items = {"gone": None, "free": waiting(token=7), "locked": held(token=7)}
    for cell in product((retract, unlock), (None, 6, 7), (ANN, BOB, EVE), items):
        make, token, by, item = cell
        request = make(named(1, token), by=by)
        facts = one(items[item], subscribed=by != EVE)
        alone = Settle(who(by), JOBS, (ItemId("i1"),), request.template.verb, token=token)
        each, decision = settle_each(request, (facts,)), settle(alone, facts)
        judged[cell] = each.reply, each.changes, each.notices
        answer = SettledEach(JOBS, (decision.reply,))
        expected[cell] = answer, decision.changes, decision.notices
    assert judged == expected


def test_observers_see_each_lock_as_if_it_had_been_settled_alone():
    items = held(1, token=7), held(2, token=9)
    request = retract(named(1, 7), named(2, 8), named(2, 9))
    decision = settle_each(request, tuple(one(item) for item in (items[0], items[1], items[1])))
    other = Decision(Done())
    asked, decided = singly(["before", request], [other, decision])
    said = replace_ids(request.template, 1, 7), replace_ids(request.template, 2, 9)
    assert isinstance(decision, DecidedInParts)
    assert list(asked) == ["before", *said]
    assert [each.changes for each in decided] == [(), *((RemoveItem(item),) for item in items)]
    assert singly(["before"], [other]) == (["before"], [other])


def replace_ids(said, number, token):
    return Settle(said.by, said.node, (ItemId(f"i{number}"),), said.verb, token=token)


# A repeated settle with the same token gets the first answer, if the first one asked to be remembered.

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


def test_a_lock_without_its_token_cannot_be_remembered():
    unnamed = SettleEach(request(), (LockName(ItemId("a"), 9), LockName(ItemId("b"))))
    assert of_each(unnamed).refusal is Refusal.BAD_REQUEST
    assert of_each(replace(unnamed, template=request(remember=None))) is None


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_is_remembered_of_an_earlier_lock_does_not_stand_for_a_later_one(order):
    item = held(1, token=12)
    locks = (named(1, 9), one(item, settled=UNLOCKED)), (named(1, 12), one(item))
    names, facts = zip(*(locks[at] for at in order), strict=True)
    decision = settle_each(unlock(*names, remember=MINUTE), facts)
    answers = Done(again=True), Done()
    assert decision.reply == SettledEach(JOBS, tuple(answers[at] for at in order))
    ended, noted = decision.changes
    assert (ended.item, noted) == (item, PutRow(replace(UNLOCKED, token=12)))
