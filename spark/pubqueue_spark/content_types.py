"""Payloads with a content type: text and bytes as they are, in the element that workers and other protocols read.

The module in `pubqueue_xeps` that makes and reads this element needs msgspec, unlike the rest of a read or write. So it
is imported only when a job needs it, first on the driver.
"""

from __future__ import annotations

import socket
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pubqueue_spark.errors import OptionError
from pubqueue_xeps.wire.payloads.content_type import is_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue_xeps.wire.requests.pages import ReadItem

    Headers = Mapping[str, str | None] | None
    TypedWriter = Callable[[object, str, Headers], tuple[bytes, Headers]]
    """Takes a value of the column `payload`, its type and the headers of its row; returns the element and the headers."""
    DataReader = Callable[[ReadItem], tuple[bytes | None, str | None, str | None]]
    """Takes an item; returns the content of its payload, the content type, and the content as text if it is JSON."""


def writer() -> TypedWriter:
    """Return the writer of payloads; raise OptionError if this Python lacks msgspec."""
    publication = _module("publication", "a payload with a content type")

    def write(value: object, type: str, headers: Headers) -> tuple[bytes, Headers]:  # noqa: A002
        item = publication.wrapped(publication.NewItem(payload=value, type=type, headers=headers))
        return item.payload.xml, item.headers

    return write


def reader() -> DataReader:
    """Return the reader of payloads; raise OptionError if this Python lacks msgspec."""
    payloads = _module("payloads.decoding", "option includeData")

    def read(item: ReadItem) -> tuple[bytes | None, str | None, str | None]:
        if item.payload is None:
            return None, None, None
        body = payloads.of_element(item.payload, payloads.header_of(item.headers))
        return body.data, body.type, _json(body.data) if is_json(body.type) else None

    return read


def _json(data: bytes) -> str | None:
    """Return the text of JSON, which is UTF-8 (RFC 8259 8.1); None if a publisher's type is wrong."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _module(name: str, what: str) -> Any:  # noqa: ANN401 - a module
    try:
        return import_module(f"pubqueue_xeps.wire.{name}")
    except ModuleNotFoundError as missing:
        raise OptionError(
            f"{what} needs the Python package {missing.name} on the driver and on every executor, and"
            f" {sys.executable} on {socket.gethostname()} has none: pip install {missing.name}."
        ) from None
