"""A closed queue: a stranger learns nothing of it, and nothing is done without rights."""

import pytest
from faces.rest.clients import client, links
from faces.rest.star.steps import post, take

CLOSED = "/queues/closed"


@pytest.fixture
async def closed(rest):
    """A queue of etl's, with a message, closed to all others."""
    await rest.make("closed", access_model="whitelist", publish_model="publishers")
    await post(await rest.as_(), b"secret", path=CLOSED, Message_Id="a")
    return rest


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", CLOSED),
        ("HEAD", CLOSED),
        ("POST", f"{CLOSED}/consumer"),
        ("POST", f"{CLOSED}/messages"),
        ("POST", f"{CLOSED}/once"),
        ("GET", f"{CLOSED}/messages/a"),
        ("DELETE", f"{CLOSED}/messages/a"),
        ("DELETE", CLOSED),
        ("GET", f"{CLOSED}/messages/a/acknowledgement;etag=1"),
    ],
)
async def test_a_stranger_learns_and_does_nothing(closed, method, path):  # W06
    bee = await closed.as_("bee")
    answer = await bee.request(method, path)
    assert answer.status_code in {403, 404}
    assert "secret" not in answer.text
    assert links(answer) == {}
    there = await bee.request(method, path.replace("messages/a", "messages/b"))
    assert there.status_code == answer.status_code, "whether the message is there or not"


async def test_without_credentials_nothing_has_an_effect(closed):  # W06
    async with client(closed.root, "") as stranger:
        for method, path in (
            ("DELETE", CLOSED),
            ("PUT", "/queues/new"),
            ("POST", f"{CLOSED}/messages"),
            ("POST", f"{CLOSED}/consumer"),
        ):
            assert (await stranger.request(method, path)).status_code == 401
    etl = await closed.as_()
    assert (await etl.get("/queues/new")).status_code == 404
    assert (await take(etl, CLOSED)).content == b"secret"


async def test_a_closed_queue_to_which_all_may_publish_has_its_links(rest):
    await rest.make("inbox", access_model="whitelist", publish_model="open")
    bee = await rest.as_("bee")
    assert (await post(bee, path="/queues/inbox")).status_code == 201
    shown = links(await bee.head("/queues/inbox"))
    assert "post-batch" in shown
    assert {"consumer", "poller", "subscribers", "events"}.isdisjoint(shown)
    assert (await bee.post("/queues/inbox/consumer")).status_code == 403
