"""Caches the results of parsing repeated texts, within a bound of bytes, because clients choose the texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

COPIES: Final = 6
"""The factor from a text's size to that of its entry: the text, its result, and an answer in which each character may be an entity."""

ENTRY: Final = 600
"""Bytes of an entry in addition to its text: the Python objects that it consists of."""


class Remembered(Generic[P, R]):
    """Caches the results of a function of bytes, up to a number of bytes; the oldest are dropped first."""

    def __init__(self, read: Callable[P, R], most: int) -> None:
        self._read = read
        self._most = most
        self._known: dict[tuple[object, ...], R] = {}
        self.byte_count = 0

    def __call__(self, *words: P.args, **none: P.kwargs) -> R:
        """Return the result for these texts."""
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
        """Clear the cache."""
        self._known.clear()
        self.byte_count = 0


def remembered(most: int) -> Callable[[Callable[P, R]], Remembered[P, R]]:
    """Cache results of the function, up to about this many bytes, texts included."""
    return lambda read: Remembered(read, most)


def _byte_count(words: tuple[object, ...]) -> int:
    return ENTRY + COPIES * sum(len(part) for part in words if isinstance(part, bytes))
