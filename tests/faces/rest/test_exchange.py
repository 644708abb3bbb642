"""Answers: to pages of other origins, of which only those of the closed list may send requests and read them; and of a fault of ours."""

import pytest
from faces.rest.clients import served

PAGE = "https://app.example.org"
ASKED = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization, content-type, prefer",
}


@pytest.fixture
async def shared():
    async with served(cors_origins=(PAGE,)) as one:
        await one.make("jobs")
        yield one


async def test_a_browser_is_answered_what_a_listed_page_may_send(shared):
    stranger = await shared.as_("")
    answer = await stranger.request(
        "OPTIONS", "/queues/jobs/consumer", headers={"Origin": PAGE, **ASKED}
    )
    assert answer.status_code == 204
    allowed = {
        name: value
        for name, value in answer.headers.items()
        if name.startswith("access-control") and name != "access-control-max-age"
    }
    assert allowed == {
        "access-control-allow-origin": PAGE,
        "access-control-allow-methods": "OPTIONS, POST",
        "access-control-allow-headers": "authorization, content-type, prefer",
    }
    assert answer.headers["Vary"] == "Origin"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", PAGE + ":444", "*"])
async def test_pages_of_other_origins_are_allowed_nothing(shared, origin):
    stranger, etl = await shared.as_(""), await shared.as_()
    asked = await stranger.request(
        "OPTIONS", "/queues/jobs/consumer", headers={"Origin": origin, **ASKED}
    )
    read = await etl.get("/queues/jobs", headers={"Origin": origin})
    for answer in (asked, read):
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert answer.headers["Vary"] == "Origin"
    sent = await etl.post("/queues/jobs/messages", content=b"x", headers={"Origin": origin})
    assert sent.status_code == 403
    assert (await etl.get("/queues/jobs")).json()["counts"]["messages"] == 0


async def test_a_listed_page_reads_the_headers_of_messages(shared):
    etl, origin = await shared.as_(), {"Origin": PAGE}
    await etl.post(
        "/queues/jobs/messages", content=b"x", headers={**origin, "Message-Header-Colour": "red"}
    )
    taken = await etl.post("/queues/jobs/consumer", headers=origin)
    assert taken.headers["Access-Control-Allow-Origin"] == PAGE
    assert "Access-Control-Allow-Credentials" not in taken.headers
    exposed = set(taken.headers["Access-Control-Expose-Headers"].split(", "))
    assert {"ETag", "Link", "Message-Id", "Message-Header-Colour", "msg-acknowledgement"} <= exposed
    assert {"Server", "Date", "Content-Type"}.isdisjoint(exposed)


async def test_a_listed_page_reads_errors_too(shared):
    stranger = await shared.as_("")
    answer = await stranger.get("/queues/jobs", headers={"Origin": PAGE})
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (401, PAGE)


@pytest.mark.parametrize("names", ["a b", "x" * 5000, "a\u00e9", ""])
async def test_names_of_headers_that_are_none_are_not_allowed(shared, names):
    stranger = await shared.as_("")
    headers = {"Origin": PAGE, **ASKED, "Access-Control-Request-Headers": names.encode()}
    answer = await stranger.request("OPTIONS", "/queues/jobs", headers=headers)
    assert "Access-Control-Allow-Headers" not in answer.headers


async def test_without_a_list_answers_have_no_origins(rest):
    etl = await rest.as_()
    answer = await etl.get("/queues/jobs", headers={"Origin": PAGE})
    assert "Vary" not in answer.headers
    assert "Access-Control-Allow-Origin" not in answer.headers


async def test_a_fault_of_ours_shows_nothing(rest, monkeypatch):  # W08
    etl = await rest.as_()

    def fails(*_given):
        raise ValueError("/etc/secret")

    monkeypatch.setattr(rest.face, "submit", fails)
    answer = await etl.get("/queues/jobs")
    assert (answer.status_code, answer.json()["type"].endswith(":fault")) == (500, True)
    assert "secret" not in answer.text
