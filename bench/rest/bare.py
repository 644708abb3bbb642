"""`python -m bench.rest.bare PORT`: a minimal handler of aiohttp, which reads the body and answers 201 with two fields."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from importlib.util import find_spec

from aiohttp import web

from bench.stomp.thin import HOST

HEADERS = {"Location": "/messages/1", "Link": '</messages/1>; rel="self"'}


async def answer(request: web.Request) -> web.Response:
    """Read the body and answer."""
    await request.read()
    return web.Response(status=201, headers=HEADERS)


async def serve(port: int) -> None:
    """Serve until the process ends."""
    app = web.Application()
    app.router.add_post("/messages", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, HOST, port).start()
    await asyncio.Event().wait()


def main() -> None:
    """Serve, on the loop that the service has."""
    run = asyncio.run
    if find_spec("uvloop"):
        import uvloop  # noqa: PLC0415  # where it is installed

        run = uvloop.run
    with suppress(KeyboardInterrupt):
        run(serve(int(sys.argv[1])))


if __name__ == "__main__":
    main()
