"""The table `[grpc]`, and what callers get of it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Struct

# The table `[grpc]` of the configuration.

_Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class GrpcSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Clients of Pub/Sub: `tech.pubsub` and `google.pubsub.v1` over gRPC, `v1beta1a` in JSON. They log in as `[[user]]`."""

    listen: str = ""
    """Where to serve gRPC: host:port, or a port of the loopback interface; several with commas between them. `*` as host stands
    for all addresses of the machine. Without `tls_certificate` only loopback addresses, because credentials would travel in plain
    text. Empty: nowhere."""
    json: str = ""
    """Where to serve `v1beta1a`, the same in JSON over HTTP, likewise. If these are the addresses of `http`, page, metrics and JSON are on
    one server, with its certificate. Empty: nowhere."""
    tls_certificate: str = ""
    """A PEM file with the certificate for TLS, followed by the intermediate ones. With this and `tls_key`, all addresses of `listen` and
    `json` are served by TLS alone. Both files are read again on reload."""
    tls_key: str = ""
    """A PEM file with the key of the certificate, without a passphrase."""
    client_ca: str = ""
    """A PEM file with the authorities of client certificates. A client may show a certificate of theirs, and then has the account of the
    user with this subject; any other certificate is refused."""
    anonymous: str = ""
    """The name of the account that callers without credentials have, as clients of Google's emulator are. It counts as local for
    `node_creation`. Only with loopback addresses in `listen` and `json`. Empty: such callers are refused."""
    bridge: bool = True
    """Whether the project `xmpp` has all nodes that have no name of a topic or a subscription."""
    push_to: tuple[str, ...] = ()
    """Where messages may be pushed to: `host:port`, with `*` as a wildcard in the host or as the port. None: a subscription cannot
    have a push endpoint."""
    streams: _Count = 10_000
    """Streams that may be open at a time."""
    streams_per_account: _Count = 5_000
    """Streams of one account that may be open at a time."""


# The settings for callers over gRPC.


class GrpcTerms(Struct, frozen=True):
    """The settings of all calls."""

    anonymous: str = ""
    """The user whose account callers without credentials have; empty: they are refused."""
    bridge: bool = True
    """Whether the project `xmpp` has the nodes of other protocols."""
    push_to: tuple[str, ...] = ()
    """Where messages may be pushed to."""
    streams: int = 10_000
    streams_per_account: int = 5_000
    """Streams that may be open at a time: of all accounts, and of one."""
