"""Facts for notices that are stored for other instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.store.rows import FORWARDED
from pubqueue.rules.forward import EndForwardFacts, ForwardFacts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.app.facts.context import Context
    from pubqueue.model.records import Forwarded
    from pubqueue.rules.forward import EndForward, Forward


def for_forward(context: Context, request: Forward) -> ForwardFacts:
    """Return those of the bundles that are stored already."""
    return ForwardFacts(_kept(context, (one.mark for one in request.bundles)))


def for_end(context: Context, request: EndForward) -> EndForwardFacts:
    """Return those of the bundles that still exist."""
    return EndForwardFacts(_kept(context, request.marks))


def _kept(context: Context, marks: Iterable[str]) -> tuple[Forwarded, ...]:
    found = [context.rows.row(FORWARDED, mark) for mark in marks]
    return tuple([one for one in found if one is not None])
