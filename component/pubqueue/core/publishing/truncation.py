"""The item that reports that others were dropped from a queue: the oldest, because of their age or for lack of room, or all of them.

It is added in the commit that drops them, unless it waits there already. It is published by the service, and is delivered and
settled like any other. It does not expire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.core.changes import AddItem
from pubqueue.core.model import AtExpiry, Draft, ItemId, State

if TYPE_CHECKING:
    from pubqueue.core.model import Item, Jid, Millis, NodeConfig, NodeName

STATUS_ID: Final = ItemId("truncated")
STATUS: Final = b"<truncated xmlns='urn:x-pubqueue:data:0'/>"


def truncates(config: NodeConfig) -> bool:
    """Return whether a queue drops its oldest items when it is full, and reports it."""
    return config.queueing and config.expired is AtExpiry.TRUNCATE


def drops(config: NodeConfig) -> bool:
    """Return whether items that are too old are deleted: in a plain node always, in a queue if that is set."""
    return not config.queueing or config.expired is not AtExpiry.DEAD


def may_be_dropped(item: Item) -> bool:
    """Return whether no worker holds the item, and it is not the one that reports that others were dropped."""
    return item.state is not State.LOCKED and item.id != STATUS_ID


def status_item(node: NodeName, service: Jid, now: Millis) -> AddItem:
    """Return the change that adds the item."""
    return AddItem(node, Draft(STATUS_ID, STATUS), service, now, State.QUEUED, None, None)
