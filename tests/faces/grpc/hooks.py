"""An endpoint of HTTP to which messages are pushed."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer
from harness.patience import TIMEOUT


class Hook:
    """An endpoint of HTTP; `codes` are what it answers, one after the other, then 204."""

    def __init__(self):
        self.codes: list[int] = []
        self.got: asyncio.Queue[dict] = asyncio.Queue()

    async def answer(self, request):
        self.got.put_nowait(json.loads(await request.read()))
        code = self.codes.pop(0) if self.codes else 204
        return web.Response(status=code, headers={"Location": "/elsewhere"})

    async def next(self):
        async with asyncio.timeout(TIMEOUT):
            return await self.got.get()


@asynccontextmanager
async def a_hook():
    """Return a hook at its `url`."""
    one = Hook()
    app = web.Application()
    app.router.add_post("/push", one.answer)
    app.router.add_route("*", "/elsewhere", one.answer)
    async with TestServer(app) as server:
        one.url = f"http://127.0.0.1:{server.port}/push"
        yield one
