"""The table `[rest]`, and what the face gets of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Struct

from pubqueue.faces.push.client import PushTerms
from pubqueue.model.entities import Millis, seconds
from pubqueue.rules.nodeconfig import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from ipaddress import IPv4Network, IPv6Network


# The table `[rest]` of the configuration.

AT_START = frozenset(
    {
        *("listen", "rest_star", "hornetq", "tls_certificate", "tls_key"),
        *("head_timeout", "keepalive", "write_timeout", "max_connections"),
    }
)
"""Keys that are read only at the start; all others are applied by a reload."""

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=3_600)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_Bytes = Annotated[int, msgspec.Meta(ge=1, le=10 << 20)]


class RestSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Clients of REST messaging over HTTP. They log in as `[[user]]`."""

    listen: str = ""
    """Where to serve it: host:port, or a port of the loopback interface; several with commas between them. If these are the addresses
    of `http`, page, metrics and REST are on one server. Empty: nowhere."""
    rest_star: str = "/rest"
    """What the paths of the profile `rest-star` begin with; `off`: it is not served."""
    hornetq: str = "/hornetq"
    """What the paths of the profile `hornetq` begin with; `off`: it is not served."""
    base_url: str = ""
    """What absolute links begin with, such as `https://queue.example.org`. Empty: what a proxy reports, or the request itself."""
    tls_certificate: str = ""
    """A PEM file with the certificate for HTTPS, followed by the intermediate ones. With this and `tls_key`, `listen` is served by
    TLS alone. Both files are read again on reload."""
    tls_key: str = ""
    """A PEM file with the key of the certificate, without a passphrase."""
    plain_http: bool = False
    """Whether passwords and tokens are accepted without TLS from any address. Otherwise they are accepted without TLS over a
    loopback address and from `proxies`."""
    proxies: tuple[str, ...] = ()
    """Addresses of proxies that use TLS with clients, and networks of them. `Forwarded` and `X-Forwarded-*` are believed only from them."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may send requests, such as `https://app.example.org`."""
    push_to: tuple[str, ...] = ()
    """URLs that messages may be pushed to: each allows what begins with it, such as `https://hooks.example.org/`. None: nothing is pushed."""
    push_networks: tuple[str, ...] = ()
    """Networks that messages may be pushed to although their addresses are not global, such as `10.1.0.0/16`."""
    push_timeout: _Seconds = 30.0
    """Seconds for one push, connecting included."""
    push_retries: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 10
    """Failures in a row after which a registration is disabled; 0: never."""
    nothing: Literal[503, 202, 204] = 503
    """The status of an answer without a message, when none came in time."""
    dups_ok: bool = True
    """Whether a client of `hornetq` may post a message without an id; otherwise it is redirected to a URL with an id."""
    once_for: Annotated[float, msgspec.Meta(gt=0, le=604_800)] = 86_400.0
    """Seconds for which a one-off link can be used, and for which its use is remembered."""
    settled_for: _Seconds = 600.0
    """Seconds for which an acknowledgement is remembered, for clients that repeat it."""
    consumer_idle: _Seconds = 300.0
    """Seconds after which a consumer of `hornetq` without a request is closed, and what it holds is released."""
    longest_wait: Annotated[float, msgspec.Meta(ge=0, le=3_600)] = 60.0
    """The maximum seconds for which a request waits for a message."""
    max_body: _Bytes = 262_144
    """Maximum bytes of the body of a message."""
    max_batch_body: _Bytes = 4 << 20
    """Maximum bytes of the body of a batch."""
    max_batch: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 1_000
    """Maximum messages of a batch."""
    head_timeout: _Seconds = 10.0
    """Seconds to receive the head of a request."""
    body_timeout: _Seconds = 30.0
    """Seconds to receive the body of a request."""
    keepalive: _Seconds = 75.0
    """Seconds for which a connection without a request is kept open."""
    write_timeout: _Seconds = 30.0
    """Seconds for an answer to be read."""
    max_connections: _Count = 2_000
    """Connections in total; a quarter of them from one address."""
    max_waiting: _Count = 2_000
    """Requests that wait for a message, in total."""
    max_waiting_of_account: _Count = 500
    """Requests of one account that wait for a message."""


# The settings of the face.

WORD: Final = "rest"
"""The word of the face, in `faces` of a user and in addresses."""


def _by_names(form: Mapping[str, Sequence[str]]) -> Settings:
    return Settings({name: "\n".join(values) for name, values in form.items()})


class RestTerms(Struct, frozen=True, kw_only=True):
    """The settings of the face. Times are in seconds unless they are `Millis`.

    `settings` reads the fields of a node's form.
    """

    base_url: str = ""
    proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    plain_http: bool = False
    cors_origins: frozenset[str] = frozenset()
    push: PushTerms = PushTerms()
    nothing: int = 503
    dups_ok: bool = True
    once_for: Millis = seconds(86_400)
    settled_for: Millis = seconds(600)
    consumer_idle: float = 300.0
    longest_wait: float = 60.0
    max_body: int = 262_144
    max_batch_body: int = 4 << 20
    max_batch: int = 1000
    max_waiting: int = 2000
    max_waiting_of_account: int = 500
    body_timeout: float = 30.0
    settings: Callable[[Mapping[str, Sequence[str]]], Settings] = _by_names
