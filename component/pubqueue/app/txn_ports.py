"""The part of the store's seam that transactions need: what is staged, and what its winners meet.

A commit may have a million items. So its facts are counts, made where the items are; only what has to be
compared by meaning is handed out, in pages. `choose` begins; what the others say of winners is about the
attempts that it chose, until the end of the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.core.model import Draft, ItemId, Jid, Millis, NodeName
    from pubqueue.core.transactions import App, Mark, Noted, Open, Record, Usage


class Contest(Struct, frozen=True, gc=False):
    """A winner and what is there under its id: a payload, or of finished work the digest of one."""

    key: tuple[int, int]
    finished: bool
    there: bytes
    offered: bytes


class Class(Struct, frozen=True, gc=False):
    """So many winners met an item in this state (or `finished` work); whether with their payload."""

    state: str
    same: bool
    count: int
    first: ItemId


class Staging(Protocol):
    """What is staged in this transaction of the store."""

    def standing(self, app: str, version: int) -> tuple[App | None, Open | None]:
        """Return the app, and its version of this number if that is open."""

    def usage(self, account: Jid) -> Usage:
        """Return what waits for commits, of the account and in all."""

    def size(self, mark: Mark, node: NodeName, item: ItemId) -> int | None:
        """Return the size of what this very attempt has staged under the id."""

    def noted(self, mark: Mark, node: NodeName, item: ItemId) -> Noted | None:
        """Return what any attempt of the open version has noted of the id."""

    def attempts(self, app: str, version: int) -> dict[tuple[int, int], tuple[int, int]]:
        """Return how many items and bytes each (part, attempt) of an open version has staged."""

    def record(self, app: str, version: int) -> Record | None:
        """Return the record of a committed version."""

    def records(
        self, *, waiting: bool, app: str | None, owner: Jid | None, after: int, limit: int
    ) -> list[Record]:
        """Return records behind an id, the oldest first."""

    def overdue(self, now: Millis, limit: int) -> list[tuple[str, int]]:
        """Return open versions whose time to wait has ended."""

    def litter(self, before: Millis) -> bool:
        """Say whether a sweep would find anything."""

    # --- the winners of one version ---

    def choose(
        self, app: str, version: int, parts: Iterable[tuple[int, int]]
    ) -> list[tuple[NodeName, int, int]]:
        """Begin a commit of these (part, attempt): return each node with its rows and ids."""

    def meet_finished(self, node: NodeName, now: Millis) -> None:
        """Let the winners of a node meet finished work that still absorbs a re-publish."""

    def choose_noted(
        self, app: str, version: int, parts: Iterable[tuple[int, int]]
    ) -> tuple[int, int]:
        """Return how many items these attempts have noted, and how many of them were known."""

    def contested(self, node: NodeName, limit: int) -> list[Contest]:
        """Return winners of which it is open whether they mean the same as what is there."""

    def judge(self, verdicts: Sequence[tuple[Contest, bool]]) -> None:
        """Keep whether these mean the same; finished work that does not counts no longer."""

    def classes(self, node: NodeName) -> list[Class]:
        """Return what the winners of a node have met."""

    def drafts(self, node: NodeName) -> list[Draft]:
        """Return the winners of a node, in their order."""
