"""All operations, what a role lets a user do over HTTP, and the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.accounts.credentials import Role
from pubqueue.model.replies import Power
from pubqueue.operations import clients, dead, items, nodes, schedules, service, waits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.model.entities import Principal
    from pubqueue.operations.model import Given, Operation


# All operations: one table, by their names.

OPERATIONS: Final[Mapping[str, Operation]] = {
    operation.name: operation
    for part in (
        service.ON_OVERVIEW,
        nodes.OPERATIONS,
        items.ON_ITEMS,
        waits.ON_WAITS,
        dead.ON_DEAD,
        schedules.OPERATIONS,
        clients.ON_REGISTRATIONS,
        clients.ON_CONNECTIONS,
        clients.ON_MESSAGES,
        service.ON_SERVICE,
        service.ON_ALERTS,
    )
    for operation in part
}


# What a role lets a user do over HTTP in addition to its own rights: operations on every node, with the rights of the service.
#
# Whatever a role does not include, the core judges by the user's own account: owners may do everything on their nodes,
# administrators everything.

READS: Final = frozenset(
    one.name for one in OPERATIONS.values() if one.power is Power.NODES and not one.changes
)
"""Operations that show nodes and their items."""

CHANGES: Final = frozenset(
    one.name for one in OPERATIONS.values() if any(not action.by_admins for action in one.actions)
)
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


# The audit log: a line for every operation that changed something, however it was called.

log = structlog.get_logger(__name__)

NAMED: Final = ("name", "schedule", "to", "worker", "connection", "jid", "affiliation")
"""Parameters that are logged with their values, in addition to the node."""


def performed(operation: Operation, by: Principal, given: Given, *, remote: str = "") -> None:
    """Log the operation, if it changed anything: its account and node; never a part of a payload, nor a setting's value.

    `remote` is the network address of the caller, if `by` does not identify it.
    """
    if not operation.changes:
        return
    words: dict[str, object] = {name: given.one(name) for name in NAMED if given.one(name)}
    if ids := given.lines("item"):
        words["items"] = len(ids)
    if settings := given.lines("settings"):
        words["settings"] = ",".join(sorted(line.partition("=")[0].strip() for line in settings))
    if remote:
        words["remote"] = remote
    if node := given.one("node") or words.pop("name", None):
        words = {"node": node, **words}
    log.info("operation.performed", operation=operation.name, by=by.jid, **words)
