"""How faults are logged: their kind and their place. Their message is left out, because it may contain a payload."""

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
