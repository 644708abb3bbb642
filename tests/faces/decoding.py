"""In which turns of the loop payloads are decoded, and how much in each."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import contextmanager

from pubqueue_xeps.wire.payloads import wrapper


@contextmanager
def decoded_in_turns(monkeypatch):
    """Yield the sizes of what is decoded, by the number of the turn."""
    loop, decoded = asyncio.get_running_loop(), wrapper.decoded
    sizes, turn, is_over = defaultdict(list), 0, False

    def others():
        nonlocal turn
        turn += 1
        if not is_over:
            loop.call_soon(others)

    def counted(part):
        sizes[turn].append(len(part))
        return decoded(part)

    monkeypatch.setattr(wrapper, "decoded", counted)
    others()
    try:
        yield sizes
    finally:
        is_over = True


def is_in_steps(sizes):
    """Return whether it was in several turns, and in each of them one step."""
    steps = [len(each) == 1 and each[0] <= wrapper.STEP for each in sizes.values()]
    return len(steps) > 1 and all(steps)
