"""Only owners and administrators see their powers and the workers."""

import pytest
from harness.batches.facts import ANN, BOSS, JOBS, NOW, held, queue, who, window

from pubqueue.model.decision import Decision, Refusal
from pubqueue.model.entities import Affiliation, ItemId, Jid
from pubqueue.model.records import Holding, Quota, Quotas
from pubqueue.model.replies import (
    About,
    ClientState,
    ConnectionEnded,
    ConnectionPage,
    Peeked,
    Power,
    Powers,
    ServiceState,
    Worker,
    WorkerPage,
)
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.inspect import (
    FOR,
    AskPowers,
    AskService,
    ConnectionsFacts,
    EndConnection,
    EndFacts,
    Peek,
    PeekFacts,
    PowersFacts,
    ReadConnections,
    ReadWorkers,
    ServiceFacts,
    WorkersFacts,
    ask_powers,
    ask_service,
    end_connection,
    peek,
    read_connections,
    read_workers,
)

SERVICE, NODES, CREATE = Power.SERVICE, Power.NODES, Power.CREATE
LOCAL, ADMINS = CreationPolicy.LOCAL, CreationPolicy.ADMINS

# fmt: off
POWERS = [
    # admin, local, owns, who may create
    ((True,  False, False, ADMINS), (SERVICE, NODES, CREATE)),
    ((False, True,  True,  LOCAL),  (NODES, CREATE)),
    ((False, True,  True,  ADMINS), (NODES,)),
    ((False, False, True,  LOCAL),  (NODES,)),
    ((False, True,  False, LOCAL),  ()),  # may create, but runs nothing
]
# fmt: on


def asked(known, needed=None):
    admin, local, owns, policy = known
    facts = PowersFacts(policy, (queue(),) if owns else (), more=False)
    return ask_powers(AskPowers(who(ANN, admin=admin, local=local), needed), facts).reply


@pytest.mark.parametrize(("known", "held"), POWERS)
def test_the_powers_of_accounts(known, held):
    assert asked(known) == Powers(held, (queue(),) if known[2] else (), more=False)
    for power in Power:
        if power in held:
            assert asked(known, power) == asked(known)
        else:
            assert (asked(known, power).refusal, asked(known, power).reason) == (
                Refusal.FORBIDDEN,
                FOR[power],
            )


def test_every_power_names_its_holders():
    assert set(FOR) == set(Power)


WORKERS = (Worker(window(ANN), (ItemId("i1"),)),)


def test_owners_see_the_workers_and_their_items():
    facts = WorkersFacts(queue(), Affiliation.OWNER, WORKERS, more=True)
    assert read_workers(ReadWorkers(who(BOSS), JOBS), facts).reply == WorkerPage(
        queue(), WORKERS, more=True
    )


def test_owners_look_at_an_item():
    facts = PeekFacts(queue(), Affiliation.OWNER, held(), b"<job/>")
    reply = peek(Peek(who(BOSS), JOBS, ItemId("i1")), facts).reply
    assert reply == Peeked(JOBS, held(), b"<job/>")


@pytest.mark.parametrize("affiliation", set(Affiliation) - {Affiliation.OWNER})
def test_other_accounts_are_refused(affiliation):
    workers = read_workers(ReadWorkers(who(BOSS), JOBS), WorkersFacts(queue(), affiliation))
    item = peek(Peek(who(BOSS), JOBS, ItemId("i1")), PeekFacts(queue(), affiliation, held()))
    assert workers.reply.refusal is item.reply.refusal is Refusal.FORBIDDEN


def test_missing_nodes_and_items_are_not_found():
    owner = Affiliation.OWNER
    no_node = read_workers(ReadWorkers(who(BOSS), JOBS), WorkersFacts(None, owner))
    no_item = peek(Peek(who(BOSS), JOBS, ItemId("i1")), PeekFacts(queue(), owner))
    assert no_node.reply.refusal is Refusal.NODE_NOT_FOUND
    assert no_item.reply.refusal is Refusal.ITEM_NOT_FOUND


def test_the_state_of_the_service_is_for_administrators():
    state = ServiceState(About("1", "memory:", NOW), NOW, 7)
    assert ask_service(AskService(who(ANN, admin=True)), ServiceFacts(state)).reply == state
    refused = ask_service(AskService(who(ANN)), ServiceFacts(state)).reply
    assert refused.refusal is Refusal.FORBIDDEN


def test_usage_of_accounts_is_added_up_in_slices():
    """An account with nodes in two slices counts once; an account without limits is never near one."""
    state = ServiceState(About("1", "memory:", NOW), NOW, 7)
    quotas = Quotas(Quota(10, 100, 0), {"d@x": Quota(0, 0, 0)})
    slices = (
        ((Holding("a@x", 1, 5, 50), Holding("b@x", 2, 60, 9)), ("b@x", 4)),
        ((Holding("b@x", 1, 35, 1),), ("b@x", 9)),
        ((Holding("b@x", 7, 0, 0), Holding("c@x", 1, 99, 0), Holding("d@x", 99, 999, 9)), None),
    )
    request, exempt = AskService(who(BOSS, admin=True)), frozenset({"c@x"})
    for holdings, after in slices:
        decided = ask_service(request, ServiceFacts(state, holdings, after, quotas, exempt))
        request = decided.then
    kept = decided.reply.kept
    assert (kept.accounts, kept.items, kept.bytes, kept.near) == (4, 1198, 69, 1)
    seen = [(one.holding.account, one.share, one.what) for one in kept.nearest]
    assert seen == [("b@x", 1.0, "nodes"), ("a@x", 0.1, "nodes"), ("d@x", 0.0, "nodes")]
    assert decided.reply.quota == quotas.usual


# Only administrators list and end connections.

BEE = Jid("bee@queue.x/stomp.0.1")
CLIENT = ClientState(BEE, "stomp", "192.0.2.1", NOW, True, 1, 2)  # noqa: FBT003  # it has TLS
FACTS = ConnectionsFacts(NOW, (CLIENT,), 7, more=True)


def test_an_administrator_sees_connections():
    done = read_connections(ReadConnections(who(BOSS, admin=True)), FACTS)
    assert done == Decision(ConnectionPage((CLIENT,), 7, NOW, more=True))


def test_an_administrator_ends_a_connection_or_learns_that_there_is_none():
    for here in (True, False):
        done = end_connection(EndConnection(who(BOSS, admin=True), BEE), EndFacts(here))
        assert done == Decision(ConnectionEnded(BEE, here))


def test_an_account_without_the_power_is_refused():
    for done in (
        read_connections(ReadConnections(who(ANN)), FACTS),
        end_connection(EndConnection(who(ANN), BEE), EndFacts(is_here=True)),
    ):
        assert (done.reply.refusal, done.reply.reason) == (Refusal.FORBIDDEN, FOR[Power.SERVICE])
