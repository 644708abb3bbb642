"""How deep tests look that draw examples: a part of them with each commit, all of them with `--deep`.

`examples` is for numbers that a test would have higher if it had the time. What a test proves with one example it proves at any depth.
"""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "TESTS_DEPTH"
"""In the environment, so that other processes of the run have it too. The service would warn of a name like its own."""
DEEP: Final = 10
FEWEST: Final = 3
"""The first example that Hypothesis draws is the simplest: one or two would hardly be a test."""


def depth() -> int:
    """Return how many times as many examples are wanted as with each commit."""
    return int(os.environ.get(VARIABLE, "1"))


def examples(daily: int) -> int:
    """Return how many examples are wanted, of a test that has so many with each commit."""
    assert daily >= FEWEST, f"{daily} examples are too few to prove anything"
    return daily * depth()
