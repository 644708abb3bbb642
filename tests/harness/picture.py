"""All that a store shows of itself through its seam, as values to compare; and its counts, recounted."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pubqueue.app.ports import Transaction

ALL: Final = 1_000_000


def everything(tx: Transaction) -> list[object]:
    """Return every node with its people, subscriptions and items; a token, if any was given."""
    seen: list[object] = []
    for node in tx.nodes():
        seen += [node, *tx.affiliations(node.name), *tx.subscribers(node.name)]
        for name in tx.item_ids(node.name, ALL):
            item = tx.item(node.name, name)
            assert item is not None
            seen += [item, tx.payload(item)]
    if (token := next_token(tx)) > 1:
        seen.append(token)
    return seen


class _UndoneError(Exception):
    """Takes a look back."""


def next_token(tx: Transaction) -> int:
    """Return the token that would be given next, without giving it."""
    token = 0
    with suppress(_UndoneError), tx.savepoint():
        token = tx.tokens(1)
        raise _UndoneError
    return token


def recount(tx: Transaction) -> list[str]:
    """Return a sentence for every count that is not what counting gives."""
    wrong = []
    for node in tx.nodes():
        subscribers = tx.subscribers(node.name)
        counted = len(tx.item_ids(node.name, ALL)), len(subscribers)
        if (node.items, node.subscriptions) != counted:
            wrong.append(f"{node.name} counts {node.items, node.subscriptions} for {counted}")
        for subscription in subscribers:
            holds = tx.held_count(node.name, subscription.jid)
            if subscription.in_flight != holds:
                wrong.append(f"{subscription.jid} counts {subscription.in_flight} for {holds}")
    return wrong
