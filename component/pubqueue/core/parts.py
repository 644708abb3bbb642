"""A decision on several requests that came as one: each of them as if it had come alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pubqueue.core.decision import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.core.changes import Change

R = TypeVar("R")


class DecidedInParts(Decision, frozen=True, gc=False):
    """`parts` are those requests that change anything, each with its own decision; `changes` are the changes of all."""

    parts: tuple[
        tuple[Any, Decision], ...
    ] = ()  # of the requests that there are, which a rule does not know


def steps(request: object, decision: Decision) -> Iterable[tuple[object, tuple[Change, ...]]]:
    """Return the requests, each with its own changes."""
    if type(decision) is DecidedInParts:
        return [(part, decided.changes) for part, decided in decision.parts]
    return ((request, decision.changes),)


def singly(
    requests: Sequence[R], decisions: Sequence[Decision]
) -> tuple[Sequence[R], Sequence[Decision]]:
    """Return the requests with the decisions, each part as if it had come alone."""
    if DecidedInParts not in map(type, decisions):
        return requests, decisions
    asked: list[R] = []
    decided: list[Decision] = []
    for request, decision in zip(requests, decisions, strict=True):
        if type(decision) is DecidedInParts:
            asked += [part for part, _ in decision.parts]
            decided += [each for _, each in decision.parts]
        else:
            asked.append(request)
            decided.append(decision)
    return asked, decided
