"""TLS of gRPC, which has handshakes of its own: the same files and checks as those of the other listeners."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from pubqueue.faces.grpc.entry.who import WORD
from pubqueue.faces.listener.tls import Tls

if TYPE_CHECKING:
    from pubqueue.faces.listener.tls import TlsFiles


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
