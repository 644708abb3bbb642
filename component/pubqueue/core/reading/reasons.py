"""Reasons of deaths, grouped if they differ in numbers and ids only.

A shape is a reason with `*` for the parts that vary from item to item. As a pattern it matches the
reasons that it was made from. So a shape from a list of reasons can be used in a request to select
its items.
"""

from __future__ import annotations

import re
from typing import Final

MAX_SHAPE_LENGTH: Final = 200
"""Characters of a shape; longer ones are cut."""

ANY: Final = "*"

_VARIES: Final = re.compile(
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"  # a UUID
    r"|\b0x[0-9a-fA-F]+"
    r"|\b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}\b"
    r"|[0-9]+(?:[.:,][0-9]+)*"
)
_AGAIN: Final = re.compile(r"\*{2,}")


def shape(reason: str) -> str:
    """Return the first line of a reason with `*` for each number and id in it."""
    first, line, _ = reason.partition("\n")
    found = _VARIES.sub(ANY, first) + (ANY if line else "")
    if len(found) > MAX_SHAPE_LENGTH:
        found = found[:MAX_SHAPE_LENGTH] + ANY
    return _AGAIN.sub(ANY, found) or ANY


def matches(pattern: str, reason: str) -> bool:
    """Return whether a reason matches a pattern, in which `*` stands for any text; an empty pattern matches all."""
    if not pattern:
        return True
    first, *parts = pattern.split(ANY)
    if not parts:
        return reason == first
    last = parts.pop()
    at, end = len(first), len(reason) - len(last)
    if end < at or not reason.startswith(first) or not reason.endswith(last):
        return False
    for part in parts:
        at = reason.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
