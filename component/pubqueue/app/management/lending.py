"""What a role lets a user do over HTTP in addition to its own rights: operations on every node, with the rights of the service.

Whatever a role does not include, the core judges by the user's own account: owners may do everything on their nodes,
administrators everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.accounts.model import Role
from pubqueue.app.management.table import OPERATIONS
from pubqueue.model.replies import Power

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.app.management.model import Operation

READS: Final = frozenset(
    one.name for one in OPERATIONS.values() if one.power is Power.NODES and not one.changes
)
"""Operations that show nodes and their items."""

CHANGES: Final = frozenset({"pause", "resume", "redrive", "discard", "cancel", "release", "purge"})
"""Operations that change the items of a node, or their deliveries: those of the page."""

LENT: Final = {
    Role.VIEWER: READS,
    Role.OPERATOR: READS | CHANGES,
    Role.ADMIN: READS | CHANGES,
}
"""The operations of each role; an administrator may do all others by its own account."""

CONTENTS: Final = frozenset({"content", "payload"})
"""Columns that show the payload of an item."""


def lends(roles: Iterable[Role], operation: Operation) -> bool:
    """Return whether one of the roles includes the operation, on every node."""
    return any(operation.name in LENT[role] for role in roles)


def hidden(roles: Iterable[Role]) -> frozenset[str]:
    """Return the columns that roles do not show: payloads are not for viewers."""
    return frozenset() if {Role.OPERATOR, Role.ADMIN} & set(roles) else CONTENTS
