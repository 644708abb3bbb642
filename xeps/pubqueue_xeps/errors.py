"""The exceptions of this library; the docstring of each is its default message.

PubqueueError
├── ConfigurationError (also a ValueError)
├── LoginFailed (also a ConnectionError)
│   ├── LoginRefused
│   └── ServerUnreachable
├── Replaced (also a ConnectionError)
├── ServiceUnavailable
├── NoSuchNode
├── NotAQueue
├── Refused
│   └── FollowUpRefused
├── ItemDead
│   └── QuestionDied
├── LockLost
├── OtherId
├── NotAllPublished
├── NoReply (also a TimeoutError)
├── NoReplyWanted
├── PendingFailed (also an OSError)
└── NotConfirmed
    ├── DeliveryUnknown
    └── GoneUnconfirmed
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue_xeps.wire.publication import Published

# ruff: noqa: N818 - the names describe what happened; the root is named an error


class PubqueueError(Exception):
    """The request to the queue failed."""

    def __init__(
        self,
        message: str | None = None,
        *,
        condition: str | None = None,
        node: str | None = None,
        id: str | None = None,  # noqa: A002 - the name of the attribute
    ) -> None:
        super().__init__(message or (type(self).__doc__ or "").partition("\n")[0])
        self.condition = condition
        """The condition in the service's answer: that of XEP-0060, such as `payload-too-big`, or else that of RFC 6120
        8.3.3, such as `forbidden`. None if the error is not an answer of the service."""
        self.node = node
        """The node that the error is about, if any."""
        self.id = id
        """The id of the item that the error is about, if any."""


class ConfigurationError(PubqueueError, ValueError):
    """The connection is not configured, or not correctly."""

    def __init__(
        self, message: str | None = None, *, argument: str | None = None, source: str | None = None
    ) -> None:
        super().__init__(message)
        self.argument = argument
        """The argument or URL parameter that is missing or wrong, such as `jid` or `port`, if the error is about one."""
        self.source = source
        """Where it was read: `url`, or an environment variable. None: it was given as an argument, or not at all."""


class LoginFailed(PubqueueError, ConnectionError):
    """The XMPP server did not let the client in."""


class LoginRefused(LoginFailed):
    """The XMPP server refused the account or its password; trying again does not help."""


class ServerUnreachable(LoginFailed):
    """The XMPP server cannot be reached now, or accepts no logins; trying again may help."""


class Replaced(PubqueueError, ConnectionError):
    """Another client has logged in under the same full JID."""


class ServiceUnavailable(PubqueueError):
    """The queue service does not answer now."""


class NoSuchNode(PubqueueError):
    """The service has no such node."""


class NotAQueue(PubqueueError):
    """The node is not a work queue."""


class Refused(PubqueueError):
    """The service refused the request."""


class FollowUpRefused(Refused):
    """The service refused a follow-up of an item, so the item has not ended, and nothing was published."""

    def __init__(
        self,
        message: str | None = None,
        *,
        condition: str | None = None,
        node: str | None = None,
        id: str | None = None,  # noqa: A002 - the name of the attribute
        number: int = 0,
    ) -> None:
        super().__init__(message, condition=condition, node=node, id=id)
        self.number = number
        """Which of the follow-ups it is, from 1; the reply comes after all of them. `node` and `id` are its own."""


class ItemDead(PubqueueError):
    """The item already exists and is dead: no worker gets it until an owner redrives it."""


class QuestionDied(ItemDead):
    """The item that was asked ended without having been done: no reply comes, unless an owner redrives it."""

    def __init__(
        self,
        message: str | None = None,
        *,
        node: str | None = None,
        id: str | None = None,  # noqa: A002 - the name of the attribute
        reason: str = "",
        attempts: int | None = None,
        failures: int | None = None,
    ) -> None:
        super().__init__(message, node=node, id=id)
        self.reason = reason
        """Why: the reason of its last worker, or the service's own, such as `the time to live ended`."""
        self.attempts = attempts
        """How often it was delivered, or None if the service does not say it."""
        self.failures = failures
        """How often that failed, or None if the service does not say it."""


class LockLost(PubqueueError):
    """The item is no longer locked to this worker: its work may be done again elsewhere."""


class OtherId(PubqueueError):
    """The service has answered with another id than that of the item: it was changed on the way, and the item is not under its own."""

    def __init__(self, *, node: str | None, id: str | None, other: str) -> None:  # noqa: A002
        why = f"The item {id!r} was changed on the way: the answer names {other!r}."
        super().__init__(why, node=node, id=id)
        self.other = other
        """The id in the answer."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make it again in another process."""
        return partial(OtherId, node=self.node, id=self.id, other=self.other), ()


class NotAllPublished(PubqueueError):
    """Some of the items that were published together were not published."""

    def __init__(self, message: str, results: Sequence[Published | Exception]) -> None:
        super().__init__(message)
        self.results = results
        """The result or error of each item, in the order in which the items were given."""


class NoReply(PubqueueError, TimeoutError):
    """No reply came in time. It is safe to ask again with the same id: the work is done only once."""


class NoReplyWanted(PubqueueError):
    """The item expects no reply: it was published without asking for one."""


class NotConfirmed(PubqueueError):
    """The service did not confirm in time; it is unknown whether the item still exists."""


class GoneUnconfirmed(NotConfirmed):
    """The item is gone; it is unknown whether this worker's retract deleted it, or another's."""


class DeliveryUnknown(NotConfirmed):
    """The receiver no longer knows the message: it is unknown whether it was delivered, and it is not sent again."""


class PendingFailed(PubqueueError, OSError):
    """The file of pending messages cannot be read or written."""
