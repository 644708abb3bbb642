"""Messages of assured service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pubqueue.engine import listings as li
from pubqueue.model.records import AccountMessages, KeptMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.stores.sql.session import SqlSession, Values


def messages(_session: object, _kind: object, found: Iterable[Any]) -> list[KeptMessage]:
    """Return the messages of these rows, without their bytes."""
    return [
        KeptMessage(
            *(mark, sender, account, msg_id, iq_id),
            bytes(digest),
            byte_count,
            held=held != 0,
            answer=answer,
            until=until,
        )
        for mark, sender, account, msg_id, iq_id, digest, byte_count, held, answer, until in found
    ]


def cells(_session: object, _kind: object, row: KeptMessage) -> tuple[Values, Values, Values]:
    """Return a message's facts, key and guard; one that has ended has no bytes."""
    held = int(row.held)
    facts = row.sender, row.account, row.msg_id, row.iq_id, row.digest, row.byte_count, held
    more = row.answer, row.until, row.message if row.held else None
    return (*facts, *more), (row.mark,), (row.digest, held, row.until)


def _bytes(session: SqlSession, which: li.MessageBytes, _after: None, limit: int) -> list[bytes]:
    return [bytes(message) for (message,) in session.rows("message_bytes", which.mark, limit)]


def _over(
    session: SqlSession, which: li.MessagesOver, _after: None, limit: int
) -> list[KeptMessage]:
    return messages(None, None, session.rows("messages_over", which.now, limit))


def _of(session: SqlSession, which: li.MessagesOf, _after: None, limit: int) -> list[KeptMessage]:
    rows = session.rows("messages_of", which.account, int(which.held), limit)
    return messages(None, None, rows)


def _accounts(
    session: SqlSession, _which: li.MessageAccounts, after: str | None, limit: int
) -> list[AccountMessages]:
    return [AccountMessages(*row) for row in session.rows("message_accounts", after or "", limit)]


PAGES: Final[dict[type, Callable[[SqlSession, Any, Any, int], list[Any]]]] = {
    li.MessageBytes: _bytes,
    li.MessagesOver: _over,
    li.MessagesOf: _of,
    li.MessageAccounts: _accounts,
}
