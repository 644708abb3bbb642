"""What was read of words that come again and again is remembered, within a bound of bytes: anybody chooses the words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

COPIES: Final = 6
"""As often as the words themselves: their meaning, and an answer in which each character may be an entity."""

ENTRY: Final = 600
"""Bytes of an entry in addition to its words: the Python objects that it consists of."""


class Remembered(Generic[P, R]):
    """A function of bytes with a cache of its results, up to a number of bytes; the oldest are dropped first."""

    def __init__(self, read: Callable[P, R], most: int) -> None:
        self._read = read
        self._most = most
        self._known: dict[tuple[object, ...], R] = {}
        self.byte_count = 0

    def __call__(self, *words: P.args, **none: P.kwargs) -> R:
        """Return what the words mean."""
        try:
            return self._known[words]
        except KeyError:
            return self._keep(words, self._read(*words, **none))

    def _keep(self, words: tuple[object, ...], meaning: R) -> R:
        self._known[words] = meaning
        self.byte_count += _byte_count(words)
        while self.byte_count > self._most:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self.byte_count -= _byte_count(oldest)
        return meaning

    def forget(self) -> None:
        """Remember nothing."""
        self._known.clear()
        self.byte_count = 0


def remembered(most: int) -> Callable[[Callable[P, R]], Remembered[P, R]]:
    """Cache results of the function, about this many bytes of them, including what they were read from."""
    return lambda read: Remembered(read, most)


def _byte_count(words: tuple[object, ...]) -> int:
    return ENTRY + COPIES * sum(len(part) for part in words if isinstance(part, bytes))
