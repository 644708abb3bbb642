"""Only administrators list and end connections."""

from harness.batches.facts import ANN, BOSS, NOW, who

from pubqueue.model.decision import Decision, Refusal
from pubqueue.model.entities import Jid
from pubqueue.model.replies import ClientState, ConnectionEnded, ConnectionPage, Power
from pubqueue.rules.inspect import (
    FOR,
    ConnectionsFacts,
    EndConnection,
    EndFacts,
    ReadConnections,
    end_connection,
    read_connections,
)

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
