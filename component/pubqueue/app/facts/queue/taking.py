"""Facts for requests for items without a subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.facts.nodes.managing import owners_to_notify
from pubqueue.rules.take import TakeFacts

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.rules.take import Take


def for_take(context: Context, request: Take) -> TakeFacts:
    """Return the account's affiliation with the node and its items there, and how many takes wait here."""
    rows, account = context.rows, request.by.account
    node = rows.node(request.node)
    of_account, waiting = context.waiting(account)
    return TakeFacts(
        now=context.now,
        node=node,
        affiliation=rows.affiliation(request.node, account),
        subscriptions=tuple(rows.subscriptions_in(request.node, account)),
        owners=owners_to_notify(rows, node),
        held=0 if node is None else rows.held_of(request.node, account),
        of_account=of_account,
        waiting=waiting,
        unused=rows.unused_token(),
    )
