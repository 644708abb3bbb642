"""What can go wrong for a bot author; each docstring is the message when nothing more is known.

PubqueueError
├── LoginFailed (ConnectionError)
"""


class PubqueueError(Exception):
    """The queue could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").partition("\n")[0])


class LoginFailed(PubqueueError, ConnectionError):  # noqa: N818  reads as what happened
    """The XMPP server did not let the client in."""
