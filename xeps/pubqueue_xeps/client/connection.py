"""The connection of a worker or publisher: from arguments, a URL, or the environment.

    xmpp://bot@example.org/queue.example.org?host=127.0.0.1&port=5222&tls=off

is the account, as a bare or full JID, and the address of the service, as RFC 5122 writes them. Query parameters:

- `host`, `port`: the server, if DNS does not name it;
- `tls`: required (STARTTLS, the default), direct (from the first byte), or off, for a loopback address only;
- `ca_file`: certificate authorities that replace the system's;
- `node`: the node of a worker; repeat it for several nodes.

The environment has the URL in `PUBQUEUE_URL`, and in `PUBQUEUE_SERVICES` the services in place of that of the URL if there
are several, with commas between them. The password is never in a URL, because URLs end up in logs: it is in
`PUBQUEUE_PASSWORD`, or in the first line of the file that `PUBQUEUE_PASSWORD_FILE` names. Arguments outrank the URL,
which is ignored if both the account and the service are given as arguments.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from slixmpp.jid import JID, InvalidJID

from pubqueue_xeps.client.xmpp_client import Client, Tls, make_client
from pubqueue_xeps.errors import ConfigurationError
from pubqueue_xeps.wire.services import Services, read_services

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

URL: Final = "PUBQUEUE_URL"
SERVICES: Final = "PUBQUEUE_SERVICES"
PASSWORD: Final = "PUBQUEUE_PASSWORD"  # noqa: S105 - the name of the variable
PASSWORD_FILE: Final = "PUBQUEUE_PASSWORD_FILE"  # noqa: S105 - as above
EXAMPLE: Final = "xmpp://bot@example.org/queue.example.org"


class Connect(TypedDict, total=False):
    """How a worker or publisher connects, in addition to its `jid` and `password`: keyword arguments, all of them optional."""

    service: str | None
    """The address of the service, such as `queue.example.org`."""

    services: Sequence[str] | None
    """The addresses of several services instead, among which items are distributed. One may have a mark: `queue-b.example.org=draining`
    gets no new items, `queue-c.example.org=joining` only those without a group and without an id of yours."""

    url: str | None
    """Account, service and the rest as one URL: `xmpp://bot@example.org/queue.example.org`. Other arguments outrank it."""

    host: str | None
    """The XMPP server, if DNS does not name it."""

    port: int | None
    """The port of that server: 5222."""

    tls: Tls | None
    """`required` (STARTTLS, the default), `direct` (from the first byte), or `off`, for a loopback address only."""

    ca_file: str | None
    """A file of certificate authorities that replace the system's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialConnection:
    """The settings of a connection that are known so far; None is unknown."""

    jid: str | None = None
    password: str | None = field(default=None, repr=False)
    service: str | None = None
    services: Sequence[str] | None = None
    """Several services instead of one, as `read_services` takes them."""
    nodes: tuple[str, ...] | None = None
    host: str | None = None
    port: int | None = None
    tls: Tls | None = None
    ca_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Everything needed to log in and to address the services. `jid` is a full JID."""

    jid: str
    password: str = field(repr=False)
    services: Services
    nodes: tuple[str, ...]
    host: str | None
    port: int
    tls: Tls
    ca_file: str | None
    is_resource_ours: bool = field(default=False, compare=False)
    """Whether the resource was picked at random."""

    @property
    def service(self) -> str:
        """The only service. Raises ConfigurationError if there are several: what takes one must not choose among them."""
        if not self.services.is_one:
            raise ConfigurationError(
                f"{len(self.services.names)} services are given, and this is for one: give service= or --service.",
                argument="service",
            )
        return self.services.first

    @property
    def account(self) -> str:
        """The bare JID."""
        return str(JID(self.jid).bare)

    def at(self, service: str) -> Connection:
        """Return the connection for a stream of its own to one of several services: each has its own resource."""
        return self if self.services.is_one else replace(self, jid=f"{self.jid}/{service}")

    def client(self) -> Client:
        """Make a client for `login`; the event loop has to run. Raises ValueError."""
        return make_client(
            self.jid,
            self.password,
            host=self.host,
            port=self.port,
            tls=self.tls,
            ca_file=self.ca_file,
        )


def connection(
    given: PartialConnection,
    *,
    role: str,
    url: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Connection:
    """Complete `given` from `url`, or else from the environment; `role` names the resource if none is given.

    Raises ConfigurationError, with a message of one sentence.
    """
    services, source = _given_services(given, url, environment)
    if url is not None:
        given = _completed(given, read_url(url))
    elif (given.jid is None or (given.service is None and services is None)) and (
        found := environment.get(URL)
    ):
        given = _completed(given, read_url(found, URL))
    jid = given.jid
    if services is None and given.service is not None:
        services, source = (given.service,), "service"
    if jid is None or services is None:
        missing, argument = ("account", "jid") if jid is None else ("service", "service")
        raise ConfigurationError(
            f"No {missing} is given: give {argument}= or a URL (url=, --url), or set {URL}, such as {EXAMPLE}.",
            argument=argument,
        )
    password = given.password if given.password is not None else password_in(environment)
    if password is None:
        raise ConfigurationError(
            f"There is no password for {_jid(jid, 'jid').bare}: give password=, or set {PASSWORD} or {PASSWORD_FILE}.",
            argument="password",
        )
    return Connection(
        jid=_full(jid, role),
        password=password,
        services=_services(services, source),
        nodes=given.nodes or (),
        host=given.host,
        port=5222 if given.port is None else given.port,
        tls=given.tls or "required",
        ca_file=given.ca_file,
        is_resource_ours=not _jid(jid, "jid").resource,
    )


def _given_services(
    given: PartialConnection, url: str | None, environment: Mapping[str, str]
) -> tuple[Sequence[str] | None, str]:
    """Return the list of services, and where it stands; arguments outrank the environment, a URL among them."""
    if given.services is not None:
        if given.service is not None:
            raise ConfigurationError(
                "service= and services= contradict each other: give one of them.",
                argument="services",
            )
        return given.services, "services"
    if given.service is None and url is None and (found := environment.get(SERVICES)):
        return (found,), SERVICES
    return None, "services"


def _services(given: Sequence[str], source: str) -> Services:
    if isinstance(given, str) or not all(isinstance(one, str) for one in given):
        raise ConfigurationError(
            f"{source} is {given!r}; it takes a list of addresses.", argument="services"
        )
    if source == "service":  # an address, and no mark
        return Services((str(_jid(given[0], "service")),))
    try:
        return services_of(given)
    except ConfigurationError:
        raise
    except ValueError as error:
        raise ConfigurationError(f"{error}", argument="services", source=source) from None


def services_of(given: Sequence[str]) -> Services:
    """Return the services of a list, each address in its one form; raise ValueError for a list that cannot be used."""
    return read_services(given, lambda text: str(_jid(text, "services")))


def connect(
    role: str,
    jid: str | None,
    password: str | None,
    where: Connect,
    *,
    nodes: tuple[str, ...] | None = None,
) -> Connection:
    """Complete the arguments of a worker or publisher, as `connection` does; raise TypeError for an unknown one."""
    if unknown := sorted(where.keys() - Connect.__annotations__.keys()):
        raise TypeError(f"A {role} got an unexpected keyword argument {unknown[0]!r}.")
    given = PartialConnection(
        jid=jid,
        password=password,
        service=where.get("service"),
        services=where.get("services"),
        nodes=nodes,
        host=where.get("host"),
        port=where.get("port"),
        tls=where.get("tls"),
        ca_file=where.get("ca_file"),
    )
    return connection(given, role=role, url=where.get("url"))


def read_url(url: str, name: str = "The URL") -> PartialConnection:
    """Read a URL; raise ConfigurationError, which never repeats the URL, because it may contain a password."""
    source = _source(name)
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise ConfigurationError(
            f"{name} cannot be read; {EXAMPLE} is one.", source=source
        ) from None
    words = dict(pairs)
    user, _, domain = parts.netloc.rpartition("@")
    if ":" in user or "password" in words:
        raise ConfigurationError(
            f"{name} has a password in it; put it into {PASSWORD} or {PASSWORD_FILE}, for URLs end up in logs.",
            argument="password",
            source=source,
        )
    if parts.scheme in {"http", "https"}:
        raise ConfigurationError(
            f"{name} is an address over HTTP, with which commands of operators and `pubqueue publish` work; here it takes {EXAMPLE}.",
            source=source,
        )
    service = unquote(parts.path.removeprefix("/"))
    if parts.scheme != "xmpp" or not user or not domain or not service or parts.fragment:
        raise ConfigurationError(f"{name} is not of the form {EXAMPLE}.", source=source)
    if ":" in domain:
        raise ConfigurationError(
            f"{name} has a port behind the domain; write ?port= at its end.",
            argument="port",
            source=source,
        )
    _check_words([word for word, _ in pairs], name)
    return PartialConnection(
        jid=f"{unquote(user)}@{domain}",
        service=service,
        nodes=tuple(value for word, value in pairs if word == "node") or None,
        host=words.get("host"),
        port=_port(words.get("port"), name),
        tls=_tls(words.get("tls"), name),
        ca_file=words.get("ca_file"),
    )


def _check_words(words: list[str], name: str) -> None:
    """Raise ConfigurationError for a query parameter that is unknown, or given twice."""
    if unknown := set(words) - {"host", "port", "tls", "ca_file", "node"}:
        raise ConfigurationError(
            f"{name} has {min(unknown)!r}, which means nothing there.",
            argument=min(unknown),
            source=_source(name),
        )
    if twice := [word for word in set(words) if word != "node" and words.count(word) > 1]:
        raise ConfigurationError(
            f"{name} has {min(twice)!r} more than once.",
            argument=min(twice),
            source=_source(name),
        )


def _completed(given: PartialConnection, found: PartialConnection) -> PartialConnection:
    missing = {
        name: getattr(found, name)
        for name in PartialConnection.__dataclass_fields__
        if getattr(given, name) is None
    }
    return replace(given, **missing)


def password_in(environment: Mapping[str, str]) -> str | None:
    """Return the password of the environment; None if there is none. Raises ConfigurationError."""
    if password := environment.get(PASSWORD):
        return password
    if not (name := environment.get(PASSWORD_FILE)):
        return None
    try:
        lines = Path(name).read_text("utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigurationError(
            f"The file {name} of {PASSWORD_FILE} cannot be read: {why}.",
            argument="password",
            source=PASSWORD_FILE,
        ) from None
    if not lines or not lines[0]:
        raise ConfigurationError(
            f"The file {name} of {PASSWORD_FILE} has no password in its first line.",
            argument="password",
            source=PASSWORD_FILE,
        )
    return lines[0]


def _port(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):  # noqa: PLR2004 - the last port
        raise ConfigurationError(
            f"{name} has port={text!r}; it takes a number from 1 to 65535.",
            argument="port",
            source=_source(name),
        )
    return int(text)


def _tls(text: str | None, name: str) -> Tls | None:
    for mode in get_args(Tls):
        if text == mode:
            return mode  # type: ignore[no-any-return]  # one of them
    if text is not None:
        raise ConfigurationError(
            f"{name} has tls={text!r}; it takes one of {', '.join(get_args(Tls))}.",
            argument="tls",
            source=_source(name),
        )
    return None


def _source(name: str) -> str:
    """Return where a URL was read, for an error: an environment variable or the argument."""
    return name if name == URL else "url"


def _jid(text: str, argument: str) -> JID:
    try:
        return JID(text)
    except InvalidJID:
        raise ConfigurationError(f"{text!r} is not a JID.", argument=argument) from None


def _full(text: str, role: str) -> str:
    jid = _jid(text, "jid")
    return str(jid) if jid.resource else f"{jid}/{role}-{secrets.token_hex(4)}"
