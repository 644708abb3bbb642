"""The level of a delivery: that of the subscription, else that of the queue for clients that can answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.core.addresses import account_of
from pubqueue.core.model import Level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.core.model import Jid, NodeConfig, Subscription


def level_of(config: NodeConfig, one: Subscription, is_able: Callable[[Jid], bool | None]) -> Level:
    """Return the level of deliveries to a subscriber. A bare JID cannot answer, and gets messages.

    A worker that sets the option declares by it that its client can answer; for the setting of the queue the client is asked (`is_able`).
    """
    if account_of(one.jid) == one.jid:
        return Level.UNACKNOWLEDGED
    if one.qos is not None:
        return one.qos
    return config.qos if asks(config, one) and is_able(one.jid) else Level.UNACKNOWLEDGED


def asks(config: NodeConfig, one: Subscription) -> bool:
    """Return whether the level depends on what the client of the subscriber can do."""
    depends = config.queueing and config.qos is not Level.UNACKNOWLEDGED and one.qos is None
    return depends and account_of(one.jid) != one.jid


def levels_of(
    config: NodeConfig, line: Iterable[Subscription], is_able: Callable[[Jid], bool | None]
) -> dict[Jid, Level]:
    """Return the levels of subscribers that get something else than messages; most queues have none."""
    if config.qos is Level.UNACKNOWLEDGED:
        line = [one for one in line if one.qos is not None]
    found = {one.jid: level_of(config, one, is_able) for one in line}
    return {jid: level for jid, level in found.items() if level is not Level.UNACKNOWLEDGED}
