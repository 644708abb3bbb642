"""A node whose settings were narrowed is trimmed slice by slice, whatever happens meanwhile (XEP-0060 16.4.4)."""

import pytest
from harness.batches.facts import ANN, BOSS, JOBS, NOW, after, who
from harness.batches.queue_requests import publishes
from harness.batches.shell import Shell

from pubqueue.engine.listings import ItemIds, Trims
from pubqueue.model.decision import Done
from pubqueue.model.entities import Jid
from pubqueue.model.notices import Retracted
from pubqueue.rules import trimming
from pubqueue.rules.declare import Declare
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Delete
from pubqueue.rules.subscribe import Subscribe
from pubqueue.rules.trimming import ResumeTrims

NAMES = [f"a{number}" for number in range(8)]
NARROW = {
    "fewer": (Settings({"max_items": 2}), NAMES[-2:]),
    "the last alone": (Settings({"persist_items": False}), NAMES[-1:]),
    "none": (Settings({"persist_items": False, "deliver_payloads": False}), []),
}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Let three items be a slice."""
    monkeypatch.setattr(trimming, "SLICE", 3)


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    shell.do(declares())
    for name in NAMES:
        shell.do(publishes(name))
    shell.do(Subscribe(who(ANN), JOBS, ANN, "of-ann"))
    yield shell
    shell.close()


def declares(**settings):
    people = {"owners": (Jid("boss@x"),), "publishers": (Jid("etl@x"),)}
    return Declare(who(BOSS, admin=True), JOBS, Settings(settings), **people)


def narrow(settings):
    return Configure(who(BOSS), JOBS, settings)


def listed(shell, listing):
    return shell.look_within(lambda tx: tx.page(listing, None, 99))


def kept(shell):
    """Return the items, after a check that they are counted correctly."""
    (node,) = shell.look(lambda tx: tx.nodes())
    found = listed(shell, ItemIds(JOBS))
    assert node.items == len(found)
    return found


@pytest.mark.parametrize("way", NARROW)
def test_excess_items_are_removed_and_the_newest_stay(shell, way):
    settings, left = NARROW[way]
    assert shell.do(narrow(settings)) == Done()
    assert kept(shell) == left
    assert listed(shell, Trims()) == []


@pytest.mark.parametrize("way", NARROW)
@pytest.mark.parametrize("slices", range(4))
def test_after_a_kill_between_any_two_slices_it_goes_on(tmp_path, shell, way, slices):
    settings, left = NARROW[way]
    request = narrow(settings)
    for _ in range(slices):
        request = shell.batch(request).decisions[0].then or request
    again = Shell(tmp_path / "queue.db")
    if slices:
        assert again.do(ResumeTrims()) == Done()
    else:
        again.do(request)
    assert kept(again) == left
    assert listed(again, Trims()) == []
    again.close()


def test_each_slice_is_notified_where_retracts_are(shell):
    request, reported = narrow(NARROW["fewer"][0]), []
    while request is not None:
        decision = shell.batch(request).decisions[0]
        reported += [news.what.ids for news in decision.notices]
        assert all(isinstance(news.what, Retracted) for news in decision.notices)
        request = decision.then
    assert reported == [("a0", "a1", "a2"), ("a3", "a4", "a5")]


def test_items_that_are_published_meanwhile_count(shell):
    request = shell.batch(narrow(NARROW["fewer"][0])).decisions[0].then
    request = shell.batch(publishes("b"), request).decisions[1].then
    shell.do(request)
    assert kept(shell) == ["a7", "b"]


def test_a_node_that_is_deleted_meanwhile_needs_no_more(shell):
    request = shell.batch(narrow(NARROW["fewer"][0])).decisions[0].then
    shell.do(Delete(who(BOSS), JOBS))
    assert shell.do(request) == Done()
    assert listed(shell, Trims()) == []


def test_settings_that_become_wider_meanwhile_let_the_rest_stay(shell):
    request = shell.batch(narrow(NARROW["fewer"][0])).decisions[0].then
    request = shell.batch(request).decisions[0].then
    shell.do(narrow(Settings({"max_items": None})))
    shell.do(request)
    assert kept(shell) == NAMES[3:]


def test_a_node_that_rejects_keeps_what_it_has(shell):
    shell.do(narrow(Settings({"max_items": 2, "publish_node_full": "reject"})))
    assert kept(shell) == NAMES
    shell.do(narrow(Settings({"publish_node_full": "discard-oldest"})))
    assert kept(shell) == NAMES[-2:]


def test_a_declaration_trims_as_well(shell):
    shell.do(declares(max_items=1))
    assert kept(shell) == NAMES[-1:]


def test_lives_are_cut_and_never_made_longer(shell):
    shell.wait(5)
    shell.do(publishes("young"))
    shell.do(publishes("brief", ttl=2))
    shell.do(narrow(Settings({"item_expire": 6})))
    lives = dict(shell.connection.execute("SELECT id, expires FROM item"))
    assert lives == dict.fromkeys(NAMES, after(6)) | {"young": after(11), "brief": after(7)}
    shell.do(narrow(Settings({"item_expire": 9})))
    shell.wait(1)
    shell.do(Expire())
    assert kept(shell) == ["young", "brief"]


def test_a_life_that_is_over_by_that_ends_when_the_clock_is_asked(shell):
    shell.wait(50)
    done = shell.batch(narrow(Settings({"item_expire": 10})))
    shell.do(done.decisions[0].then)
    assert listed(shell, Trims()) == []
    assert kept(shell) == NAMES
    shell.do(Expire())
    assert kept(shell) == []


def test_a_queue_is_never_trimmed_but_lives_of_its_items_are_cut(shell, tmp_path):
    queue = Shell(tmp_path / "work.db")
    queue.do(declares(queueing=True))
    queue.batch(*map(publishes, NAMES))
    queue.do(narrow(Settings({"max_items": 2})))
    assert kept(queue) == NAMES
    queue.do(narrow(Settings({"item_expire": 6})))
    assert {life for (life,) in queue.connection.execute("SELECT expires FROM item")} == {after(6)}
    assert queue.now == NOW
    queue.close()
