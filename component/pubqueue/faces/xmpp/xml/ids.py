"""Ids of the stanzas that we send."""

from __future__ import annotations

import itertools
import uuid
from typing import Final

_PROCESS: Final = uuid.uuid4().hex
_count = itertools.count(1)


def new_id() -> str:
    """Return an id that no other process and no other call has made; a counter is cheaper than chance."""
    return f"{_PROCESS}-{next(_count):x}"
