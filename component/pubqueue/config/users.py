"""The users of the configuration, and what is wrong with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pubqueue.accounts import credentials
from pubqueue.accounts.accounts import Accounts
from pubqueue.accounts.credentials import Principals, User
from pubqueue.config.settings import first_line
from pubqueue.faces.checks import ConfigError
from pubqueue.faces.table import FACES
from pubqueue.model.entities import Jid, Principal, suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.accounts.credentials import Scrypt, Subject
    from pubqueue.config.settings import Settings, UserSettings

PLACES: Final = ("page", *(word for word, row in FACES.items() if row.has_logins))
"""Words of the page and of the faces where users log in."""

_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}")


def users_of(settings: Settings) -> tuple[User, ...]:
    """Return the users that the settings name.

    Raises:
        ConfigError: one of them cannot be a user; the message has no secret.

    """
    users = tuple(map(_read, settings.user))
    _check_once("user", ((user.name, user.name) for user in users))
    _check_once("token_sha256", ((one, user.name) for user in users for one in user.tokens))
    _check_once("certificate", ((user.certificate, user.name) for user in users))
    return users


def accounts_of(settings: Settings) -> Accounts:
    """Return the accounts of the configured users, with the principals for all faces.

    Raises:
        ConfigError: as `users_of`.

    """
    return Accounts(users_of(settings), principals_of(settings), settings.jid)


def locals_of(settings: Settings) -> tuple[Jid, ...]:
    """Return the accounts that count as local: users that are declared so, and that of callers over gRPC without credentials."""
    names = [one.name for one in settings.user if one.local]
    if settings.grpc.anonymous:
        names.append(settings.grpc.anonymous)
    return tuple(settings.account_of(name) for name in names)


def service_of(settings: Settings) -> Principal:
    """Return the principal in whose name the service itself acts."""
    return Principal(Jid(settings.jid), admin=True)


def principals_of(settings: Settings) -> Principals:
    """Return the rights of accounts: local are those of the domain above the service's own."""
    principals = Principals(admins=settings.administrators(), home=settings.jid.partition(".")[2])
    principals.bar(settings.anonymous_domains)
    principals.welcome(locals_of(settings))
    return principals


def summary(users: Iterable[User]) -> str:
    """Return how many users there are, and by what they can log in."""
    users = tuple(users)
    ways = {
        "password": sum(user.password is not None for user in users),
        "token": sum(bool(user.tokens) for user in users),
        "certificate": sum(user.certificate is not None for user in users),
    }
    found = ", ".join(f"{count} with a {way}" for way, count in ways.items() if count)
    return f"{len(users)}" + (f", {found}" if found else "")


def locked_out(users: Iterable[User]) -> list[str]:
    """Return a sentence about each user without a way to log in."""
    return [
        f"user {user.name!r} has no password, token or certificate, so no login as this user is possible"
        for user in users
        if not user.marks
    ]


def _read(one: UserSettings) -> User:
    return User(
        name=one.name,
        password=_password(one),
        tokens=frozenset(_digest(one, text) for text in one.token_sha256),
        certificate=_subject(one),
        roles=frozenset(one.roles),
        local=one.local,
        faces=None if one.faces is None else frozenset(_face(one, word) for word in one.faces),
        projects=None if one.projects is None else frozenset(one.projects),
    )


def _password(one: UserSettings) -> Scrypt | None:
    if one.password is not None and one.password_file is not None:
        raise _wrong(one, "password and password_file are both set; remove one of them")
    key, text = "password", one.password
    if one.password_file is not None:
        key, text = (
            f"password_file {one.password_file}",
            first_line("password_file", one.password_file),
        )
    if text is None:
        return None
    try:
        return credentials.read_password_hash(text)
    except ValueError as problem:
        raise _wrong(one, f"{key}: {problem}") from None


def _digest(one: UserSettings, text: str) -> str:
    if not _DIGEST.fullmatch(text):
        raise _wrong(
            one,
            "token_sha256 has digests of tokens, 64 hexadecimal digits each; `pubqueue user token` makes one",
        )
    return text.lower()


def _subject(one: UserSettings) -> Subject | None:
    if one.certificate is None:
        return None
    try:
        return credentials.read_subject(one.certificate)
    except ValueError as problem:
        raise _wrong(one, f"certificate {problem}") from None


def _face(one: UserSettings, word: str) -> str:
    if word not in PLACES:
        known = f"{', '.join(PLACES)}{suggestion(word, PLACES)}"
        raise _wrong(one, f"faces has {word!r}; one of {known}")
    return word


def _wrong(one: UserSettings, why: str) -> ConfigError:
    return ConfigError(f"user {one.name!r}: {why}", key="user", value=one.name)


def _check_once(what: str, found: Iterable[tuple[object, str]]) -> None:
    """Refuse what two users have: it would not show which of them it is."""
    seen: dict[object, str] = {}
    for thing, name in found:
        if thing is not None and thing in seen:
            both = f"user {name!r} is declared twice"
            if what != "user":
                both = f"users {seen[thing]!r} and {name!r} have the same {what}"
            raise ConfigError(both, key="user", value=name)
        seen[thing] = name
