"""CommandSessions are few, short, and of one resource."""

import pytest

from pubqueue.faces.xmpp.commands import steps
from pubqueue.faces.xmpp.commands.steps import AGE, MAX_OF_ACCOUNT, CommandSessions
from pubqueue.faces.xmpp.commands.table import COMMANDS
from pubqueue.model.entities import Jid

PAUSE = COMMANDS["urn:x-pubqueue:0#pause"]
SCREEN, PHONE, BEE = Jid("boss@x/desk"), Jid("boss@x/phone"), Jid("bee@x/1")


class Time:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def kept(time):
    return CommandSessions(time)


def begun(kept, jid=SCREEN):
    session = kept.begin(jid, PAUSE)
    kept.keep(session)
    return session


def test_a_session_is_found_by_its_resource_alone(kept):
    session = begun(kept)
    assert kept.find(SCREEN, session.name) is session
    assert kept.find(PHONE, session.name) is None
    assert not kept.has_ended(session.name), "it is, and the other one is not told more"


def test_what_has_ended_is_known_to_have_been(kept):
    session = begun(kept)
    kept.end(session)
    kept.end(session)
    assert kept.find(SCREEN, session.name) is None
    assert kept.has_ended(session.name)


def test_a_session_waits_for_so_long_after_each_step(kept, time):
    session = begun(kept)
    time.now += AGE
    assert kept.find(SCREEN, session.name) is session
    kept.keep(session)
    time.now += AGE
    assert kept.find(SCREEN, session.name) is session
    time.now += 1
    assert kept.find(SCREEN, session.name) is None
    assert (len(kept), kept.has_ended(session.name)) == (0, True)


def test_of_one_account_only_the_last_ones_are_kept(kept):
    other = begun(kept, BEE)
    mine = [begun(kept, SCREEN if n % 2 else PHONE) for n in range(MAX_OF_ACCOUNT + 3)]
    assert [kept.find(one.jid, one.name) is one for one in mine] == [False] * 3 + [
        True
    ] * MAX_OF_ACCOUNT
    assert kept.find(BEE, other.name) is other


def test_in_all_there_are_no_more_than_so_many(kept, monkeypatch):
    monkeypatch.setattr(steps, "MAX_SESSIONS", 3)
    made = [begun(kept, Jid(f"u{n}@x/1")) for n in range(5)]
    assert [kept.find(one.jid, one.name) is one for one in made] == [False] * 2 + [True] * 3


@pytest.mark.parametrize(
    "name", ["mine", "", "-", f"{'0' * 31}-1", f"{'0' * 32}-x", f"{'0' * 32}-٣"]
)
def test_an_unknown_session_is_distinguished(kept, name):
    assert not kept.has_ended(name)


def test_a_session_of_another_process_has_ended_as_far_as_this_one_knows(kept, time):
    assert kept.has_ended(begun(CommandSessions(time)).name)
    assert not kept.has_ended(begun(kept).name.replace("-1", "-2")), "one that is still to come"
