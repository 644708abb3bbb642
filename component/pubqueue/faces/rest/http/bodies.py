"""Bodies of requests, and the problems of those that are not accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.faces.http import bodies
from pubqueue.faces.rest.http.problems import ProblemError, bad_request

if TYPE_CHECKING:
    from aiohttp import web


def too_large(limit: int) -> ProblemError:
    """Return the problem of a body above the limit, of which nothing more is read."""
    return ProblemError(
        413, "too-large", f"a body has up to {limit} bytes here", close=True, limit=limit
    )


async def read(request: web.Request, limit: int, seconds: float) -> bytes:
    """Return the body.

    Raises:
        ProblemError: it is too large, takes too long, or cannot be decoded.

    """
    try:
        return await bodies.read(request, limit, seconds)
    except bodies.BodyError as problem:
        raise _problem(problem.status, limit) from None


def _problem(status: int, limit: int) -> ProblemError:
    match status:
        case 413:
            return too_large(limit)
        case 408:
            return ProblemError(408, "too-slow", "the body took too long", close=True)
        case _:
            return bad_request("the body cannot be read")


async def none(request: web.Request, name: str = "body-not-expected") -> None:
    """Refuse a body that is not empty.

    Raises:
        ProblemError: there is one.

    """
    if request.content_length or (
        request.content_length is None and request.can_read_body and await request.content.readany()
    ):
        raise ProblemError(400, name, "the request must not have a body", close=True)
