"""Errors as problem documents (RFC 9457), the same for all parts."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Mapping

MEDIA_TYPE: Final = "application/problem+json"

SPACE: Final = "urn:x-pubqueue:problem:"
"""The beginning of every `type`."""


def document(status: int, name: str, detail: str = "", **more: object) -> dict[str, object]:
    """Return a problem: its type, the title of the status, and a sentence for the caller."""
    words: dict[str, object] = {
        "type": f"{SPACE}{name}",
        "title": HTTPStatus(status).phrase,
        "status": status,
    }
    return words | ({"detail": detail} if detail else {}) | more


def problem(
    status: int,
    name: str,
    detail: str = "",
    *,
    headers: Mapping[str, str] | None = None,
    **more: object,
) -> web.Response:
    """Return an answer with a problem. `detail` is a sentence for the caller, without payloads or internal addresses."""
    return web.Response(
        body=msgspec.json.encode(document(status, name, detail, **more)) + b"\n",
        status=status,
        content_type=MEDIA_TYPE,
        headers=headers,
    )
