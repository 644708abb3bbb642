"""Health and reflection, which ask nobody who calls: small requests, few calls, and an end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import grpc
import pytest
from faces.grpc.clients import PUBLISHER, code_of
from grpc import StatusCode
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub
from harness.patience import TIMEOUT, until

from pubqueue.faces.grpc import health as module
from pubqueue.faces.grpc.health import MAX_CALLS_OF_CONNECTION, MAX_REQUEST, REFLECTION_TIMEOUT

SERVING, AWAY = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING
UNKNOWN = HealthCheckResponse.SERVICE_UNKNOWN


@pytest.fixture
def health(channel):
    return HealthStub(channel)


async def silent():
    await asyncio.Event().wait()
    yield


async def is_serving(health):
    return (await health.Check(HealthCheckRequest())).status == SERVING


async def test_a_watch_reports_each_change(side, health):
    await until(lambda: is_serving(health))
    watch = health.Watch(HealthCheckRequest(service=PUBLISHER))
    unknown = health.Watch(HealthCheckRequest(service="nonsense"))
    assert (await watch.read()).status == SERVING
    assert (await unknown.read()).status == UNKNOWN
    side.face.health.set(serves=False)
    assert (await watch.read()).status == AWAY
    side.face.health.set(serves=True)
    assert (await watch.read()).status == SERVING
    for one in (watch, unknown):
        one.cancel()
    await until(lambda: not side.face.health.watches)


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
async def test_a_request_is_small(health, compression):
    for size, code in ((100, StatusCode.NOT_FOUND), (MAX_REQUEST, StatusCode.RESOURCE_EXHAUSTED)):
        request = HealthCheckRequest(service="x" * size)
        assert await code_of(health.Check(request, compression=compression)) is code
    huge = HealthCheckRequest(service="x" * 10_000_000)
    call = health.Check(huge, compression=compression)
    assert await code_of(call) is StatusCode.RESOURCE_EXHAUSTED


async def test_a_request_that_is_none_or_garbage_is_invalid(channel):
    check = channel.stream_unary("/grpc.health.v1.Health/Check")
    for requests in ([], [b"\xff"]):
        assert await code_of(check(iter(requests))) is StatusCode.INVALID_ARGUMENT


async def test_calls_of_a_connection_are_few_and_of_others_are_not_touched(side, channel, health):
    watches = [health.Watch(HealthCheckRequest()) for _ in range(MAX_CALLS_OF_CONNECTION)]
    for one in watches:
        await one.read()
    assert await code_of(health.Check(HealthCheckRequest())) is StatusCode.RESOURCE_EXHAUSTED
    reflected = ServerReflectionStub(channel).ServerReflectionInfo(silent())
    assert await reflected.code() is StatusCode.RESOURCE_EXHAUSTED
    host, port = side.face.addresses[0]
    other = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"{host}:{port}", other) as second:
        assert await code_of(HealthStub(second).Check(HealthCheckRequest())) is StatusCode.OK
    watches.pop().cancel()
    await until(lambda: side.face.health.open.total() < MAX_CALLS_OF_CONNECTION)
    assert await code_of(health.Check(HealthCheckRequest())) is StatusCode.OK
    for one in watches:
        one.cancel()


@pytest.mark.parametrize("bound", ["MAX_CALLS", "MAX_CALLS_OF_ADDRESS"])
async def test_calls_of_all_and_of_an_address_are_bounded(health, monkeypatch, bound):
    monkeypatch.setattr(module, bound, 1)
    watch = health.Watch(HealthCheckRequest())
    await watch.read()
    assert await code_of(health.Check(HealthCheckRequest())) is StatusCode.RESOURCE_EXHAUSTED
    watch.cancel()


async def test_a_watch_whose_request_does_not_come_ends(side, channel, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT", 0.1)
    watch = channel.stream_stream("/grpc.health.v1.Health/Watch")(silent())
    assert await asyncio.wait_for(watch.code(), TIMEOUT) is StatusCode.DEADLINE_EXCEEDED


async def test_a_call_of_reflection_ends(channel, monkeypatch):
    """Its time passes here when it has been answered."""
    limits = []

    def timeout(seconds):
        limits.append((seconds, asyncio.timeout(seconds)))
        return limits[-1][1]

    async def asked():
        yield ServerReflectionRequest(list_services="")
        await asyncio.Event().wait()

    monkeypatch.setattr(module, "asyncio", SimpleNamespace(timeout=timeout))
    call = ServerReflectionStub(channel).ServerReflectionInfo(asked())
    assert (await call.read()).list_services_response.service
    ((seconds, limit),) = limits
    assert seconds == REFLECTION_TIMEOUT
    limit.reschedule(0)
    assert await asyncio.wait_for(call.code(), TIMEOUT) is StatusCode.DEADLINE_EXCEEDED


class TestShort:
    @pytest.fixture(autouse=True)
    def times(self, monkeypatch):
        monkeypatch.setattr(module, "TIMEOUT", 0.2)

    async def test_a_check_without_a_request_ends(self, channel):
        call = channel.stream_unary("/grpc.health.v1.Health/Check")(silent())
        assert await asyncio.wait_for(call.code(), TIMEOUT) is StatusCode.DEADLINE_EXCEEDED
