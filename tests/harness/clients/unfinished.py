"""Clients of HTTP that send all of a request but the last byte of its body, and what is kept for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from faces.listener.echoing import Client
from harness.patience import until

from pubqueue.faces.listener.budget import KEPT, STRANGERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SIZE: Final = 9_000


async def counted(
    root: str, routes: Iterable[tuple[str, str]], fields: Mapping[str, str], owner: str
) -> set[tuple[str, str]]:
    """Return the routes, each a method and a path, whose body is waited for. Its bytes must count for the owner alone, until its client is gone.

    The other routes have answered without it.
    """
    found = set()
    at = urlsplit(root)
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    for method, path in routes:
        client = Client(*await asyncio.open_connection(at.hostname, at.port))
        client.writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: {at.netloc}\r\n{head}Content-Length: {SIZE}\r\n\r\n".encode()
            + b"x" * (SIZE - 1)
        )
        said = asyncio.create_task(client.line())
        await until(lambda said=said: said.done() or KEPT.of(owner) > SIZE)
        if not said.done():
            found.add((method, path))
            assert owner == STRANGERS or KEPT.of(STRANGERS) == 0
        client.writer.transport.abort()
        await said
        await until(lambda: KEPT.size == 0)
    return found
