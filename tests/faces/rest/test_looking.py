"""Messages and locks of a queue by their URLs: looking changes nothing."""

import pytest
from faces.rest.clients import links
from faces.rest.test_messages import post, settle, take


async def test_owners_and_the_holder_look_at_a_message(rest):  # R13, W19
    etl, bee, ann = await rest.as_(), await rest.as_("bee"), await rest.as_("ann")
    where = (await post(etl, b"a")).headers["Location"]
    for client, status in ((etl, 200), (bee, 404), (ann, 404)):
        assert (await client.get(where)).status_code == status
    message = await take(bee)
    for client, status in ((etl, 200), (bee, 200), (ann, 404)):
        got, head = await client.get(where), await client.head(where)
        assert got.status_code == head.status_code == status
    mine = await bee.get(where)
    assert (mine.content, mine.headers["ETag"]) == (b"a", message.headers["ETag"])
    assert links(mine)["acknowledgement"] == links(message)["acknowledgement"]
    assert "acknowledgement" not in links(await etl.get(where))
    assert mine.headers["Message-Deadline"] == message.headers["Message-Deadline"]
    assert (await settle(bee, message)).status_code == 204
    assert (await etl.get(where)).status_code == 404


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_an_acknowledgement_shows_the_lock_while_it_holds(rest, method):  # R24, W19
    etl, bee, ann = await rest.as_(), await rest.as_("bee"), await rest.as_("ann")
    await post(etl)
    message = await take(bee)
    where = links(message)["acknowledgement"]
    shown = await bee.request(method, where)
    assert shown.status_code == 204
    assert shown.headers["ETag"] == message.headers["ETag"]
    assert shown.headers["Message-Deadline"] == message.headers["Message-Deadline"]
    assert (await etl.request(method, where)).status_code == 403
    assert (await ann.request(method, where)).status_code in {403, 404, 410}
    assert (await settle(bee, message, "acknowledge=false")).status_code == 204
    assert (await bee.request(method, where)).status_code == 410


async def test_a_lock_is_extended(rest):
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    message = await take(bee)
    longer = await settle(bee, message, "touch=300")
    assert longer.status_code == 204
    assert longer.headers["Message-Deadline"] >= message.headers["Message-Deadline"]
    assert (await settle(bee, message)).status_code == 204


async def test_a_message_is_retracted_by_its_url(rest):
    etl, bee, ann = await rest.as_(), await rest.as_("bee"), await rest.as_("ann")
    where = (await post(etl)).headers["Location"]
    assert (await ann.delete(where)).status_code == 403
    message = await take(bee)
    tag = message.headers["ETag"]
    assert (await bee.delete(where, headers={"If-Match": '"999"'})).status_code == 412
    assert (await bee.delete(where, headers={"If-Match": "x"})).status_code == 412
    assert (await bee.delete(where, headers={"If-Match": tag})).status_code == 204
    assert (await bee.delete(where, headers={"If-Match": tag})).status_code == 405
    other = (await post(etl)).headers["Location"]
    assert (await etl.delete(other)).status_code == 204
    assert (await etl.delete(other)).status_code == 404


async def test_selectors_are_not_supported(rest):  # R36
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    refused = await bee.post("/queues/jobs/consumer?selector=a%3D1")
    assert refused.status_code == 501
    assert refused.json()["type"].endswith(":selector-unsupported")
    assert (await take(bee)).status_code == 200
