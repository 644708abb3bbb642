"""What is published: an id, and a text that follows from it; and its digest, whichever protocols it has gone through."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any, Final

from proof.judge.history import digest
from pubqueue_xeps.wire.payloads.decoding import DecodeError, plain
from pubqueue_xeps.wire.xml_text import xml_text

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

SIZES: Final = (0, 10, 100, 1000, 10_000)
LETTERS: Final = "abc äß€😀<&>\"'\n\t"


def job(item: str) -> dict[str, str]:
    """Return what is published under this id, the same each time."""
    random = Random(item)
    text = "".join(random.choices(LETTERS, k=random.choice(SIZES)))
    return {"id": item, "text": text}


def digest_of(value: Any) -> str:
    """Return the digest of a job, as it is before it is written or when it has been read."""
    return digest(json.dumps(value, sort_keys=True))


def named(item: str, payload: Element | None) -> tuple[str, str]:
    """Return what an item is called that has come as XML, and its digest: as a job says itself, for gRPC has no ids of publishers."""
    if payload is None:
        return item, digest(b"")
    try:
        value = plain(payload)
    except DecodeError:
        return item, digest(xml_text(payload))
    return value["id"] if isinstance(value, dict) else item, digest_of(value)
