"""A user of the configuration, and the credentials that a client sends."""

from __future__ import annotations

from enum import StrEnum, unique
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from pubqueue.app.accounts.passwords import Scrypt
    from pubqueue.app.accounts.subjects import Subject

SHORTEST_TOKEN: Final = 20
"""The minimum characters of a bearer token, so that a random one cannot be guessed."""


@unique
class Role(StrEnum):
    """What a user may do in addition to its affiliations with nodes."""

    VIEWER = "viewer"
    """May see every queue on the page."""
    OPERATOR = "operator"
    """May also change every queue on the page, and see payloads."""
    ADMIN = "admin"
    """May do everything on every node, in every protocol, as the accounts in `admins`."""


class User(Struct, frozen=True):
    """A user of the configuration, with its credentials."""

    name: str
    password: Scrypt | None = None
    tokens: frozenset[str] = frozenset()
    """SHA-256 digests of bearer tokens, in hexadecimal digits."""
    certificate: Subject | None = None
    roles: frozenset[Role] = frozenset()
    local: bool = False
    faces: frozenset[str] | None = None
    """The names of the faces at which the user may log in; None: all."""
    projects: frozenset[str] | None = None
    """The projects of gRPC that exist for the user; None: all."""

    def may_enter(self, face: str) -> bool:
        """Return whether the user may log in at this face."""
        return self.faces is None or face in self.faces

    @property
    def marks(self) -> frozenset[str]:
        """Return the mark of each of the user's credentials: a changed password has another one."""
        ways = {f"token {digest}" for digest in self.tokens}
        if self.password is not None:
            ways.add(f"password {self.password.text}")
        if self.certificate is not None:
            ways.add(f"certificate {self.certificate}")
        return frozenset(map(mark_of, ways))


def mark_of(way: str) -> str:
    """Return the mark of a credential, from which the credential cannot be computed."""
    return sha256(way.encode()).hexdigest()[:32]


class Plain(Struct, frozen=True):
    """A name and a password, as in SASL PLAIN, STOMP and HTTP Basic."""

    name: str
    password: str

    def __repr__(self) -> str:
        """Show neither: people also type passwords into the field of the name."""
        return "Plain(...)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Show as little."""
        return []


class Bearer(Struct, frozen=True):
    """A token (RFC 6750)."""

    token: str

    def __repr__(self) -> str:
        """Show only that there is one."""
        return "Bearer(...)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Show as little."""
        return []


class Certificate(Struct, frozen=True):
    """The subject of a client certificate that the listener has verified: `subject` of `ssl.SSLSocket.getpeercert`."""

    subject: tuple[tuple[tuple[str, str], ...], ...]


Credentials = Plain | Bearer | Certificate
