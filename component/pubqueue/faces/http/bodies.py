"""Reads the bodies of requests, within limits of size and time."""

from __future__ import annotations

import asyncio

from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError


class BodyError(Exception):
    """The body is not accepted. The connection ends after an answer with this `status`."""

    def __init__(self, status: int) -> None:
        super().__init__(f"{status}")
        self.status = status


async def read(request: web.Request, limit: int, seconds: float) -> bytes:
    """Return the body.

    Raises:
        BodyError: it is too large (413), takes too long (408), or cannot be decoded (400).

    """
    if request.content_length is not None and request.content_length > limit:
        raise BodyError(413)
    if not request.can_read_body:
        return b""
    try:
        if request.content.is_eof():  # it has come with the head, as small ones do
            return _within(request.content.read_nowait(), limit)
        async with asyncio.timeout(seconds):
            return await _read_on(request, limit)
    except TimeoutError:
        raise BodyError(408) from None
    except (HttpProcessingError, web.RequestPayloadError, ValueError, LookupError):
        raise BodyError(400) from None


async def _read_on(request: web.Request, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := await request.content.readany():
        size += len(part)
        if size > limit:
            raise BodyError(413)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _within(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise BodyError(413)
    return body


async def meets_expectation(request: web.Request) -> bool:
    """Send `100 Continue` if the client waits for that before it sends the body; return False if it expects something else (RFC 9110 10.1.1)."""
    if request.version < HttpVersion11:
        return True  # 1.0 has no expectations
    if request.headers.get("Expect", "").lower() != "100-continue":
        return False
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # no part of the answer has been sent
    return True
