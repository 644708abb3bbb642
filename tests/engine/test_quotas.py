"""Quotas of accounts: who pays, what is refused, and that nothing is lost."""

import pytest
from harness.batches.facts import ANN, BOSS, ETL, EVE, JOBS, draft, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, unlocks
from harness.batches.shell import Shell
from harness.batches.transactions import commits, in_slices, stages
from harness.stores.store_contents import misweighed, out_of_step, recount

from pubqueue.engine.rows import HOLDINGS
from pubqueue.model.decision import Done, Published, Redriven, Refusal, Refused
from pubqueue.model.entities import ItemId, Jid, NodeName, State
from pubqueue.model.records import Quota, Quotas
from pubqueue.model.replies import Created, Emptied
from pubqueue.model.transactions import Committed
from pubqueue.rules.access import AutoCreation
from pubqueue.rules.dead_letters import Redrive
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Create, Delete, Purge
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Outcome

MINE, MORE = NodeName("eves"), NodeName("eves-more")
DEAD = NodeName("jobs-dead")
ACCOUNT = Jid("eve@x")


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    shell.operators = frozenset({Jid("boss@x")})
    yield shell
    for look in (recount, misweighed):
        assert shell.look_within(look) == []
    assert shell.look_within(lambda tx: out_of_step(shell.rows.cache, tx)) == []
    shell.close()


def bound(shell, nodes=0, items=0, byte_count=0):
    """Let eve have this quota, and no other account any."""
    shell.quotas = Quotas(Quota(0, 0, 0), {ACCOUNT: Quota(nodes, items, byte_count)})


def makes(name=MINE, by=EVE, **settings):
    wanted = {"queueing": True, "access_model": "open", "publish_model": "open"} | settings
    return Create(who(by, local=True), name, Settings(wanted))


def has(shell):
    found = shell.rows.cache.of[HOLDINGS][ACCOUNT]
    return found.nodes, found.items, found.bytes


def refusals(done):
    return [one.reply.refusal if isinstance(one.reply, Refused) else None for one in done.decisions]


# --- nodes ---------------------------------------------------------------------------------------


def test_accounts_are_limited_in_nodes_separately(shell):
    bound(shell, nodes=2)
    done = shell.batch(
        makes(NodeName("a")), makes(NodeName("b")), makes(NodeName("c")), makes(JOBS, ANN)
    )
    assert refusals(done) == [None, None, Refusal.TOO_MANY_NODES, None]
    shell.do(Delete(who(EVE), NodeName("a")))
    assert shell.do(makes(NodeName("c"))) == Created(NodeName("c"))


def test_a_publish_makes_no_node_that_is_too_many(shell):
    shell.creation = AutoCreation.ALWAYS
    bound(shell, nodes=1)
    first, second = (Publish(who(EVE, local=True), name, (draft("i1"),)) for name in (MINE, MORE))
    assert refusals(shell.batch(first, second)) == [None, Refusal.TOO_MANY_NODES]
    assert shell.look(lambda tx: tx.node(MORE)) is None


def test_the_operators_nodes_and_the_declared_ones_have_no_bound(shell):
    shell.quotas = Quotas(Quota(1, 1, 1))
    assert shell.do(makes(NodeName("a"), BOSS)) == Created(NodeName("a"))
    assert shell.do(makes(NodeName("b"), BOSS)) == Created(NodeName("b"))
    assert not isinstance(shell.do(a_queue()), Refused)
    assert isinstance(shell.do(publishes("i1", "i2", "i3")), Published)


# --- items and bytes ------------------------------------------------------------------------------


def test_the_creator_of_the_node_pays_for_all_publishers(shell):
    shell.batch(makes(), makes(MORE), a_queue())
    bound(shell, items=3)
    done = shell.batch(
        publishes("i1", "i2", node=MINE, by=ETL),
        publishes("i3", node=MORE, by=ETL),
        publishes("i4", node=MORE, by=ETL),
        publishes("i4", by=ETL),
    )
    assert refusals(done) == [None, None, Refusal.TOO_MUCH_KEPT, None]
    assert has(shell)[:2] == (2, 3)


def test_a_repeated_publish_into_a_full_account_is_answered_as_ever(shell):
    shell.do(makes())
    bound(shell, items=1)
    assert refusals(shell.batch(publishes("i1", node=MINE), publishes("i1", node=MINE))) == [
        None,
        None,
    ]


def test_bytes_are_bounded_and_another_payload_counts_for_what_it_adds(shell):
    shell.do(makes())
    bound(shell, byte_count=10)
    done = shell.batch(
        publishes("i1", node=MINE, payload=b"12345678"),
        publishes("i2", node=MINE, payload=b"123"),
        publishes("i1", node=MINE, payload=b"1234567"),
        publishes("i2", node=MINE, payload=b"123"),
        publishes("i1", node=MINE, payload=b"12345678"),
    )
    assert refusals(done) == [
        None,
        Refusal.TOO_MUCH_KEPT,
        None,
        None,
        Refusal.TOO_MUCH_KEPT,
    ]
    assert has(shell) == (1, 2, 10)


def test_headers_count_too(shell):
    shell.do(makes())
    bound(shell, byte_count=10)
    said = publishes("i1", node=MINE, payload=b"12345", headers=(("na", "valu"),))
    assert refusals(shell.batch(said)) == [Refusal.TOO_MUCH_KEPT]


@pytest.mark.parametrize("full", ["reject", "retract-oldest"])
def test_a_plain_node_is_paid_for_as_well_and_what_goes_makes_room(shell, full):
    plain = {"queueing": False, "max_items": 2, "publish_node_full": full}
    shell.do(makes(**plain))
    bound(shell, items=2)
    shell.do(publishes("i1", "i2", node=MINE))
    reply = shell.do(publishes("i3", node=MINE))
    assert isinstance(reply, Published) is (full == "retract-oldest")
    assert has(shell)[1] == 2
    bound(shell, items=1)
    assert isinstance(shell.do(publishes("i2", node=MINE)), Published)  # it is there already


def test_done_purged_and_deleted_items_make_room(shell):
    shell.batch(makes(), makes(MORE), joins(ANN, 9, node=MINE))
    bound(shell, items=2)
    shell.batch(publishes("i1", "i2", node=MINE))
    assert shell.do(retracts(ANN, "i1", node=MINE)) == Done()
    assert isinstance(shell.do(publishes("i3", node=MINE)), Published)
    assert shell.do(Purge(who(EVE), MINE)) == Emptied(MINE, 2)
    assert isinstance(shell.do(publishes("i4", "i5", node=MINE)), Published)
    assert shell.do(Delete(who(EVE), MINE)) == Done()
    assert isinstance(shell.do(publishes("i6", "i7", node=MORE)), Published)
    assert shell.do(publishes("i8", node=MORE)).refusal is Refusal.TOO_MUCH_KEPT


def test_kept_done_items_count_as_bytes_and_not_as_items(shell):
    shell.batch(makes(keep_done=1), joins(ANN, 9, node=MINE))
    bound(shell, items=1, byte_count=2 * len(b"<job/>"))
    for name in ("i1", "i2"):
        assert isinstance(shell.do(publishes(name, node=MINE)), Published)
        assert shell.do(retracts(ANN, name, node=MINE)) == Done()
    assert has(shell) == (1, 0, 12)
    assert shell.do(publishes("i3", node=MINE)).refusal is Refusal.TOO_MUCH_KEPT
    assert shell.do(Purge(who(EVE), MINE)) == Emptied(MINE, 0)
    assert isinstance(shell.do(publishes("i4", node=MINE)), Published)


def test_items_that_leave_an_unloaded_node_make_room(shell):
    """Its row is not loaded when the item goes; the payer is found when the batch is written."""
    shell.batch(makes(), makes(MORE), joins(ANN, 9, node=MINE), publishes("i1", node=MINE))
    bound(shell, items=1)
    del shell.rows.cache.nodes[MINE]
    shell.do(retracts(ANN, "i1", node=MINE))
    assert isinstance(shell.do(publishes("i2", node=MORE)), Published)


def test_a_new_owner_pays_for_the_node_from_then_on(shell):
    shell.batch(makes(), publishes("i1", node=MINE), makes(MORE))
    bound(shell, items=1)
    assert shell.do(publishes("i2", node=MORE)).refusal is Refusal.TOO_MUCH_KEPT
    taken = Declare(who(BOSS, admin=True), MINE, Settings({"queueing": True}), (Jid("boss@x"),))
    done = shell.batch(taken, publishes("i2", node=MORE), publishes("i3", node=MORE))
    assert refusals(done) == [None, None, Refusal.TOO_MUCH_KEPT]


# --- deaths and redrives ---------------------------------------------------------------------------


def dies(shell, name, node, **draft):
    shell.batch(joins(ANN, 9, node=node), publishes(name, node=node, **draft))
    assert shell.do(unlocks(ANN, name, node=node, outcome=Outcome.REJECT, reason="no")) == Done()


def item(shell, name, node):
    return shell.look(lambda tx: tx.item(node, ItemId(name)))


@pytest.mark.parametrize("limit", [{"items": 1}, {"byte_count": 10}])
def test_a_dead_item_stays_at_home_where_its_place_is_of_another_account_that_is_full(shell, limit):
    shell.batch(makes(DEAD), a_queue(dead_letter_node=DEAD))
    shell.do(publishes("i0", node=DEAD, payload=b"1234567890"))
    bound(shell, **limit)
    dies(shell, "i1", JOBS)
    there = item(shell, "i1", JOBS)
    assert there.state is State.DEAD
    assert there.dead_letter.reason == f"no; not moved to {DEAD}: it is full"
    bound(shell)
    dies(shell, "i2", JOBS)
    assert item(shell, "i2", DEAD).dead_letter.reason == "no"


def test_a_death_within_one_account_takes_no_room(shell):
    shell.batch(makes(DEAD), makes(dead_letter_node=DEAD))
    bound(shell, items=1)
    dies(shell, "i1", MINE)
    assert item(shell, "i1", DEAD).dead_letter.reason == "no"
    assert has(shell)[:2] == (2, 1)
    assert shell.do(Redrive(who(EVE), DEAD)) == Redriven(DEAD, 1)
    assert item(shell, "i1", MINE).state is not State.DEAD


def test_an_item_is_not_revived_into_an_account_that_is_full(shell):
    shell.batch(a_queue(DEAD, publish_model="open"), makes(dead_letter_node=DEAD))
    dies(shell, "i1", MINE)
    assert item(shell, "i1", DEAD) is not None
    shell.do(publishes("i2", node=MINE))
    bound(shell, items=1)
    by = who(BOSS, admin=True)
    assert shell.do(Redrive(by, DEAD, (ItemId("i1"),))).refusal is Refusal.TOO_MUCH_KEPT
    assert shell.do(Redrive(by, DEAD)) == Redriven(DEAD, 0)
    bound(shell, items=2)
    assert shell.do(Redrive(by, DEAD)) == Redriven(DEAD, 1)


# --- commits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("large", [False, True])
def test_a_commit_into_a_full_account_is_refused_and_stays_staged(shell, large, monkeypatch):
    if large:
        in_slices(monkeypatch, 2)
    shell.batch(makes(), publishes("i1", node=MINE))
    shell.do(stages("i1", "i2", "i3", node=MINE))
    bound(shell, items=2)
    no = shell.do(commits((0, 0, 3)))
    assert no.refusal is Refusal.TOO_MUCH_KEPT
    bound(shell, byte_count=20)
    assert shell.do(commits((0, 0, 3))).refusal is Refusal.TOO_MUCH_KEPT
    bound(shell, items=3)
    assert isinstance(shell.do(commits((0, 0, 3))), Committed)
    assert shell.look(lambda tx: tx.node(MINE)).items == 3


# --- several processes ----------------------------------------------------------------------------


def test_two_processes_keep_to_one_quota(shell, tmp_path):
    other = Shell(tmp_path / "queue.db")
    shell.batch(makes(), makes(MORE))
    for one in (shell, other):
        bound(one, items=4, nodes=3)
    reported = []
    for number in range(3):
        reported += refusals(shell.batch(publishes(f"a{number}", node=MINE)))
        reported += refusals(other.batch(publishes(f"b{number}", node=MORE)))
    assert reported == [None] * 4 + [Refusal.TOO_MUCH_KEPT] * 2
    made = [*other.batch(makes(NodeName("c"))).decisions, *shell.batch(makes(JOBS)).decisions]
    assert [type(one.reply) for one in made] == [Created, Refused]
    for one in (shell, other):
        assert one.look_within(lambda tx, one=one: out_of_step(one.rows.cache, tx)) == []
    other.close()
