"""Who is connected, of any face that has a listener: in pages by address, and ended one by one; and what counts as one peer."""

import asyncio

import pytest
from faces.listener.echoing import Clock
from harness.batches.facts import who
from harness.patience import turns

from pubqueue.engine.connections import Connections
from pubqueue.engine.observe import Clients
from pubqueue.faces.listener import Bounds, Listener
from pubqueue.faces.listener.budget import SMALL, Budget
from pubqueue.faces.listener.connection import (
    ENDS,
    ENTRIES,
    Admission,
    ClientConnection,
    door,
    network_of,
)
from pubqueue.model.entities import Jid, Millis, NodeName
from pubqueue.model.replies import ClientState
from pubqueue.rules.inspect import ReadConnections

ADMIN = who("root@x", admin=True)
NOW = Millis(1_000_000)


class Source:
    """A listener without sockets."""

    face = "echo"

    def __init__(self, *names):
        self.clock = Clock()
        self._admission = Admission(Connections("echo"), Bounds(), self.clock)
        self.made = [self.make(name) for name in names]

    def make(self, name):
        one = ClientConnection(self._admission, "192.0.2.1", lambda _connection: None)
        one.address = f"{name}@queue.x/echo.0.1"
        return one

    def clients(self):
        return self.made


@pytest.fixture
def both():
    sources = Source("eve", "ann"), Source("bob")
    clients = Clients()
    for one in sources:
        clients.attach(one)
    return clients, sources


def addresses(page):
    return [one.address.partition("@")[0] for one in page[0]]


def test_the_clients_of_all_faces_come_by_address_in_pages(both):
    clients, _ = both
    assert clients.page(ReadConnections(ADMIN), 2, NOW)[1] == 3
    first = clients.page(ReadConnections(ADMIN), 2, NOW)
    assert addresses(first) == ["ann", "bob"]
    assert addresses(clients.page(ReadConnections(ADMIN, after=first[0][-1].address), 2, NOW)) == [
        "eve"
    ]


def test_one_account_has_a_list_of_its_own(both):
    clients, _ = both
    page = clients.page(ReadConnections(ADMIN, Jid("bob@queue.x")), 9, NOW)
    assert (addresses(page), page[1]) == (["bob"], 1)


def test_each_has_its_beginning_and_what_it_holds(both):
    clients, (source, _) = both
    ann = source.made[1]
    ann.holdings = lambda: (2, 7)
    ann.subscribed = lambda: (NodeName("jobs"),)
    source.clock.now += 3
    (state, *_), _ = clients.page(ReadConnections(ADMIN), 9, NOW)
    assert state == ClientState(
        *(Jid(ann.address), "echo", "192.0.2.1", Millis(NOW - 3_000)),
        private=False,
        subscriptions=2,
        holds=7,
        nodes=("jobs",),
    )
    there = clients.page(ReadConnections(ADMIN, node=NodeName("jobs")), 9, NOW)
    assert (addresses(there), there[1]) == (["ann"], 1)


def test_a_face_ends_its_client_and_one_that_is_gone_is_no_fault(both):
    clients, (source, _) = both
    said = []
    for one in source.made:
        one.on_dismissed = lambda one=one: said.append(one.address)
    address = Jid(source.made[0].address)
    assert clients.is_here(address)
    clients.end(address)
    clients.end(Jid("nobody@queue.x/echo.0.1"))
    assert said == [address]
    assert not clients.is_here(Jid("nobody@queue.x/echo.0.1"))


def test_a_client_that_has_not_logged_in_is_not_listed():
    assert list(Listener("echo", lambda _connection: None).clients()) == []


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
    ],
)
def test_an_address_of_ipv6_counts_with_its_network(peer, network):
    assert network_of(peer) == network


class NoSocket(asyncio.Transport):
    closing, reads = True, True

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def is_closing(self):
        return self.closing

    def is_reading(self):
        return self.reads

    def pause_reading(self):
        self.reads = False

    def resume_reading(self):
        self.reads = True

    def abort(self):
        self.closing = True


class Ending(asyncio.Protocol):
    ended = 0

    def connection_lost(self, exc):
        Ending.ended += 1


class Hearing(asyncio.Protocol):
    def __init__(self):
        self.heard = []

    def data_received(self, data):
        self.heard.append(data)


class Line:
    """Connections of a listener without sockets, beside others that have used up this turn of the loop."""

    def __init__(self, most=1 << 20, **more):
        self.budget = Budget(most)
        self.admission = Admission(
            *(Connections("echo"), Bounds(login=0), Clock()), budget=self.budget, **more
        )

    def client(self, peer="192.0.2.1"):
        one, protocol, transport = None, Hearing(), NoSocket()
        one = ClientConnection(self.admission, peer, lambda _: protocol)
        self.admission.enter(one)
        transport.closing = False
        one.connection_made(transport)
        return one, protocol, transport


def use_up():
    """Have others use up the turn."""
    for _ in range(ENTRIES):
        door().call(lambda: None)


async def test_what_has_come_waits_for_its_turn_in_order_counts_and_nothing_more_is_read():
    line = Line()
    one, protocol, transport = line.client()
    one.data_received(b"a")
    assert (protocol.heard, transport.reads) == ([b"a"], True), "the turn has room"
    await turns(2)
    use_up()
    one.data_received(b"b" * SMALL)
    assert (protocol.heard, transport.reads, line.budget.size) == ([b"a"], False, 0)
    transport.resume_reading()  # as a protocol does that wants the rest of a body
    one.data_received(b"c")
    assert (transport.reads, line.budget.of("")) == (False, SMALL + 1)
    await turns(2)
    assert protocol.heard == [b"a", b"b" * SMALL + b"c"]
    assert (transport.reads, line.budget.size) == (True, 0)


async def test_a_face_that_wants_nothing_more_gets_what_has_come_and_nothing_more_is_read():
    one, protocol, transport = Line().client()
    use_up()
    one.data_received(b"a")
    one.pause_reading()
    await turns(2)
    assert (protocol.heard, transport.reads) == ([b"a"], False)


async def test_what_waits_is_forgotten_with_a_connection_that_gives_up():
    line = Line(5 * SMALL)
    (one, protocol, transport), (other, heard, _) = line.client(), line.client()
    use_up()
    one.data_received(b"a" * 2 * SMALL)
    other.data_received(b"b" * 2 * SMALL)
    assert (transport.closing, line.budget.size) == (True, 2 * SMALL), "strangers have half"
    await turns(2)
    assert (protocol.heard, [len(each) for each in heard.heard]) == ([], [2 * SMALL])
    other.connection_lost(None)
    await turns(2)
    use_up()
    other.data_received(b"b" * 2 * SMALL)
    assert line.budget.size == 0, "what is gone keeps nothing"


def test_connections_of_an_address_share_their_turns_until_they_log_in():
    line = Line(is_shared=lambda peer: peer == "192.0.2.9")
    make = line.admission

    def whose(peer, user=""):
        one = ClientConnection(make, peer, lambda _: Hearing())
        make.enter(one)
        assert not user or one.log_in(user)
        return one.whose

    assert whose("192.0.2.1") == whose("192.0.2.1") != whose("192.0.2.2")
    assert whose("2001:db8::1") == whose("2001:db8::2")
    assert whose("192.0.2.9") != whose("192.0.2.9"), "a proxy's connections are those of many"
    assert whose("192.0.2.1", "ann") == whose("192.0.2.2", "ann") != whose("192.0.2.1", "bob")


async def test_of_a_thousand_that_go_at_once_a_few_end_in_each_turn():
    admission = Admission(Connections("echo"), Bounds(connections=1000, per_peer=1000), Clock())
    made = [ClientConnection(admission, "192.0.2.1", lambda _: Ending()) for _ in range(1000)]
    Ending.ended = 0
    for one in made:
        admission.enter(one)
        one.connection_made(NoSocket())
    for one in made:
        one.connection_lost(None)
    assert Ending.ended == ENDS
    most = 0
    while not admission.empty.is_set():
        before = Ending.ended
        await turns()
        assert len(admission.connections) == 1000 - Ending.ended, "it counts until it has ended"
        most = max(most, Ending.ended - before)
    assert (Ending.ended, most) == (1000, ENDS)
