"""Suggestions for an unknown name."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NAME_LENGTH: Final = 64
"""Characters of a name that is compared: none of ours is longer, and comparing costs time."""


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean x?` for the known name that is most like the word, empty if none is.

    Names are compared after their `#`, because many share the part before it.
    """
    if len(word) > MAX_NAME_LENGTH:
        return ""
    names = {_short(name): name for name in known}
    near = get_close_matches(_short(word), names, n=1, cutoff=0.7)
    return f"; did you mean {names[near[0]]}?" if near else ""


def _short(name: str) -> str:
    return name.rpartition("#")[2]
