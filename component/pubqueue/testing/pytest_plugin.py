"""The pytest fixtures `pubqueue_service`, `pubqueue_services`, `pubqueue_emulator` and `pubqueue_project`.

    pytest_plugins = ["pubqueue.testing.pytest_plugin"]         # in the conftest.py beside the tests' root

It imports only pytest before a test uses one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pubqueue.testing.emulator import Emulator
    from pubqueue.testing.service import Service
    from pubqueue.testing.services import Services


@pytest.fixture(scope="session")
def pubqueue_running_service() -> Iterator[Service]:
    """Run one service for all tests of the process; a test uses `pubqueue_service`."""
    from pubqueue.testing import Service  # noqa: PLC0415  most tests of most people never need it

    with Service() as service:
        yield service


@pytest.fixture
def pubqueue_service(pubqueue_running_service: Service) -> Iterator[Service]:
    """Give a test a queue service of its own: without nodes and connections."""
    yield pubqueue_running_service
    pubqueue_running_service.clear()


@pytest.fixture(scope="session")
def pubqueue_running_services() -> Iterator[Services]:
    """Run two services for all tests of the process; a test uses `pubqueue_services`."""
    from pubqueue.testing import Services  # noqa: PLC0415  most tests of most people never need it

    with Services() as services:
        yield services


@pytest.fixture
def pubqueue_services(pubqueue_running_services: Services) -> Iterator[Services]:
    """Give a test two queue services of its own: without nodes and connections."""
    yield pubqueue_running_services
    pubqueue_running_services.clear()


@pytest.fixture(scope="session")
def pubqueue_running_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """Run one emulator of Pub/Sub for all tests of the process; a test uses `pubqueue_emulator`."""
    from pubqueue.testing import Emulator  # noqa: PLC0415  most tests of most people never need it

    with Emulator(tmp_path_factory.mktemp("pubqueue-emulator")) as emulator:
        yield emulator


@pytest.fixture
def pubqueue_emulator(
    pubqueue_running_emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Emulator]:
    """Point Google's clients at the emulator, by `PUBSUB_EMULATOR_HOST`. If the test leaves it stopped, it is started again."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubqueue_running_emulator.address)
    yield pubqueue_running_emulator
    pubqueue_running_emulator.start()


@pytest.fixture
def pubqueue_project() -> str:
    """Return the name of a project that no other test has: its topics and subscriptions are the test's own."""
    return f"test-{uuid4().hex[:12]}"
