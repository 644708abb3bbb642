"""Which notices the subscribers of a node get, and by which kind of message, according to its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pubqueue.core.model import ItemReply, NotificationType
from pubqueue.core.notices import NOBODY, Announce, to_each

if TYPE_CHECKING:
    from pubqueue.core.model import Draft, Jid, Millis, Node
    from pubqueue.core.notices import Audience, ForMany, News


def notifies(node: Node) -> bool:
    """Return whether the node notifies subscribers (XEP-0060 16.4.4, deliver_notifications)."""
    return node.config.queueing or node.config.deliver_notifications


def notify(node: Node, audience: Audience, what: ForMany) -> tuple[News, ...]:
    """Return the notice for each of the audience."""
    config = node.config
    if not notifies(node):
        return ()
    fleeting = not config.queueing and config.notification_type is NotificationType.HEADLINE
    return to_each(audience, what, fleeting=fleeting)


def announce(
    node: Node, audience: Audience, draft: Draft | None, publisher: Jid
) -> tuple[News, ...]:
    """Notify the audience of an item of a plain node."""
    return notify(node, audience, announcement(node, draft, publisher)) if audience else ()


def announcement(
    node: Node, draft: Draft | None, publisher: Jid, late: Millis | None = None
) -> Announce:
    """Return the notice of an item: with its payload if the node delivers payloads (XEP-0060 4.3)."""
    config = node.config
    if draft is not None and not config.deliver_payloads:
        draft = replace(draft, payload=b"")
    who = publisher if config.itemreply is ItemReply.PUBLISHER else None
    return Announce(NOBODY, node.name, draft, who, late)
