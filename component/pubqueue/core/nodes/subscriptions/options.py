"""The options of a subscription (XEP-0060 6.3): its window, whether anything is delivered, and when it ends.

A value that the service would not act on is refused: nothing is accepted and then ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.addresses import account_of
from pubqueue.core.decision import Refusal, Refused
from pubqueue.core.model import Level, Millis, later, seconds

if TYPE_CHECKING:
    from pubqueue.core.model import Jid, Node, Subscription

WINDOW: Final = "queue_requests"
DELIVER: Final = "deliver"
EXPIRE: Final = "expire"
LOCK: Final = "lock_timeout"
LEVEL: Final = "qos"
"""The options by their names here."""

MAX_LEASE: Final = seconds(366 * 86_400)
"""A longer lease is shortened to this (XEP-0060 12.19)."""

REMINDED_AHEAD: Final = seconds(86_400)
"""The time between the reminder and the end of a lease, or a tenth of a short lease."""


class Lease(Struct, frozen=True, gc=False):
    """How long a subscription lasts: until a moment, while its JID is available, or until it is ended."""

    until: Millis | None = None
    temporary: bool = False


class Options(Struct, frozen=True, gc=False):
    """Requested options of a subscription; None for an option that is not given. The window is text or a number.

    `objection` is what the face could not read; without a number it counts even if there is no
    window.
    """

    queue_requests: str | int | None = None
    objection: Refused | None = None
    deliver: bool | None = None
    lease: Lease | None = None
    lock_timeout: str | int | None = None
    """Seconds; as text it may be empty: the queue's own again."""
    qos: str | None = None
    """The level of deliveries; it may be empty: that of the queue again."""


class Granted(Struct, frozen=True, gc=False):
    """The options that a subscription will have. Without a window (None) none has ever been requested.

    `configured` means that options other than the window were requested.
    """

    queue_requests: int | None
    deliver: bool
    expire: Millis | None
    remind: Millis | None
    temporary: bool
    configured: bool = False
    lock_timeout: int | None = None
    qos: Level | None = None


def grant(
    jid: Jid, options: Options | None, node: Node, before: Subscription | None, now: Millis
) -> Granted | Refused:
    """Return the granted options for those that `jid` requests; the others stay as they were `before`."""
    window = read_window(options, node, has_one=before is not None)
    if isinstance(window, Refused):
        return window
    lock = read_lock_timeout(options, node, before)
    if isinstance(lock, Refused):
        return lock
    level = read_level(jid, options, node, before)
    if isinstance(level, Refused):
        return level
    deliver = before is None or before.deliver
    expire = None if before is None else before.expire
    remind = None if before is None else before.remind
    temporary = node.config.tempsub if before is None else before.temporary
    configured = options is not None and (options.lock_timeout, options.qos) != (None, None)
    if options is not None and options.deliver is not None:
        deliver, configured = options.deliver, True
    if options is not None and options.lease is not None:
        lease, configured = options.lease, True
        if lease.until is not None and lease.until <= now:
            return _no(f"{EXPIRE}: a future date and time", EXPIRE)
        expire, remind = _term(lease, now)
        temporary = lease.temporary or node.config.tempsub
    return Granted(window, deliver, expire, remind, temporary, configured, lock, level)


def _term(lease: Lease, now: Millis) -> tuple[Millis | None, Millis | None]:
    """Return when the lease ends, and when the reminder is due."""
    if lease.until is None:
        return None, None
    end = min(lease.until, later(now, MAX_LEASE))
    return end, Millis(end - min(REMINDED_AHEAD, (end - now) // 10))


def read_window(options: Options | None, node: Node, *, has_one: bool) -> int | Refused | None:
    """Return the window that the options ask for, up to the node's bound (XEP-0254 row 7).

    None means that none was requested. Only a queue node has windows; a subscription that `has_one` may request
    other options alone.
    """
    if options is None:
        return None
    asked = options.queue_requests
    if not node.config.queueing:
        return (
            options.objection
            if asked is None
            else _no(f"{WINDOW}: only queues have this option", WINDOW)
        )
    if options.objection is not None:
        return options.objection
    if asked is None:
        given = options.deliver, options.lease, options.lock_timeout, options.qos
        others = any(one is not None for one in given)
        return None if has_one and others else _no(f"{WINDOW} is needed, once", WINDOW)
    digits = str(asked).strip()
    if not (digits.isascii() and digits.isdigit()) or int(digits[:10]) < 1:
        return _no(f"{WINDOW}: a whole number from 1", WINDOW)
    return min(int(digits[:10]), node.config.max_queue_requests)


def read_lock_timeout(
    options: Options | None, node: Node, before: Subscription | None
) -> int | Refused | None:
    """Return how many seconds the subscriber may hold an item, up to the queue's own limit; None for the queue's own."""
    asked = None if options is None else options.lock_timeout
    if asked is None:
        return None if before is None else before.lock_timeout
    if not node.config.queueing:
        return _no(f"{LOCK}: only queues have this option", LOCK)
    digits = str(asked).strip()
    if not digits:
        return None
    if not (digits.isascii() and digits.isdigit()) or int(digits[:10]) < 1:
        return _no(
            f"{LOCK}: a whole number of seconds from 1, or empty for that of the queue", LOCK
        )
    return min(int(digits[:10]), node.config.lock_timeout)


def read_level(
    jid: Jid, options: Options | None, node: Node, before: Subscription | None
) -> Level | Refused | None:
    """Return the level of deliveries to the subscriber; None for that of the queue. Only a full JID can answer."""
    asked = None if options is None else options.qos
    if asked is None:
        return None if before is None else before.qos
    if not node.config.queueing:
        return _no(f"{LEVEL}: only queues have this option", LEVEL)
    word = asked.strip()
    if word and word not in set(Level):
        return _no(f"{LEVEL}: one of {', '.join(Level)}, or empty for that of the queue", LEVEL)
    level = Level(word) if word else None
    if level not in {None, Level.UNACKNOWLEDGED} and account_of(jid) == jid:
        return _no(f"{LEVEL} is always {Level.UNACKNOWLEDGED} for a bare JID", LEVEL)
    return level


def _no(reason: str, setting: str = "") -> Refused:
    return Refused(Refusal.INVALID_OPTIONS, reason, setting=setting)
