"""The settings of the gRPC face. Imported only if gRPC is served."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from pubqueue.config.grpc import json_addresses
from pubqueue.config.settings import ConfigError
from pubqueue.faces.grpc.callers import GrpcTls
from pubqueue.faces.grpc.settings import GrpcTerms
from pubqueue.faces.listener import Bounds
from pubqueue.faces.listener.tls import Tls, TlsError, TlsFiles, places

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.config.settings import Settings
    from pubqueue.faces.grpc.settings import GrpcSettings
    from pubqueue.faces.listener.tls import Place


T = TypeVar("T")

JSON: Final = "json"
"""The name of the JSON server in metrics and in the log."""

JSON_BOUNDS: Final = Bounds(login=0)
"""The limits of that server; each waiting pull has a connection of its own."""


def terms_of(grpc: GrpcSettings) -> GrpcTerms:
    """Return the settings for all calls."""
    return GrpcTerms(
        anonymous=grpc.anonymous,
        bridge=grpc.bridge,
        push_to=grpc.push_to,
        streams=grpc.streams,
        streams_per_account=grpc.streams_per_account,
    )


def tls_of(settings: Settings) -> GrpcTls | None:
    """Return the TLS of gRPC, or None without a certificate or if only JSON is served.

    Raises:
        ConfigError: the files cannot be used.

    """
    grpc = settings.grpc
    if not grpc.tls_certificate or not grpc.listen:
        return None
    return _read(settings, GrpcTls)


def json_places(settings: Settings) -> tuple[Place, ...]:
    """Return where JSON is served on a server of its own, with TLS if there is a certificate.

    Raises:
        ConfigError: the files or an address cannot be used.

    """
    if not settings.grpc.tls_certificate:
        return json_addresses(settings)
    tls = _read(settings, partial(Tls, face=JSON, alpn=("http/1.1",)))
    return places(settings.grpc.json, tls)


def _read(settings: Settings, make: Callable[[TlsFiles], T]) -> T:
    grpc = settings.grpc
    files = TlsFiles(grpc.tls_certificate, grpc.tls_key, grpc.client_ca)
    keys = {files.key: "tls_key", files.client_ca: "client_ca"}
    try:
        return make(files)
    except TlsError as problem:
        key = f"grpc.{keys.get(problem.file, 'tls_certificate')}"
        raise ConfigError(f"{key} {problem}", key=key, source=problem.file) from None
