"""Each route that may have a body: all but its last byte is kept for the account, or the request is answered without it."""

import re
from base64 import b64encode

import pytest
from harness.clients.unfinished import counted
from harness.servers.users import RIGHT, SERVICE

from pubqueue.faces.rest.hornetq.routes import profile as hornetq
from pubqueue.faces.rest.star.routes import profile

ROUTES = [
    (
        route.method,
        one.prefix
        + re.sub(r"\{(\w+)\}", lambda name: "jobs" if name[1] == "node" else "1", route.path),
    )
    for one in (profile("/rest"), hornetq("/hornetq"))
    for route in one.routes
    if route.method != "GET"
]
CREDENTIALS = "Basic " + b64encode(f"etl:{RIGHT}".encode()).decode()


@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "multipart/mixed; boundary=b"]
)
async def test_all_but_the_last_byte_of_a_body_counts_on_every_route(rest, kind):
    fields = {"Authorization": CREDENTIALS, "Content-Type": kind}
    found = await counted(rest.root, ROUTES, fields, f"etl@{SERVICE}")
    posts = {(method, path) for method, path in ROUTES if "messages" in path}
    assert found & posts, "bodies of messages are waited for"
    assert len(found) >= 5
