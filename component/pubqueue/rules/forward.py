"""Notices for connections of other instances: stored until the instance that has the connection has sent them.

A connection can be reached only from its own instance. Notices for the connections of another instance are stored as a bundle of
bytes; the other instance reads its bundles, sends the notices, and drops the bundles. The rules do not look into a bundle. Only
the service itself forwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.model.changes import DropRow, PutRow
from pubqueue.model.decision import Decision, Done, Request
from pubqueue.model.records import Forwarded

if TYPE_CHECKING:
    from collections.abc import Iterable


_WIDTH: Final = 12
"""Digits of a number in a mark, so that marks are in the order of the numbers."""


class Forward(Request, frozen=True, gc=False):
    """Store these bundles for other instances."""

    bundles: tuple[Forwarded, ...]


class ForwardFacts(Struct, frozen=True, gc=False):
    """The bundles that are stored already: an answer was lost, and the request was repeated."""

    kept: tuple[Forwarded, ...]


class EndForward(Request, frozen=True, gc=False):
    """Drop these bundles: their notices were sent, or their instance is gone."""

    marks: tuple[str, ...]


class EndForwardFacts(Struct, frozen=True, gc=False):
    """Those of the bundles that still exist."""

    kept: tuple[Forwarded, ...]


def marks_for(instance: int) -> str:
    """Return the prefix of the marks of all bundles for an instance."""
    return f"{instance:0{_WIDTH}d}."


def mark_for(instance: int, sender: str, number: int) -> str:
    """Return the mark of a bundle; `sender` is a word that is unique to the process."""
    return f"{marks_for(instance)}{sender}.{number:0{_WIDTH}d}"


def forward(request: Forward, facts: ForwardFacts) -> Decision:
    """Store the bundles that are not stored yet."""
    kept = _marks(facts.kept)
    new = tuple(PutRow(one) for one in request.bundles if one.mark not in kept)
    return Decision(Done(), new)


def end_forward(_request: EndForward, facts: EndForwardFacts) -> Decision:
    """Drop the bundles that still exist."""
    return Decision(Done(), tuple(DropRow(Forwarded, one.mark) for one in facts.kept))


def _marks(bundles: Iterable[Forwarded]) -> set[str]:
    return {one.mark for one in bundles}
