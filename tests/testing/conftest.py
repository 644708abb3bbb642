"""The fixtures that users get by a line in their conftest.py."""

from pubqueue.testing.pytest_plugin import (  # noqa: F401  pytest finds fixtures by their names
    pubqueue_running_service,
    pubqueue_running_services,
    pubqueue_service,
    pubqueue_services,
)
