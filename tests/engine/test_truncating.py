"""Queues that drop their oldest items, because of age or lack of room, and report it in the same commit; on both stores."""

import pytest
from harness.batches.facts import ANN, BOSS, JOBS, after, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell
from harness.stores.store_contents import misweighed, recount

from pubqueue.engine.listings import Trims
from pubqueue.model.decision import Done, Published, Refused
from pubqueue.model.entities import ItemId, Jid, NodeName
from pubqueue.model.replies import Emptied
from pubqueue.rules import trimming
from pubqueue.rules.declare import Declare
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Purge
from pubqueue.rules.room import STATUS, STATUS_ID
from pubqueue.rules.trimming import ResumeTrims

NEWS, A, B = NodeName("news"), NodeName("a"), NodeName("b")
SAYS_SO = [STATUS_ID]


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    place = tmp_path / "queue.db"
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").address
    made = {"sqlite": Shell, "postgres": PostgresShell}[request.param](place)
    yield made
    for look in (recount, misweighed):
        assert made.look_within(look) == []
    assert made.look_within(lambda tx: tx.page(Trims(), None, 9)) == []
    made.close()


def contents(shell, node=JOBS):
    return shell.look(lambda tx: list(tx.contents(node)))


def names(shell, node=JOBS):
    return [item.id for item, _ in contents(shell, node)]


def puts(name, size, **facts):
    return publishes(name, payload=b"<" + b"x" * (size - 3) + b"/>", **facts)


def whole(shell, request):
    """Do all slices of a request."""
    decision = shell.batch(request).decisions[0]
    while decision.then is not None:
        decision = shell.batch(decision.then).decisions[0]
    return decision.reply


def fills(shell, count=4, size=25):
    for at in range(count):
        assert whole(shell, puts(f"i{at}", size)) == Published(JOBS, (ItemId(f"i{at}"),))


def test_a_full_queue_drops_its_oldest_and_reports_it_once(shell):  # grpc G24
    shell.do(a_queue(max_bytes=100, expired="truncate"))
    fills(shell)
    assert names(shell) == ["i0", "i1", "i2", "i3"]
    assert whole(shell, puts("large", 50)) == Published(JOBS, (ItemId("large"),))
    assert names(shell) == ["i2", "i3", "large", *SAYS_SO]
    ((_, payload),) = [one for one in contents(shell) if one[0].id == STATUS_ID]
    assert payload == STATUS
    whole(shell, puts("last", 25))
    assert names(shell).count(STATUS_ID) == 1
    shell.do(retracts(BOSS, STATUS_ID))
    whole(shell, puts("more", 40))
    assert names(shell)[-3:] == ["last", "more", *SAYS_SO]


def test_locked_items_are_not_dropped(shell):  # grpc G24
    shell.batch(a_queue(max_items=3, expired="truncate"), joins(ANN, 2))
    fills(shell)
    assert names(shell) == ["i0", "i1", "i3", *SAYS_SO]


def test_truncating_continues_in_slices_after_locked_items(shell, monkeypatch):  # grpc G24
    monkeypatch.setattr(trimming, "SLICE", 2)
    monkeypatch.setattr("pubqueue.engine.facts.managing.trimming.SLICE", 2)
    shell.batch(a_queue(max_bytes=200, expired="truncate"), joins(ANN, 3))
    fills(shell, 8)
    whole(shell, puts("large", 125))
    assert names(shell) == ["i0", "i1", "i2", "large", *SAYS_SO]


def test_a_kill_between_two_slices_loses_nothing_but_what_is_due(shell, monkeypatch):  # grpc G24
    monkeypatch.setattr(trimming, "SLICE", 2)
    shell.do(a_queue(max_bytes=200, expired="truncate"))
    fills(shell, 8)
    shell.batch(puts("large", 200))  # and nobody asks for the slices that follow
    assert len(names(shell)) == 9
    assert whole(shell, ResumeTrims()) == Done()
    assert names(shell) == ["large", *SAYS_SO]


def test_a_publish_that_feeds_trims_each_queue(shell):  # grpc G24
    wanted = Settings({"queueing": False, "access_model": "open", "persist_items": False})
    shell.do(Declare(who(BOSS, admin=True), NEWS, wanted, (Jid("boss@x"),), (Jid("etl@x"),)))
    for name in (A, B):
        shell.do(a_queue(name, source=NEWS, max_items=1, expired="truncate"))
    for name in ("i1", "i2"):
        reply = whole(shell, publishes(name, node=NEWS))
        assert reply.ids == (name,)
    assert names(shell, A) == names(shell, B)
    assert SAYS_SO[0] in names(shell, A)


def test_an_item_that_is_too_old_goes_and_the_queue_reports_it(shell):  # grpc G24
    shell.do(a_queue(item_expire=10, expired="truncate"))
    shell.batch(publishes("i1", "i2"))
    shell.now = after(11)
    shell.batch(Expire())
    assert names(shell) == SAYS_SO
    shell.batch(publishes("i3"))
    shell.now = after(40)
    shell.batch(Expire())
    assert names(shell) == SAYS_SO  # it does not expire, and is there once


def test_a_purge_leaves_it_in_the_same_commit(shell):  # grpc G24
    shell.batch(a_queue(), joins(ANN, 1), publishes("i1", "i2"))
    done = shell.batch(Purge(who(BOSS), JOBS, says_so=True))
    assert done.decisions[0].reply == Emptied(JOBS, 2)
    ((item, payload),) = contents(shell)
    assert (item.id, payload, item.expires) == (STATUS_ID, STATUS, None)
    assert [one.item.id for one in done.deliveries] == SAYS_SO
    shell.batch(Purge(who(BOSS), JOBS))
    assert contents(shell) == []


def test_a_bound_that_is_set_later_holds_at_once(shell):  # grpc G24
    shell.do(a_queue(max_items=2))
    shell.batch(publishes("i1", "i2"))
    assert isinstance(shell.do(publishes("i3")), Refused)
    wanted = Settings({"expired": "truncate", "max_items": 1})
    assert whole(shell, Configure(who(BOSS), JOBS, wanted)) == Done()
    assert names(shell) == ["i2", *SAYS_SO]
