"""TLS of a listener: certificate, key and client authority from PEM files, which can be reloaded while the listener runs.

Open connections keep their certificate; new ones get the one that was read last.
"""

from __future__ import annotations

import ssl
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct

from pubqueue.faces.listener.certificate import read_certificate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.listener.certificate import Certificate

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
