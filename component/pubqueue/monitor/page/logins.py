"""Who is logged in: a token is shown once, and from then on a cookie that is signed with it.

Nothing is kept of those who are logged in: a cookie says who it is for and until when, and only who knows the token could
have signed it. So it holds after a restart, and on every instance that has the same tokens; another token ends it.
"""

from __future__ import annotations

import hmac
import secrets
from enum import StrEnum, unique
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

HELD: Final = 12 * 3600
"""Seconds after which a login expires."""

MAX_ENDED: Final = 10_000
"""Log-outs that are remembered, so that a cookie which was copied before ends with them."""


@unique
class Role(StrEnum):
    """The rights of a login."""

    LOOK = "look"
    CHANGE = "change"
    """May change queues, and see payloads."""


class Tokens(Struct, frozen=True):
    """The tokens that open the page."""

    look: str | None = None
    change: str | None = None

    @property
    def any(self) -> bool:
        """Whether there is one at all; without any there is no page."""
        return self.look is not None or self.change is not None

    def role_of(self, token: str) -> Role | None:
        """Return the rights of the bearer of a token, in time that does not depend on how much of it is correct."""
        given = sha256(token.encode()).digest()
        found = None
        for role, known in ((Role.LOOK, self.look), (Role.CHANGE, self.change)):
            expected = sha256((known or "").encode()).digest()
            if hmac.compare_digest(given, expected) and known is not None:
                found = role
        return found

    def of(self, role: Role) -> str | None:
        """Return the token of a role."""
        return self.change if role is Role.CHANGE else self.look


class Login(Struct, frozen=True):
    """A login. `form` must be in every form that changes something."""

    role: Role
    until: int
    name: str
    form: str

    @property
    def may_change(self) -> bool:
        """Whether the login may make changes."""
        return self.role is Role.CHANGE


class Logins:
    """Makes cookies and reads them."""

    def __init__(self, tokens: Tokens, clock: Callable[[], float]) -> None:
        self._tokens = tokens
        self._clock = clock
        self._ended: dict[str, None] = {}

    def begin(self, token: str) -> tuple[Login, str] | None:
        """Return a session for the bearer of the token, and its cookie; None if the token is wrong."""
        role = self._tokens.role_of(token)
        if role is None:
            return None
        until, name = int(self._clock()) + HELD, secrets.token_urlsafe(18)
        return self._session(role, until, name), self._cookie(role, until, name)

    def read(self, cookie: str | None) -> Login | None:
        """Return whose cookie that is, if it holds."""
        role, _, rest = (cookie or "").partition(".")
        until, _, name = rest.partition(".")
        name = name.partition(".")[0]
        if (
            role not in set(Role)
            or not (until.isascii() and until.isdigit())
            or name in self._ended
        ):
            return None
        if self._tokens.of(Role(role)) is None or int(until[:20]) < self._clock():
            return None
        genuine = self._cookie(Role(role), int(until[:20]), name)
        if not hmac.compare_digest(genuine.encode(), (cookie or "").encode()):
            return None
        return self._session(Role(role), int(until[:20]), name)

    def end(self, session: Login) -> None:
        """Let its cookie hold no longer, on this instance."""
        self._ended[session.name] = None
        while len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]

    def sign(self, session: Login, text: str) -> str:
        """Return what only this session can have been given for a text."""
        return self._mac(session.role, f"said.{session.name}.{text}")

    def signed(self, session: Login, text: str, mark: str) -> bool:
        """Say whether `sign` has made this."""
        return hmac.compare_digest(self.sign(session, text).encode(), mark.encode())

    def _session(self, role: Role, until: int, name: str) -> Login:
        return Login(role, until, name, self._mac(role, f"form.{name}"))

    def _cookie(self, role: Role, until: int, name: str) -> str:
        value = f"{role}.{until}.{name}"
        return f"{value}.{self._mac(role, f'cookie.{value}')}"

    def _mac(self, role: Role, text: str) -> str:
        key = sha256(f"pubqueue page {self._tokens.of(role)}".encode()).digest()
        return hmac.new(key, text.encode(), sha256).hexdigest()
