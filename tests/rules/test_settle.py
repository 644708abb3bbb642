"""Retract and unlock (XEP-0254 2.3, 2.4), cell by cell, with the XEP's errors."""

import pytest
from harness.batches.facts import (
    ANN,
    BOB,
    BOSS,
    ETL,
    EVE,
    FLEETING,
    JOBS,
    NOW,
    after,
    held,
    plain,
    queue,
    waiting,
    who,
)

from pubqueue.model.changes import GiveUp, Release, RemoveItem
from pubqueue.model.decision import Decision, Done, Refusal, Refused, Withdrawn
from pubqueue.model.entities import (
    AccessModel,
    Affiliation,
    DeadLetter,
    ItemId,
    Jid,
    NodeName,
    State,
    seconds,
)
from pubqueue.model.notices import NOBODY, Retracted, ToEach, Unlocked
from pubqueue.rules.give_back import DeadLetterPlace
from pubqueue.rules.settle import (
    SETTLE,
    UNEXPLAINED,
    Outcome,
    Settle,
    SettleFacts,
    Situation,
    Standing,
    Verb,
    settle,
)

# "held" is somebody who had the item and lost it; "author" its publisher. A holder of an item
# that is free has lost it. An author has no more say in an unlock than anybody else. "stale" is
# a holder, owner or author who names a lock that is over. "late" is an item that is free, and was
# last held under the lock that is named, by who asks, in a request that allows a late answer.
TABLE = """
                holds               held                stale               owner           author          subscribed      stranger
retract gone    item-not-found      item-not-found      item-not-found      item-not-found  item-not-found  item-not-found  item-not-found
retract free    unexpected-request  unexpected-request  unexpected-request  ok              ok              forbidden       forbidden
retract late    unexpected-request  ok                  unexpected-request  ok              ok              forbidden       forbidden
retract locked  ok                  conflict            unexpected-request  ok              ok              conflict        forbidden
unlock  gone    item-not-found      item-not-found      item-not-found      item-not-found  item-not-found  item-not-found  item-not-found
unlock  free    unexpected-request  unexpected-request  unexpected-request  forbidden       forbidden       forbidden       forbidden
unlock  late    unexpected-request  unexpected-request  unexpected-request  forbidden       forbidden       forbidden       forbidden
unlock  locked  ok                  conflict            unexpected-request  conflict        forbidden       conflict        forbidden
"""
WORDS = {
    "ok": None,
    "item-not-found": Refusal.ITEM_NOT_FOUND,
    "forbidden": Refusal.NOT_YOURS,
    "conflict": Refusal.LOCKED_BY_ANOTHER,
    "unexpected-request": Refusal.LOCK_LOST,
}


def restated():
    head, *rows = TABLE.strip().splitlines()
    standings = [Standing[word.upper()] for word in head.split()]
    table = {}
    for row in rows:
        verb, situation, *cells = row.split()
        for standing, cell in zip(standings, cells, strict=True):
            table[Verb[verb.upper()], Situation[situation.upper()], standing] = WORDS[cell]
    return table


EXPECTED = restated()
ITEMS = {
    Situation.GONE: None,
    Situation.FREE: waiting(acquired=2, token=7),
    Situation.LATE: waiting(acquired=2, token=7, avoid=ANN),
    Situation.LOCKED: held(holder=BOB, acquired=2, token=7),
}
# Who can stand there by facts: nobody holds what is not locked, nobody held what has no row, being
# the author counts for a retract only, and who names a lock that is over counts as stale by holding
# the item, or for a retract; the last holder of an item has held it, and named its last lock.
REACHABLE = [
    cell
    for cell in EXPECTED
    if not (cell[2] is Standing.HOLDS and cell[1] is not Situation.LOCKED)
    and not (
        cell[1] is Situation.GONE and cell[2] in {Standing.HELD, Standing.AUTHOR, Standing.STALE}
    )
    and not (
        cell[:2] == (Verb.UNLOCK, Situation.FREE) and cell[2] is Standing.STALE
    )  # nobody holds it
    and (cell[1] is not Situation.LATE or cell[2] is Standing.HELD)
    and not (cell[0] is Verb.UNLOCK and cell[2] is Standing.AUTHOR)
]


def ask(by, item, *, verb=Verb.RETRACT, node=None, token=None, late=False, quiet=False, **facts):
    """Settle one item, as `by`; `facts` are those that differ from a stranger's."""
    known = {
        "now": NOW,
        "node": queue() if node is None else node,
        "affiliation": Affiliation.NONE,
        "items": (item,),
        "receipts": frozenset(),
        "subscribed": False,
    }
    request = Settle(who(by), JOBS, (ItemId("i1"),), verb, token=token, late=late, quiet=quiet)
    return settle(request, SettleFacts(**(known | facts)))


def verdict(verb, situation, standing):
    """Let an account with that standing ask, and return the refusal."""
    item = ITEMS[situation]
    by, facts = {
        Standing.HOLDS: (BOB, {}),
        Standing.HELD: (ANN, {"receipts": frozenset({(1, ANN)})}),
        Standing.STALE: (BOB if situation is Situation.LOCKED else ETL, {"token": 6}),
        Standing.OWNER: (BOSS, {"affiliation": Affiliation.OWNER}),
        Standing.AUTHOR: (ETL, {"affiliation": Affiliation.PUBLISHER}),
        Standing.SUBSCRIBED: (EVE, {"subscribed": True}),
        Standing.STRANGER: (EVE, {}),
    }[standing]
    if situation is Situation.LATE:
        facts |= {"token": 7, "late": True}
    reply = ask(by, item, verb=verb, **facts).reply
    return reply.refusal if isinstance(reply, Refused) else None


def verdicts():
    return {cell: verdict(*cell) if cell in REACHABLE else SETTLE[cell] for cell in SETTLE}


def test_every_verb_meets_every_situation_and_standing():
    assert set(SETTLE) == {(v, s, who_is) for v in Verb for s in Situation for who_is in Standing}


def test_the_table_is_the_one_of_the_document():
    assert SETTLE == EXPECTED


def test_accounts_that_may_settle():
    assert verdicts() == EXPECTED


def test_one_changed_cell_is_noticed():
    """A cell that can be reached is asked, and any other is compared."""
    unnoticed = []
    for cell, right in list(SETTLE.items()):
        for other in {*WORDS.values()} - {right}:
            with pytest.MonkeyPatch.context() as patched:
                patched.setitem(SETTLE, cell, other)
                if verdicts() == EXPECTED:
                    unnoticed.append((cell, other))
    assert unnoticed == []


LOST = frozenset({(1, ANN)})
WHITELIST = queue(access_model=AccessModel.WHITELIST)


def refused(refusal):
    return Decision(Refused(refusal))


def test_having_lost_the_lock_outranks_being_an_owner():
    decision = ask(ANN, waiting(), receipts=LOST, affiliation=Affiliation.OWNER)
    assert decision == refused(Refusal.LOCK_LOST)


def test_having_lost_the_lock_outranks_being_the_publisher():
    decision = ask(ANN, waiting(publisher=Jid("ann@x")), receipts=LOST)
    assert decision == refused(Refusal.LOCK_LOST)


def test_holding_the_item_again_outranks_having_lost_it():
    item = held(holder=ANN, acquired=2)
    expected = Decision(Done(), (RemoveItem(item),), (Retracted(ANN, JOBS, (item.id,)),))
    assert ask(ANN, item, receipts=LOST) == expected


def test_a_receipt_of_another_item_counts_for_nothing():
    assert ask(ANN, waiting(), receipts=frozenset({(2, ANN)})) == refused(Refusal.NOT_YOURS)


def test_a_receipt_of_the_bare_jid_counts_for_its_resources():
    decision = ask(ANN, waiting(), receipts=frozenset({(1, Jid("ann@x"))}))
    assert decision == refused(Refusal.LOCK_LOST)


def test_any_resource_settles_what_the_bare_jid_holds():
    item = held(holder="ann@x")
    expected = Decision(Done(), (RemoveItem(item),), (Retracted(Jid("ann@x"), JOBS, (item.id,)),))
    assert ask("ann@x/other", item) == expected


def test_another_resource_does_not_settle_what_a_full_jid_holds():
    decision = ask("ann@x/2", held(holder=ANN), subscribed=True)
    assert decision == refused(Refusal.LOCKED_BY_ANOTHER)


def test_an_owner_removes_locked_work_and_its_holder_is_notified():
    item = held(holder=ANN)
    reply = Withdrawn((item.id,))
    expected = Decision(reply, (RemoveItem(item),), (Retracted(ANN, JOBS, (item.id,)),))
    assert ask(BOSS, item, affiliation=Affiliation.OWNER) == expected


def test_removing_work_without_a_holder_notifies_none():
    item = waiting()
    expected = Decision(Done(), (RemoveItem(item),))
    assert ask(BOSS, item, affiliation=Affiliation.OWNER) == expected


def test_an_administrator_stands_as_an_owner():
    facts = SettleFacts(NOW, queue(), Affiliation.NONE, (waiting(),), frozenset(), subscribed=False)
    request = Settle(who("root@x/1", admin=True), JOBS, (ItemId("i1"),), Verb.RETRACT)
    assert settle(request, facts) == Decision(Done(), (RemoveItem(waiting()),))


def test_the_id_of_finished_work_is_kept_for_the_deduplication_window():
    item = held()
    decision = ask(ANN, item, node=queue(dedup_window=60), digests=(b"digest",))
    assert decision.changes == (RemoveItem(item, after(60), b"digest"),)


@pytest.mark.parametrize("item", [waiting(), held(holder=ANN), waiting(state=State.DEAD)])
@pytest.mark.parametrize(
    ("by", "affiliation"), [(BOSS, Affiliation.OWNER), (ETL, Affiliation.PUBLISHER)]
)
def test_work_that_is_withdrawn_is_not_finished(item, by, affiliation):
    facts = {"affiliation": affiliation, "digests": (b"digest",)}
    decision = ask(by, item, node=queue(dedup_window=60), **facts)
    assert decision.changes == (RemoveItem(item),)


def test_an_unlock_requeues_the_item_at_once_and_counts_no_failure():
    item = held(failed=2)
    expected = Decision(
        Done(),
        (Release(item, State.QUEUED, None, failed=2, released=1),),
        (Unlocked(ANN, JOBS, (item.id,)),),
    )
    assert ask(ANN, item, verb=Verb.UNLOCK) == expected


@pytest.mark.parametrize(("released", "pause"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (20, 60)])
def test_an_item_that_every_subscriber_refused_returns_with_growing_delay(released, pause):
    decision = ask(ANN, held(released=released), verb=Verb.UNLOCK, node=queue(subscriptions=2))
    (release,) = decision.changes
    expected = (State.DELAYED, after(pause)) if pause else (State.QUEUED, None)
    assert (release.state, release.due) == expected
    assert release.released == released + 1


class TestOutcome:
    """The outcomes of an unlock, in our own namespace."""

    def unlock(self, item, outcome, *, node=None, place=None, **said):
        facts = SettleFacts(
            NOW,
            node or queue(),
            Affiliation.NONE,
            (item,),
            frozenset(),
            subscribed=True,
            places=(place,),
        )
        request = Settle(who(ANN), JOBS, (item.id,), Verb.UNLOCK, outcome=outcome, **said)
        return settle(request, facts)

    def test_a_release_may_ask_for_a_pause(self):
        item = held()
        decision = self.unlock(item, Outcome.RELEASE, delay=seconds(9))
        assert decision.changes == (Release(item, State.DELAYED, after(9), 0, released=1),)

    def test_a_release_has_a_reason_and_counts_as_no_failure(self):
        item = held(failed=2)
        decision = self.unlock(item, Outcome.RELEASE, reason="no handler for {x}mail")
        assert decision.changes == (
            Release(item, State.QUEUED, None, 2, 1, "no handler for {x}mail"),
        )

    def test_a_failure_counts(self):
        item = held(failed=1)
        decision = self.unlock(item, Outcome.FAILED, reason="no seat")
        changes = (Release(item, State.DELAYED, after(1), 2, 0, "no seat"),)
        assert decision == Decision(Done(), changes, (Unlocked(ANN, JOBS, (item.id,)),))

    def test_a_longer_pause_than_the_backoff_may_be_asked_for_and_no_shorter_one(self):
        dues = [
            self.unlock(held(failed=3), Outcome.FAILED, delay=seconds(wish)).changes[0].due
            for wish in (1, 30)
        ]
        assert dues == [after(4), after(30)]

    def test_the_last_failure_allowed_is_the_end_with_its_reason(self):
        item = held()
        decision = self.unlock(item, Outcome.FAILED, node=queue(max_failures=1), reason="no seat")
        assert decision.changes == (GiveUp(item, NOW, "no seat", 1),)

    def test_a_rejected_item_is_dead_at_once_and_moves(self):
        item, place = held(), DeadLetterPlace(NodeName("dead"), exists=True, taken=False)
        decision = self.unlock(item, Outcome.REJECT, place=place)
        assert decision == Decision(
            Done(),
            (GiveUp(item, NOW, UNEXPLAINED, 1, to=NodeName("dead")),),
            (Unlocked(ANN, JOBS, (item.id,)),),
        )


def test_a_token_means_that_very_lock():
    item = held(token=9)
    facts = SettleFacts(NOW, queue(), Affiliation.NONE, (item,), frozenset(), subscribed=True)
    replies = [
        settle(Settle(who(ANN), JOBS, (item.id,), Verb.RETRACT, token=token), facts).reply
        for token in (9, 8)
    ]
    assert replies[0] == Done()
    assert isinstance(replies[1], Refused)
    assert replies[1].refusal is Refusal.LOCK_LOST


@pytest.mark.parametrize("affiliation", [Affiliation.OWNER, Affiliation.NONE])
@pytest.mark.parametrize("item", [waiting(token=9), held(holder=BOB, token=9)])
def test_an_owner_or_author_that_names_a_lock_means_that_lock_too(item, affiliation):
    by = BOSS if affiliation is Affiliation.OWNER else ETL
    stale = ask(by, item, token=8, affiliation=affiliation)
    assert stale == ask(by, item, token=10, affiliation=affiliation)
    assert stale.reply.refusal is Refusal.LOCK_LOST
    assert ask(by, item, token=9, affiliation=affiliation).changes == (RemoveItem(item),)


@pytest.mark.parametrize("item", [waiting(token=9), held(holder=BOB, token=9)])
@pytest.mark.parametrize("verb", Verb)
@pytest.mark.parametrize("subscribed", [True, False])
def test_a_token_reveals_nothing_without_rights(item, verb, subscribed):
    replies = {
        ask(EVE, item, verb=verb, token=token, late=True, subscribed=subscribed).reply
        for token in (None, 8, 9)
    }
    assert len(replies) == 1


def test_an_author_whose_lock_is_over_learns_nothing_about_a_closed_queue():
    whose = waiting(token=9, publisher=ETL.split("/")[0])
    facts = SettleFacts(
        NOW, WHITELIST, Affiliation.NONE, (whose, None), frozenset(), subscribed=False
    )
    ids = (ItemId("i1"), ItemId("i2"))
    request = Settle(who(ETL), JOBS, ids, Verb.RETRACT, token=8)
    assert settle(request, facts) == refused(Refusal.CLOSED_NODE)


LAST = {"acquired": 1, "avoid": ANN, "token": 9}


@pytest.mark.parametrize(
    "item",
    [
        waiting(**LAST),
        waiting(state=State.DELAYED, due=after(5), **LAST),
        waiting(
            state=State.DEAD,
            dead_letter=DeadLetter(1, NOW, "tired", holder=ANN),
            acquired=1,
            token=9,
        ),
    ],
)
def test_a_late_retract_counts_until_another_has_had_the_item(item):
    receipts = frozenset({(1, ANN)})
    decision = ask(ANN, item, token=9, late=True, receipts=receipts)
    assert decision == Decision(Done(), (RemoveItem(item),))
    assert ask(ANN, item, token=9, receipts=receipts) == refused(Refusal.LOCK_LOST)
    assert ask(ANN, item, late=True, receipts=receipts) == refused(Refusal.LOCK_LOST)
    for other in (8, 10):
        assert ask(ANN, item, token=other, late=True, receipts=receipts) == refused(
            Refusal.LOCK_LOST
        )


def test_only_the_last_holder_is_late():
    item = waiting(acquired=2, avoid=BOB, token=9)
    receipts = frozenset({(1, ANN), (1, BOB)})
    assert ask(ANN, item, token=9, late=True, receipts=receipts) == refused(Refusal.LOCK_LOST)


def test_late_work_is_finished_and_its_id_is_kept():
    item, node = waiting(**LAST), queue(dedup_window=60)
    facts = {"receipts": frozenset({(1, ANN)}), "digests": (b"digest",)}
    decision = ask(ANN, item, token=9, late=True, node=node, **facts)
    assert decision.changes == (RemoveItem(item, after(60), b"digest"),)


def settle_three(*items, by=ANN, affiliation=Affiliation.NONE, quiet=False):
    ids = tuple(ItemId(f"i{number}") for number in range(1, 4))
    facts = SettleFacts(NOW, queue(), affiliation, items, frozenset(), subscribed=True)
    return settle(Settle(who(by), JOBS, ids, Verb.RETRACT, quiet=quiet), facts)


def test_several_items_are_settled_with_one_event_for_their_holder():
    items = held(1), held(2), held(3)
    ids = tuple(item.id for item in items)
    expected = Decision(
        Done(), tuple(RemoveItem(item) for item in items), (Retracted(ANN, JOBS, ids),)
    )
    assert settle_three(*items) == expected


def test_the_first_item_that_may_not_be_settled_refuses_them_all():
    decision = settle_three(held(1), None, held(3, holder=BOB))
    assert decision == refused(Refusal.ITEM_NOT_FOUND)


def test_two_holders_of_removed_work_are_notified_of_their_own():
    items = held(1, holder=ANN), held(2, holder=BOB), held(3, holder=ANN)
    decision = settle_three(*items, by=BOSS, affiliation=Affiliation.OWNER)
    assert decision.reply == Withdrawn(tuple(item.id for item in items))
    assert decision.notices == (
        Retracted(ANN, JOBS, (ItemId("i1"), ItemId("i3"))),
        Retracted(BOB, JOBS, (ItemId("i2"),)),
    )


@pytest.mark.parametrize("verb", [Verb.RETRACT, Verb.UNLOCK])
def test_a_quiet_principal_gets_no_notice_of_its_own_locks(verb):
    assert ask(ANN, held(holder=ANN), verb=verb, quiet=True).notices == ()
    assert ask(ANN, held(holder=ANN), verb=verb).notices != ()


def test_other_holders_get_their_notices_of_what_a_quiet_principal_removes():
    items = held(1, holder=ANN), held(2, holder=BOSS), held(3, holder=ANN)
    decision = settle_three(*items, by=BOSS, affiliation=Affiliation.OWNER, quiet=True)
    assert decision.notices == (Retracted(ANN, JOBS, (ItemId("i1"), ItemId("i3"))),)


def test_without_the_node_there_is_nothing_to_settle():
    facts = SettleFacts(NOW, None, Affiliation.NONE, (), frozenset(), subscribed=False)
    request = Settle(who(ANN), JOBS, (ItemId("i1"),), Verb.RETRACT)
    assert settle(request, facts) == refused(Refusal.NODE_NOT_FOUND)


def test_a_closed_queue_does_not_reveal_its_items_to_strangers():
    assert ask(EVE, None, node=WHITELIST) == refused(Refusal.CLOSED_NODE)


@pytest.mark.parametrize("facts", [{"subscribed": True}, {"receipts": frozenset({(1, EVE)})}])
def test_a_closed_queue_answers_those_it_once_let_in(facts):
    assert ask(EVE, waiting(), node=WHITELIST, **facts) != refused(Refusal.CLOSED_NODE)


def test_an_outcast_is_refused_even_what_he_holds():
    decision = ask(ANN, held(), affiliation=Affiliation.OUTCAST)
    assert decision == refused(Refusal.FORBIDDEN)


# Retract from a plain node (XEP-0060 7.2).


def retract(by, *items, notify=False, verb=Verb.RETRACT, audience=(ANN, BOB), node=None, **facts):
    known = {
        "now": NOW,
        "node": node or plain(),
        "affiliation": Affiliation.NONE,
        "items": items,
        "receipts": frozenset(),
        "subscribed": False,
        "audience": audience,
    }
    ids = tuple(ItemId(f"i{number}") for number, _ in enumerate(items, 1))
    request = Settle(who(by), JOBS, ids, verb, notify=notify)
    return settle(request, SettleFacts(**(known | facts)))


def test_the_publisher_retracts_and_subscribers_are_notified():
    item = waiting()
    reported = (ToEach((ANN, BOB), Retracted(NOBODY, JOBS, (item.id,)), FLEETING),)
    assert retract(ETL, item) == Decision(Done(), (RemoveItem(item),), reported)


def test_the_owner_retracts_what_others_published():
    item = waiting()
    decision = retract(BOSS, item, affiliation=Affiliation.OWNER)
    assert decision.changes == (RemoveItem(item),)


def test_another_publisher_is_refused():
    decision = retract(EVE, waiting(), affiliation=Affiliation.PUBLISHER)
    assert decision == refused(Refusal.FORBIDDEN)


def test_one_missing_item_refuses_them_all():
    assert retract(ETL, waiting(), None) == refused(Refusal.ITEM_NOT_FOUND)


@pytest.mark.parametrize(
    ("configured", "asked", "reported"),
    [(True, False, True), (False, True, True), (False, False, False)],
)
def test_subscribers_are_notified_by_the_node_or_by_request(configured, asked, reported):
    node = plain(notify_retract=configured)
    decision = retract(ETL, waiting(), notify=asked, node=node)
    assert bool(decision.notices) is reported


def test_there_is_nothing_to_unlock():
    assert retract(ETL, waiting(), verb=Verb.UNLOCK) == refused(Refusal.NOT_A_QUEUE)


def test_a_form_that_only_queues_know_is_a_bad_request():
    facts = SettleFacts(
        NOW, plain(), Affiliation.OWNER, (waiting(),), frozenset(), subscribed=False
    )
    request = Settle(who(BOSS), JOBS, (ItemId("i1"),), Verb.RETRACT, queue_only=True)
    reply = settle(request, facts).reply
    assert isinstance(reply, Refused)
    assert reply.refusal is Refusal.BAD_REQUEST
