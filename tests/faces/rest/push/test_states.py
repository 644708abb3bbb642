"""Registrations that are disabled and enabled again over HTTP, and the counts of pushes."""

import asyncio

import pytest
from faces.rest.push.hooks import Hook, pushing, register, state
from faces.rest.push.test_subscribers import hang
from faces.rest.test_messages import post
from faces.sides import SERVICE
from harness.patience import LOOK, TIMEOUT, until

from pubqueue.faces.rest import push
from pubqueue.model.entities import Jid, NodeName
from pubqueue.monitor.gauges import of_pushes
from pubqueue.rules.registrations import LEASE, Enable

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
async def patient():
    async with asyncio.timeout(TIMEOUT):
        yield


async def set_state(client, place, wanted):
    answer = await client.post(place, data={"state": wanted})
    assert answer.status_code == 204


@pytest.mark.parametrize("kind", ["queues/jobs", "topics/news"])
async def test_a_target_is_disabled_and_enabled_again(kind):
    hook = Hook((403, {}), 204)
    async with pushing(hook) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        place = (await register(bee, hook.url, path=f"/{kind}")).headers["Location"]
        await post(etl, b"a", path=f"/{kind}")
        await hook.next()

        async def disabled():
            return (await state(bee, place))["state"] == "disabled"

        await until(disabled, every=LOOK)
        for _ in range(2):
            await set_state(bee, place, "active")
            found = await state(bee, place)
            assert (found["state"], found["failures"]) == ("active", "0")
        assert (await hook.next())[1] == b"a"
        await set_state(bee, place, "disabled")
        assert await disabled()
        await post(etl, b"b", path=f"/{kind}")
        if kind.startswith("queues"):
            free = await bee.post(f"/{kind}/consumer", headers={"Accept-Wait": "9"})
            assert (free.status_code, free.content) == (200, b"b")
        assert hook.count == 2


async def test_a_push_that_is_under_way_is_given_back_when_its_target_is_disabled():
    hook = Hook(hang)
    async with pushing(hook, timeout=60) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        place = (await register(bee, hook.url)).headers["Location"]
        await post(etl, b"a")
        await hook.next()
        await set_state(bee, place, "disabled")
        back = await bee.post("/queues/jobs/consumer", headers={"Accept-Wait": "9"})
        assert (back.status_code, back.content) == (200, b"a")
        assert "Message-Failed" not in back.headers


async def test_a_push_that_is_under_way_is_given_back_when_another_instance_disables_its_target():
    hook = Hook(hang)
    async with pushing(hook, timeout=60) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        name = (await register(bee, hook.url)).json()["id"]
        await post(etl, b"a")
        await hook.next()
        by = rest.face.accounts.principals.of(Jid(f"etl@{SERVICE}"))
        await rest.broker.handle(Enable(by, NodeName("jobs"), name, disabled=True))
        back = await bee.post("/queues/jobs/consumer", headers={"Accept-Wait": "20"})
        assert (back.status_code, back.content) == (200, b"a")
        assert "Message-Failed" not in back.headers
        await until(lambda: not rest.face.pushing.working)


async def test_pushes_are_counted_by_outcome():  # W26
    hook = Hook(500, 422, 204)
    async with pushing(hook) as rest:
        await register(await rest.as_("bee"), hook.url)
        etl = await rest.as_()
        for body in (b"a", b"b", b"c"):
            await post(etl, body)

        async def all_ended():
            return sum(rest.face.pusher.outcomes.values()) == 4

        await until(all_ended, every=LOOK)
        (family,) = of_pushes([rest.face.traffic])
        found = family.samples
        assert {one.labels["outcome"]: one.value for one in found} == {
            "bad": 1.0,
            "done": 2.0,
            "failed": 1.0,
        }


def test_another_instance_takes_over_within_five_seconds():
    assert push.RENEW * 2 < LEASE / 1000
    assert LEASE / 1000 + push.RENEW < 5
