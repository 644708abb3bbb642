"""What can be done on the page: operations of the one table, each with the question that is asked before."""

from __future__ import annotations

from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.app.operations.given import Given
from pubqueue.app.operations.table import OPERATIONS
from pubqueue.core.model import State

if TYPE_CHECKING:
    from pubqueue.app.operations.model import Operation
    from pubqueue.core.model import ItemId, NodeName


@unique
class Of(Enum):
    """What a deed is done to."""

    NODE = auto()
    ITEMS = auto()
    """Items that are named."""


class Deed(Struct, frozen=True):
    """Something that can be done to a node or to some of its items."""

    name: str
    operation: Operation
    label: str
    question: str
    """`{node}` is the node, `{items}` how many items."""
    yes: str
    of: Of
    grave: bool = False
    """It cannot be undone."""


class Exact(Given):
    """What an operation is given by a form that nobody has typed: names as they are, also with blanks at their ends."""

    def one(self, var: str) -> str:
        """Return the value of a field as it is; empty if there is none."""
        values = self.get(var, ())
        return values[0] if values else ""

    def lines(self, var: str) -> tuple[str, ...]:
        """Return the values of a field as they are, each once."""
        return tuple(dict.fromkeys(self.get(var, ())))


def given(node: NodeName, ids: tuple[ItemId, ...]) -> Given:
    """Return what an operation is given."""
    return Exact({"node": (node,)} | ({"item": ids} if ids else {}))


DEEDS: Final = {
    deed.name: deed
    for deed in (
        Deed(
            *("pause", OPERATIONS["pause"], "Pause"),
            "Shall {node} hand out nothing until it is resumed?",
            *("Yes, pause it", Of.NODE),
        ),
        Deed(
            *("resume", OPERATIONS["resume"], "Resume", "Shall {node} hand out items again?"),
            *("Yes, resume it", Of.NODE),
        ),
        Deed(
            *("redrive", OPERATIONS["redrive"], "Redrive all dead items"),
            "Shall the dead items of {node} have another life? They go back to where they came from, and count as never having failed.",
            *("Yes, redrive them", Of.NODE),
        ),
        Deed(
            *("redrive-items", OPERATIONS["redrive"], "Redrive"),
            "Shall {items} of {node} have another life? They go back to where they came from, and count as never having failed.",
            *("Yes, redrive", Of.ITEMS),
        ),
        Deed(
            *("release", OPERATIONS["release"], "Release"),
            "Shall the locks of {items} of {node} end? Others get them at once, and it counts as nobody's failure.",
            *("Yes, release", Of.ITEMS),
        ),
        Deed(
            *("purge", OPERATIONS["purge"], "Purge"),
            "Shall all items of {node} be deleted, those that workers hold too? They cannot be brought back.",
            *("Yes, delete all items", Of.NODE),
            grave=True,
        ),
    )
}

OF_STATE: Final = {State.DEAD: DEEDS["redrive-items"], State.LOCKED: DEEDS["release"]}
"""What can be done to items in a state."""
