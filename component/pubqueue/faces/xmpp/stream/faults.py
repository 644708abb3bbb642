"""What the log says of a fault of ours: its kind and its place. What it says itself may have a payload in it."""

from __future__ import annotations

from pathlib import Path
from traceback import extract_tb

NEAREST = 3
"""Places that are named, the innermost first."""


def fault(problem: BaseException) -> dict[str, str]:
    """Return the keys of a log line: the type of the exception, and where it was raised."""
    places = [
        f"{Path(one.filename).name}:{one.lineno}" for one in extract_tb(problem.__traceback__)
    ]
    return {"kind": type(problem).__name__, "at": " ".join(places[: -NEAREST - 1 : -1])}
