"""Needs, rows and writes by the names of their kinds, as tests write them down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pubqueue.engine.rows import KINDS, KeysByKind, Needs, Rows, RowsByKind, Writes, WritesByKind

if TYPE_CHECKING:
    from pubqueue.model.entities import Millis


def needs_of(**keys: Any) -> Needs:
    """Return needs: each a field of `Needs`, or the name of a kind."""
    of, others = _apart(keys)
    return Needs(of=KeysByKind(of), **others)


def rows_of(**found: Any) -> Rows:
    """Return rows that were found."""
    of, others = _apart(found)
    return Rows(of=RowsByKind(of), **others)


def writes_of(at: Millis, **changed: Any) -> Writes:
    """Return writes."""
    of, others = _apart(changed)
    return Writes(at, of=WritesByKind(of), **others)


def of_kind(table: Rows | Writes, name: str) -> list[Any]:
    """Return the rows, or writes, of a field or of the kind of this name."""
    kind = next((kind for kind in KINDS if kind.name == name), None)
    found: list[Any] = getattr(table, name) if kind is None else table.of[kind]
    return found


def _apart(named: dict[str, Any]) -> tuple[dict[Any, Any], dict[str, Any]]:
    of = {kind: named[kind.name] for kind in KINDS if kind.name in named}
    return of, {
        name: some for name, some in named.items() if name not in {kind.name for kind in of}
    }
