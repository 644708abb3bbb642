"""What is kept for later: bundles of notices for an instance, and publishes that are not fed on yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pubqueue.engine import listings as li
from pubqueue.model.records import Forwarded

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.stores.sql.session import SqlSession

HIGHEST: Final = "\x7f"
"""Greater than everything that follows the prefix of a mark."""


def _to(session: SqlSession, which: li.ForwardedTo, _after: None, limit: int) -> list[Forwarded]:
    begin = which.beginning
    return [
        Forwarded(mark, bytes(notices))
        for mark, notices in session.rows("forwarded_to", begin, begin + HIGHEST, limit)
    ]


def _unfed(session: SqlSession, _which: li.Unfed, _after: None, limit: int) -> list[str]:
    return [mark for (mark,) in session.rows("unfed", limit)]


PAGES: Final[dict[type, Callable[[SqlSession, Any, Any, int], list[Any]]]] = {
    li.ForwardedTo: _to,
    li.Unfed: _unfed,
}
