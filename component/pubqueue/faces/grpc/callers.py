"""Who calls over gRPC, with which certificate, and how many large requests are read at once."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError
from grpc import StatusCode

from pubqueue.accounts.accounts import Proven
from pubqueue.accounts.credentials import Certificate, credentials_in
from pubqueue.faces.grpc.statuses import UNKNOWN_CALLER, CallError
from pubqueue.faces.grpc.wire import is_text
from pubqueue.faces.listener.tls import Tls
from pubqueue.model.entities import Jid, Principal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping

    from google.protobuf.message import Message

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.accounts.credentials import Credentials
    from pubqueue.faces.listener.tls import TlsFiles


# Messages of an account on a connection are read a few at a time: what is not read stays with the client, by the flow control of HTTP/2.
#
# gRPC does not report the size of a message before it is read. So a connection begins with few reads at a time. Small messages
# raise the number, if others wait; a large one sets it to as many as fit. While large messages of a connection wait or are done,
# no others are read on it beyond `HELD` bytes.

Reader = tuple[str, str]
"""The address of a connection, and the account of a call on it."""

HELD: Final = 8 << 20
"""Bytes of large messages of a connection that wait for their turn, or are done; the last one may exceed it."""

AT_ONCE: Final = 16 << 20
"""Bytes of large messages that are read at a time on a connection, if all are as large as the last one."""

FIRST_READS: Final = 2
MAX_READS: Final = 1_000
"""How many messages are read at a time at first, and at most."""


class _Connection:
    """The reads of a connection. A waiting read is a future, which is done when it may begin."""

    __slots__ = ("allowed", "held", "reading", "waiting")

    def __init__(self) -> None:
        self.reading, self.held, self.allowed = 0, 0, FIRST_READS
        self.waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_idle(self) -> bool:
        return not (self.reading or self.held or self.waiting)

    def may_read(self) -> bool:
        return self.reading < self.allowed and self.held < HELD

    def learn(self, size: int) -> None:
        """Set how many may be read at a time, after a message of this size."""
        if size >= LARGE:
            self.held += size
            self.allowed = max(FIRST_READS, AT_ONCE // size)
        elif self.waiting:
            self.allowed = min(2 * self.allowed, MAX_READS)

    def go_on(self) -> None:
        """Let waiting reads begin, as far as there is room."""
        while self.waiting and self.may_read():
            if not (turn := self.waiting.popleft()).done():
                self.reading += 1
                turn.set_result(None)


class Reading:
    """Reads the messages of unary calls, in the order of the calls on each connection."""

    def __init__(self) -> None:
        self._connections: dict[Reader, _Connection] = {}

    async def read(self, peer: Reader, read: Callable[[], Awaitable[Unread]]) -> Unread:
        """Return the message of a call, as soon as there is room for it; `done` has to be called for it."""
        one = self._connections.get(peer)
        if one is None:
            one = self._connections[peer] = _Connection()
        if one.waiting or not one.may_read():
            await self._wait(peer, one)
        else:
            one.reading += 1
        try:
            request = await read()
            one.learn(request.size)
        finally:
            one.reading -= 1
            self._go_on(peer, one)
        return request

    def done(self, peer: Reader, size: int) -> None:
        """Free the room of a message that was read."""
        if size >= LARGE:
            one = self._connections[peer]
            one.held -= size
            self._go_on(peer, one)

    async def _wait(self, peer: Reader, one: _Connection) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        one.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                one.reading -= 1
            else:
                turn.cancel()
            self._go_on(peer, one)
            raise

    def _go_on(self, peer: Reader, one: _Connection) -> None:
        one.go_on()
        if one.is_idle:
            self._connections.pop(peer, None)


# The subject of a client certificate that gRPC has verified, which it hands over as PEM. Pure.
#
# Python's `ssl` reads the certificates of its own handshakes only, and gRPC has handshakes of its own. Of the DER structure (X.509,
# RFC 5280) only the path to the subject is read.

Subject = tuple[tuple[tuple[str, str], ...], ...]
"""As `subject` of `ssl.SSLSocket.getpeercert`."""

_NAMES: Final[Mapping[str, str]] = {
    "2.5.4.3": "commonName",
    "2.5.4.4": "surname",
    "2.5.4.5": "serialNumber",
    "2.5.4.6": "countryName",
    "2.5.4.7": "localityName",
    "2.5.4.8": "stateOrProvinceName",
    "2.5.4.9": "streetAddress",
    "2.5.4.10": "organizationName",
    "2.5.4.11": "organizationalUnitName",
    "2.5.4.42": "givenName",
    "1.2.840.113549.1.9.1": "emailAddress",
    "0.9.2342.19200300.100.1.1": "userId",
    "0.9.2342.19200300.100.1.25": "domainComponent",
}
"""Object identifiers, and the long names that `ssl` has for them; others stay numbers."""

_BMP, _LATIN = 30, 20
_CODECS: Final[Mapping[int, str]] = {_BMP: "utf-16-be", _LATIN: "latin-1"}
"""Of the types of strings; all others are UTF-8, or a part of it."""

_VERSION: Final = 0xA0
_BEFORE_SUBJECT: Final = 4
"""Serial number, algorithm, issuer and validity precede the subject."""
_LONG: Final = 0x80
_DIGIT: Final = 0x7F
_SECOND_ARC: Final = 40


def subject_of(pem: bytes) -> Subject:
    """Return the subject of a certificate; an empty one, which no user has, if it cannot be read."""
    try:
        return tuple(_subject(ssl.PEM_cert_to_DER_cert(pem.decode("ascii").strip())))
    except (ValueError, IndexError):
        return ()


def _subject(der: bytes) -> Iterator[tuple[tuple[str, str], ...]]:
    ((_, certificate),) = _elements(der)
    (_, signed), *_ = _elements(certificate)
    fields = [element for element in _elements(signed) if element[0] != _VERSION]
    for _, part in _elements(fields[_BEFORE_SUBJECT][1]):
        yield tuple(_attribute(pair) for _, pair in _elements(part))


def _attribute(pair: bytes) -> tuple[str, str]:
    (_, oid), (kind, value) = _elements(pair)
    name = _dotted(oid)
    return _NAMES.get(name, name), value.decode(_CODECS.get(kind, "utf-8"))


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each element."""
    at = 0
    while at < len(data):
        tag, length = data[at], data[at + 1]
        at += 2
        if length & _LONG:
            size = length & _DIGIT
            length, at = int.from_bytes(data[at : at + size]), at + size
        if at + length > len(data):
            raise ValueError("an element is cut off")
        yield tag, data[at : at + length]
        at += length


def _dotted(oid: bytes) -> str:
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & _DIGIT
        if not byte & _LONG:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // _SECOND_ARC, 2)
    return ".".join(map(str, (first, numbers[0] - first * _SECOND_ARC, *numbers[1:])))


# TLS of gRPC, which has handshakes of its own: the same files and checks as those of the other listeners.


class GrpcTls:
    """Certificate, key and client authority. With a client authority every client has to show a certificate of it.

    Raises:
        TlsError: the files cannot be used.

    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._tls = Tls(files, face=WORD)
        self._config = self._read()

    def reload(self) -> None:
        """Read the files again; if they cannot be used, log that and keep the old ones."""
        before = self._tls.context
        self._tls.reload()
        if self._tls.context is not before:
            self._config = self._read()

    @property
    def certificate_ends(self) -> float:
        """When the certificate expires, in seconds since 1970."""
        return self._tls.certificate.ends

    def credentials(self) -> grpc.ServerCredentials:
        """Return credentials with which each new connection gets the files that were read last."""
        return grpc.dynamic_ssl_server_credentials(
            self._config,
            lambda: self._config,
            require_client_authentication=bool(self._files.client_ca),
        )

    def _read(self) -> grpc.ServerCertificateConfiguration:
        pair = Path(self._files.key).read_bytes(), Path(self._files.certificate).read_bytes()
        ca = Path(self._files.client_ca).read_bytes() if self._files.client_ca else None
        return grpc.ssl_server_certificate_configuration([pair], ca)


# Large requests are read and done a few at a time, so that others do not wait for all of them.
#
# What a client has sent is bytes until then. Small requests do not wait. Accounts take turns.

LARGE: Final = 256 << 10
"""Bytes of a request that is large."""

ROOM: Final = 16 << 20
"""Bytes of large requests that are done at a time; a larger one is done alone."""


class Unread:
    """A request as it has come. `size` is its bytes."""

    __slots__ = ("_data", "_kind", "size")

    def __init__(self, kind: type[Message], data: bytes) -> None:
        self._kind, self._data, self.size = kind, data, len(data)

    def read(self) -> Any:  # noqa: ANN401  # of any rpc
        """Return the message, and forget the bytes; None if they are no message."""
        data, self._data = self._data, b""
        try:
            message = self._kind.FromString(data)
        except DecodeError:
            return None
        is_proto2 = self._kind.DESCRIPTOR.full_name.startswith("tech.")
        return None if is_proto2 and not is_text(message) else message


class Turns:
    """Has large requests wait until there is room for them among so many bytes. Accounts take turns, and no account has more than half of the room.

    So a client that does not finish what it has begun holds up only its own account.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._used, self._size = 0, room
        self._of: dict[str, int] = {}
        """The bytes that each account uses."""
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        """The requests of each account that wait; the account whose turn is next comes first."""

    @asynccontextmanager
    async def of(self, size: int, account: str) -> AsyncIterator[None]:
        """Wait for the turn of a request of so many bytes; it is over at the end of the body."""
        if size < LARGE:
            yield
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(account, deque()).append((size, turn))
        self._go_on()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(size, account)
            else:
                self._go_on()  # others may have waited for this one
            raise
        try:
            yield
        finally:
            self._leave(size, account)

    def _leave(self, size: int, account: str) -> None:
        self._used -= size
        self._of[account] -= size
        if not self._of[account]:
            del self._of[account]
        self._go_on()

    def _go_on(self) -> None:
        """Let in what there is room for."""
        while (account := self._next()) is not None:
            line = self._waiting.pop(account)
            size, turn = line.popleft()
            self._used += size
            self._of[account] = self._of.get(account, 0) + size
            self._waiting[account] = line  # behind all other accounts
            turn.set_result(None)

    def _next(self) -> str | None:
        """Return the account whose first request may go in. One that has its half is skipped; behind any other one all wait."""
        for account, line in tuple(self._waiting.items()):
            while line and line[0][1].cancelled():
                line.popleft()
            if not line:
                del self._waiting[account]
                continue
            size, mine = line[0][0], self._of.get(account, 0)
            if not mine or mine + size <= self._size // 2:
                has_room = not self._used or self._used + size <= self._size
                return account if has_room else None
        return None


# From the metadata of a call, or what else has credentials, to its account.

WORD: Final = "grpc"
"""The word of the face: in addresses, and where users may log in."""

HEADER: Final = "authorization"
CERTIFICATE: Final = "x509_pem_cert"
RESOURCE: Final = f"/{WORD}"
"""The separator between the address of a caller and the resources of pulls."""


class Who:
    """Authenticates calls. Callers without credentials have the account of `anonymous`, if there is one."""

    def __init__(self, accounts: Accounts, service: Jid, anonymous: str = "") -> None:
        self._accounts, self._service, self._anonymous = accounts, service, anonymous

    async def caller(self, given: Credentials | None, peer: str) -> tuple[Principal, Proven | None]:
        """Return the account of a call from the peer at this address, and how it was proven.

        Raises:
            CallError: there are no credentials, or wrong ones.

        """
        if given is None:
            if not self._anonymous:
                raise UNKNOWN_CALLER
            return self._caller(Jid(f"{self._anonymous}@{self._service}")), None
        found = await self._accounts.prove(given, face=WORD, peer=peer)
        if isinstance(found, Proven):
            return self._caller(found.account), found
        if found.wait:
            raise CallError(
                StatusCode.UNAVAILABLE, f"Too many wrong attempts: try again in {found.wait:.0f} s."
            )
        raise UNKNOWN_CALLER

    def holds(self, proven: Proven | None) -> bool:
        """Return whether the account may still call."""
        return proven is None or self._accounts.holds(proven)

    def _caller(self, account: Jid) -> Principal:
        return self._accounts.principals.of(Jid(account + RESOURCE))


def peer_of(text: str) -> str:
    """Return the address of a peer: of `ipv4:192.0.2.1:80` or `ipv6:[::1]:80` without the port, and percent-decoded."""
    scheme, _, rest = text.partition(":")
    if scheme not in {"ipv4", "ipv6"}:
        return text
    return unquote(rest).rpartition(":")[0].strip("[]")


def credentials_of(
    metadata: Iterable[tuple[str, str | bytes]], auth: Mapping[str, Iterable[bytes]]
) -> Credentials | None:
    """Return the credentials of a call: its header, or else the certificate of its connection.

    Raises:
        CallError: it has the header several times, or it cannot be read.

    """
    fields = [value for name, value in metadata if name == HEADER]
    if fields:
        found = credentials_in(
            [one.decode("latin-1") if isinstance(one, bytes) else one for one in fields]
        )
        if found is None:
            raise UNKNOWN_CALLER
        return found
    for pem in auth.get(CERTIFICATE, ()):
        return Certificate(subject_of(pem))
    return None
