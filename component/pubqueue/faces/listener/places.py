"""The configured addresses to listen on, and their sockets."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from pubqueue.faces.listener.tls import Tls

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
