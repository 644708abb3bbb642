"""TLS of a listener, its certificates, and the addresses it listens on."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import structlog
from msgspec import Struct

from pubqueue.engine.connections import InTurns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


# TLS of a listener: certificate, key and client authority from PEM files, which can be reloaded while the listener runs.
#
# Open connections keep their certificate; new ones get the one that was read last.

log = structlog.get_logger(__name__)

SOON: Final = 14 * 86_400.0
"""Seconds before a certificate expires from which a daily log line warns about it."""


class TlsError(Exception):
    """Certificate, key or client authority cannot be used; the message is one sentence for the operator.

    `file` is the file with the error.
    """

    def __init__(self, message: str, file: str) -> None:
        super().__init__(message)
        self.file = file


class TlsFiles(Struct, frozen=True):
    """PEM files. The certificate is followed by its intermediate ones; the key has no passphrase."""

    certificate: str
    key: str
    client_ca: str = ""
    """Authorities of client certificates. A client may send a certificate of theirs; any other is refused."""


class Tls:
    """The TLS of a listener. `now` returns the time in seconds since 1970; `alpn` lists the offered protocols.

    Raises:
        TlsError: the files cannot be used.

    """

    def __init__(
        self,
        files: TlsFiles,
        *,
        face: str,
        alpn: tuple[str, ...] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._files, self._face, self._alpn, self._now = files, face, alpn, now
        self.context, self.certificate = self._load(files)
        self._log_event("tls.loaded")

    def reload(self, files: TlsFiles | None = None) -> None:
        """Reload the files, or load others. If they cannot be used or have expired, log that and keep the old ones."""
        files = files or self._files
        try:
            context, certificate = self._load(files)
        except TlsError as problem:
            log.error("tls.refused", face=self._face, why=str(problem))  # noqa: TRY400  # an operator's mistake needs no traceback
            return
        if certificate.ends <= self._now() < self.certificate.ends:
            why = f"{files.certificate} {_date_fault(certificate, self._now())}"
            log.error("tls.refused", face=self._face, why=why)
            return
        self._files, self.context, self.certificate = files, context, certificate
        self._log_event("tls.reloaded")

    def remind(self) -> None:
        """Log if the certificate is not valid, or will soon expire."""
        if fault := _date_fault(self.certificate, self._now()):
            write = log.warning if self._is_valid else log.error
            event = "tls.certificate_ends" if self._is_valid else "tls.certificate_invalid"
            write(event, face=self._face, file=self._files.certificate, why=fault)

    @property
    def summary(self) -> str:
        """Return the certificate's subject and the state of its dates, as text for the operator."""
        fault = _date_fault(self.certificate, self._now())
        return (
            f"{self.certificate.subject}, {fault or f'valid until {_date(self.certificate.ends)}'}"
        )

    @property
    def _is_valid(self) -> bool:
        return self.certificate.begins <= self._now() < self.certificate.ends

    def _log_event(self, event: str) -> None:
        subject, until = self.certificate.subject, _date(self.certificate.ends)
        log.info(event, face=self._face, subject=subject, until=until)
        self.remind()

    def _load(self, files: TlsFiles) -> tuple[ssl.SSLContext, Certificate]:
        for file in (files.certificate, files.key, files.client_ca):
            if file:
                _readable(file)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        if self._alpn:
            context.set_alpn_protocols(list(self._alpn))
        try:
            # an empty passphrase, because OpenSSL would otherwise prompt for one
            context.load_cert_chain(files.certificate, files.key, password="")
            certificate = read_certificate(files.certificate, files.key)
        except ssl.SSLError as problem:
            raise TlsError(_file_fault(files, problem), files.certificate) from None
        if files.client_ca:
            _trust(context, files.client_ca)
        return context, certificate


def _trust(context: ssl.SSLContext, client_ca: str) -> None:
    """Request a certificate by these authorities from clients, without requiring one."""
    try:
        context.load_verify_locations(cafile=client_ca)
    except ssl.SSLError as problem:
        what = problem.reason or problem
        raise TlsError(
            f"{client_ca} contains no certificate in PEM format ({what})", client_ca
        ) from None
    context.verify_mode = ssl.CERT_OPTIONAL


def _readable(file: str) -> None:
    try:
        Path(file).read_bytes()
    except OSError as problem:
        raise TlsError(f"{file} cannot be read: {problem.strerror}", file) from None


def _file_fault(files: TlsFiles, problem: ssl.SSLError) -> str:
    """Return what is wrong with the certificate or key, as a sentence."""
    reason = problem.reason or str(problem)
    if reason == "KEY_VALUES_MISMATCH":
        return f"the key {files.key} does not belong to the certificate {files.certificate}"
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"{files.certificate} is not a server certificate: {problem.verify_message}"
    if b"ENCRYPTED" in Path(files.key).read_bytes():
        return f"the key {files.key} has a passphrase; it must have none"
    return f"{files.certificate} and {files.key} are not a certificate and key in PEM format ({reason})"


def _date_fault(certificate: Certificate, now: float) -> str:
    """Return why the certificate is not valid now or soon, or "" if it is."""
    if now < certificate.begins:
        return f"is not valid before {_date(certificate.begins)}"
    if certificate.ends <= now:
        return f"expired on {_date(certificate.ends)}"
    return f"expires on {_date(certificate.ends)}" if certificate.ends - now < SOON else ""


def _date(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")


# The first message of a handshake: what answers it costs a millisecond, and a thousand clients may send theirs at the same moment.
#
# So a connection waits until its message is whole at the system, and then for its turn.

AT_ONCE: Final = 2
"""Handshakes that begin in one turn of the loop."""

HEAD: Final = 5
"""Bytes before each record of TLS (RFC 8446, section 5.1): its type, a version, and the length."""

HANDSHAKE: Final = 22
"""The type of the records of a handshake."""

MAX_RECORD: Final = 1 << 14

_TURNS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, InTurns]] = WeakKeyDictionary()


def hellos() -> InTurns:
    """Return by whose turns handshakes begin, those of all listeners of this loop: addresses take turns."""
    loop = asyncio.get_running_loop()
    if loop not in _TURNS:
        _TURNS[loop] = InTurns(AT_ONCE, "connection.failed")
    return _TURNS[loop]


class Hello:
    """Waits until the first record of a client is whole, and reads nothing of it.

    `call` is called once, with `in_time=False` if it is not whole after `seconds`, if there are any. What is no handshake
    counts as whole: TLS answers it.
    """

    def __init__(self, client: socket.socket, seconds: float, call: Callable[..., None]) -> None:
        self._client, self._call = client, call
        self._wanted = 0
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(seconds, self._late) if seconds else None
        client.setblocking(False)  # noqa: FBT003  # the socket's own
        self._want(HEAD)
        self._loop.add_reader(client, self._look)

    def forget(self) -> None:
        """Wait no more."""
        self._loop.remove_reader(self._client)
        if self._timer is not None:
            self._timer.cancel()

    def _want(self, size: int) -> None:
        """Have the system notify us when so many bytes have come, or no more come."""
        self._wanted = size
        self._client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)

    def _look(self) -> None:
        try:
            data = self._client.recv(self._wanted, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if self._wanted == HEAD == len(data) and data[0] == HANDSHAKE:
            self._want(HEAD + min(int.from_bytes(data[3:]), MAX_RECORD))
            return
        self._end(in_time=True)

    def _late(self) -> None:
        self._end(in_time=False)

    def _end(self, *, in_time: bool) -> None:
        self.forget()
        with suppress(OSError):
            self._client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self._call(in_time=in_time)


# Reads the subject and the dates of a certificate.
#
# Python's `ssl` reads only certificates from a handshake. So a handshake takes place in memory, with a client that trusts only this
# certificate and ignores the time. It also proves that the key belongs to it and that a server can use them.

_NO_CHECK_TIME: Final = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL, for which `ssl` has no name."""

_ROUNDS: Final = 4
"""Maximum rounds of the handshake; TLS 1.3 needs two from each side."""

_NAMES: Final = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""Attribute types and their names in the text of a subject (RFC 4514, section 3)."""


class Certificate(Struct, frozen=True):
    """The subject as text (RFC 4514), and the times from which and until which it is valid, in seconds since 1970."""

    subject: str
    begins: float
    ends: float


def read_certificate(certificate: str, key: str) -> Certificate:
    """Return the subject and the dates of the first certificate of a PEM file.

    Raises:
        ssl.SSLError, OSError: certificate and key cannot be used.

    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key, password="")
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False  # the handshake has no host name
    client.load_verify_locations(cafile=certificate)
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    client.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
    found = _shake_hands(client, server)
    return Certificate(
        subject_of(found),
        ssl.cert_time_to_seconds(str(found["notBefore"])),
        ssl.cert_time_to_seconds(str(found["notAfter"])),
    )


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> Mapping[str, Any]:
    """Return the server's certificate, as the client received it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(_ROUNDS):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[0].getpeercert() or {}


def subject_of(certificate: Mapping[str, Any]) -> str:
    """Return the subject of a certificate as `getpeercert` gives it, as text: `CN=etl,O=example` (RFC 4514)."""
    parts = certificate.get("subject", ())
    return ",".join(
        "+".join(f"{_NAMES.get(name, name)}={_escaped(value)}" for name, value in part)
        for part in reversed(parts)
    )


def _escaped(value: str) -> str:
    """Return the value, escaped by RFC 4514, section 2.4."""
    text = "".join(f"\\{one}" if one in '"+,;<>\\' else one for one in value).replace("\0", "\\00")
    if text.startswith((" ", "#")):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text.endswith(" ") and len(text) > 1 else text


# The configured addresses to listen on, and their sockets.

BACKLOG: Final = 1024
"""Connections that the kernel queues before they are accepted."""

MAX_PORT: Final = 65_535


class Place(Struct, frozen=True):
    """An address to listen on; with `tls`, each connection begins with a TLS handshake."""

    host: str
    """An address, a name, or "" for all addresses of the machine."""
    port: int
    """The port; 0: the system chooses one."""
    tls: Tls | None = None

    @property
    def shown(self) -> str:
        """The address as host:port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def is_port(text: str) -> bool:
    """Return whether the text is the number of a port, or 0."""
    return (
        text.isascii()
        and text.isdigit()
        and len(text) <= len(str(MAX_PORT))
        and int(text) <= MAX_PORT
    )


def places(text: str, tls: Tls | None = None) -> tuple[Place, ...]:
    """Return the addresses of a setting: host:port, or a port of the loopback interface; several with commas between them.

    Raises:
        ValueError: it is something else; the message names the expected form.

    """
    return tuple([_place(part.strip(), tls) for part in text.split(",") if part.strip()])


def _place(text: str, tls: Tls | None) -> Place:
    host, colon, port = text.rpartition(":")
    if not is_port(port):
        raise ValueError(f"must be host:port or a port, not {text!r}")
    if not colon:
        return Place("127.0.0.1", int(port), tls)
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"must have an IPv6 address in brackets, not {text!r}")
    bare = host.strip("[]")
    return Place("" if bare == "*" else bare or "127.0.0.1", int(port), tls)


async def listen(place: Place) -> list[socket.socket]:
    """Return sockets that listen on the place: one for each address of its name.

    Raises:
        OSError: the address cannot be used; no socket stays open.

    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        place.host or None, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    port = place.port
    made: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            made.append(_listening(family, (address[0], port, *address[2:])))
            port = port or made[0].getsockname()[1]  # one port for all addresses of the name
    except OSError:
        for one in made:
            one.close()
        raise
    return made


def _listening(family: int, address: tuple[object, ...]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.setblocking(False)  # noqa: FBT003  # the socket's own
        made.bind(address)
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


KEEP_ALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPIDLE", 0), 60),
    (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPINTVL", 0), 15),
    (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPCNT", 0), 4),
    (socket.IPPROTO_TCP, getattr(socket, "TCP_USER_TIMEOUT", 0), 60_000),
)
"""Options of each connection. A dead peer is detected after two minutes of silence, or one minute after unacknowledged data."""


def set_options(client: socket.socket) -> None:
    """Set the options of an accepted connection; systems other than Linux do not have all of them."""
    for level, option, value in KEEP_ALIVE:
        if option:
            client.setsockopt(level, option, value)
