"""The page of a queue shows who is connected to this instance and subscribed to it, and nobody else."""

from faces.listener.test_connection import Source
from harness.batches.facts import JOBS
from harness.batches.queue_requests import a_queue
from harness.operators.browser import LOOK
from monitor.page.test_site import visitor

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
