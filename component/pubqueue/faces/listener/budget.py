"""One budget for the bytes that clients make the process keep: what is not whole yet, and what a conversation keeps."""

from __future__ import annotations

from typing import Final, Protocol

MAX_BYTES: Final = 40 << 20
"""Bytes that all clients of the process together may have kept."""

SMALL: Final = 4 << 10
"""Bytes of one keeper that are not counted: all connections together have few of them."""

SHARES: Final = 3
"""The part of the budget that the service itself fills for one owner: what it would send beyond that waits elsewhere."""

STRANGERS: Final = ""
"""The owner of what clients have sent before they are known. They are one owner, whatever their addresses."""

OF_STRANGERS: Final = 2
"""The part of the budget that several of them may have together; the first request of a connection is a stranger's until its account is proven."""


class Keeper(Protocol):
    """Keeps bytes of a client: a connection, or one of several messages on it."""

    def give_up(self) -> None:
        """Forget them, and notify the client. The budget has forgotten them already."""


class Budget:
    """Counts the bytes that keepers keep, by owner.

    When all together keep too much, the owner with the most bytes gives up what it began first. So an account can use what others
    leave, and never take from them: an owner with less than the largest one keeps what it has. Strangers have a part of it.
    """

    def __init__(self, most: int = MAX_BYTES) -> None:
        self.most, self.size = most, 0
        self._owners: dict[str, dict[Keeper, int]] = {}
        """The keepers of each owner, in the order in which they began."""
        self._sums: dict[str, int] = {}
        self._owner_of: dict[Keeper, str] = {}

    def note(self, one: Keeper, owner: str, size: int, *, is_new: bool = False) -> None:
        """Note how much a keeper keeps now. With `is_new` it has begun something else than before."""
        if size <= SMALL or is_new or self._owner_of.get(one, owner) != owner:
            self.forget(one)
        if size <= SMALL:
            return
        keepers = self._owners.setdefault(owner, {})
        more = size - keepers.get(one, 0)
        keepers[one] = size
        self._owner_of[one] = owner
        self._sums[owner] = self._sums.get(owner, 0) + more
        self.size += more
        while self.of(STRANGERS) > self.most // OF_STRANGERS and len(self._owners[STRANGERS]) > 1:
            self._make_room(STRANGERS)
        while self.size > self.most:
            self._make_room(max(self._sums, key=self._sums.__getitem__))

    def forget(self, one: Keeper) -> None:
        """Note that a keeper keeps nothing any more."""
        owner = self._owner_of.pop(one, None)
        if owner is None:
            return
        keepers = self._owners[owner]
        size = keepers.pop(one)
        self.size -= size
        self._sums[owner] -= size
        if not keepers:
            del self._owners[owner], self._sums[owner]

    def of(self, owner: str) -> int:
        """Return how many bytes are kept for an owner."""
        return self._sums.get(owner, 0)

    def has_room(self, owner: str, size: int) -> bool:
        """Return whether so much more may be kept for an owner whose other bytes may have to wait for it. One message alone may be larger."""
        kept = self.of(owner)
        return not kept or kept + size <= self.most // SHARES

    def _make_room(self, owner: str) -> None:
        oldest = next(iter(self._owners[owner]))
        self.forget(oldest)
        oldest.give_up()


KEPT: Final = Budget()
"""The budget of this process. Memory is the process's, so all listeners share this one, and no face can forget it."""
