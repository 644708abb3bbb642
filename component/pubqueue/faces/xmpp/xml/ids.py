"""Ids of outgoing stanzas."""

from __future__ import annotations

import itertools
import os
import uuid

_process = uuid.uuid4().hex
_count = itertools.count(1)


def new_id() -> str:
    """Return an id that no other call in any process returns; a counter is cheaper than random numbers."""
    return f"{_process}-{next(_count):x}"


def _in_a_forked_process() -> None:
    global _process  # noqa: PLW0603 - a forked process counts on from the same number
    _process = uuid.uuid4().hex


os.register_at_fork(after_in_child=_in_a_forked_process)
