"""The face of gRPC in the process of the test, served in JSON too."""

from __future__ import annotations

import pytest
from faces.grpc.json.clients import Google, hosted, plain
from harness.patience import until

TOPIC, BILL = "/topics/shop/orders", "/subscriptions/shop/bill"


@pytest.fixture
async def root(side):
    await until(lambda: side.face.is_up)
    async with hosted(side.face) as root:
        yield root


@pytest.fixture
def google(root):
    client = Google(root)
    yield client
    client.close()


@pytest.fixture
def other(root):
    """Another one: a client is for one thread at a time."""
    client = Google(root)
    yield client
    client.close()


@pytest.fixture
async def http(root):
    async with plain(root) as client:
        yield client


@pytest.fixture
async def queue(google):
    await google.topics("create", body={"name": TOPIC})
    await google.subscriptions("create", body={"name": BILL, "topic": TOPIC})
