"""The service is killed while it pushes, or another instance takes over: each message arrives, and none is lost."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from faces.contract import make_store
from faces.rest.clients import Served, a_face, hosted
from faces.rest.push.hooks import Hook, hooked, pushes_to, register
from faces.rest.served.service import NODES, RestService, on_port
from faces.rest.star.steps import post
from faces.sides import two_sides
from harness.patience import LOOK, TIMEOUT, until
from harness.processes.killed_lives import killed_itself, start_doomed

from pubqueue.loopback import free_ports

__all__ = ["make_store"]

ITEMS = [f"{number}" for number in range(6)]
SOON = NODES.replace('"x-queueing#backoff_min" = 0', '"x-queueing#lock_timeout" = 2')
STEPS = ["written", "committed"]
"""Before and after the end of an item is on disk."""


def may_push(port, root):
    """Return the table of a service that may push to these targets."""
    return f'{on_port(port)}\npush_to = ["{root}"]\npush_networks = ["127.0.0.0/8"]'


async def publish(service):
    """Publish each item under its id."""
    async with service.client() as etl:
        for item in ITEMS:
            headers = {"Message-Id": item}
            answer = await etl.post("/queues/jobs/messages", content=item, headers=headers)
            assert answer.status_code in {200, 201}


async def test_killed_while_the_target_answers_the_message_comes_again(tmp_path, kept):
    (port,) = free_ports(1)
    hook = Hook()
    async with asyncio.timeout(TIMEOUT), hooked(hook) as root:
        service = RestService(tmp_path, may_push(port, root), SOON, store=kept.address)
        hook.answers = [204, _Killing(service), 204]
        await service.start()
        await publish(service)
        async with service.client("bee") as bee:
            assert (await register(bee, hook.url)).status_code == 201
        got = [(await hook.next())[1].decode() for _ in range(2)]
        await until(lambda: service.process is None, every=LOOK)
        async with service:
            await publish_rest(service, hook, got)
    assert set(got) == set(ITEMS)
    assert kept.recount().of("jobs") == {}


class _Killing:
    """An answer that comes after the service was killed: the target has the message, and the service does not know."""

    def __init__(self, service):
        self._service = service

    async def __call__(self, _request):
        await self._service.kill()
        return 204


async def publish_rest(service, hook, got):
    """Wait until the target has all items, and the queue is empty."""
    while set(got) != set(ITEMS):
        got.append((await hook.next())[1].decode())
    async with service.client() as etl:

        async def empty():
            return (await etl.get("/queues/jobs")).json()["counts"]["messages"] == 0

        await until(empty, every=LOOK)


@pytest.mark.parametrize("point", STEPS)
async def test_killed_between_two_steps_of_pushes_nothing_is_lost(point, tmp_path, kept):
    (port,) = free_ports(1)
    hook = Hook()
    async with asyncio.timeout(TIMEOUT), hooked(hook) as root:
        service = RestService(tmp_path, may_push(port, root), SOON, store=kept.address)
        async with service:
            await publish(service)
        await start_doomed(service, f"{point}@Settle", 2)
        async with service.client("bee") as bee:
            assert (await register(bee, hook.url)).status_code == 201
        await killed_itself(service)
        assert kept.recount().wrong == ()
        got = []
        async with service:
            await publish_rest(service, hook, got)
    assert set(got) == set(ITEMS)
    assert kept.recount().of("jobs") == {}


async def test_another_instance_pushes_when_one_dies(make_store):
    hook = Hook()
    async with asyncio.timeout(TIMEOUT), hooked(hook) as root, AsyncExitStack() as ends:
        push = pushes_to(root)
        both = two_sides(make_store, lambda broker: a_face(broker, **push))
        sides = await ends.enter_async_context(both)
        one, other = [
            Served(side, await ends.enter_async_context(hosted(side.face)), ends) for side in sides
        ]
        await one.make("jobs", backoff_min=0)
        bee = await one.as_("bee")
        name = (await register(bee, hook.url)).json()["id"]
        await post(await other.as_(), b"a")
        assert (await hook.next())[1] == b"a"
        assert one.face.pushing.working == {name}
        etl = await other.as_()

        async def empty():
            return (await etl.get("/queues/jobs")).json()["counts"]["messages"] == 0

        await until(empty, every=LOOK)
        await one.face.pushing.stop()
        await sides[0].kill()
        await post(await other.as_(), b"b")
        assert (await hook.next())[1] == b"b"
        assert other.face.pushing.working == {name}
