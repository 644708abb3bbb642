"""Authenticates the accounts of the service, for all protocols.

An unknown name takes as long as a wrong password, and gets the same answer. A correct pair is remembered for ten minutes, as an
HMAC under a key of this process, so that only the first connection of many waits for scrypt.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from hashlib import sha256
from typing import TYPE_CHECKING, Final, assert_never

import structlog
from msgspec import Struct

from pubqueue.app.accounts import passwords
from pubqueue.app.accounts.attempts import Attempts
from pubqueue.app.accounts.comparing import Attempt, Comparing
from pubqueue.app.accounts.model import Bearer, Certificate, Plain, mark_of
from pubqueue.app.accounts.subjects import subject_of
from pubqueue.model.entities import Jid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.app.accounts.model import Credentials, Role, User
    from pubqueue.app.accounts.passwords import Scrypt
    from pubqueue.app.accounts.subjects import Subject
    from pubqueue.app.principals import Principals

log = structlog.get_logger(__name__)

REMEMBERED_FOR: Final = 600.0
"""Seconds for which a correct pair of name and password is not compared again."""

MAX_REMEMBERED: Final = 4_096
"""The maximum number of such pairs."""

BUSY: Final = 1.0
"""Seconds to wait when too many passwords wait to be compared."""


class Proven(Struct, frozen=True):
    """An authenticated account. `mark` identifies the password or token; the login is valid as long as the user has that."""

    name: str
    account: Jid
    face: str
    mark: str


class Denied(Struct, frozen=True):
    """Authentication failed. For `wait` seconds no attempt of this peer is checked; 0: it may try again at once."""

    wait: float = 0.0


class Accounts:
    """The users of the configuration, and the principals that faces make of their addresses.

    `service` is the domain of their accounts; `clock` returns seconds and is monotonic.
    """

    def __init__(
        self,
        users: Iterable[User],
        principals: Principals,
        service: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.principals = principals
        self._service, self._clock = service, clock
        self._key = secrets.token_bytes(32)
        self._attempts = Attempts(clock)
        self._comparing = Comparing(self._is_wanted, self._judged)
        self._remembered: OrderedDict[bytes, tuple[str, float]] = OrderedDict()
        self._watchers: list[Callable[[], None]] = []
        self._take(users)

    def adopt(self, users: Iterable[User]) -> None:
        """Set the users, and call the watchers: logins of removed users are no longer valid."""
        self._take(users)
        for call in tuple(self._watchers):
            call()

    def watch(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call `call` after each change of the users, to end logins that are no longer valid; return a function that stops this."""
        self._watchers.append(call)
        return lambda: self._watchers.remove(call)

    def close(self) -> None:
        """Start no more comparisons of passwords."""
        self._comparing.close()

    @property
    def users(self) -> tuple[User, ...]:
        """The users, by their names."""
        return tuple(self._users.values())

    async def prove(self, given: Credentials, *, face: str, peer: str) -> Proven | Denied:
        """Authenticate a peer of this address, at the face of this name.

        A peer with many wrong attempts has to wait: its credentials are not checked, and the result has the seconds.
        """
        if isinstance(given, Plain):
            return await self._by_password(given, Attempt("password", given.name, face, peer))
        if wait := self._attempts.wait(peer):
            return Denied(wait)
        match given:
            case Bearer():
                digest = sha256(given.token.encode("utf-8", "surrogatepass")).hexdigest()
                attempt = Attempt("token", "", face, peer)
                return self._by_what_one_has(self._tokens.get(digest), digest, attempt)
            case Certificate():
                subject = subject_of(given.subject)
                attempt = Attempt("certificate", "", face, peer)
                return self._by_what_one_has(self._certificates.get(subject), str(subject), attempt)
            case _:
                assert_never(given)

    def wait(self, peer: str, name: str = "") -> float:
        """Return the seconds for which no attempt of this peer under this name is checked; 0: it may try."""
        return self._attempts.wait(peer, name)

    def holds(self, proven: Proven) -> bool:
        """Return whether the user still exists, has the same password or token, and may log in at that face."""
        user = self._users.get(proven.name)
        return (
            user is not None
            and proven.mark in self._marks[proven.name]
            and user.may_enter(proven.face)
        )

    def held(self, name: str, mark: str, face: str) -> Proven | None:
        """Return an earlier login, of this process or another, if it is still valid. The caller has to know that it was made."""
        proven = Proven(name, self._account(name), face, mark)
        return proven if self.holds(proven) else None

    def roles(self, proven: Proven) -> frozenset[Role]:
        """Return the roles that the user has now; none if the login is no longer valid."""
        return self._users[proven.name].roles if self.holds(proven) else frozenset()

    def projects(self, proven: Proven) -> frozenset[str] | None:
        """Return the projects of gRPC that exist for the user now; None: all. None of them if the login is no longer valid."""
        return self._users[proven.name].projects if self.holds(proven) else frozenset()

    def has_role_at(self, face: str) -> bool:
        """Return whether a user with a role may log in there."""
        return any(user.roles and user.may_enter(face) for user in self._users.values())

    def _take(self, users: Iterable[User]) -> None:
        self._users = {user.name: user for user in users}
        self._marks = {user.name: user.marks for user in self._users.values()}
        self._tokens = {digest: user for user in self._users.values() for digest in user.tokens}
        self._certificates: dict[Subject, User] = {
            user.certificate: user for user in self._users.values() if user.certificate is not None
        }
        costs = [user.password.cost for user in self._users.values() if user.password is not None]
        self._decoys = [passwords.decoy(cost) for cost in sorted(costs)] or [passwords.decoy()]

    def _expected(self, name: str) -> Scrypt:
        """Return the hash to compare with; for a name without a password, a decoy of the same cost."""
        user = self._users.get(name)
        if user is not None and user.password is not None:
            return user.password
        number = int.from_bytes(sha256(name.encode("utf-8", "surrogatepass")).digest()[:8])
        return self._decoys[number % len(self._decoys)]

    async def _by_password(self, given: Plain, attempt: Attempt) -> Proven | Denied:
        if wait := self._attempts.wait(attempt.peer, attempt.name):
            return Denied(wait)
        expected = self._expected(given.name)
        pair = self._hidden(given.name, given.password)
        if not self._is_remembered(pair, expected):
            key = self._hidden(
                given.name, given.password, expected.text, attempt.face, attempt.peer
            )
            right = await self._comparing.compare(key, attempt, given.password, expected)
            if right is None:
                return Denied(self._attempts.wait(attempt.peer, attempt.name) or BUSY)
            if not right:
                return Denied()
            self._remember(pair, expected)
        user = self._users.get(given.name)
        if user is None or user.password != expected:  # the users have changed in the meantime
            return Denied()
        return self._by_what_one_has(user, expected.text, attempt)

    def _by_what_one_has(self, user: User | None, way: str, attempt: Attempt) -> Proven | Denied:
        """Authenticate by a token or a certificate; refuse an unknown one, and a user that may not log in at the face."""
        if user is None:
            return self._refuse(attempt, "", "it is not known")
        if not user.may_enter(attempt.face):
            return self._refuse(attempt, user.name, "its faces do not include this one")
        mark = mark_of(f"{attempt.scheme} {way}")
        return Proven(user.name, self._account(user.name), attempt.face, mark)

    def _account(self, name: str) -> Jid:
        return Jid(f"{name}@{self._service}")

    def _refuse(self, attempt: Attempt, user: str, why: str) -> Denied:
        self._attempts.was_wrong(attempt.peer, attempt.name)
        log.warning(
            "login.refused",
            user=user,
            scheme=attempt.scheme,
            face=attempt.face,
            peer=attempt.peer,
            why=why,
        )
        return Denied()

    def _is_wanted(self, attempt: Attempt) -> bool:
        return not self._attempts.wait(attempt.peer, attempt.name)

    def _judged(self, attempt: Attempt, right: bool) -> None:  # noqa: FBT001  # an answer
        if right:
            return
        if attempt.name in self._users:
            self._refuse(attempt, attempt.name, "the password is wrong")
        else:  # not logged by name: it may be the password, typed into the wrong field
            self._refuse(attempt, "", "there is no such user")

    # --- remembering ---

    def _hidden(self, *words: str) -> bytes:
        """Return a digest of these words, under a key of this process."""
        content = b"".join(
            len(word).to_bytes(8) + word.encode("utf-8", "surrogatepass") for word in words
        )
        return hmac.digest(self._key, content, "sha256")

    def _is_remembered(self, pair: bytes, expected: Scrypt) -> bool:
        known = self._remembered.get(pair)
        return known is not None and known[0] == expected.text and self._clock() < known[1]

    def _remember(self, pair: bytes, expected: Scrypt) -> None:
        self._remembered[pair] = expected.text, self._clock() + REMEMBERED_FOR
        self._remembered.move_to_end(pair)
        if len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)
