"""Clients of v1beta1a: Google's own, with the discovery document that it has, and a plain one; and a host for a face in the test's process."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import httpx
from google.auth.credentials import AnonymousCredentials
from google.oauth2.credentials import Credentials
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError
from harness.http.clients import PLAIN
from harness.patience import until
from harness.servers.users import RIGHT

from pubqueue.faces.grpc.transcoding import VERSION, JsonDoor
from pubqueue.faces.http import HttpHost
from pubqueue.faces.listener import Bounds, Place


@asynccontextmanager
async def hosted(face, **more):
    """Serve a face in JSON; yields the URL of the service, once the face is at work; without one, it never is."""
    door = JsonDoor()
    door.lead_to([face])
    host = HttpHost([door], Bounds(login=0), **more)
    async with host.serving([Place("127.0.0.1", 0)]) as ((address, port),):
        await until(lambda: face is None or face.is_up)
        yield f"http://{address}:{port}"


def plain(root, name="", **more):
    """Return a client whose URLs may be relative to the version; without a name it has no credentials."""
    if name:
        more["auth"] = (name, RIGHT)
    return httpx.AsyncClient(base_url=f"{root}/{VERSION}", **{**PLAIN, **more})


class Google:
    """Google's client, unmodified; what it does takes a thread. `token` is that of a user."""

    def __init__(self, root: str, token: str = "") -> None:
        credentials = Credentials(token) if token else AnonymousCredentials()
        options = {"api_endpoint": root}
        self._service = build(*("pubsub", VERSION), credentials=credentials, client_options=options)

    def close(self):
        self._service.close()

    def do(self, resource: str, method: str, **given: Any) -> Any:
        """Call a method of `topics` or `subscriptions`, and return its answer."""
        return getattr(getattr(self._service, resource)(), method)(**given).execute()

    async def topics(self, method: str, **given: Any) -> Any:
        return await asyncio.to_thread(self.do, "topics", method, **given)

    async def subscriptions(self, method: str, **given: Any) -> Any:
        return await asyncio.to_thread(self.do, "subscriptions", method, **given)

    def pages(self, resource: str, **given: Any) -> list[list[dict[str, Any]]]:
        """Return all pages of a list, as the client follows them."""
        part = getattr(self._service, resource)()
        request, found = part.list(**given), []
        while request is not None:
            answer = request.execute()
            found.append(answer.get(resource.removesuffix("s"), []))
            request = part.list_next(request, answer)
        return found


async def refused(call) -> tuple[int, str]:
    """Return the code and the status of the error that a call of Google's client ends with."""
    try:
        await call
    except HttpError as problem:
        return problem.status_code, error_of(problem.content)[1]
    raise AssertionError("it was not refused")


def error_of(content: bytes) -> tuple[int, str]:
    """Return the code and the status of an error in Google's form."""
    (error,) = httpx.Response(200, content=content).json().values()
    assert set(error) == {"code", "message", "status"}
    assert error["message"]
    return error["code"], error["status"]
