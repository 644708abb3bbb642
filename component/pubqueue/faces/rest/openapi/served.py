"""The resource that returns the OpenAPI document of its profile."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec

from pubqueue.faces.rest.exchange import answer
from pubqueue.faces.rest.http.routes import Route
from pubqueue.faces.rest.openapi.document import document

if TYPE_CHECKING:
    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.faces.rest.openapi.document import OperationTable

MEDIA_TYPE = "application/vnd.oai.openapi+json"
PATH = "openapi.json"


def route(table: OperationTable) -> Route:
    """Return the route that returns the document of this table."""

    async def get(exchange: Exchange) -> web.Response:
        found = document(exchange.profile, table, exchange.base, version("pubqueue"))
        return answer(200, body=msgspec.json.encode(found), kind=MEDIA_TYPE)

    return Route("GET", f"/{PATH}", get, "openapi")
