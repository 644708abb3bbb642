"""What operators see and do: health, reflection, stopping, and a store that is away."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, TECH_PUBLISHER, TECH_SUBSCRIBER, code_of
from grpc import StatusCode
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub
from harness.patience import TIMEOUT, until
from msgspec.structs import replace

from pubqueue.engine.ports import StoreError
from pubqueue.faces.grpc import face as module
from pubqueue.faces.grpc import server, tech, v1

TOPIC, BILL = "projects/shop/topics/orders", "projects/shop/subscriptions/bill"
SERVICES = (PUBLISHER, SUBSCRIBER, TECH_PUBLISHER, TECH_SUBSCRIBER)
SERVING, AWAY = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING


async def health(channel, service=""):
    return (await HealthStub(channel).Check(HealthCheckRequest(service=service))).status


async def test_all_services_report_that_they_serve(side, channel):  # G52
    for service in ("", *SERVICES):
        await until(lambda one=service: is_serving(channel, one))
    unknown = HealthStub(channel).Check(HealthCheckRequest(service="nonsense"))
    assert await code_of(unknown) is StatusCode.NOT_FOUND


async def is_serving(channel, service):
    try:
        return await health(channel, service) == SERVING
    except grpc.aio.AioRpcError:
        return False


async def test_a_store_that_is_away_is_no_service(side, channel, monkeypatch):  # G52
    monkeypatch.setattr(module, "LOOK", 0.01)
    await until(lambda: is_serving(channel, PUBLISHER))

    def fail(*_args):
        raise StoreError("it is away")

    whole = side.store.read
    monkeypatch.setattr(side.store, "read", fail)
    await until(lambda: is_away(channel))
    monkeypatch.setattr(side.store, "read", whole)
    await until(lambda: is_serving(channel, PUBLISHER))


async def is_away(channel):
    return await health(channel, PUBLISHER) == AWAY


async def test_reflection_lists_the_services_and_has_their_files(channel):  # G52
    def asked():
        yield ServerReflectionRequest(list_services="")
        yield ServerReflectionRequest(file_containing_symbol=TECH_PUBLISHER)
        yield ServerReflectionRequest(file_containing_symbol=PUBLISHER)

    call = ServerReflectionStub(channel).ServerReflectionInfo(asked())
    listed, tech, v1 = [answer async for answer in call]
    names = {one.name for one in listed.list_services_response.service}
    assert names >= {*SERVICES, "grpc.health.v1.Health"}
    assert tech.file_descriptor_response.file_descriptor_proto
    assert v1.file_descriptor_response.file_descriptor_proto


ALL = {f"/{one.name}/{name}" for one in (*tech.SERVICES, *v1.SERVICES) for name in one.unary}
PUBLISHING = {
    f"/{PUBLISHER}/Publish",
    f"/{TECH_PUBLISHER}/Publish",
    f"/{TECH_PUBLISHER}/PublishBatch",
}
TOO_LONG = {server.TOO_MANY_BYTES, server.TOO_LARGE}


@pytest.fixture
def bound(monkeypatch):
    monkeypatch.setattr(server, "MAX_REQUEST", server.LARGE)


@pytest.fixture
def unlisted(monkeypatch):
    """The publish of one binding is not among the rpcs that may have large requests."""
    first, *more = v1.SERVICES
    monkeypatch.setattr(v1, "SERVICES", (replace(first, publishes=frozenset()), *more))


async def refused(channel, paths):
    """Return those that take no large request."""
    found = set()
    for path in sorted(paths):
        with pytest.raises(grpc.aio.AioRpcError) as problem:
            await channel.unary_unary(path)(bytes(server.LARGE + 1))
        if problem.value.details() in TOO_LONG:
            found.add(path)
    return found


async def test_only_rpcs_that_publish_have_large_requests(bound, channel):  # G12
    assert await refused(channel, ALL) == ALL - PUBLISHING


async def test_the_table_of_rpcs_says_which_these_are(bound, unlisted, channel):
    assert await refused(channel, PUBLISHING) == {f"/{PUBLISHER}/Publish"}


async def test_a_service_that_stops_answers_what_was_begun(side, v1):  # G46
    await v1.publisher.CreateTopic(name=TOPIC)
    await v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC)
    waiting = asyncio.ensure_future(v1.subscriber.Pull(subscription=BILL, max_messages=1))
    await until(lambda: side.broker.waiting.takes)
    await asyncio.wait_for(side.face.stop(), 5)
    assert not (await asyncio.wait_for(waiting, TIMEOUT)).received_messages
    assert await code_of(v1.publisher.GetTopic(topic=TOPIC)) is StatusCode.UNAVAILABLE
