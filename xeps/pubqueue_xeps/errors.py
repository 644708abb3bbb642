"""What can go wrong for a bot author; each docstring is the message when nothing more is known.

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
├── ItemDead
├── LockLost
└── NotConfirmed
    └── GoneUnconfirmed
"""

# ruff: noqa: N818 - the names say what happened, the root says that it is an error


class PubqueueError(Exception):
    """The queue could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").partition("\n")[0])


class ConfigurationError(PubqueueError, ValueError):
    """The connection is not set up, or wrongly."""


class LoginFailed(PubqueueError, ConnectionError):
    """The XMPP server did not let the client in."""


class LoginRefused(LoginFailed):
    """The XMPP server refused the account or its password; asking again does not help."""


class ServerUnreachable(LoginFailed):
    """The XMPP server cannot be reached now, or lets nobody in; asking again may help."""


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


class ItemDead(PubqueueError):
    """The item is there already, and dead: no worker gets it before an owner redrives it."""


class LockLost(PubqueueError):
    """The item is no longer locked to this worker: its work may be done again elsewhere."""


class NotConfirmed(PubqueueError):
    """The service did not confirm in time; whether the item is still there is not known."""


class GoneUnconfirmed(NotConfirmed):
    """The item is gone; whether this worker's retract deleted it, or another's, is not known."""
