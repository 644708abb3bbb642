"""Each route that may have a body: all but its last byte is kept for the account, or the request is answered without it."""

import asyncio
import re
from base64 import b64encode
from urllib.parse import urlsplit

import pytest
from faces.listener.echoing import Client
from harness.patience import until
from harness.servers.users import RIGHT, SERVICE

from pubqueue.faces.listener.budget import KEPT, STRANGERS
from pubqueue.faces.rest.hornetq.routes import profile as hornetq
from pubqueue.faces.rest.star.routes import profile

ROUTES = [
    (route.method, one.prefix, route.path)
    for one in (profile("/rest"), hornetq("/hornetq"))
    for route in one.routes
    if route.method != "GET"
]
SIZE = 9_000
CREDENTIALS = b64encode(f"etl:{RIGHT}".encode()).decode()


@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "multipart/mixed; boundary=b"]
)
async def test_all_but_the_last_byte_of_a_body_counts_on_every_route(rest, kind):
    counted = set()
    for method, prefix, path in ROUTES:
        where = prefix + re.sub(r"\{(\w+)\}", lambda one: "jobs" if one[1] == "node" else "1", path)
        at = urlsplit(rest.root)
        client = Client(*await asyncio.open_connection(at.hostname, at.port))
        client.writer.write(
            f"{method} {where} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {CREDENTIALS}\r\n"
            f"Content-Type: {kind}\r\nContent-Length: {SIZE}\r\n\r\n".encode()
            + b"x" * (SIZE - 1)
        )
        said = asyncio.create_task(client.line())
        await until(lambda said=said: said.done() or KEPT.of(f"etl@{SERVICE}") > SIZE)
        if not said.done():
            counted.add((method, prefix, path))
            assert KEPT.of(STRANGERS) == 0
        client.writer.transport.abort()
        await said
        await until(lambda: KEPT.size == 0)
    posts = {(method, prefix, path) for method, prefix, path in ROUTES if "messages" in path}
    assert counted & posts, "bodies of messages are waited for"
    assert len(counted) >= 5
