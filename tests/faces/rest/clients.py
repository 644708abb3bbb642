"""A face of REST on a host of its own, in the process of the test, and clients over sockets that follow its links."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import httpx
from faces.sides import Side
from harness.http.clients import PLAIN
from harness.patience import until
from harness.servers.users import RIGHT, SERVICE, accounts_of, users_for
from weblinking import parse

from pubqueue.faces.http import HttpHost
from pubqueue.faces.listener import Bounds, Place
from pubqueue.faces.rest.door import RestDoor
from pubqueue.faces.rest.face import RestFace
from pubqueue.faces.rest.hornetq.routes import profile as hornetq
from pubqueue.faces.rest.settings import RestSettings
from pubqueue.faces.rest.star.routes import profile
from pubqueue.faces.xmpp.xml.fields import wanted
from pubqueue.model.decision import Refused
from pubqueue.model.entities import Jid, NodeName
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Create
from pubqueue.stores.sqlite.in_memory import Memory, MemoryStore

NAMES: Final = ("etl", "bee", "ann", "eva", "eve")
TOKEN: Final = "a-token-of-the-user-bee"


def a_face(broker, **settings):
    """Return a face of REST; `serving` has a host for it."""
    accounts = accounts_of(users_for("rest", NAMES, {"bee": TOKEN}))
    return RestFace(broker, accounts, RestSettings(**settings), wanted)


@asynccontextmanager
async def hosted(face, *, profiles=None, bounds=None, **more):
    """Serve a face over HTTP; yields the URL of the service, once the face is at work."""
    door = RestDoor(profiles or [profile("/rest"), hornetq("/hornetq")])
    door.lead_to([face])
    host = HttpHost([door], bounds or Bounds(login=0, per_peer=2_000), **more)
    async with host.serving([Place("127.0.0.1", 0)]) as ((address, port),):
        await until(lambda: face.is_serving)
        yield f"http://{address}:{port}/rest"


class Served:
    """An instance with a face of REST, and where that is served."""

    def __init__(self, side, root, ends):
        self.side, self.root, self._ends = side, root, ends
        self._clients = {}

    @property
    def broker(self):
        return self.side.broker

    @property
    def face(self):
        return self.side.face

    async def as_(self, name="etl", profile="rest"):
        """Return a client of this user, the same one each time; its URLs may be relative to the profile."""
        key = name, profile
        if key not in self._clients:
            root = f"{self.root.removesuffix('/rest')}/{profile}"
            self._clients[key] = await self._ends.enter_async_context(client(root, name))
        return self._clients[key]

    async def make(self, name, owner="etl", **settings):
        """Make a node; by default a queue that is open to all."""
        values = {"queueing": True, "access_model": "open", "publish_model": "open", **settings}
        by = self.face.accounts.principals.of(Jid(f"{owner}@{SERVICE}"))
        reply = await self.broker.handle(Create(by, NodeName(name), Settings(values)))
        assert not isinstance(reply, Refused), reply


def client(root, name="etl", **more):
    """Return a client of this user at the service; bee has a token, the others a password."""
    more = {**PLAIN, **more}
    if name == "bee":
        more["headers"] = {"Authorization": f"Bearer {TOKEN}", **more.get("headers", {})}
    elif name:
        more["auth"] = (name, RIGHT)
    return httpx.AsyncClient(base_url=root, **more)


@asynccontextmanager
async def served(store=None, calendar=None, **settings):
    """Serve from a store, by default one in memory, by the machine's time or a calendar."""
    async with AsyncExitStack() as ends:
        store = store or MemoryStore(Memory())
        side = Side(store, lambda broker: a_face(broker, **settings), calendar)
        await side.begin()
        ends.push_async_callback(_end, side)
        root = await ends.enter_async_context(hosted(side.face))
        yield Served(side, root, ends)


async def _end(side):
    if not side.broker.task.done():
        await side.end()


def links(response):
    """Return the links of an answer by their relations, read by another library, strictly."""
    found = {}
    for field in response.headers.get_list("Link"):
        for link in parse(field, strict=True):
            for rel in link.rels:
                found.setdefault(rel, link.uri)
    return found


async def follow(client, destination, rel):
    """Return where a relation of a destination leads."""
    answer = await client.head(destination)
    assert answer.status_code == httpx.codes.OK, answer
    return links(answer)[rel]
