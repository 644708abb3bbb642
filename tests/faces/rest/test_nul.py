"""A NUL, which PostgreSQL does not store: wherever a request can have one, it is refused, and no other request is affected."""

import asyncio

import pytest
from faces.rest.clients import follow, links, served
from faces.rest.star.steps import take
from harness.patience import TIMEOUT
from structlog.testing import capture_logs

from pubqueue.stores.postgres.store import PostgresStore


@pytest.fixture
async def rest(postgres):
    async with asyncio.timeout(TIMEOUT), served(PostgresStore(postgres.address)) as one:
        await one.make("jobs", backoff_min=0)
        yield one


@pytest.mark.parametrize(
    "path", ["/queues/%00", "/queues/jobs/messages/a%00", "/nodes/%00/messages"]
)
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
async def test_no_path_with_one_names_anything(rest, method, path):
    etl = await rest.as_()
    with capture_logs() as logs:
        answer = await etl.request(method, path)
    assert (answer.status_code, logs) == (404, [])


@pytest.mark.parametrize("name", ["Message-Id", "Message-Group", "message-header-a"])
async def test_no_header_of_a_message_has_one(rest, name):
    etl = await rest.as_()
    here = await follow(etl, "/queues/jobs", "post-message")
    with capture_logs() as logs:
        answer = await etl.post(here, content=b"a", headers={name: "a%00"})
    assert (answer.status_code, logs) == (400, [])
    assert answer.json()["detail"].endswith("has a NUL character")


async def test_no_form_has_one(rest):
    etl, bee = await rest.as_(), await rest.as_("bee")
    here = await follow(etl, "/queues/jobs", "post-message")
    await etl.post(here, content=b"a")
    lock = links(await take(bee))["acknowledgement"]
    with capture_logs() as logs:
        answers = [
            await bee.post(lock, data={"acknowledge": "false", "reason": "a\0"}),
            await etl.get("/queues/jobs/subscribers", params={"after": "\0"}),
            await etl.put("/queues/new", json={"pubsub#title": "\0"}),
        ]
    assert [answer.status_code for answer in answers] == [400] * 3
    assert logs == []
    assert (await bee.post(lock, data={"acknowledge": "true"})).status_code == 204
