"""Plain nodes through the shell: who is notified, nodes that have moved, nodes created by a publish."""

import pytest
from harness.batches.facts import BOSS, ETL, JOBS, who
from harness.batches.queue_requests import publishes, retracts
from harness.batches.shell import Shell
from msgspec.structs import replace

from pubqueue.engine.facts import managing as pages
from pubqueue.engine.facts import publishing
from pubqueue.engine.listings import ItemIds
from pubqueue.model.decision import Done, Published, Refusal
from pubqueue.model.entities import Jid
from pubqueue.model.notices import ToAll
from pubqueue.model.replies import Page, SubscriberPage
from pubqueue.model.transactions import Mark
from pubqueue.rules import audience
from pubqueue.rules.audience import SERVICE, NextSubscribers
from pubqueue.rules.declare import Declare
from pubqueue.rules.discovery import Describe, ListItems
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Create, Delete, GetAffiliations, Purge, SetAffiliations
from pubqueue.rules.presence import Arrive, Departure, Leave
from pubqueue.rules.read import ReadEvents, ReadItems
from pubqueue.rules.retrieve import Order, Retrieve
from pubqueue.rules.settle import Settle, Verb
from pubqueue.rules.staging import StagePublish
from pubqueue.rules.subscribe import Subscribe

CROWD = [Jid(f"reader{number}@x/1") for number in range(8)]
THERE = "xmpp:queue.x?;node=elsewhere"
BY = who(BOSS, admin=True)


def declares(**settings):
    return Declare(BY, JOBS, Settings(settings), (Jid("boss@x"),), (Jid("etl@x"),))


def subscribes(jid):
    return Subscribe(who(jid), JOBS, jid, f"of-{jid}")


class TestByPresence:
    """XEP-0060 12.6."""

    def audience(self, shell):
        (news,) = shell.batch(publishes("a")).decisions[0].notices
        return news.to

    def test_available_resources_and_accounts_with_any_resource_are_notified(self, shell):
        shell.do(declares(presence_based_delivery=True))
        account = Jid("reader1@x")
        shell.batch(*map(subscribes, (CROWD[0], account, CROWD[2])))
        assert shell.batch(publishes("a")).decisions[0].notices == ()
        shell.batch(
            Arrive(CROWD[0]), Arrive(Jid("reader1@x/phone")), Arrive(Jid("reader2@x/other"))
        )
        assert self.audience(shell) == (CROWD[0], account)
        shell.batch(Leave(CROWD[0]))
        assert self.audience(shell) == (account,)

    def test_a_connection_of_the_service_is_here_as_long_as_it_subscribes(self, shell):
        line, elsewhere = Jid("bee@pubqueue/line.0.1"), Jid("bee@other/line.0.1")
        shell.do(declares(presence_based_delivery=True))
        shell.batch(*map(subscribes, (line, elsewhere)))
        assert self.audience(shell) == (line,)
        shell.batch(Leave(line, how=Departure.LOST))
        assert shell.batch(publishes("b")).decisions[0].notices == ()

    def test_each_page_of_a_crowd_is_examined_when_it_is_notified(self, shell, monkeypatch):
        monkeypatch.setattr(publishing, "CROWD", 4)
        for place in (pages, audience):
            monkeypatch.setattr(place, "PAGE", 3)
        shell.do(declares(presence_based_delivery=True))
        shell.batch(*map(subscribes, CROWD))
        shell.batch(*map(Arrive, (CROWD[1], CROWD[5], CROWD[7])))
        (news,) = shell.batch(publishes("a")).decisions[0].notices
        assert isinstance(news, ToAll)
        reported, after = [], None
        for _ in range(3):
            page = shell.do(NextSubscribers(SERVICE, JOBS, after))
            assert isinstance(page, SubscriberPage)
            reported, after = [*reported, *page.jids], page.after
        assert (reported, after) == ([CROWD[1], CROWD[5], CROWD[7]], None)


@pytest.fixture
def other(tmp_path):
    """Another process on the file of `shell`."""
    other = Shell(tmp_path / "queue.db")
    yield other
    other.close()


def expire(shell, _other):
    shell.batch(publishes("short", ttl=1))
    shell.wait(2)
    shell.do(Expire())


def persist_for_a_time(shell, _other):
    shell.do(Configure(BY, JOBS, Settings({"persist_items": True, "max_items": 5})))
    shell.batch(*map(publishes, "cde"))
    shell.do(Configure(BY, JOBS, Settings({"persist_items": False})))


# fmt: off
MEANWHILE = {
    "nothing":                      lambda _shell, _other: None,
    "another publish":              lambda shell, _other: shell.batch(publishes("c")),
    "several in one batch":         lambda shell, _other: shell.batch(*map(publishes, "cbde")),
    "one that is repeated":         lambda shell, _other: shell.batch(publishes("b"), publishes("b")),
    "a retract":                    lambda shell, _other: shell.do(retracts(ETL, "b")),
    "the end of its life":          expire,
    "other settings for a time":    persist_for_a_time,
    "a purge":                      lambda shell, _other: shell.do(Purge(BY, JOBS)),
    "another node under its name":  lambda shell, _other: shell.batch(Delete(BY, JOBS), declares(persist_items=False)),
    "a publish of another process": lambda _shell, other: other.batch(publishes("c", "d")),
    "another process retracts it":  lambda _shell, other: other.do(retracts(ETL, "b")),
}
# fmt: on


@pytest.mark.parametrize("happens", MEANWHILE)
def test_a_transient_node_keeps_only_its_last_item_whatever_happened_to_the_one_before(
    shell, other, happens
):
    shell.do(declares(persist_items=False))
    shell.batch(publishes("a"))
    shell.batch(publishes("b"))
    MEANWHILE[happens](shell, other)
    shell.batch(publishes("y"), publishes("z"))
    assert shell.look_within(lambda tx: tx.page(ItemIds(JOBS), None, 99)) == ["z"]
    assert shell.look(lambda tx: tx.node(JOBS)).items == 1


ASKED = {
    "publish": publishes("a"),
    "a publish in a transaction": StagePublish(publishes("a"), Mark("app", 1)),
    "retract": Settle(BY, JOBS, ("a",), Verb.RETRACT),
    "subscribe": Subscribe(BY, JOBS, BOSS, "s"),
    "items": Retrieve(BY, JOBS),
    "ids": ListItems(BY, JOBS),
    "what it is": Describe(BY, JOBS, manage=False),
    "configure": Configure(BY, JOBS, Settings()),
    "delete": Delete(BY, JOBS),
    "purge": Purge(BY, JOBS),
    "affiliations": GetAffiliations(BY, JOBS),
    "other affiliations": SetAffiliations(BY, JOBS, ()),
    "our reading": ReadItems(BY, JOBS),
    "its log": ReadEvents(BY, JOBS),
}


@pytest.mark.parametrize("name", ASKED)
def test_each_answer_for_a_node_that_has_moved_names_its_address(shell, name):
    """XEP-0060 6.1.3.11, 8.4.1."""
    shell.do(declares())
    assert shell.do(Delete(BY, JOBS, THERE)) == Done()
    moved = shell.do(ASKED[name])
    assert (moved.refusal, moved.reason) == (Refusal.MOVED, THERE)


def test_in_one_batch_too_and_no_more_when_there_is_a_node_of_the_name(shell):
    shell.do(declares())
    asked, made = ASKED["items"], Create(BY, JOBS, Settings())
    done = shell.batch(Delete(BY, JOBS, THERE), asked, made, asked, Delete(BY, JOBS), asked)
    first, again, last = (done.decisions[at].reply for at in (1, 3, 5))
    assert first.refusal is Refusal.MOVED
    assert again.items == ()
    assert last.refusal is Refusal.NODE_NOT_FOUND


def test_each_publish_of_a_batch_drops_the_then_oldest_item_of_a_full_node(shell):
    shell.do(declares(max_items=2))
    done = shell.batch(*map(publishes, "abcde"))
    assert all(isinstance(one.reply, Published) for one in done.decisions)
    assert shell.look_within(lambda tx: tx.page(ItemIds(JOBS), None, 9)) == ["d", "e"]
    (node,) = shell.look(lambda tx: tx.nodes())
    assert node.items == 2


def test_a_transient_node_has_one_item_whatever_a_batch_brings(shell):
    shell.do(declares(persist_items=False))
    shell.batch(publishes("a"), publishes("b", "c"), publishes("a"), publishes("d", "b"))
    assert shell.look_within(lambda tx: tx.page(ItemIds(JOBS), None, 9)) == ["b"]
    (node,) = shell.look(lambda tx: tx.nodes())
    assert node.items == 1


def test_a_transaction_needs_a_node_that_keeps_its_items(shell):
    shell.do(declares(persist_items=False))
    staged = shell.do(StagePublish(publishes("a", by=ETL), Mark("app", 1)))
    assert (staged.refusal, staged.setting) == (Refusal.UNSUPPORTED, "persistent-items")


def test_an_empty_publish_is_no_item_in_a_transaction_either(shell):
    shell.do(declares())
    empty = replace(publishes(), drafts=())
    assert shell.do(StagePublish(empty, Mark("app", 1))).refusal is Refusal.ITEM_REQUIRED


@pytest.mark.parametrize("at_once", [True, False])
def test_an_overwritten_item_keeps_the_position_of_its_creation(shell, at_once):
    """XEP-0413, its example: A, B, C, D; then C is overwritten, and A."""
    shell.do(declares())
    asked = [publishes(name) for name in "ABCDCACA"]
    for part in [asked] if at_once else ([one] for one in asked):
        shell.batch(*part)

    def read(*, created, descending=False, **which):
        reply = shell.do(Retrieve(BY, JOBS, order=Order(created, descending), **which))
        return "".join(item.id for item, _ in reply.items)

    assert (read(created=True), read(created=True, descending=True)) == ("ABCD", "DCBA")
    assert (read(created=False), read(created=False, descending=True)) == ("BDCA", "ACDB")
    assert read(created=True, descending=True, newest=2) == "DC"
    assert read(created=True, page=Page("B", 1)) == "C"
    assert read(created=True, page=Page(None, 1, "B")) == "A"
    assert read(created=True, descending=True, page=Page(None, 2, "")) == "BA"
    assert read(created=False, page=Page(None, 2, "A")) == "DC"
    shell.batch(publishes("E"), Settle(BY, JOBS, ("C", "A"), Verb.RETRACT), publishes("A"))
    assert (read(created=True), read(created=False)) == ("BDEA", "BDEA")
    assert shell.connection.execute("SELECT count(*) FROM overwritten").fetchone() == (0,)


def test_an_order_is_for_all_items_of_a_plain_node(shell):
    shell.do(declares(queueing=True))
    assert shell.do(Retrieve(BY, JOBS, order=Order())).refusal is Refusal.BAD_REQUEST
