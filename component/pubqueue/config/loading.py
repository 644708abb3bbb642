"""Reads the configuration from its file and the environment, and explains what is wrong in it."""

from __future__ import annotations

import os
import re
import tomllib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import ValidationError, inspect
from slixmpp.jid import JID, InvalidJID

from pubqueue.config.settings import USUAL_STORE, Settings
from pubqueue.config.users import users_of
from pubqueue.faces.checks import ConfigError, addresses, is_trusted, read_tls
from pubqueue.faces.listener.tls import Tls, TlsFiles, places
from pubqueue.faces.table import FACES
from pubqueue.model.entities import suggestion
from pubqueue.stores import WANTED
from pubqueue.stores.reading_errors import why

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pubqueue.faces.listener.tls import Place


# Settings from environment variables: `PUBQUEUE_` and the key in capitals, with the table's name before a table's key.
#
# Lists are written with commas, nodes as JSON. An empty variable counts as not set. A variable that is not one of our
# keys is reported (`cli.unread`) and then ignored, because container managers set variables of their own under a
# service's name.

PREFIX: Final = "PUBQUEUE_"

KeyPath = tuple[str, ...]


class BadVariableError(Exception):
    """A variable has a value that does not fit its key; the message is one sentence for the operator.

    Facts: `variable` is its name, and `key` its setting, with dots.
    """

    def __init__(self, variable: str, key: str, why: object) -> None:
        super().__init__(f"{variable}: {why}")
        self.variable, self.key = variable, key


def variables(
    kind: type[msgspec.Struct], within: KeyPath = ()
) -> Iterator[tuple[str, KeyPath, Any]]:
    """Yield each variable, the path of its key, and the key's type."""
    for field in msgspec.structs.fields(kind):
        path = (*within, field.name)
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from variables(field.type, path)
        else:
            yield PREFIX + "_".join(path).upper(), path, field.type


def given(kind: type[msgspec.Struct], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of the environment, with tables nested as in a file.

    Raises:
        BadVariableError: a value does not fit its key.

    """
    found: dict[str, Any] = {}
    for name, path, key_type in variables(kind):
        text = environment.get(name)
        if not text:
            continue
        table = found
        for step in path[:-1]:
            table = table.setdefault(step, {})
        try:
            table[path[-1]] = _value(text, key_type)
        except (ValidationError, msgspec.DecodeError) as problem:
            words = (
                explained(problem, key_type) if isinstance(problem, ValidationError) else problem
            )
            raise BadVariableError(name, ".".join(path), words) from None
    return found


def _value(text: str, key_type: Any) -> Any:  # noqa: ANN401  # a type, and what is of it
    if key_type == tuple[str, ...]:
        return [name for part in text.split(",") if (name := part.strip())]
    if getattr(key_type, "__origin__", None) in {tuple, dict}:
        return msgspec.to_builtins(msgspec.json.decode(text, type=key_type))
    return msgspec.to_builtins(msgspec.convert(text, key_type, strict=False))


# Reads the configuration and checks it: a TOML file, environment variables and flags.
#
# Flags override the environment, and the environment overrides the file. An unknown key is an error.

ENVIRONMENT: Final = {name: path for name, path, _ in variables(Settings)}
"""Every key, by its variable."""


USUAL_SECRET: Final = Path("/etc/pubqueue/secret")
"""The secret's file in the Debian package; it belongs to root, so checks by hand have to run as root."""


def _usual_secret(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the default of `secret_file`, if there is a secret at one of the usual places."""
    places = [USUAL_SECRET]
    if folder := variables.get("CREDENTIALS_DIRECTORY"):
        places.insert(0, Path(folder, "secret"))
    found = (place for place in places if os.path.exists(place))  # false if this user may not look
    return next(({"secret_file": str(place)} for place in found), {})


def load(
    file: Path | None,
    flags: Mapping[str, Any],
    variables: Mapping[str, str] = os.environ,
    *,
    with_secret: bool = True,
) -> Settings:
    """Return the settings: flags override the environment, which overrides the file.

    Without `with_secret`, the secret is not read, for callers that need only the rest.

    Raises:
        ConfigError: a key is unknown, a value does not fit, or the file cannot be read.

    """
    found: dict[str, Any] = {} if file is None else _read(file)
    try:
        _outrank(found, given(Settings, variables))
    except BadVariableError as problem:
        raise ConfigError(str(problem), key=problem.key, source=problem.variable) from None
    _outrank(found, {key: value for key, value in flags.items() if value not in (None, ())})
    if not found.get("secret") and not found.get("secret_file"):
        found |= _usual_secret(variables)
    if "jid" not in found:
        raise ConfigError(
            "jid is not set: the component's address, such as queue.example.org", key="jid"
        )
    try:
        settings = msgspec.convert(found, Settings)
    except msgspec.ValidationError as problem:
        where = f"{file}: " if file else ""
        raise ConfigError(
            where + explained(problem, Settings), key=key_of(problem), source=file
        ) from None
    _check(settings)
    if with_secret and settings.server:
        settings.shared_secret()
    jid, *admins = (JID(text).full for text in (settings.jid, *settings.admins))
    return msgspec.structs.replace(settings, jid=jid, admins=tuple(admins))


def store_address(
    file: Path | None, flag: str | None, variables: Mapping[str, str] = os.environ
) -> str:
    """Return only the address of the store, with the same precedence; this needs no secret.

    Raises:
        ConfigError: the file cannot be read, or its `store` is not an address.

    """
    found = {} if file is None else _read(file)
    address = flag or variables.get("PUBQUEUE_STORE") or found.get("store", USUAL_STORE)
    if not isinstance(address, str):
        raise ConfigError(
            f"{file}: store must be {WANTED}", key="store", value=address, source=file
        )
    return address


def _outrank(found: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Override the settings found so far; `secret` and `secret_file` replace each other."""
    for mine, other in (("secret", "secret_file"), ("secret_file", "secret")):
        if given.get(mine):
            found.pop(other, None)
    for key, value in given.items():
        table = found.get(key)
        found[key] = table | value if isinstance(table, dict) and isinstance(value, dict) else value


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ConfigError(f"{file} cannot be read: {why(file, problem)}", source=file) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{file} is not valid TOML: {problem}", source=file) from None


def _check(settings: Settings) -> None:
    """Check what the types do not, before anything starts."""
    _check_served(settings)
    settings.make_store()
    if settings.secret and settings.secret_file:
        raise ConfigError("secret and secret_file are both set; remove one of them", key="secret")
    if "@" in settings.jid or "/" in settings.jid or not _is_jid(settings.jid):
        raise ConfigError(
            f"jid must be a domain such as queue.example.org, not {settings.jid!r}",
            key="jid",
            value=settings.jid,
        )
    for key, value, (*first, last) in (
        ("log_level", settings.log_level, ("debug", "info", "warning", "error")),
        ("log_format", settings.log_format, ("logfmt", "json")),
    ):
        if value not in {*first, last}:
            raise ConfigError(f"{key} must be {', '.join(first)} or {last}", key=key, value=value)
    settings.alerts.check(settings.jid, settings.server)
    _check_people(settings)
    check_page(settings)
    _check_names("node", [node.name for node in settings.node])
    _check_names("schedule", [schedule.name for schedule in settings.schedule])


def _check_people(settings: Settings) -> None:
    """Check the accounts that are named, and that no outcast of a node has another affiliation with it."""
    people = [("admins", jid) for jid in settings.admins]
    people += [("node", jid) for one in settings.node for jid in one.people]
    people += [("limits.accounts", jid) for jid in settings.limits.accounts]
    for key, jid in people:
        if "/" in jid or not _is_jid(jid):
            raise ConfigError(
                f"{jid!r} must be a bare JID, such as admin@example.org", key=key, value=jid
            )
    for node in settings.node:
        friends = {JID(jid).bare for jid in node.friends}
        if torn := [jid for jid in node.outcasts if JID(jid).bare in friends]:
            raise ConfigError(
                f"node {node.name!r}: {torn[0]!r} is an outcast, so it cannot have another affiliation",
                key="node",
                value=torn[0],
            )


def _check_served(settings: Settings) -> None:
    """Check that something is served, and the addresses."""
    if not any(row.is_served(settings) for row in FACES.values()):
        raise ConfigError(
            "nothing is served: server is empty, and no other protocol is configured", key="server"
        )
    if settings.server:
        settings.address()
    check_http(settings)
    for row in FACES.values():
        row.check(settings)


def _check_names(kind: str, names: Sequence[str]) -> None:
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"{kind} {twice[0]!r} is declared twice", key=kind, value=twice[0])


def _is_jid(text: str) -> bool:
    try:
        return bool(JID(text).domain)
    except InvalidJID:
        return False


# Explains an error in a configuration in one sentence, with the values that are allowed.

UNKNOWN: Final = re.compile(r"unknown field `([^`]*)`")
CHOICE: Final = re.compile(r"Invalid enum value")
PLACE: Final = re.compile(r" - at `\$(.*)`$")
STEP: Final = re.compile(r"\.(\w+)|\[[^]]*\]")


def explained(problem: msgspec.ValidationError, kind: object) -> str:
    """Return msgspec's message about a value of this kind, with the values that are allowed."""
    words = str(problem)
    found = PLACE.search(words)
    there = _type_at(kind, STEP.findall(found[1] if found else ""))
    if (unknown := UNKNOWN.search(words)) and isinstance(there, inspect.StructType):
        return words + suggestion(unknown[1], (field.name for field in there.fields))
    if CHOICE.match(words) and (choices := _choices(there)):
        return f"{words}; one of {', '.join(choices)}"
    return words


def key_of(problem: msgspec.ValidationError) -> str:
    """Return the setting that msgspec refuses, with dots; empty if it is the whole configuration."""
    words = str(problem)
    found, unknown = PLACE.search(words), UNKNOWN.search(words)
    steps = [found[1].lstrip(".")] if found and found[1] else []
    return ".".join([*steps, unknown[1]] if unknown else steps)


def _type_at(kind: object, steps: Iterable[str]) -> object:
    """Return the type of the value at a place; an empty step is one into a list."""
    there: Any = inspect.type_info(kind)
    for step in steps:
        if isinstance(there, inspect.UnionType):
            there = next(one for one in there.types if not isinstance(one, inspect.NoneType))
        if step and isinstance(there, inspect.StructType):
            there = next(field.type for field in there.fields if field.name == step)
        elif isinstance(there, inspect.VarTupleType):
            there = there.item_type
        else:
            return None
    return there


def _choices(there: object) -> list[str]:
    if isinstance(there, inspect.EnumType):
        return [str(one.value) for one in there.cls]
    if isinstance(there, inspect.LiteralType):
        return [str(value) for value in there.values]
    return []


# The addresses of HTTP, its certificate, and the check that logins to the page cannot be read.


def check_http(settings: Settings) -> None:
    """Check the settings of HTTP.

    Raises:
        ConfigError: an address is not valid, or only one of certificate and key is set.

    """
    addresses("http", settings.http)
    _files(settings)


def http_places(settings: Settings) -> tuple[Place, ...]:
    """Return the addresses of HTTP, with TLS if there is a certificate; empty if HTTP is not served.

    Raises:
        ConfigError: as `check_http`; or the files cannot be used.

    """
    found = addresses("http", settings.http)
    tls = http_tls(settings)
    return found if tls is None else places(settings.http, tls)


def http_tls(settings: Settings) -> Tls | None:
    """Return the TLS of HTTP, or None without a certificate.

    Raises:
        ConfigError: the files cannot be used, or only one of them is set.

    """
    files = _files(settings)
    if files is None:
        return None
    make = partial(Tls, face="http", alpn=("http/1.1",))
    return read_tls(make, files, TlsFiles("http_certificate", "http_key"))


def _files(settings: Settings) -> TlsFiles | None:
    certificate, key = settings.http_certificate, settings.http_key
    if not certificate and not key:
        return None
    if not certificate or not key:
        lacking = "http_key" if certificate else "http_certificate"
        raise ConfigError(
            f"http_certificate and http_key belong together, and {lacking} is not set", key=lacking
        )
    if not settings.http:
        raise ConfigError(
            "http_certificate and http_key need http, the address that they are for", key="http"
        )
    return TlsFiles(certificate, key)


def check_page(settings: Settings) -> None:
    """Check that logins to the page cannot be read on the network.

    Raises:
        ConfigError: they would; or the users, or the names of proxies, have an error.

    """
    users, proxies = users_of(settings), settings.proxies()
    if proxies or settings.http_certificate:
        return
    if all(is_trusted(place.host) for place in addresses("http", settings.http)):
        return
    if any(user.roles and user.may_enter("page") for user in users):
        raise ConfigError(
            f"http: users would log in to the page at {settings.http} without TLS; use a loopback address,"
            " set http_certificate and http_key, or name the proxies that use TLS in http_proxies",
            key="http",
            value=settings.http,
        )
