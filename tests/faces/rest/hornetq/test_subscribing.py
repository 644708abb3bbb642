"""Pull subscriptions of topics: each gets all messages from its place on, which a durable one keeps under its name."""

import asyncio
import re

import pytest
from faces.rest.clients import client, served
from faces.rest.hornetq.steps import FORM, consumers, create, held_up, lead, msg
from harness.patience import TIMEOUT, until

from pubqueue.stores.sqlite import SqliteStore

MANUAL = {"autoAck": "false"}
NEWS = "/topics/news"
WAIT = {"Accept-Wait": "30"}


@pytest.fixture
async def etl(rest):
    return await rest.as_("etl", "hornetq")


@pytest.fixture
async def bee(rest):
    return await rest.as_("bee", "hornetq")


async def subscribe(client, **form):
    made = await client.post(await lead(client, NEWS, "pull-subscriptions"), data=form or None)
    assert made.status_code == 201, made.text
    return made


async def settle(client, where, verdict="true"):
    return await client.post(where, content=f"acknowledge={verdict}", headers=FORM)


async def test_each_subscription_gets_all_from_now_on(etl, bee):  # H33
    await create(etl, b"before", NEWS)
    following = [msg(await subscribe(bee))["consume-next"] for _ in range(2)]
    for body in (b"one", b"two"):
        await create(etl, body, NEWS)
    for first in following:
        message = await bee.post(first)
        assert (message.content, (await bee.post(first)).content) == (b"one", b"one")
        second = msg(message)["consume-next"]
        assert (await bee.post(second)).content == b"two"
        assert (await bee.post(first)).status_code == 412


async def test_a_subscription_waits(etl, bee):  # H33
    following = msg(await subscribe(bee))["consume-next"]
    nothing = await bee.post(following)
    assert (nothing.status_code, msg(nothing)["consume-next"]) == (503, following)
    waiting = asyncio.create_task(bee.post(following, headers=WAIT))
    await create(etl, b"one", NEWS)
    assert (await waiting).content == b"one"


async def test_a_message_comes_again_until_it_is_acknowledged(etl, bee):  # H33
    following = msg(await subscribe(bee, **MANUAL))["acknowledge-next"]
    for body in (b"one", b"two"):
        await create(etl, body, NEWS)
    message = await bee.post(following)
    assert (await bee.post(following)).content == b"one"
    where = msg(message)["acknowledgement"]
    assert (await settle(bee, where, "false")).status_code == 204
    assert (await bee.post(following)).content == b"one"
    for _ in range(2):
        done = await settle(bee, where)
        assert done.status_code == 204
    second = await bee.post(msg(done)["acknowledge-next"])
    assert second.content == b"two"
    late = await settle(bee, where)
    assert (late.status_code, msg(late).keys()) == (412, {"acknowledge-next"})


async def test_a_durable_subscription_goes_on_under_its_name_over_a_restart(tmp_path):  # H33
    named = {"durable": "true", "name": "mine"}
    async with asyncio.timeout(TIMEOUT):
        async with served(SqliteStore(tmp_path / "q.db")) as rest:
            await rest.make("news", queueing=False)
            etl, bee = await rest.as_("etl", "hornetq"), await rest.as_("bee", "hornetq")
            made = await subscribe(bee, **named)
            manual = await subscribe(bee, **MANUAL, durable="true", name="other")
            for body in (b"one", b"two", b"three"):
                await create(etl, body, NEWS)
            assert (await bee.post(msg(made)["consume-next"])).content == b"one"
            message = await bee.post(msg(manual)["acknowledge-next"])
            assert message.content == b"one"
        async with served(SqliteStore(tmp_path / "q.db")) as rest:
            await until(lambda: rest.face.is_serving)
            bee = await rest.as_("bee", "hornetq")
            again = await subscribe(bee, **named)
            assert path(again.headers["Location"]) == path(made.headers["Location"])
            assert (await bee.post(msg(again)["consume-next"])).content == b"two"
            following = path(msg(manual)["acknowledge-next"])
            assert (await bee.post(following)).content == b"one"
            done = await settle(bee, path(msg(message)["acknowledgement"]))
            assert done.status_code == 204
            assert (await bee.post(msg(done)["acknowledge-next"])).content == b"two"
            assert (await bee.delete(path(made.headers["Location"]))).status_code == 204
            assert (await bee.delete(path(made.headers["Location"]))).status_code == 404
            fresh = await subscribe(bee, **named)
            assert (await bee.post(msg(fresh)["consume-next"])).status_code == 503
            assert rest.face.pushing.working == frozenset(), "it is pulled, not pushed"


async def test_what_was_received_does_not_come_again_though_the_client_has_gone_since(
    rest, etl, bee, monkeypatch
):  # H33
    named = {"durable": "true", "name": "mine"}
    made = await subscribe(bee, **named)
    for body in (b"one", b"two"):
        await create(etl, body, NEWS)
    with monkeypatch.context() as patch:
        held_up(rest, patch)
        async with client(rest.root, "bee") as leaving:
            assert (await leaving.post(msg(made)["consume-next"])).content == b"one"
    again = await subscribe(bee, **named)
    assert (await bee.post(msg(again)["consume-next"])).content == b"two"


def path(url):
    """Return what of a URL is below the prefix of the profile: another process has another port."""
    return re.sub(r"^http://[^/]+/hornetq", "", url)


async def test_a_subscription_that_is_not_known_begins_now(etl, bee):  # H17, H33
    await create(etl, b"before", NEWS)
    stale = await bee.post(
        f"{NEWS}/pull-subscriptions/attributes-1/0123456789abcdef/consume-next-4"
    )
    assert stale.status_code == 412
    await create(etl, b"one", NEWS)
    assert (await bee.post(msg(stale)["consume-next"])).content == b"one"
    place = f"{NEWS}/pull-subscriptions/attributes-2/0123456789abcdef"
    assert (await bee.post(f"{place}/acknowledge-next-1")).status_code in {200, 503}
    assert (await settle(bee, f"{place[:-1]}0/acknowledgement/a/1")).status_code == 404


async def test_the_link_that_is_due_is_shown_and_a_subscription_ends(etl, bee):  # H16, H19
    made = await subscribe(bee, **MANUAL)
    place = made.headers["Location"]
    assert msg(await bee.get(place)) == msg(made)
    await create(etl, b"one", NEWS)
    message = await bee.post(msg(made)["acknowledge-next"])
    assert msg(await bee.head(place))["acknowledgement"] == msg(message)["acknowledgement"]
    assert (await bee.delete(place)).status_code == 204
    assert (await bee.get(place)).status_code == 404
    assert (await bee.delete(place)).status_code == 404


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"durable": "true"}, 400),
        ({"durable": "perhaps"}, 400),
        ({"autoAck": "no"}, 400),
        ({"selector": "a = 1"}, 501),
    ],
)
async def test_other_subscriptions_are_refused(rest, bee, form, status):  # H17
    where = await lead(bee, NEWS, "pull-subscriptions")
    assert (await bee.post(where, data=form)).status_code == status
    assert await consumers(rest) == 0


async def test_a_name_is_an_accounts_own(rest, etl, bee):
    named = {"durable": "true", "name": "mine"}
    ann = await rest.as_("ann", "hornetq")
    places = {(await subscribe(client, **named)).headers["Location"] for client in (etl, bee, ann)}
    assert len(places) == 3
    for place in places:
        assert {(await client.get(place)).status_code for client in (etl, bee, ann)} == {204, 404}


async def test_a_stranger_does_not_read_a_closed_topic(rest):
    await rest.make("closed", queueing=False, access_model="whitelist")
    eve = await rest.as_("eve", "hornetq")
    answers = [
        await eve.post("/topics/closed/pull-subscriptions"),
        await eve.post(
            "/topics/closed/pull-subscriptions/attributes-2/0123456789abcdef/acknowledge-next-1"
        ),
    ]
    assert {one.status_code for one in answers} <= {403, 404}
