"""Page and operations behind Debian's nginx and Caddy, set up as docs/operations/proxies.md says."""

import pytest
from harness.batches.queue_requests import a_queue, publishes
from harness.http.proxies import PROXIES
from harness.operators.api_caller import RULE, USERS, Caller
from harness.operators.browser import CHANGE
from harness.operators.page_service import shown
from structlog.testing import capture_logs

CLIENT = "127.0.0.7"
FORGED = {
    "Forwarded": "for=192.0.2.9;host=evil.example;proto=http",
    "X-Forwarded-For": "192.0.2.9",
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Proto": "http",
}


@pytest.fixture(params=PROXIES)
async def behind(request, tmp_path):
    """A service behind each proxy, and a caller from an address of its own."""
    async with shown(users=USERS) as service:
        place = service.place.removeprefix("http://")
        async with (
            PROXIES[request.param](tmp_path, {"127.0.0.1:9254": place}) as proxy,
            proxy.session(CLIENT) as session,
        ):
            yield service, Caller(proxy.place, session)


async def test_the_page_is_private_and_knows_the_address_of_its_visitor(behind):
    _, caller = behind
    with capture_logs() as logs:
        url = f"{caller.place}/ui/login"
        async with caller.session.post(
            url, data={"password": CHANGE}, headers=FORGED, allow_redirects=False
        ) as answer:
            assert answer.status == 303
            assert "Secure" in answer.headers["Set-Cookie"]
    assert [(one["event"], one.get("remote")) for one in logs] == [("page.login", CLIENT)]
    async with caller.session.get(f"{caller.place}/ui/") as answer:
        assert answer.status == 200
    for inside in ("metrics", "readyz"):
        async with caller.session.get(f"{caller.place}/{inside}") as answer:
            assert answer.status == 404


async def test_operations_are_called_and_logged_with_the_address_of_the_client(behind):
    service, caller = behind
    await service.do(a_queue(), publishes("a/b"))
    assert [row["id"] for row in (await caller.get("operations/items?node=jobs")).json["rows"]] == [
        "a/b"
    ]
    with capture_logs() as logs:
        answer = await caller.post(
            "operations/cancel", {"node": "jobs", "item": ["a/b"]}, headers=FORGED
        )
    assert answer.json["rows"][0]["count"] == 1
    assert [one["remote"] for one in logs if one["event"] == "operation.performed"] == [CLIENT]


async def test_a_page_of_the_proxys_host_may_change_something_and_one_of_another_may_not(behind):
    service, caller = behind
    await service.do(a_queue())
    for origin, status in ((caller.place, 200), ("https://evil.example", 403)):
        answer = await caller.post("operations/pause", {"node": "jobs"}, headers={"Origin": origin})
        assert answer.status == status


async def test_a_large_body_is_refused_by_the_service(behind):
    _, caller = behind
    answer = await caller.post("operations/pause", {"node": "x" * 300_000}, RULE)
    assert (answer.status, answer.json["type"]) == (413, "urn:x-pubqueue:problem:too-large")
