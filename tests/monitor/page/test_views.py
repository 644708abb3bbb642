"""The page of a queue shows who is connected to this instance and subscribed to it, and nobody else; that of an item its history."""

from faces.listener.test_connection import Source
from harness.batches.facts import ANN, JOBS
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, unlocks
from harness.operators.browser import CHANGE, LOOK
from monitor.page.test_site import visitor

from pubqueue.model.entities import NodeName
from pubqueue.rules.settle import Outcome

__all__ = ["visitor"]


async def test_connections_that_are_subscribed_to_a_queue_are_shown(service, visitor):
    await service.do(a_queue())
    await visitor.log_in(LOOK)
    _, _, before = await visitor.get("/ui/queue?node=jobs")
    assert 'id="connections"' not in before
    source = Source("ann", "bob")
    source.made[0].subscribed = lambda: (JOBS,)
    source.made[0].holdings = lambda: (1, 7)
    service.broker.clients.attach(source)
    status, _, text = await visitor.get("/ui/queue?node=jobs")
    assert status == 200
    table = text.split('id="connections"')[1].partition("</table>")[0]
    assert "1 connection of clients to this instance is subscribed" in table
    for word in ("ann@queue.x/echo.0.1", "192.0.2.1", ">echo<", '<td class="num">7</td>'):
        assert word in table
    assert "bob@" not in text


def steps(text):
    table = text.split('id="history"')[1].partition("</table>")[0]
    cells = (row.split("<td") for row in table.split("<tr>")[2:])
    return [row[2].partition(">")[2].partition("<")[0] for row in cells]


async def test_the_page_of_an_item_tells_its_history_also_when_it_is_gone(service, visitor):
    await service.do(a_queue(event_log=True), joins(ANN), publishes("a"))
    await visitor.log_in(LOOK)
    status, _, text = await visitor.get("/ui/item?node=jobs&id=a")
    assert (status, steps(text), "<h2>Payload</h2>" in text) == (
        200,
        ["published", "delivered"],
        True,
    )
    await service.do(retracts(ANN, "a"))
    status, _, text = await visitor.get("/ui/item?node=jobs&id=a")
    assert status == 200
    assert steps(text) == ["published", "delivered", "completed"]
    assert "This item is no longer in" in text
    assert "<h2>Payload</h2>" not in text
    assert (await visitor.get("/ui/item?node=jobs&id=b"))[0] == 404
    status, _, text = await visitor.get("/ui/queue?node=nope")
    assert (status, "there is no node nope" in text) == (404, True)


async def test_without_an_event_log_an_item_tells_its_history_itself(service, visitor):
    await service.do(a_queue(), publishes("a"))
    await visitor.log_in(LOOK)
    _, _, text = await visitor.get("/ui/item?node=jobs&id=a")
    assert steps(text) == ["published"]
    assert "keeps no event log" in text


async def test_the_dead_items_of_all_queues_are_on_one_page(service, visitor):
    others = NodeName("mails")
    await service.do(a_queue(), a_queue(others), joins(ANN), joins(ANN, node=others))
    await service.do(publishes("a"), publishes("b", node=others))
    for node, item in ((JOBS, "a"), (others, "b")):
        await service.do(unlocks(ANN, item, node=node, outcome=Outcome.REJECT, reason="no seat 7"))
    await visitor.log_in(CHANGE)
    status, _, text = await visitor.get("/ui/dead?sort=worker")
    assert (status, "2 dead items in 2 nodes" in text, "ann@x" in text) == (200, True, True)
    _, _, text = await visitor.get("/ui/dead?q=mail")
    assert "1 dead item in 1 node" in text
    assert "action=discard-reason&amp;node=mails&amp;reason=no+seat" in text.replace("%20", "+")
    assert (await visitor.get("/ui/dead?sort=color"))[0] == 400
