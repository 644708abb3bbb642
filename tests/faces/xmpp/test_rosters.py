"""Rosters are asked for where they are granted, and only their owners' servers are believed (XEP-0356)."""

import asyncio

import pytest

from pubqueue.app.principals import Principals
from pubqueue.core.model import Contact, Jid, Principal
from pubqueue.faces.xmpp.rosters import MAX_DOMAINS, MAX_OF_A_SERVER, MAX_OF_ONE, Rosters
from pubqueue.faces.xmpp.xml.stanza import Element
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


class Desk:
    def __init__(self):
        self.said = []
        self.told = []
        self.principals = Principals(home="x")
        self.rosters = Rosters(
            "queue.x", lambda data: bool(self.said.append(data)), self.principals
        )

    def ask(self, *owners):
        loop = asyncio.get_running_loop()
        self.answered = self.rosters.ask(Principal(ANN, local=True), owners, self.told.append, loop)


@pytest.fixture
def desk():
    return Desk()


async def test_nothing_is_asked_of_a_server_that_has_granted_nothing(desk):
    desk.ask(BOSS)
    assert (desk.said, desk.told) == ([], [()])
    assert not desk.principals.of(BOSS).rosters


@pytest.mark.parametrize(("kind", "granted"), [("get", True), ("both", True), ("none", False)])
async def test_a_grant_is_for_the_accounts_of_the_domain_that_gives_it(desk, kind, granted):
    assert desk.rosters.hear_grant("x", grant(kind))
    assert desk.principals.of(BOSS).rosters is granted
    assert not desk.principals.of(CEO).rosters
    assert not desk.rosters.hear_grant("x", element("message"))


@pytest.mark.parametrize("sender", [None, "eve@x", "x/y"])
async def test_only_a_server_grants(desk, sender):
    desk.rosters.hear_grant(sender, grant("get"))
    assert not desk.principals.of(BOSS).rosters


async def test_so_many_domains_are_remembered_and_a_grant_can_be_taken_back(desk):
    for number in range(MAX_DOMAINS + 1):
        desk.rosters.hear_grant(f"x{number}", grant("get"))
    assert not desk.principals.of(Jid(f"boss@x{MAX_DOMAINS}")).rosters
    desk.rosters.hear_grant("x0", grant("none"))
    assert not desk.principals.of(Jid("boss@x0")).rosters


async def test_what_the_rosters_say_is_told_when_all_have_answered(desk):
    desk.rosters.hear_grant("x", grant("get"))
    desk.rosters.hear_grant("elsewhere", grant("both"))
    desk.ask(BOSS, CEO)
    assert [b'to="boss@x"' in desk.said[0], b'to="ceo@elsewhere"' in desk.said[1]] == [True, True]
    assert not desk.rosters.hear_answer(roster("roster-0", "eve@x"))
    assert desk.rosters.hear_answer(roster("roster-0", BOSS))
    assert desk.told == []
    assert desk.rosters.hear_answer(roster("roster-1", CEO, subscription="to"))
    assert desk.told == [(Contact(True, ("Friends",)), Contact(False, ("Friends",)))]  # noqa: FBT003
    assert not desk.rosters.hear_answer(roster("roster-1", CEO))


async def test_others_in_the_roster_and_errors_say_nothing(desk):
    desk.rosters.hear_grant("x", grant("get"))
    desk.ask(BOSS)
    desk.rosters.hear_answer(roster("roster-0", BOSS, jid="bob@x"))
    desk.ask(BOSS)
    desk.rosters.hear_answer(roster("roster-1", BOSS, kind="error"))
    assert desk.told == [(), ()]


async def test_with_the_stream_goes_what_was_granted_and_who_waits_is_answered(desk):
    desk.rosters.hear_grant("x", grant("get"))
    desk.ask(BOSS)
    desk.rosters.forget()
    assert desk.told == [()]
    assert not desk.principals.of(BOSS).rosters


async def test_an_account_has_so_many_questions_open_and_others_theirs(desk):
    desk.rosters.hear_grant("x", grant("get"))
    loop = asyncio.get_running_loop()

    def ask(by):
        return desk.rosters.ask(by, (BOSS,), desk.told.append, loop)

    eve, ann = Principal(Jid("eve@x"), local=True), Principal(ANN, local=True)
    assert [ask(eve) for _ in range(MAX_OF_ONE)] == [True] * MAX_OF_ONE
    assert not ask(Principal(Jid("eve@x/other"), local=True)), "all resources are one account"
    assert ask(ann)
    assert len(desk.said) == MAX_OF_ONE + 1
    assert desk.told == []
    assert desk.rosters.hear_answer(roster("roster-0", BOSS))
    assert ask(eve)
    assert not ask(eve)


async def test_a_server_that_is_not_ours_cannot_use_up_all_questions(desk):
    desk.rosters.hear_grant("x", grant("get"))
    loop = asyncio.get_running_loop()

    def ask(name):
        return desk.rosters.ask(Principal(Jid(name)), (BOSS,), desk.told.append, loop)

    assert sum(ask(f"a{number}@far") for number in range(2 * MAX_OF_A_SERVER)) == MAX_OF_A_SERVER
    assert ask("a@near")
    assert desk.rosters.ask(Principal(ANN, local=True), (BOSS,), desk.told.append, loop)
    desk.rosters.forget()
    assert not desk.rosters._of


async def test_of_very_many_owners_some_are_asked(desk):
    desk.rosters.hear_grant("x", grant("get"))
    desk.ask(*(Jid(f"owner{number}@x") for number in range(2 * MAX_OF_ONE)))
    assert desk.answered
    assert len(desk.said) == MAX_OF_ONE
