"""Registrations of pushes: who may register, see and end them, and which instance works one."""

import pytest
from msgspec.structs import replace

from pubqueue.model.changes import DropRow, PutRow
from pubqueue.model.decision import Decision, Refusal, refuse
from pubqueue.model.entities import (
    AccessModel,
    Affiliation,
    Jid,
    Millis,
    Node,
    NodeConfig,
    NodeName,
    Principal,
)
from pubqueue.model.records import MAX_OF_ACCOUNT, Registration, Registrations
from pubqueue.rules import registrations as r

NODE = NodeName("jobs")
ETL, BEE = Principal(Jid("etl@q.x")), Principal(Jid("bee@q.x"))
SERVICE = Principal(Jid("q.x"), admin=True)
ROW = Registration("r", ETL.account, NODE, queueing=True, words=b"{}", revision=1)
NOW = Millis(1_000_000)


def node():
    config = NodeConfig(queueing=True, access_model=AccessModel.OPEN)
    return Node(NODE, config, ETL.account, NOW)


def register(by=ETL, row=ROW, at=None, *, role=Affiliation.NONE, known=None, count=0):
    facts = r.RegisterFacts(at or node(), role, known, count)
    return r.register(r.Register(by, row), facts)


def kept(row):
    return Decision(Registrations((row,)), (PutRow(row),))


def test_an_account_registers_itself_and_replaces_what_it_had():
    assert register() == kept(ROW)
    assert register(known=replace(ROW, revision=4)) == kept(replace(ROW, revision=5))


@pytest.mark.parametrize(
    ("more", "refusal"),
    [
        ({"by": BEE}, Refusal.FORBIDDEN),
        ({"known": replace(ROW, account=BEE.account)}, Refusal.FORBIDDEN),
        ({"row": replace(ROW, queueing=False)}, Refusal.NODE_NOT_FOUND),
        ({"role": Affiliation.OUTCAST}, Refusal.FORBIDDEN),
    ],
)
def test_others_do_not(more, refusal):
    assert register(**more) == refuse(refusal)


def test_an_account_has_so_many():
    no = refuse(Refusal.TOO_MANY_SUBSCRIPTIONS, limit=MAX_OF_ACCOUNT)
    assert register(count=MAX_OF_ACCOUNT) == no
    assert register(count=MAX_OF_ACCOUNT, known=ROW) != no


OWNER, NONE = Affiliation.OWNER, Affiliation.NONE


@pytest.mark.parametrize(
    ("by", "role", "may"),
    [(ETL, NONE, True), (BEE, NONE, False), (BEE, OWNER, True), (SERVICE, NONE, True)],
)
def test_accounts_that_may_end_and_disable_a_registration(by, role, may):
    facts = r.NamedFacts(ROW, role)
    ended = r.unregister(r.Unregister(by, NODE, "r"), facts)
    disabled = r.enable(r.Enable(by, NODE, "r", disabled=True), facts)
    if may:
        assert ended.changes == (DropRow(Registration, "r"),)
        assert disabled == kept(replace(ROW, disabled=True, revision=2))
    else:
        assert ended == disabled == refuse(Refusal.ITEM_NOT_FOUND)
    elsewhere = r.unregister(r.Unregister(by, NodeName("others"), "r"), facts)
    assert elsewhere == refuse(Refusal.ITEM_NOT_FOUND)
    assert r.whose(r.ListRegistrations(by, NODE), role) == (
        None if by != ETL and may else by.account
    )


def claim(row, at=NOW, by=SERVICE, *, there=True):
    facts = r.ClaimFacts(at, row, node() if there else None)
    return r.claim(r.Claim(by, "r", "one"), facts)


def test_one_instance_works_a_registration_until_its_claim_ends():
    mine = replace(ROW, runner="one", until=NOW + r.LEASE, revision=2)
    assert claim(ROW) == kept(mine)
    assert claim(mine, NOW + 1) == kept(replace(mine, until=NOW + 1 + r.LEASE, revision=3))
    others = replace(ROW, runner="other", until=NOW + 1)
    assert claim(others) == Decision(Registrations((others,)))
    assert claim(others, NOW + 1).changes
    disabled = replace(ROW, disabled=True)
    assert claim(disabled) == Decision(Registrations((disabled,)))


def test_a_claim_that_a_clock_ahead_has_made_holds_up_nobody():
    assert not claim(replace(ROW, runner="other", until=NOW + r.LEASE)).changes
    for ahead in (1, 86_400_000):
        assert claim(replace(ROW, runner="other", until=NOW + r.LEASE + ahead)).changes


def test_a_registration_ends_with_its_node():
    assert claim(ROW, there=False).changes == (DropRow(Registration, "r"),)
    assert claim(None) == refuse(Refusal.ITEM_NOT_FOUND)


def test_the_runner_alone_notes_how_pushes_went():
    row = replace(ROW, runner="one", position=5)
    note = r.NotePush(SERVICE, "r", "one", failures=2, error="x" * 900, position=4)
    after = replace(row, failures=2, error="x" * r.MAX_ERROR, revision=2)
    assert r.note_push(note, r.NamedFacts(row)) == kept(after)
    ended = r.note_push(replace(note, ended=True), r.NamedFacts(row))
    assert ended.changes == (DropRow(Registration, "r"),)
    other = replace(note, runner="other")
    assert r.note_push(other, r.NamedFacts(row)) == refuse(Refusal.LOCK_LOST)
    assert r.note_push(note, r.NamedFacts(None)) == refuse(Refusal.ITEM_NOT_FOUND)


def test_one_that_is_pulled_is_in_use_until_the_latest_time_that_was_noted():
    row = replace(ROW, until=NOW + 5)
    assert row.is_pulled
    assert not replace(row, runner="one").is_pulled
    assert not ROW.is_pulled
    note = r.NotePush(SERVICE, "r", "", position=3, until=NOW + 9)
    after = replace(row, position=3, until=NOW + 9, revision=2)
    assert r.note_push(note, r.NamedFacts(row)) == kept(after)
    before = replace(note, until=NOW + 1)
    assert r.note_push(before, r.NamedFacts(row)) == kept(replace(after, until=NOW + 5))


def test_a_time_of_use_from_a_clock_that_was_ahead_is_not_believed():
    row = replace(ROW, until=NOW + 86_400)
    note = r.NotePush(SERVICE, "r", "", until=NOW + 2, latest=NOW + 9)
    assert r.note_push(note, r.NamedFacts(row)) == kept(replace(row, until=NOW + 9, revision=2))


def test_registrations_that_are_pulled_have_a_limit_of_their_own():
    pulled = replace(ROW, until=NOW + 5)
    for row, most in ((ROW, r.MAX_OF_ACCOUNT), (pulled, r.MAX_PULLED)):
        assert register(row=row, count=most - 1).changes
        full = register(row=row, count=most)
        assert full == refuse(Refusal.TOO_MANY_SUBSCRIPTIONS, limit=most)


def test_accounts_neither_claim_nor_note():
    assert claim(ROW, by=ETL) == refuse(Refusal.FORBIDDEN)
    assert r.note_push(r.NotePush(ETL, "r", "one"), r.NamedFacts(ROW)) == refuse(Refusal.FORBIDDEN)


def test_a_list_comes_in_pages():
    rows = tuple(replace(ROW, name=name) for name in "abc")
    page = r.list_registrations(
        r.ListRegistrations(ETL, NODE, most=2), r.ListRegistrationsFacts(rows)
    )
    assert page == Decision(Registrations(rows[:2], more=True))
    one = r.ListRegistrations(ETL, NODE, name="r")
    assert r.list_registrations(one, r.ListRegistrationsFacts(())) == refuse(Refusal.ITEM_NOT_FOUND)


def test_credentials_of_a_registration_are_not_shown():
    assert "{}" not in repr(r.Register(ETL, ROW))
