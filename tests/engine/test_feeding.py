"""A plain node that feeds queues, on both stores: one commit for all of them, permissions, and the end of feeding."""

import pytest
from harness.batches.facts import ANN, BOSS, ETL, EVE, JOBS, NIGHTLY, after, draft, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.shell import Shell
from harness.batches.transactions import APP, commits, committed, names, stages
from harness.batches.two_shells import PostgresShell
from harness.stores.store_contents import misweighed, recount
from msgspec.structs import replace

from pubqueue.engine.facts import transactions
from pubqueue.model.changes import AddItem
from pubqueue.model.decision import Done, Published, Refusal, Refused
from pubqueue.model.entities import AccessModel, Affiliation, Feed, ItemId, Jid, NodeName, Principal
from pubqueue.model.replies import Created, Declared
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Create, Delete, SetAffiliations
from pubqueue.rules.publication import Publish
from pubqueue.rules.schedules import AddSchedule, FireNow

NEWS, A, B = NodeName("news"), NodeName("a"), NodeName("b")


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    makes = {"sqlite": Shell, "postgres": PostgresShell}
    place = tmp_path / "queue.db"
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").address
    made = makes[request.param](place)
    yield made
    for look in (recount, misweighed):
        assert made.look_within(look) == []
    made.close()


def a_topic(**settings):
    wanted = Settings({"queueing": False, "access_model": "open"} | settings)
    return Declare(who(BOSS, admin=True), NEWS, wanted, (Jid("boss@x"),), (Jid("etl@x"),))


def makes(node, *, by=EVE, **settings):
    wanted = Settings({"queueing": True, "access_model": "open", "source": NEWS} | settings)
    return Create(who(by, local=True), node, wanted)


def configures(node, *, by=EVE, **settings):
    return Configure(who(by), node, Settings(settings))


def node(shell, name):
    return shell.look(lambda tx: tx.node(name))


def feeds(shell):
    return [(feed.queue, feed.by) for feed in node(shell, NEWS).config.feeds]


def source(shell, name):
    return node(shell, name).config.source


def fed_pair(shell, **settings):
    """Make the plain node and two queues of another account that it feeds."""
    shell.batch(a_topic(**settings))
    shell.batch(makes(A), makes(B))
    assert feeds(shell) == [(A, "eve@x"), (B, "eve@x")]


def trusts(shell, jid="eve@x"):
    """Make the account a publisher of the plain node: its queues may refuse a publish."""
    shell.do(SetAffiliations(who(BOSS), NEWS, ((Jid(jid), Affiliation.PUBLISHER),)))


# --- publishes ------------------------------------------------------------------------------------


def test_one_batch_brings_the_item_into_each_queue_and_hands_it_out(shell):
    fed_pair(shell)
    shell.batch(joins(ANN, 9, node=A))
    done = shell.batch(publishes("i1", "i2", node=NEWS))
    assert done.decisions[0].reply == Published(NEWS, (ItemId("i1"), ItemId("i2")))
    assert [notice.item.id for notice in done.deliveries] == ["i1", "i2"]
    assert [names(shell, it) for it in (NEWS, A, B)] == [["i1", "i2"]] * 3


def test_each_queue_settles_for_itself(shell):
    fed_pair(shell)
    shell.batch(joins(ANN, 9, node=A), publishes("i1", node=NEWS))
    shell.do(retracts(ANN, "i1", node=A))
    assert [names(shell, it) for it in (NEWS, A, B)] == [["i1"], [], ["i1"]]


def test_a_queue_that_is_full_refuses_it_for_all_until_it_has_room(shell):
    fed_pair(shell)
    trusts(shell)
    shell.do(configures(B, max_items=1))
    shell.do(publishes("i1", node=NEWS))
    before = shell.dump()
    no = shell.do(publishes("i2", node=NEWS))
    assert (no.refusal, no.reason) == (
        Refusal.NODE_FULL,
        "'news' feeds the queue 'b': node full (1)",
    )
    assert shell.dump() == before
    shell.batch(joins(ANN, 1, node=B))
    shell.do(retracts(ANN, "i1", node=B))
    assert isinstance(shell.do(publishes("i2", node=NEWS)), Published)
    assert names(shell, A) == ["i1", "i2"]


def test_a_taken_id_comes_in_under_another_once_for_each_payload(shell):
    fed_pair(shell)
    shell.batch(joins(ANN, 1, node=A), publishes("i1", node=NEWS))
    again = publishes("i1", node=NEWS, payload=b"<new/>")
    for request in (again, again, publishes("i1", node=NEWS)):
        assert isinstance(shell.do(request), Published)
    assert names(shell, NEWS) == names(shell, B) == ["i1"]
    first, second = names(shell, A)
    assert first == "i1"
    assert second.startswith("i1.")
    assert len(second) == len("i1.") + 32


def test_the_filter_of_each_queue_decides_by_headers(shell):
    fed_pair(shell)
    shell.do(configures(A, filter='headers.kind = "order"'))
    order = publishes("o1", node=NEWS, headers=(("kind", "order"),))
    shell.batch(order, publishes("x1", node=NEWS))
    assert [names(shell, it) for it in (NEWS, A, B)] == [["o1", "x1"], ["o1"], ["o1", "x1"]]


def test_a_transient_node_feeds_queues_that_keep_all(shell):
    fed_pair(shell, persist_items=False)
    shell.batch(publishes("i1", node=NEWS), publishes("i2", node=NEWS))
    assert [names(shell, it) for it in (NEWS, A)] == [["i2"], ["i1", "i2"]]


def test_items_of_schedules_feed_queues(shell):
    fed_pair(shell)
    root = Principal(Jid("root@x"), admin=True)
    shell.operators = frozenset({Jid("pubqueue")})
    definition = replace(NIGHTLY.definition, node=NEWS)
    shell.do(AddSchedule(root, definition))
    shell.do(FireNow(root, definition.name))
    assert names(shell, NEWS) == names(shell, A) == names(shell, B) != []


def test_many_publishes_that_feed_many_queues_end_a_batch_early(shell):
    shell.do(a_topic())
    trusts(shell)
    queues = [NodeName(f"q{number}") for number in range(20)]
    shell.batch(*(makes(name) for name in queues))
    asked = [publishes(*(f"i{at}.{n}" for n in range(30)), node=NEWS) for at in range(10)]
    done = shell.batch(*asked)
    assert len(done.decisions) == 4  # 4 x 30 x 21 changes
    shell.batch(*asked[4:8])
    assert len(names(shell, queues[-1])) == 240


# --- who sets it ----------------------------------------------------------------------------------


def test_an_account_that_may_not_subscribe_to_a_node_cannot_let_it_feed_a_queue(shell):
    shell.do(a_topic(access_model="whitelist"))
    no = shell.do(makes(A))
    assert (no.refusal, no.reason) == (
        Refusal.FORBIDDEN,
        "source: you may not subscribe to 'news'",
    )
    assert node(shell, A) is None
    shell.do(SetAffiliations(who(BOSS), NEWS, ((Jid("eve@x"), Affiliation.MEMBER),)))
    assert isinstance(shell.do(makes(A)), Created)
    assert feeds(shell) == [(A, "eve@x")]


def test_only_owners_of_the_queue_set_it(shell):
    shell.batch(a_topic(), a_queue())
    assert shell.do(configures(JOBS, source=NEWS)).refusal is Refusal.FORBIDDEN
    assert shell.do(configures(JOBS, by=BOSS, source=NEWS)) == Done()
    assert feeds(shell) == [(JOBS, "boss@x")]


def test_a_queue_goes_from_one_node_to_another_and_to_none(shell):
    fed_pair(shell)
    shell.do(replace(a_topic(), node=NodeName("other")))
    assert shell.do(configures(A, source="other")) == Done()
    assert feeds(shell) == [(B, "eve@x")]
    assert node(shell, NodeName("other")).config.feeds == (Feed(A, Jid("eve@x")),)
    assert shell.do(configures(A, source="")) == Done()
    assert node(shell, NodeName("other")).config.feeds == ()
    shell.do(publishes("i1", node=NEWS))
    assert (names(shell, A), names(shell, B)) == ([], ["i1"])


def test_a_node_that_feeds_queues_becomes_none(shell):
    fed_pair(shell)
    no = shell.do(configures(NEWS, by=BOSS, queueing=True))
    assert (no.setting, no.reason) == (
        "queueing",
        "queueing cannot change while the node feeds 2 queues",
    )


def test_declared_nodes_are_fed_and_stay_so(shell):
    declared = Declare(
        who("pubqueue", admin=True), A, Settings({"queueing": True, "source": NEWS}), ()
    )
    shell.batch(a_topic())
    assert shell.do(declared) == Declared(A, made=True)
    assert shell.do(declared) == Declared(A, made=False)
    assert feeds(shell) == [(A, "pubqueue")]
    shell.do(publishes("i1", node=NEWS))
    assert names(shell, A) == ["i1"]


def test_a_queue_that_a_publish_makes_is_fed(shell):
    shell.do(a_topic())
    shell.creation = type(shell.creation).WITH_OPTIONS
    wanted = Settings({"queueing": True, "source": NEWS})
    done = shell.do(Publish(who(EVE, local=True), A, (draft("first"),), wanted))
    assert isinstance(done, Published)
    shell.do(publishes("i1", node=NEWS))
    assert names(shell, A) == ["first", "i1"]


# --- what ends it ---------------------------------------------------------------------------------


def test_a_queue_that_is_deleted_is_fed_no_more(shell):
    fed_pair(shell)
    assert shell.do(Delete(who(EVE), A)) == Done()
    assert feeds(shell) == [(B, "eve@x")]
    assert isinstance(shell.do(publishes("i1", node=NEWS)), Published)
    shell.do(makes(A, source=""))
    shell.do(publishes("i2", node=NEWS))
    assert (names(shell, A), names(shell, B)) == ([], ["i1", "i2"])


def test_a_node_that_is_deleted_leaves_queues_what_they_have_and_another_of_its_name_feeds_none(
    shell,
):
    fed_pair(shell)
    shell.do(publishes("i1", node=NEWS))
    assert shell.do(Delete(who(BOSS), NEWS)) == Done()
    assert (source(shell, A), source(shell, B)) == ("", "")
    shell.batch(a_topic())
    shell.do(publishes("i2", node=NEWS))
    assert names(shell, A) == names(shell, B) == ["i1"]


@pytest.mark.parametrize(
    "ends",
    [
        SetAffiliations(who(BOSS), NEWS, ((Jid("eve@x"), Affiliation.OUTCAST),)),
        Configure(who(BOSS), NEWS, Settings({"access_model": AccessModel.WHITELIST})),
        a_topic(access_model="whitelist"),
        replace(a_topic(), outcasts=(Jid("eve@x"),)),
    ],
    ids=["outcast", "closed", "declared-closed", "declared-outcast"],
)
def test_feeding_ends_when_the_right_to_subscribe_is_lost(shell, ends):
    fed_pair(shell)
    shell.do(configures(B, source=""))
    shell.do(SetAffiliations(who(EVE), B, ((Jid("etl@x"), Affiliation.OWNER),)))
    shell.do(configures(B, by=ETL, source=NEWS))
    assert not isinstance(shell.do(ends), Refused)
    assert feeds(shell) == [(B, "etl@x")]
    assert (source(shell, A), source(shell, B)) == ("", NEWS)
    shell.do(publishes("i1", node=NEWS))
    assert (names(shell, A), names(shell, B)) == ([], ["i1"])


# --- transactions ---------------------------------------------------------------------------------


def test_items_of_a_transaction_feed_queues_when_it_is_committed(shell):
    fed_pair(shell)
    shell.do(configures(B, filter="headers:kind", item_expire=60))
    shell.batch(a_queue())
    shell.do(stages("i1", "i2", node=NEWS))
    shell.do(stages("i3", node=NEWS, headers=(("kind", "x"),), ttl=90, attempt=0))
    shell.do(stages("j1"))
    assert names(shell, A) == []
    assert shell.do(commits((0, 0, 4))) == committed(4)
    assert [names(shell, it) for it in (NEWS, JOBS)] == [["i1", "i2", "i3"], ["j1"]]
    assert (names(shell, A), names(shell, B)) == (["i1", "i2", "i3"], ["i3"])
    ends = [shell.look(lambda tx, it=it: tx.item(it, ItemId("i3"))).expires for it in (A, B)]
    assert ends == [after(90), after(60)]
    assert shell.look(lambda tx: tx.item(A, ItemId("i1"))).transaction == (APP, 1)


def test_a_commit_is_refused_by_the_name_of_a_queue_that_refuses_and_leaves_all_staged(shell):
    fed_pair(shell)
    trusts(shell)
    shell.do(configures(B, max_items=1))
    shell.do(stages("i1", "i2", node=NEWS))
    no = shell.do(commits((0, 0, 2)))
    assert (no.refusal, no.reason) == (
        Refusal.NODE_FULL,
        "'news' feeds the queue 'b': node full (1)",
    )
    shell.do(configures(B, max_items=2, publish_paused=True))
    no = shell.do(commits((0, 0, 2)))
    assert no.refusal is Refusal.PUBLISH_PAUSED
    assert no.reason == "'news' feeds the queue 'b': publish paused"
    assert [names(shell, it) for it in (NEWS, A, B)] == [[], [], []]
    shell.do(configures(B, publish_paused=False))
    assert shell.do(commits((0, 0, 2))) == committed(2)
    assert [names(shell, it) for it in (NEWS, A, B)] == [["i1", "i2"]] * 3


def test_the_namespace_of_what_is_committed_is_judged_for_each_queue(shell):
    fed_pair(shell)
    trusts(shell)
    shell.space_of = lambda payload: payload.partition(b"|")[0].decode()
    shell.do(configures(B, type="urn:good"))
    shell.do(stages("i1", node=NEWS, payload=b"urn:good|1"))
    assert shell.do(commits((0, 0, 1))) == committed(1)
    shell.do(stages("i2", node=NEWS, payload=b"urn:bad|1", version=2))
    assert shell.do(commits((0, 0, 1), version=2)).refusal is Refusal.WRONG_PAYLOAD


def test_a_transaction_that_is_visible_at_once_feeds_queues_at_once_and_once(shell):
    fed_pair(shell)
    for attempt in (0, 1):
        shell.do(stages("i1", "i2", node=NEWS, immediate=True, attempt=attempt))
    assert names(shell, A) == names(shell, B) == ["i1", "i2"]
    shell.do(commits((0, 1, 2)))
    assert names(shell, A) == ["i1", "i2"]


def test_a_commit_that_feeds_many_queues_goes_in_slices(shell, monkeypatch):
    monkeypatch.setattr(transactions, "SLICE", 4)
    fed_pair(shell)
    shell.do(stages(*(f"i{at}" for at in range(6)), node=NEWS))
    decision = shell.batch(commits((0, 0, 6))).decisions[0]
    most = 0
    while decision.then is not None:
        decision = shell.batch(decision.then).decisions[0]
        most = max(most, sum(type(change) is AddItem for change in decision.changes))
    assert (decision.reply, most) == (committed(6), 6)  # two winners, each for three nodes
    assert names(shell, NEWS) == names(shell, A) == names(shell, B)


@pytest.mark.parametrize("access", ["open", "whitelist"])
def test_a_former_owner_leaves_the_source_to_an_entitled_owner(shell, access):
    fed_pair(shell)
    shell.do(SetAffiliations(who(EVE), A, ((Jid("ann@x"), Affiliation.OWNER),)))
    shell.do(SetAffiliations(who(BOSS), NEWS, ((Jid("eve@x"), Affiliation.MEMBER),)))
    shell.do(Configure(who(BOSS), NEWS, Settings({"access_model": access})))
    assert feeds(shell) == [(A, "eve@x"), (B, "eve@x")]
    assert shell.do(SetAffiliations(who(ANN), A, ((Jid("eve@x"), Affiliation.MEMBER),))) == Done()
    if access == "open":
        assert feeds(shell) == [(A, "ann@x"), (B, "eve@x")]
        assert source(shell, A) == NEWS
    else:
        assert feeds(shell) == [(B, "eve@x")]
        assert source(shell, A) == ""


def test_giving_up_a_queue_gives_up_its_source_and_a_declaration_takes_it_over(shell):
    fed_pair(shell)
    people = (Jid("ann@x"), Affiliation.OWNER), (Jid("eve@x"), Affiliation.NONE)
    shell.do(SetAffiliations(who(EVE), A, people))
    assert (feeds(shell), source(shell, A)) == ([(B, "eve@x")], "")
    taken = Declare(who("pubqueue", admin=True), B, Settings({"queueing": True}), (Jid("boss@x"),))
    shell.do(taken)
    assert (feeds(shell), source(shell, B)) == ([(B, "pubqueue")], NEWS)
