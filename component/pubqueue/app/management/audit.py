"""The audit log: a line for every operation that changed something, however it was called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from pubqueue.app.management.given import Given
    from pubqueue.app.management.model import Operation
    from pubqueue.model.entities import Principal

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
