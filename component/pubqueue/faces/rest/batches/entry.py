"""An entry of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.faces.rest.http.problems import ProblemError

if TYPE_CHECKING:
    from pubqueue.faces.rest.items.published import Wishes


class Entry(Struct):
    """The headers and the body of one message of a batch."""

    wishes: Wishes
    body: bytes


def at(index: int, problem: ProblemError) -> ProblemError:
    """Return the problem of the entry of this index, counted from 0."""
    problem.more["index"] = index
    return problem


def bad_entry(index: int, detail: str) -> ProblemError:
    """Return the problem of an entry with an error."""
    return ProblemError(400, "bad-request", detail, index=index)
