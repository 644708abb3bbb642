"""Names that are made of several names."""

from __future__ import annotations


def joined(*names: str) -> str:
    """Return one name for several; no other names of the same number have it.

    There is a slash between two of them. In all but the last, a slash is `%2F` and a percent sign `%25`, so that names with neither
    stay as they are.
    """
    *before, last = names
    return "/".join([*(name.replace("%", "%25").replace("/", "%2F") for name in before), last])
