"""All operations: one table, by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.management import (
    deaths,
    items,
    nodes,
    overview,
    schedules,
    service,
)
from pubqueue.app.management.clients import connections, kept_messages, registrations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.app.management.model import Operation

OPERATIONS: Final[Mapping[str, Operation]] = {
    operation.name: operation
    for part in (
        *(overview, nodes, items, deaths, schedules, registrations),
        *(connections, kept_messages, service),
    )
    for operation in part.OPERATIONS
}
