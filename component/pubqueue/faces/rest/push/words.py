"""The stored data of a registration of REST, of either profile."""

from __future__ import annotations

import msgspec

WINDOW = 4
"""Messages of one registration that are pushed at a time."""

ONCE = "post-message-once"
PLAIN = "post-message"

DESTINATION = "destination"
TEMPLATE = "template"
"""Relations of HornetQ: a destination of another service, and a URL with `{id}` in it."""


class PushWords(msgspec.Struct, frozen=True, tag_field="profile", tag="rest-star"):
    """The relation and the URL of the target, and the prefix of links to this service."""

    rel: str
    href: str
    base: str


class HornetqWords(msgspec.Struct, frozen=True, tag_field="profile", tag="hornetq"):
    """A push registration of HornetQ. `retries` and `wait`, in seconds, are its own; `window` is its count of sessions.

    The values of `headers` and the credentials are never shown.
    """

    rel: str
    href: str
    base: str
    method: str = "POST"
    type: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    authorization: str = ""
    retries: int = 0
    wait: float = 0.0
    disables: bool = False
    window: int = 1

    def __repr__(self) -> str:
        """Show only the target: headers and credentials are secrets."""
        return f"HornetqWords({self.href!r})"


class PullWords(msgspec.Struct, frozen=True, tag_field="profile", tag="hornetq-pull"):
    """A durable subscription of a topic, which is pulled and never pushed."""

    rel: str = "pull"
    href: str = ""


Words = PushWords | HornetqWords | PullWords
_READER: msgspec.json.Decoder[Words] = msgspec.json.Decoder(Words)


def written(words: Words) -> bytes:
    """Return the words in stored form."""
    return msgspec.json.encode(words)


def read(stored: bytes) -> Words:
    """Return stored words."""
    return _READER.decode(stored)
