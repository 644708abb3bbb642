"""An origin of its own for a page of the documentation, whose script sends requests to a service."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from pubqueue.loopback import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path


class Page:
    """The page of the origin; it is requested when a browser comes, so the text may be set later."""

    def __init__(self, origin: str) -> None:
        self.origin, self.text = origin, ""

    async def show(self, _request: web.Request) -> web.Response:
        """Return the page."""
        return web.Response(text=f"<!doctype html>{self.text}", content_type="text/html")


@asynccontextmanager
async def page_server(files: Mapping[str, Path] | None = None) -> AsyncIterator[Page]:
    """Serve a page and these files, by their paths, at a free port of loopback."""
    (port,) = free_ports(1)
    page = Page(f"http://127.0.0.1:{port}")
    app = web.Application()
    app.router.add_get("/", page.show)
    for path, file in (files or {}).items():
        app.router.add_get(path, _returning(file))
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield page
    finally:
        await runner.cleanup()


def _returning(file: Path):  # a handler of aiohttp
    async def handler(_request: web.Request) -> web.FileResponse:
        return web.FileResponse(file)

    return handler
