"""Logins: a user enters a password or a token once, and is then recognized by a signed cookie.

The service stores nothing about logged-in users: a cookie has the user, the credential that proved it, and the expiry time. It is
signed with a key that is derived from a secret of the service, so that it is valid after a restart, and on each instance. It becomes
invalid when the user, or the password or token that proved it, is removed.
"""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.accounts.credentials import Role
from pubqueue.monitor.page.views import same

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.accounts.accounts import Accounts, Proven

FACE: Final = "page"
"""The value in a user's `faces` for the page."""

HELD: Final = 12 * 3600
"""Seconds after which a login expires."""

MAX_ENDED: Final = 10_000
"""Maximum number of logouts that are remembered, so that a copy of a cookie becomes invalid with it."""

CHANGING: Final = frozenset({Role.OPERATOR, Role.ADMIN})
"""Roles that may change queues and see payloads."""

PARTS: Final = 5
"""Parts of a cookie: the user, the credential that proved it, the expiry time, the name of the login, the signature."""


class Login(Struct, frozen=True):
    """A login. `form` must be in each form that changes something."""

    proven: Proven
    may_change: bool
    is_admin: bool
    until: int
    name: str
    form: str


class Logins:
    """Issues and verifies cookies, as soon as `take` has a secret that all instances have. `clock` returns the seconds since 1970."""

    def __init__(
        self, accounts: Accounts, clock: Callable[[], float], seed: bytes | None = None
    ) -> None:
        self.accounts = accounts
        self._seed: bytes | None = None
        self._clock = clock
        if seed is not None:
            self.take(seed)
        self._ended: dict[str, None] = {}

    @property
    def any(self) -> bool:
        """Whether any user can log in; if not, there is no page."""
        return self.accounts.has_role_at(FACE)

    @property
    def has_secret(self) -> bool:
        """Whether cookies can be issued and verified."""
        return self._seed is not None

    def take(self, seed: bytes) -> None:
        """Issue and verify cookies by this secret from now on."""
        self._seed = hmac.digest(seed, b"pubqueue page", "sha256")

    def begin(self, proven: Proven) -> tuple[Login, str] | None:
        """Return a login for the user, and its cookie; None if the user has no role. There is a secret."""
        login = self._login(proven, int(self._clock()) + HELD, secrets.token_urlsafe(18))
        return None if login is None else (login, self._cookie(login))

    def read(self, cookie: str | None) -> Login | None:
        """Return the login of the cookie, if it is valid."""
        words = (cookie or "").split(":") if self.has_secret else []
        if len(words) != PARTS or not (words[2].isascii() and words[2].isdigit()):
            return None
        user, mark, until, name, _ = words
        proven = self.accounts.held(user, mark, FACE)
        if proven is None or name in self._ended or int(until[:20]) < self._clock():
            return None
        login = self._login(proven, int(until[:20]), name)
        if login is None or not same(self._cookie(login), cookie or ""):
            return None
        return login

    def end(self, login: Login) -> None:
        """Invalidate its cookie, on this instance."""
        self._ended[login.name] = None
        while len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]

    def sign(self, login: Login, text: str) -> str:
        """Return a signature of the text that only this login can have."""
        return self._mac(login.proven, f"said.{login.name}.{text}")

    def signed(self, login: Login, text: str, mark: str) -> bool:
        """Return whether the signature was made by `sign`."""
        return same(self.sign(login, text), mark)

    def _login(self, proven: Proven, until: int, name: str) -> Login | None:
        roles = self.accounts.roles(proven)
        if not roles:
            return None
        form = self._mac(proven, f"form.{name}")
        rights = not roles.isdisjoint(CHANGING), Role.ADMIN in roles
        return Login(proven, *rights, until, name, form)

    def _cookie(self, login: Login) -> str:
        value = f"{login.proven.name}:{login.proven.mark}:{login.until}:{login.name}"
        return f"{value}:{self._mac(login.proven, f'cookie.{value}')}"

    def _mac(self, proven: Proven, text: str) -> str:
        assert self._seed is not None, "nobody is logged in before there is a secret"
        key = hmac.digest(self._seed, f"{proven.name}:{proven.mark}".encode(), "sha256")
        sent = text.encode("utf-8", "surrogatepass")  # a cookie or a link may have any bytes
        return hmac.new(key, sent, "sha256").hexdigest()
