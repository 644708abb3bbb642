"""A frame, as it was read or is to be written."""

from __future__ import annotations

from msgspec import Struct


class Frame(Struct, gc=False):
    """A frame: its command, its headers in their order, and its body.

    Of a repeated header only the first is kept (1.2, "Repeated Header Entries").
    """

    command: str
    headers: dict[str, str]
    body: bytes = b""
