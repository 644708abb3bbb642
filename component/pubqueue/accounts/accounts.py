"""Authenticates the accounts of the service, for all protocols.

An unknown name takes as long as a wrong password, and gets the same answer. A correct pair is remembered for ten minutes, as an
HMAC under a key of this process, so that only the first connection of many waits for scrypt.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import sys
import threading
import time
from collections import OrderedDict, deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final, assert_never

import structlog
from msgspec import Struct

from pubqueue.accounts import credentials
from pubqueue.accounts.credentials import Bearer, Certificate, Plain, mark_of, subject_of
from pubqueue.model.entities import Jid, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.accounts.credentials import Credentials, Principals, Role, Scrypt, Subject, User
    from pubqueue.accounts.local_key import Claim, LocalKey
    from pubqueue.model.entities import Millis


log = structlog.get_logger(__name__)

REMEMBERED_FOR: Final = 600.0
"""Seconds for which a correct pair of name and password is not compared again."""

MAX_REMEMBERED: Final = 4_096
"""The maximum number of such pairs."""

BUSY: Final = 1.0
"""Seconds to wait when too many passwords wait to be compared."""


BY_KEY: Final = "key"
"""The mark of an operator on the host of the service, who has signed with its key."""


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

    `service` is the domain of their accounts; `clock` returns seconds and is monotonic, `calendar` the seconds since 1970.
    """

    def __init__(
        self,
        users: Iterable[User],
        principals: Principals,
        service: str,
        clock: Callable[[], float] = time.monotonic,
        calendar: Callable[[], float] = time.time,
    ) -> None:
        self._calendar = calendar
        self._seen: dict[str, tuple[Millis, str]] = {}
        self.principals = principals
        self._service, self._clock = service, clock
        self._key = secrets.token_bytes(32)
        self._attempts = Attempts(clock)
        self._comparing = Comparing(self._is_wanted, self._judged)
        self._remembered: OrderedDict[bytes, tuple[str, float]] = OrderedDict()
        self._watchers: list[Callable[[], None]] = []
        self.local_key: LocalKey | None = None
        """The key of this host, if operators there may sign with it."""
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

    def seen(self, name: str) -> tuple[Millis, str] | None:
        """Return when a user was last proven in this process, and at which face; None: not yet."""
        return self._seen.get(name)

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

    def prove_by_key(
        self, claim: Claim, method: str, target: str, *, face: str, peer: str
    ) -> Proven | Denied:
        """Authenticate a request that is signed with the key of this host: its sender acts for the service itself.

        Unlike with other credentials, wrong attempts of the peer do not hold up an operator who has the key.
        """
        if self.local_key is not None and self.local_key.proves(claim, method, target):
            return Proven(claim.by, Jid(self._service), face, BY_KEY)
        if wait := self._attempts.wait(peer):
            return Denied(wait)
        attempt = Attempt("key", "", face, peer)
        return self._refuse(attempt, "", "it is not signed with the key of this host, or not now")

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

    def has_role_at(self, face: str) -> bool:
        """Return whether a user with a role may log in there."""
        return any(user.roles and user.may_enter(face) for user in self._users.values())

    def _take(self, users: Iterable[User]) -> None:
        self._users = {user.name: user for user in users}
        self._seen = {name: seen for name, seen in self._seen.items() if name in self._users}
        named = {self._account(name): user.projects for name, user in self._users.items()}
        self.principals.assign(named)
        self._marks = {user.name: user.marks for user in self._users.values()}
        self._tokens = {digest: user for user in self._users.values() for digest in user.tokens}
        self._certificates: dict[Subject, User] = {
            user.certificate: user for user in self._users.values() if user.certificate is not None
        }
        costs = [user.password.cost for user in self._users.values() if user.password is not None]
        self._decoys = [credentials.decoy(cost) for cost in sorted(costs)] or [credentials.decoy()]

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
        self._seen[user.name] = seconds(self._calendar()), attempt.face
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
        content = "".join([f"{len(word)} {word}" for word in words])
        return hmac.digest(self._key, content.encode("utf-8", "surrogatepass"), "sha256")

    def _is_remembered(self, pair: bytes, expected: Scrypt) -> bool:
        known = self._remembered.get(pair)
        return known is not None and known[0] == expected.text and self._clock() < known[1]

    def _remember(self, pair: bytes, expected: Scrypt) -> None:
        self._remembered[pair] = expected.text, self._clock() + REMEMBERED_FOR
        self._remembered.move_to_end(pair)
        if len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)


# Limits wrong attempts: each peer waits longer and longer, and earlier if there are many wrong attempts in total.
#
# A peer is counted by user name, so a program with a wrong password does not lock out the others on its host. A peer with wrong
# attempts under many names waits under all names. Correct credentials from another peer are always accepted, so an attacker
# cannot lock users out.

FREE: Final = 3
"""Wrong attempts of a peer under one name without a wait: people mistype."""

FREE_NAMES: Final = 10
"""Names with wrong attempts of a peer before it waits under every name."""

MAX_WAIT: Final = 60.0
"""The maximum seconds that a peer waits after a wrong attempt."""

FORGOTTEN: Final = 900.0
"""Seconds without a wrong attempt after which a count is reset."""

MANY: Final = 60
"""Wrong attempts of all peers in a minute; beyond this, each wrong attempt causes the longest wait at once."""

MINUTE: Final = 60.0

MAX_KNOWN: Final = 10_000
"""The maximum number of remembered pairs of peer and name, and of peers; the one with the oldest wrong attempt is dropped."""

MAX_NAME_LENGTH: Final = 65
"""The characters of a name that are compared: no user has a longer name."""


class Wrong(Struct):
    """The record of a peer: its wrong attempts, the time of the last one, and until when it waits."""

    count: int
    last: float
    until: float


class Count:
    """Counts wrong attempts by key; the first `free` ones cause no wait."""

    def __init__(self, clock: Callable[[], float], free: int) -> None:
        self._clock, self._free = clock, free
        self._known: OrderedDict[str, Wrong] = OrderedDict()
        self._minute = 0.0
        self._in_all = 0

    def wait(self, key: str) -> float:
        """Return the seconds for which no attempt of this key is checked; 0: it may try."""
        known = self._known.get(key)
        return 0.0 if known is None else max(0.0, known.until - self._clock())

    def was_wrong(self, key: str) -> int:
        """Count a wrong attempt; return how many there were in a row."""
        now = self._clock()
        if now - self._minute >= MINUTE:
            self._minute, self._in_all = now, 0
        self._in_all += 1
        known = self._known.get(key)
        count = 1 if known is None or now - known.last > FORGOTTEN else known.count + 1
        self._known[key] = Wrong(count, now, now + self._cost(count))
        self._known.move_to_end(key)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return count

    def _cost(self, count: int) -> float:
        """Return the wait after so many wrong attempts in a row, in seconds."""
        if self._in_all > MANY:
            return MAX_WAIT
        return 0.0 if count <= self._free else min(MAX_WAIT, 2.0 ** min(count - self._free - 1, 10))


class Attempts:
    """Counts wrong attempts. `clock` returns seconds and is monotonic. A token has no name."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._names = Count(clock, FREE)
        self._peers = Count(clock, FREE_NAMES)

    def wait(self, peer: str, name: str = "") -> float:
        """Return the seconds for which no attempt of this peer under this name is checked; 0: it may try."""
        key = _of(peer)
        return max(self._peers.wait(key), self._names.wait(_named(key, name)))

    def was_wrong(self, peer: str, name: str = "") -> None:
        """Count a wrong attempt."""
        key = _of(peer)
        if self._names.was_wrong(_named(key, name)) == 1:
            self._peers.was_wrong(key)


def _named(key: str, name: str) -> str:
    return f"{key} {name[:MAX_NAME_LENGTH]}"


@lru_cache(maxsize=4096)
def _of(address: str) -> str:
    """Return the key of an address. A host usually has a whole /64 network of IPv6, so its addresses count together."""
    try:
        read = ip_address(address)
    except ValueError:
        return address
    if isinstance(read, IPv6Address):
        if read.ipv4_mapped is not None:
            return str(read.ipv4_mapped)
        return str(int(read) >> 64)
    return str(read)


# Compares passwords outside the event loop: four at a time, in order, and the same pair of one peer once.
#
# scrypt takes memory and time on purpose, and strangers decide how often it runs. So the number of waiting comparisons is bounded,
# and a peer that has to wait because of other wrong attempts meanwhile is not compared.

AT_ONCE: Final = 4
"""Comparisons at a time; each needs the memory of its scrypt string, usually 16 MiB."""

NICENESS: Final = 10
"""The niceness of these threads: strangers decide how much work they have."""

MAX_WAITING: Final = 256
"""The maximum number of comparisons that wait or run; more are refused."""


def _give_way() -> None:
    """Lower the priority of this thread below that of the event loop."""
    if sys.platform == "linux":  # only Linux has a priority for each thread
        this = os.PRIO_PROCESS, threading.get_native_id()
        with suppress(OSError):
            os.setpriority(*this, os.getpriority(*this) + NICENESS)


class Attempt(Struct, frozen=True):
    """An attempt to log in: the given name, the peer and the face."""

    scheme: str
    name: str
    face: str
    peer: str


class Comparison(Struct, eq=False):
    """A password to compare. `expected` is a decoy if the user has no password or does not exist."""

    key: bytes
    attempt: Attempt
    password: str
    expected: Scrypt
    answer: asyncio.Future[bool | None]


class Comparing:
    """Makes comparisons. `is_wanted` is asked before each; `judged` is called with the result, even if the caller is gone."""

    def __init__(
        self,
        is_wanted: Callable[[Attempt], bool],
        judged: Callable[[Attempt, bool], None],
    ) -> None:
        self._is_wanted, self._judged = is_wanted, judged
        self._threads = ThreadPoolExecutor(
            AT_ONCE, thread_name_prefix="password", initializer=_give_way
        )
        self._known: dict[bytes, Comparison] = {}
        self._waiting: deque[Comparison] = deque()
        self._running = 0

    async def compare(
        self, key: bytes, attempt: Attempt, password: str, expected: Scrypt
    ) -> bool | None:
        """Return whether it is the password; None if it was not compared. Comparisons with the same `key` are made once."""
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MAX_WAITING:
                return None
            answer = asyncio.get_running_loop().create_future()
            known = self._known[key] = Comparison(key, attempt, password, expected, answer)
            self._waiting.append(known)
            self._go_on()
        # a caller that goes meanwhile neither ends it for others nor escapes being counted
        return await asyncio.shield(known.answer)

    def close(self) -> None:
        """Start no more comparisons; those under way end by themselves."""
        while self._waiting:
            self._end(self._waiting.popleft(), None)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _go_on(self) -> None:
        while self._waiting and self._running < AT_ONCE:
            one = self._waiting.popleft()
            if self._is_wanted(one.attempt):
                self._begin(one)
            else:
                self._end(one, None)

    def _begin(self, one: Comparison) -> None:
        self._running += 1
        loop = asyncio.get_running_loop()
        found = loop.run_in_executor(self._threads, one.expected.matches, one.password)
        found.add_done_callback(lambda found: self._done(one, found))

    def _done(self, one: Comparison, found: asyncio.Future[bool]) -> None:
        self._running -= 1
        right = None
        if not found.cancelled():
            if (problem := found.exception()) is None:
                right = found.result()
                self._judged(one.attempt, right)
            else:  # there was no memory for it
                log.error("login.failed", why=type(problem).__name__)
        self._end(one, right)
        self._go_on()

    def _end(self, one: Comparison, right: bool | None) -> None:  # noqa: FBT001  # an answer
        del self._known[one.key]
        if not one.answer.done():
            one.answer.set_result(right)
