"""Who a user is and how it proves it: users, hashes of passwords, subjects of certificates, principals."""

from __future__ import annotations

import hmac
import re
import secrets
import unicodedata
from base64 import b64decode, b64encode
from enum import StrEnum, unique
from functools import lru_cache
from hashlib import scrypt, sha256
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from pubqueue.model.entities import Principal, account_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pubqueue.model.entities import Jid


# Passwords are kept as scrypt strings, `$scrypt$ln=14,r=8,p=1$SALT$HASH` (the PHC format), and compared with them.

USUAL: Final = (14, 8, 1)
"""log2 of N, r and p of new strings: 16 MiB and some 50 ms."""

MIN_WORK: Final = 2**17
"""The minimum N * r * p of a string: that of the usual ones."""

MAX_WORK: Final = 2**21

MAX_MEMORY_BYTES: Final = 64 << 20
"""The maximum bytes for one comparison; there are up to four at a time."""

MAX_LENGTH: Final = 1024
"""The maximum bytes of a password."""

SHORTEST: Final = 8
"""The minimum characters of a new password."""

_FORMAT: Final = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,3}),p=(\d{1,3})\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{22,86})"
)

WANTED: Final = "a scrypt string, `$scrypt$ln=14,r=8,p=1$...`; `pubqueue user password` makes one"


class Scrypt(Struct, frozen=True):
    """The stored hash of a password."""

    ln: int
    r: int
    p: int
    salt: bytes
    digest: bytes

    def matches(self, password: str) -> bool:
        """Return whether it is the password, in the same time for every password."""
        found = _hash(password, self.salt, (self.ln, self.r, self.p), len(self.digest))
        return hmac.compare_digest(found, self.digest) and fits(password)

    @property
    @lru_cache(maxsize=4096)  # noqa: B019  # hashes of the configuration, which each request with a password asks for
    def text(self) -> str:
        """Return the string for the configuration."""
        salt, digest = (b64encode(part).decode().rstrip("=") for part in (self.salt, self.digest))
        return f"$scrypt$ln={self.ln},r={self.r},p={self.p}${salt}${digest}"

    @property
    def cost(self) -> tuple[int, int, int]:
        """Return how much a comparison costs: log2 of N, r and p."""
        return self.ln, self.r, self.p

    def __rich_repr__(self) -> list[tuple[str, int]]:
        """Return the fields to show: only the cost."""
        return [("ln", self.ln), ("r", self.r), ("p", self.p)]

    def __repr__(self) -> str:
        """Show only the cost."""
        return f"Scrypt(ln={self.ln}, r={self.r}, p={self.p})"


def fits(password: str) -> bool:
    """Return whether it is short enough to be a password."""
    return len(_bytes(password)) <= MAX_LENGTH


def read_password_hash(text: str) -> Scrypt:
    """Return the hash in a string of the configuration.

    Raises:
        ValueError: it is not a scrypt string, or costs too little or too much; the message does not contain it.

    """
    found = _FORMAT.fullmatch(text)
    if found is None:
        raise ValueError(f"must be {WANTED}")
    ln, r, p = (int(number) for number in found.group(1, 2, 3))
    work = (r * p) << ln
    if work < MIN_WORK:
        raise ValueError(f"ln={ln},r={r},p={p} is too weak: at least ln=14,r=8,p=1")
    if work > MAX_WORK or 128 * r << ln > MAX_MEMORY_BYTES:
        raise ValueError(f"ln={ln},r={r},p={p} costs too much: at most ln=16,r=8,p=4")
    try:
        salt, digest = (b64decode(part + "=" * (-len(part) % 4)) for part in found.group(4, 5))
    except ValueError:
        raise ValueError(f"must be {WANTED}") from None
    one = Scrypt(ln, r, p, salt, digest)
    if one.text != text:  # cut off, or written in an unusual way
        raise ValueError(f"must be {WANTED}")
    return one


def make(password: str) -> Scrypt:
    """Return the hash of a new password, with a random salt.

    Raises:
        ValueError: it is too short or too long.

    """
    if len(password) < SHORTEST:
        raise ValueError(f"a password has at least {SHORTEST} characters")
    if not fits(password):
        raise ValueError(f"a password has at most {MAX_LENGTH} bytes")
    salt = secrets.token_bytes(16)
    return Scrypt(*USUAL, salt, _hash(password, salt, USUAL, 32))


def decoy(cost: tuple[int, int, int] = USUAL) -> Scrypt:
    """Return a hash that no password matches, to compare at the same cost if there is no password."""
    return Scrypt(*cost, secrets.token_bytes(16), secrets.token_bytes(32))


def _bytes(password: str) -> bytes:
    # as in OpaqueString (RFC 8265): clients and terminals compose letters differently
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")


def _hash(password: str, salt: bytes, cost: tuple[int, int, int], length: int) -> bytes:
    ln, r, p = cost
    memory = (128 * r << ln) + 128 * r * p + (1 << 20)
    return scrypt(
        _bytes(password)[:MAX_LENGTH], salt=salt, n=1 << ln, r=r, p=p, maxmem=memory, dklen=length
    )


# A user of the configuration, and the credentials that a client sends.


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


@lru_cache(maxsize=4096)
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


def credentials_in(fields: Sequence[str]) -> Plain | Bearer | None:
    """Return the credentials in the fields `Authorization` of a request: Basic (RFC 7617, in UTF-8) or Bearer (RFC 6750).

    None unless there is exactly one field and it is valid.
    """
    if len(fields) != 1:
        return None
    scheme, _, value = fields[0].strip().partition(" ")
    value = value.strip()
    match scheme.lower():
        case "bearer" if value:
            return Bearer(value)
        case "basic":
            return _basic(value)
        case _:
            return None


def _basic(value: str) -> Plain | None:
    try:
        text = b64decode(value, validate=True).decode()
    except ValueError:  # not base64, or not UTF-8
        return None
    name, colon, password = text.partition(":")
    return Plain(name, password) if colon else None


# Subjects of certificates: as they are written in the configuration, and as Python's ssl returns them.
#
# Programs print the parts of a subject in either order (RFC 4514 in the reverse order of `openssl x509`), so the order does not
# matter. All parts do: a subject with an additional part is another one.

Subject = tuple[tuple[str, str], ...]
"""Pairs of a type, by its long name, and a value, sorted."""

LONG: Final = {
    "C": "countryName",
    "CN": "commonName",
    "DC": "domainComponent",
    "EMAILADDRESS": "emailAddress",
    "GN": "givenName",
    "L": "localityName",
    "O": "organizationName",
    "OU": "organizationalUnitName",
    "SERIALNUMBER": "serialNumber",
    "SN": "surname",
    "ST": "stateOrProvinceName",
    "STREET": "streetAddress",
    "UID": "userId",
}
"""Long names, which ssl uses, by the short names."""

_NAMES: Final = LONG | {name.upper(): name for name in LONG.values()}
_PART: Final = re.compile(r"\s*([A-Za-z]+|\d+(?:\.\d+)+)\s*=\s*((?:[^\\,+]|\\.)*)\s*([,+]|\Z)")
_ESCAPED: Final = re.compile(r"\\(.)")


def read_subject(text: str) -> Subject:
    r"""Return a subject that is written as `CN=etl,O=example`; a comma in a value is written `\,`.

    Raises:
        ValueError: it is not a subject.

    """
    found: list[tuple[str, str]] = []
    at, more = 0, True
    while more:
        part = _PART.match(text, at)
        if part is None or not part[2].strip():
            raise ValueError(
                f"must be the subject of a certificate, such as CN=etl,O=example, not {text!r}"
            )
        kind = _NAMES.get(part[1].upper(), part[1])
        if kind.isalpha() and kind not in LONG.values():
            raise ValueError(
                f"has no known type {kind!r}: one of {', '.join(LONG)}, or numbers with dots"
            )
        found.append((kind, _ESCAPED.sub(r"\1", part[2].strip())))
        at, more = part.end(), bool(part[3])
    return tuple(sorted(found))


def subject_of(certificate: Iterable[Iterable[tuple[str, str]]]) -> Subject:
    """Return the subject of a certificate that ssl has verified."""
    return tuple(sorted(pair for parts in certificate for pair in parts))


# Principals: an account with its rights by the service's own settings, the same for every face.

REMEMBERED = 4096
"""The maximum number of addresses whose principals are cached."""


class Principals:
    """Makes principals of addresses that a face has authenticated: administrators or not, local or not.

    `admins` are accounts; the accounts of the domain `home` are local. All parts of a process share one instance, so a
    change of the settings applies to all of them.
    """

    def __init__(self, *, admins: Iterable[Jid] = (), home: str) -> None:
        self._admins = frozenset(admins)
        self._home = home
        self._local: frozenset[Jid] = frozenset()
        self._anonymous: frozenset[str] = frozenset()
        self._rosters: frozenset[str] = frozenset()
        self._projects: Mapping[Jid, frozenset[str] | None] = {}
        self._are_named = False
        self._made = lru_cache(maxsize=REMEMBERED)(self._make)
        self.of: Callable[[Jid], Principal] = self._made

    def appoint(self, admins: Iterable[Jid]) -> None:
        """Set the administrators."""
        self._admins = frozenset(admins)
        self._made.cache_clear()

    def welcome(self, accounts: Iterable[Jid]) -> None:
        """Set the accounts that are local whatever their domain."""
        self._local = frozenset(accounts)
        self._made.cache_clear()

    def bar(self, anonymous: Iterable[str]) -> None:
        """Set the domains whose accounts are anonymous."""
        self._anonymous = frozenset(anonymous)
        self._made.cache_clear()

    def grant(self, domains: Iterable[str]) -> None:
        """Set the domains whose accounts' rosters can be requested."""
        self._rosters = frozenset(domains)
        self._made.cache_clear()

    def assign(self, projects: Mapping[Jid, frozenset[str] | None]) -> None:
        """Set the projects of accounts; None: all. If those of any are named, none exist for accounts of foreign servers."""
        self._projects = projects
        self._are_named = any(one is not None for one in projects.values())
        self._made.cache_clear()

    def _make(self, address: Jid) -> Principal:
        account = account_of(address)
        domain = account.rpartition("@")[2]
        local = domain == self._home or account in self._local
        return Principal(
            address,
            admin=account in self._admins,
            local=local,
            projects=self._projects.get(
                account, frozenset() if self._are_named and not local else None
            ),
            rosters=domain in self._rosters,
            anonymous=domain in self._anonymous,
        )

    def service(self, address: Jid) -> Principal:
        """Return the principal of the service itself, which may do what its operator has configured."""
        return Principal(address, admin=True)
