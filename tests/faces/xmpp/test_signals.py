"""Rosters are asked for where they are granted, and only their owners' servers are believed (XEP-0356)."""

import asyncio

import pytest
from harness.patience import until

from pubqueue.accounts.credentials import Principals
from pubqueue.faces.xmpp.signals import MAX_DOMAINS, MAX_OF_A_SERVER, MAX_OF_ONE, Rosters
from pubqueue.faces.xmpp.xml.stanza import Element
from pubqueue.model.entities import Contact, Jid, Principal
from pubqueue_xeps.wire import ns

ANN, BOSS, CEO = Jid("ann@x"), Jid("boss@x"), Jid("ceo@elsewhere")


def element(tag, *children, text="", **words):
    made = Element(tag, words, 0)
    made.children, made.text = list(children), text
    return made


def grant(kind, access="roster"):
    perm = element(ns.tag(ns.PRIVILEGE[1], "perm"), access=access, type=kind)
    privilege = element(ns.tag(ns.PRIVILEGE[1], "privilege"), perm)
    return element("message", privilege)


def roster(name, sender, *, subscription="from", jid=ANN, kind="result"):
    group = element(ns.tag(ns.ROSTER, "group"), text="Friends")
    item = element(ns.tag(ns.ROSTER, "item"), group, jid=jid, subscription=subscription)
    query = element(ns.tag(ns.ROSTER, "query"), item)
    return element("iq", query, **{"type": kind, "id": name, "from": sender})


class Asking:
    def __init__(self):
        self.said = []
        self.reported = []
        self.principals = Principals(home="x")
        self.rosters = Rosters(
            "queue.x", lambda data: bool(self.said.append(data)), self.principals
        )

    def ask(self, *owners):
        loop = asyncio.get_running_loop()
        self.answered = self.rosters.ask(
            Principal(ANN, local=True), owners, self.reported.append, loop
        )


@pytest.fixture
def asking():
    return Asking()


async def test_nothing_is_asked_of_a_server_that_has_granted_nothing(asking):
    asking.ask(BOSS)
    assert (asking.said, asking.reported) == ([], [()])
    assert not asking.principals.of(BOSS).rosters


@pytest.mark.parametrize(("kind", "granted"), [("get", True), ("both", True), ("none", False)])
async def test_a_grant_is_for_the_accounts_of_the_domain_that_gives_it(asking, kind, granted):
    assert asking.rosters.take_grant("x", grant(kind))
    assert asking.principals.of(BOSS).rosters is granted
    assert not asking.principals.of(CEO).rosters
    assert not asking.rosters.take_grant("x", element("message"))


@pytest.mark.parametrize("sender", [None, "eve@x", "x/y"])
async def test_only_a_server_grants(asking, sender):
    asking.rosters.take_grant(sender, grant("get"))
    assert not asking.principals.of(BOSS).rosters


async def test_so_many_domains_are_remembered_and_a_grant_can_be_taken_back(asking):
    for number in range(MAX_DOMAINS + 1):
        asking.rosters.take_grant(f"x{number}", grant("get"))
    assert not asking.principals.of(Jid(f"boss@x{MAX_DOMAINS}")).rosters
    asking.rosters.take_grant("x0", grant("none"))
    assert not asking.principals.of(Jid("boss@x0")).rosters


async def test_rosters_are_evaluated_when_all_have_answered(asking):
    asking.rosters.take_grant("x", grant("get"))
    asking.rosters.take_grant("elsewhere", grant("both"))
    asking.ask(BOSS, CEO)
    assert [b'to="boss@x"' in asking.said[0], b'to="ceo@elsewhere"' in asking.said[1]] == [
        True,
        True,
    ]
    assert not asking.rosters.take_answer(roster("roster-0", "eve@x"))
    assert asking.rosters.take_answer(roster("roster-0", BOSS))
    assert asking.reported == []
    assert asking.rosters.take_answer(roster("roster-1", CEO, subscription="to"))
    assert asking.reported == [(Contact(True, ("Friends",)), Contact(False, ("Friends",)))]  # noqa: FBT003
    assert not asking.rosters.take_answer(roster("roster-1", CEO))


async def test_others_in_the_roster_and_errors_prove_nothing(asking):
    asking.rosters.take_grant("x", grant("get"))
    asking.ask(BOSS)
    asking.rosters.take_answer(roster("roster-0", BOSS, jid="bob@x"))
    asking.ask(BOSS)
    asking.rosters.take_answer(roster("roster-1", BOSS, kind="error"))
    assert asking.reported == [(), ()]


async def test_with_the_stream_grants_end_and_waiting_requests_are_answered(asking):
    asking.rosters.take_grant("x", grant("get"))
    asking.ask(BOSS)
    asking.rosters.forget()
    assert asking.reported == [()]
    assert not asking.principals.of(BOSS).rosters


async def test_an_account_has_so_many_questions_open_and_others_theirs(asking):
    asking.rosters.take_grant("x", grant("get"))
    loop = asyncio.get_running_loop()

    def ask(by):
        return asking.rosters.ask(by, (BOSS,), asking.reported.append, loop)

    eve, ann = Principal(Jid("eve@x"), local=True), Principal(ANN, local=True)
    assert [ask(eve) for _ in range(MAX_OF_ONE)] == [True] * MAX_OF_ONE
    assert not ask(Principal(Jid("eve@x/other"), local=True)), "all resources are one account"
    assert ask(ann)
    assert len(asking.said) == MAX_OF_ONE + 1
    assert asking.reported == []
    assert asking.rosters.take_answer(roster("roster-0", BOSS))
    assert ask(eve)
    assert not ask(eve)


async def test_a_server_that_is_not_ours_cannot_use_up_all_questions(asking):
    asking.rosters.take_grant("x", grant("get"))
    loop = asyncio.get_running_loop()

    def ask(name):
        return asking.rosters.ask(Principal(Jid(name)), (BOSS,), asking.reported.append, loop)

    assert sum(ask(f"a{number}@far") for number in range(2 * MAX_OF_A_SERVER)) == MAX_OF_A_SERVER
    assert ask("a@near")
    assert asking.rosters.ask(Principal(ANN, local=True), (BOSS,), asking.reported.append, loop)
    asking.rosters.forget()
    asking.rosters.take_grant("x", grant("get"))
    assert sum(ask(f"b{n}@far") for n in range(2 * MAX_OF_A_SERVER)) == MAX_OF_A_SERVER


async def test_of_very_many_owners_some_are_asked(asking):
    asking.rosters.take_grant("x", grant("get"))
    asking.ask(*(Jid(f"owner{number}@x") for number in range(2 * MAX_OF_ONE)))
    assert asking.answered
    assert len(asking.said) == MAX_OF_ONE


async def test_a_roster_that_does_not_come_is_not_waited_for(asking, monkeypatch):
    monkeypatch.setattr("pubqueue.faces.xmpp.signals.TIMEOUT", 0.01)
    asking.rosters.take_grant("x", grant("get"))
    asking.ask(BOSS)
    assert asking.reported == []
    await until(lambda: asking.reported == [()])
    assert not asking.rosters.awaits(roster("roster-0", BOSS))
