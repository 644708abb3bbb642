"""The pytest fixture `pubqueue_service`.

    pytest_plugins = ["pubqueue.testing.pytest_plugin"]         # in the conftest.py beside the tests' root

It imports only pytest before a test uses the service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pubqueue.testing.service import Service


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
