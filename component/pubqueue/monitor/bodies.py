"""Reads the bodies of requests for the page and for operations."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from aiohttp import web
from multidict import MultiDict

from pubqueue.faces.http import host
from pubqueue.faces.http.host import MAX_BODY_BYTES, REQUEST

FORM: Final = "application/x-www-form-urlencoded"

MAX_FIELDS: Final = 1_000
"""Maximum number of fields in a form of the page."""


async def body_of(request: web.Request) -> bytes:
    """Return the body.

    Raises:
        web.HTTPException: it is too large, takes too long, or cannot be read.

    """
    try:
        return await host.read(request, MAX_BODY_BYTES, REQUEST)
    except host.BodyError as problem:
        raise _refusal(problem.status) from None


def _refusal(status: int) -> web.HTTPException:
    match status:
        case 413:
            why = f"The body has more than {MAX_BODY_BYTES} bytes."
            return web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES, reason=why)
        case 408:
            return web.HTTPRequestTimeout(reason="The body took too long.")
        case _:
            return web.HTTPBadRequest(reason="The body cannot be read.")


async def form_of(request: web.Request) -> MultiDict[str]:
    """Return the fields of a form, which has the type that browsers send forms of the page with, in UTF-8.

    Raises:
        web.HTTPException: it is no such form.

    """
    if request.content_type != FORM:
        raise web.HTTPUnsupportedMediaType(reason=f"A form is sent as {FORM}.")
    body = await body_of(request)
    try:
        fields = parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError:
        raise web.HTTPBadRequest(reason="The form cannot be read.") from None
    return MultiDict(fields)
