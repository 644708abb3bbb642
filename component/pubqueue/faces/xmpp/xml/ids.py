"""Ids of outgoing stanzas."""

from __future__ import annotations

import itertools
import uuid
from typing import Final

_PROCESS: Final = uuid.uuid4().hex
_count = itertools.count(1)


def new_id() -> str:
    """Return an id that no other call in any process returns; a counter is cheaper than random numbers."""
    return f"{_PROCESS}-{next(_count):x}"
