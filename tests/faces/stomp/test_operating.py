"""What operators see of clients of STOMP, and that they can end a connection."""

from faces.contract import JOBS, stored
from faces.stomp.serving import ended, put
from harness.batches.facts import who
from harness.patience import until

from pubqueue.model.decision import Refusal
from pubqueue.model.entities import Jid
from pubqueue.model.replies import ConnectionEnded
from pubqueue.rules.inspect import EndConnection, ReadConnections

ADMIN, STRANGER = who("root@x", admin=True), who("eve@x")


async def listed(served, **given):
    return await served.broker.handle(ReadConnections(ADMIN, **given))


async def test_an_administrator_sees_connections_and_what_each_holds(served):
    bee, etl = await served.works(prefetch_count=5), await served.log_in()
    await put(etl, "a", "b")
    for _ in "ab":
        await bee.hear()
    page = await listed(served)
    assert page.total == 2
    shown = [(one.face, one.peer, one.private, one.subscriptions) for one in page.clients]
    assert shown == [("stomp", "127.0.0.1", False, 1), ("stomp", "127.0.0.1", False, 0)]
    assert [one.holds for one in page.clients] == [2, 0]
    assert [one.nodes for one in page.clients] == [(JOBS,), ()]
    assert all(one.since <= page.now for one in page.clients)


async def test_a_long_list_comes_in_pages(served):
    for _ in range(3):
        await served.log_in()
    first = await listed(served, most=2)
    assert (len(first.clients), first.total, first.more) == (2, 3, True)
    rest = await listed(served, most=2, after=first.clients[-1].address)
    assert (len(rest.clients), rest.more) == (1, False)
    names = {one.address for one in (*first.clients, *rest.clients)}
    assert len(names) == 3


async def test_an_administrator_ends_a_connection_and_what_it_held_has_not_failed(served):
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    await bee.hear()
    (client,) = (await listed(served, account=Jid("bee@queue.localhost"))).clients
    ending = EndConnection(ADMIN, client.address)
    assert await served.broker.handle(ending) == ConnectionEnded(client.address, is_here=True)
    await ended(bee, "connection ended")
    await until(lambda: len(served.face.protocols) == 1)
    await served.broker.settled()
    back = await stored(served.side, "a")
    assert (back.holder, back.failed) == (None, 0)
    assert await served.broker.handle(ending) == ConnectionEnded(client.address, is_here=False)


async def test_no_other_account_sees_them_or_ends_one(served):
    await served.log_in()
    (client,) = (await listed(served)).clients
    for request in (ReadConnections(STRANGER), EndConnection(STRANGER, client.address)):
        assert (await served.broker.handle(request)).refusal is Refusal.FORBIDDEN
    assert (await listed(served)).total == 1
