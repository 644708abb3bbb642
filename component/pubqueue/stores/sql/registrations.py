"""Pages of registrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pubqueue.engine import listings as li
from pubqueue.model.records import Registration

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.stores.sql.session import SqlSession


def _of(
    session: SqlSession, which: li.RegistrationsOf, after: str | None, limit: int
) -> list[Registration]:
    found = session.rows(
        "registrations_of", after or "", which.account or "", which.node or "", limit
    )
    return [registration_of(row) for row in found]


def registration_of(row: Any) -> Registration:  # noqa: ANN401  # columns of either driver
    """Make a registration from its columns."""
    name, account, node, queueing, words, disabled, *rest = row
    return Registration(name, account, node, queueing != 0, bytes(words), disabled != 0, *rest)


PAGES: Final[dict[type, Callable[[SqlSession, Any, Any, int], list[Any]]]] = {
    li.RegistrationsOf: _of
}
