"""Requests over HTTP to a service: its address, who sends them, and what is wrong if there is no answer.

The standard library's client is enough: an operator sends one request after the other. It blocks, so it works in a thread.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from pubqueue.accounts import local_key
from pubqueue_xeps.client.threads import in_thread
from pubqueue_xeps.client.tls_faults import Trust, of_handshake
from pubqueue_xeps.errors import ConfigurationError, ServerUnreachable, ServiceUnavailable

if TYPE_CHECKING:
    from urllib.parse import SplitResult

SCHEMES: Final = frozenset({"http", "https"})
EXAMPLE: Final = "https://anna@queue.example.org:9254/"

MAX_ANSWER: Final = 64 << 20
"""Bytes of an answer that are read."""

IDLE: Final = 10.0
"""Seconds after which a connection is not used again: the service, or a proxy, may be about to close it."""

AT_ONCE: Final = 8
"""Requests that are sent at the same time."""

PORTS: Final = {"http": 80, "https": 443}

NO_HTTPS: Final = "If it serves plain HTTP, write http://, which is for this machine alone."


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service is served over HTTP, and the user who logs in."""

    scheme: str
    host: str
    port: int
    path: str = "/"
    user: str = ""
    ca_file: str | None = None

    @property
    def shown(self) -> str:
        """Host and port, as sentences have them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_http(url: str) -> bool:
    """Return whether a URL is one over HTTP."""
    return url.partition(":")[0].lower() in SCHEMES


def read_url(url: str, name: str) -> Address:
    """Return the address in a URL that was given under this name.

    Raises:
        ConfigurationError: it has an error; the message never repeats the URL, because it may contain a password.

    """
    source = "url" if name == "The URL" else name
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        port = parts.port
    except ValueError:
        raise ConfigurationError(
            f"{name} cannot be read; {EXAMPLE} is one.", source=source
        ) from None
    if parts.password is not None:
        raise ConfigurationError(
            f"{name} has a password in it; put it into PUBQUEUE_PASSWORD or PUBQUEUE_PASSWORD_FILE, for URLs end up in logs.",
            argument="password",
            source=source,
        )
    if not parts.username or not parts.hostname or parts.fragment or port == 0:
        raise ConfigurationError(f"{name} is not of the form {EXAMPLE}.", source=source)
    _check_words([word for word, _ in pairs], name, source)
    if parts.scheme == "http" and not _is_loopback(parts):
        raise ConfigurationError(
            f"{name} has http:// and the host {parts.hostname}: the password would cross the network unencrypted;"
            " use https://, or http:// with 127.0.0.1.",
            source=source,
        )
    path = parts.path if parts.path.endswith("/") else f"{parts.path}/"
    where = parts.hostname, port or PORTS[parts.scheme], path
    return Address(parts.scheme, *where, unquote(parts.username), dict(pairs).get("ca_file"))


def _check_words(words: list[str], name: str, source: str) -> None:
    if unknown := set(words) - {"ca_file"}:
        why = f"{name} has {min(unknown)!r}, which means nothing there."
        raise ConfigurationError(why, argument=min(unknown), source=source)
    if len(words) > 1:
        why = f"{name} has 'ca_file' more than once."
        raise ConfigurationError(why, argument="ca_file", source=source)


def _is_loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


# Who sends a request.


class Identity(Protocol):
    """Authorizes requests, and may judge answers."""

    who: str
    """The name of the user, for sentences."""

    def authorized(self, method: str, target: str, body: bytes) -> tuple[str, str]:
        """Return the field `Authorization`, and a word for the answer."""

    def is_answer(self, word: str, answer: Answer) -> bool:
        """Return whether the answer is one of the service."""


class Login:
    """A user of the service, with its password."""

    def __init__(self, user: str, password: str) -> None:
        self.who = user
        self._field = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"

    def authorized(self, method: str, target: str, body: bytes) -> tuple[str, str]:  # noqa: ARG002  # the protocol's
        """Return name and password (RFC 7617)."""
        return self._field, ""

    def is_answer(self, word: str, answer: Answer) -> bool:  # noqa: ARG002  # as above
        """Return True: TLS, or the loopback address, vouches for the service."""
        return True


class OnItsHost:
    """An operator on the host of the service, who can read its key."""

    def __init__(self, user: str, key: bytes) -> None:
        self.who, self._key = f"{user} on this host", key
        self._user = user

    def authorized(self, method: str, target: str, body: bytes) -> tuple[str, str]:
        """Return a signature of the request."""
        return local_key.signed(self._key, method, target, body, by=self._user)

    def is_answer(self, word: str, answer: Answer) -> bool:
        """Return whether the answer is signed with the same key. A refused login has no signature."""
        if answer.status in {401, 429, 503}:
            return True
        return answer.proof == local_key.proof(self._key, word, answer.status, answer.body)


# Requests and their answers.


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that has been read."""

    status: int
    kind: str
    """The media type, without parameters."""
    body: bytes
    proof: str
    where: str
    """Where it redirects to."""


class ForeignAnswerError(ServiceUnavailable):
    """What answers is not the service."""


class HttpClient:
    """Sends requests to one address, some at the same time, each over a connection of its own."""

    def __init__(self, address: Address, identity: Identity, timeout: float) -> None:
        self.address, self.identity = address, identity
        self._timeout = timeout
        self._free: list[tuple[http.client.HTTPConnection, float]] = []
        """Connections without a request, each with the time when it was used last."""
        self._turns = asyncio.Semaphore(AT_ONCE)
        self.tls: tuple[str, str, int] | None = None
        """The TLS of the last connection: version, cipher and bits."""
        self._context = _context(address, verified=isinstance(identity, Login))

    async def request(
        self, method: str, path: str, body: bytes = b"", *, is_judged: bool = True
    ) -> Answer:
        """Send a request with a JSON body, and return its answer. `path` is relative to the service's.

        Unless `is_judged`, the answer needs no signature: only those of the API have one.

        Raises:
            ServerUnreachable: there is no connection: nothing was sent.
            ServiceUnavailable: no answer came; the request may have been done.
            ForeignAnswerError: the answer is that of another program.

        """
        target = f"{self.address.path}{path}"
        field, word = self.identity.authorized(method, target, body)
        headers = {"Authorization": field, "Accept": "application/json"}
        if body:
            headers["Content-Type"] = "application/json"
        used: list[http.client.HTTPConnection] = []
        async with self._turns:
            try:
                answer = await in_thread(
                    lambda: self._exchange(method, target, body, headers, used), "pubqueue http"
                )
            except BaseException:
                _close(used)
                raise
        assert isinstance(answer, Answer)
        if is_judged and not self.identity.is_answer(word, answer):
            raise ForeignAnswerError(
                f"What answers at {self.address.shown} has not the key of the service: another program listens there."
            )
        return answer

    def close(self) -> None:
        """Close the connections."""
        _close([connection for connection, _ in self._free])
        self._free.clear()

    def _exchange(
        self,
        method: str,
        target: str,
        body: bytes,
        headers: dict[str, str],
        used: list[http.client.HTTPConnection],
    ) -> Answer:
        """Exchange a request and its answer over a connection, which is then in `used`."""
        connection = self._connected()
        used.append(connection)
        try:
            connection.request(method, target, body or None, headers)
            response = connection.getresponse()
            read = response.read(MAX_ANSWER + 1)
        except TimeoutError:
            raise ServiceUnavailable(
                f"{self.address.shown} does not answer within {self._timeout:g} seconds."
            ) from None
        except http.client.HTTPException as problem:
            raise self._no_answer(problem) from None
        except OSError as problem:
            raise self._no_answer(problem) from None
        if len(read) > MAX_ANSWER:
            raise ForeignAnswerError(f"{self.address.shown} sends more than any answer has.")
        self._free.append((connection, monotonic()))
        kind = response.headers.get_content_type()
        proof = response.headers.get(local_key.PROOF, "")
        return Answer(response.status, kind, read, proof, response.headers.get("Location", ""))

    def _connected(self) -> http.client.HTTPConnection:
        """Return a connection, which is a new one unless one was used recently and is free."""
        while (free := self._next_free()) is not None:
            connection, used = free
            if connection.sock is not None and monotonic() - used < IDLE:
                return connection
            connection.close()
        where = self.address
        made: http.client.HTTPConnection
        if self._context is None:
            made = http.client.HTTPConnection(where.host, where.port, timeout=self._timeout)
        else:
            made = http.client.HTTPSConnection(
                where.host, where.port, timeout=self._timeout, context=self._context
            )
        try:
            made.connect()
        except ssl.SSLError as problem:
            trust = Trust(where.host, where.ca_file, "ca_file in the URL")
            why = of_handshake(problem, trust, NO_HTTPS)
            raise ServerUnreachable(f"TLS with {where.shown} failed: {why}") from None
        except TimeoutError:
            raise ServerUnreachable(
                f"{where.shown} cannot be reached: no answer within {self._timeout:g} seconds."
            ) from None
        except OSError as problem:
            why = problem.strerror or str(problem)
            raise ServerUnreachable(f"{where.shown} cannot be reached: {why}.") from None
        if isinstance(made.sock, ssl.SSLSocket) and (cipher := made.sock.cipher()):
            self.tls = made.sock.version() or "TLS", cipher[0], cipher[2]
        return made

    def _next_free(self) -> tuple[http.client.HTTPConnection, float] | None:
        try:
            return self._free.pop()
        except IndexError:  # another thread may have taken the last one
            return None

    def _no_answer(self, problem: Exception) -> ServiceUnavailable:
        shown = self.address.shown
        if isinstance(problem, http.client.BadStatusLine) and not isinstance(
            problem, http.client.RemoteDisconnected
        ):
            return ForeignAnswerError(f"{shown} does not speak HTTP.")
        hint = "" if self._context else "; if it serves https, write https://"
        return ServiceUnavailable(f"{shown} ended the connection without an answer{hint}.")


def _close(connections: list[http.client.HTTPConnection]) -> None:
    for connection in connections:
        if connection.sock is not None:
            with suppress(OSError):  # a thread may still wait for the answer
                connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()


def _context(address: Address, *, verified: bool) -> ssl.SSLContext | None:
    """Return the TLS of an address.

    On the host itself the certificate is not verified, because it has the name of the service and not that of this host: the key proves the service.

    Raises:
        ConfigurationError: the file of authorities cannot be used.

    """
    if address.scheme != "https":
        return None
    try:
        context = ssl.create_default_context(cafile=address.ca_file)
    except OSError as problem:
        why = "it has no certificate" if isinstance(problem, ssl.SSLError) else problem.strerror
        raise ConfigurationError(
            f"The file {address.ca_file} of ca_file cannot be used: {why}.", argument="ca_file"
        ) from None
    if not verified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
