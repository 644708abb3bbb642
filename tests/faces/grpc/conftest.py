"""An instance with the face of gRPC in the process of the test, on a store in memory, and stubs that call it."""

from __future__ import annotations

from types import SimpleNamespace

import grpc
import pytest
from faces.grpc import clients
from faces.grpc.clients import Stub
from faces.sides import Side
from harness.patience import until

from pubqueue.stores.sqlite.in_memory import MemoryStore

ANY_SIZE = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


@pytest.fixture
def make_face():
    """What makes the face of `side`; a test may have another one."""
    return clients.a_face


@pytest.fixture
async def side(make_face):
    one = Side(MemoryStore(), make_face)
    await one.begin()
    await until(lambda: one.face.addresses)
    yield one
    await one.end()


@pytest.fixture
async def channel(side):
    host, port = side.face.addresses[0]
    async with grpc.aio.insecure_channel(f"{host}:{port}", ANY_SIZE) as made:
        yield made


@pytest.fixture
def tech(channel):
    return SimpleNamespace(
        publisher=Stub(channel, clients.TECH_PUBLISHER),
        subscriber=Stub(channel, clients.TECH_SUBSCRIBER),
    )


@pytest.fixture
def v1(channel):
    return SimpleNamespace(
        publisher=Stub(channel, clients.PUBLISHER), subscriber=Stub(channel, clients.SUBSCRIBER)
    )
