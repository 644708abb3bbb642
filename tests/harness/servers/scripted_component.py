"""A scripted component, to test the harness itself: it answers by its script and knows no queue."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from harness.servers.stub_server import ACCEPT, ROOT, Frames, parse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from lxml.etree import _Element

    Script = Callable[[_Element], list[str]]


@asynccontextmanager
async def fake_component(
    port: int, script: Script, *, domain: str = "queue.localhost", secret: str = "secret"
) -> AsyncIterator[None]:
    """Connect, and answer every stanza with the texts that `script` returns for it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"<?xml version='1.0'?>{ROOT[:-1]} to='{domain}'>".encode())

    def greet(header: dict[str, str]) -> None:
        assert header["xmlns"] == ACCEPT
        digest = hashlib.sha1(f"{header['id']}{secret}".encode()).hexdigest()
        writer.write(f"<handshake>{digest}</handshake>".encode())

    def answer(raw: str) -> None:
        tree = parse(raw)
        if tree.tag != f"{{{ACCEPT}}}handshake":
            for text in script(tree):
                writer.write(text.encode())

    async def listen() -> None:
        frames = Frames(greet, answer)
        while data := await reader.read(65536):
            frames.feed(data)

    task = asyncio.create_task(listen())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        writer.close()
