"""What a server reports has the time at which it came, and the service reports the time by which it decides (XEP-0202)."""

import pytest
from harness.patience import until
from harness.servers.stage import SERVICE, staged

from pubqueue.model.entities import Jid, Millis
from pubqueue.rules.presence import Arrive, Leave
from pubqueue.rules.subscribe import Subscribe

BEE = Jid("bee@localhost/x")


@pytest.fixture
async def stage():
    async with staged() as stage:
        yield stage


async def test_a_report_has_the_time_at_which_it_came_however_long_it_waits(stage, monkeypatch):
    """Of several instances, another one may have decided more by then."""
    waiting = []
    monkeypatch.setattr(stage.broker, "submit", lambda request, _then: waiting.append(request))
    for kind in ("", " type='unavailable'"):
        await stage.server.send(f"<presence from='{BEE}' to='{SERVICE}'{kind}/>")
    subscribe = stage.iq("1", f"<subscribe node='news' jid='{BEE}'/>", by=BEE)
    await stage.server.send(subscribe)
    await until(lambda: len(waiting) == 3)
    stage.now = Millis(stage.now + 5000)
    assert [type(request) for request in waiting] == [Arrive, Leave, Subscribe]
    assert {request.at for request in waiting} == {1_000_000}


async def test_the_service_reports_the_time_by_which_it_sets_and_judges_deadlines(stage):
    """Workers compare it with the deadlines of their locks; the machine's clock may differ from the store's."""
    for now in (1_000_000, 1_005_250):
        stage.now = Millis(now)
        question = "<time xmlns='urn:xmpp:time'/>"
        await stage.server.send(
            f"<iq type='get' id='now' from='{BEE}' to='{SERVICE}'>{question}</iq>"
        )
        utc = (await stage.answer("now")).findtext(".//{urn:xmpp:time}utc")
        assert utc == f"1970-01-01T00:16:{40 + (now - 1_000_000) / 1000:06.3f}Z"
