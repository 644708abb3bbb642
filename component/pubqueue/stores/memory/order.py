"""Sorted keys, in pieces of a bounded length: to add or to remove one costs the same however many there are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

K = TypeVar("K", bound=Any)

LONGEST: Final = 1000
"""Keys in a piece at most."""


class Order(Generic[K]):
    """A sorted set. Whoever adds a key sees to it that it is not there yet, and removes none that is not."""

    __slots__ = ("_lasts", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[list[K]] = []
        self._lasts: list[K] = []

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def __iter__(self) -> Iterator[K]:
        for piece in self._pieces:
            yield from piece

    def __reversed__(self) -> Iterator[K]:
        for piece in reversed(self._pieces):
            yield from reversed(piece)

    def first(self) -> K | None:
        """Return the first key, if there is one."""
        return self._pieces[0][0] if self._pieces else None

    def last(self) -> K | None:
        """Return the last key, if there is one."""
        return self._lasts[-1] if self._lasts else None

    def behind(self, key: K | None) -> Iterator[K]:
        """Iterate over the keys that are greater, or over all of them if there is no such key."""
        if key is None:
            yield from self
            return
        at = bisect_right(self._lasts, key)
        if at < len(self._pieces):
            piece = self._pieces[at]
            yield from piece[bisect_right(piece, key) :]
            for rest in self._pieces[at + 1 :]:
                yield from rest

    def in_front_of(self, key: K | None) -> Iterator[K]:
        """Iterate over the keys that are smaller, the greatest first, or over all of them if there is no such key."""
        if key is None:
            yield from reversed(self)
            return
        at = bisect_left(self._lasts, key)
        if at < len(self._pieces):
            piece = self._pieces[at]
            yield from reversed(piece[: bisect_left(piece, key)])
        for rest in reversed(self._pieces[:at]):
            yield from reversed(rest)

    def add(self, key: K) -> None:
        """Put a key in its place."""
        at = bisect_left(self._lasts, key)
        if at < len(self._pieces):
            insort(self._pieces[at], key)
            if len(self._pieces[at]) > LONGEST:
                self._split(at)
        elif at and len(self._pieces[-1]) < LONGEST:
            self._pieces[-1].append(key)
            self._lasts[-1] = key
        else:
            self._pieces.append([key])
            self._lasts.append(key)

    def _split(self, at: int) -> None:
        piece = self._pieces[at]
        half = len(piece) // 2
        self._pieces[at : at + 1] = [piece[:half], piece[half:]]
        self._lasts.insert(at, piece[half - 1])

    def remove(self, key: K) -> None:
        """Take a key away."""
        at = bisect_left(self._lasts, key)
        piece = self._pieces[at]
        del piece[bisect_left(piece, key)]
        if piece:
            self._lasts[at] = piece[-1]
        else:
            del self._pieces[at], self._lasts[at]
