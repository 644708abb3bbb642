"""The actions of the page: operations of the common table, each with the question that the page asks first."""

from __future__ import annotations

from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.model.entities import State
from pubqueue.operations.model import Given
from pubqueue.operations.table import OPERATIONS

if TYPE_CHECKING:
    from pubqueue.model.entities import ItemId, NodeName
    from pubqueue.operations.model import Operation


@unique
class Of(Enum):
    """The object of an action."""

    NODE = auto()
    ITEMS = auto()
    """Named items."""
    REASON = auto()
    """The dead items with one reason."""


class PageAction(Struct, frozen=True):
    """An action on a node or on some of its items."""

    name: str
    operation: Operation
    label: str
    question: str
    """`{node}` is the node, `{items}` the number of items, `{reason}` why they died; `Operation.sure` has only the node."""
    yes: str
    of: Of
    destructive: bool = False
    """The action cannot be undone."""


class Exact(Given):
    """Parameters from a generated form: names are used unchanged, including blanks at their ends."""

    def one(self, var: str) -> str:
        """Return the value of a field unchanged; empty if the field is missing."""
        values = self.get(var, ())
        return values[0] if values else ""

    def lines(self, var: str) -> tuple[str, ...]:
        """Return the values of a field unchanged, without duplicates."""
        return tuple(dict.fromkeys(self.get(var, ())))


def given(node: NodeName, ids: tuple[ItemId, ...], reason: str = "") -> Given:
    """Return the parameters of an operation."""
    words = {"node": (node,)} | ({"item": ids} if ids else {})
    return Exact(words | ({"reason": (reason,)} if reason else {}))


ACTIONS: Final = {
    action.name: action
    for action in (
        PageAction(
            *("pause", OPERATIONS["pause"], "Pause"),
            "Pause deliveries of {node} until you resume it?",
            *("Yes, pause it", Of.NODE),
        ),
        PageAction(
            *("resume", OPERATIONS["resume"], "Resume", "Resume deliveries of {node}?"),
            *("Yes, resume it", Of.NODE),
        ),
        PageAction(
            *("redrive", OPERATIONS["redrive"], "Redrive all dead items"),
            "Requeue the dead items of {node}? They return to the node where they died, and their count of failures starts at zero.",
            *("Yes, redrive them", Of.NODE),
        ),
        PageAction(
            *("redrive-items", OPERATIONS["redrive"], "Redrive"),
            "Requeue {items} of {node}? They return to the node where they died, and their count of failures starts at zero.",
            *("Yes, redrive", Of.ITEMS),
        ),
        PageAction(
            *("redrive-reason", OPERATIONS["redrive"], "Redrive these"),
            "Requeue the dead items of {node} that died of “{reason}”? They return to the node where they died, and their count of failures starts at zero.",
            *("Yes, redrive them", Of.REASON),
        ),
        PageAction(
            *("discard", OPERATIONS["discard"], "Discard"),
            "Delete {items} of {node}? This cannot be undone.",
            *("Yes, discard", Of.ITEMS),
            destructive=True,
        ),
        PageAction(
            *("discard-reason", OPERATIONS["discard"], "Discard these"),
            "Delete the dead items of {node} that died of “{reason}”? This cannot be undone.",
            *("Yes, discard them", Of.REASON),
            destructive=True,
        ),
        PageAction(
            *("cancel", OPERATIONS["cancel"], "Cancel"),
            "Remove {items} of {node} before they are done? A worker that holds one is notified. This cannot be undone.",
            *("Yes, cancel", Of.ITEMS),
            destructive=True,
        ),
        PageAction(
            *("release", OPERATIONS["release"], "Release"),
            "Release {items} of {node}? Other workers can get them at once, and no failure is counted.",
            *("Yes, release", Of.ITEMS),
        ),
        PageAction(
            *("purge", OPERATIONS["purge"], "Purge"),
            "Delete all items of {node}, including those that workers hold? This cannot be undone.",
            *("Yes, delete all items", Of.NODE),
            destructive=True,
        ),
    )
}

OF_STATE: Final = {
    State.DEAD: (ACTIONS["redrive-items"], ACTIONS["discard"]),
    State.LOCKED: (ACTIONS["release"], ACTIONS["cancel"]),
    State.QUEUED: (ACTIONS["cancel"],),
    State.DELAYED: (ACTIONS["cancel"],),
    None: (ACTIONS["cancel"],),
}
"""The actions on items of a queue in one state, or in any state."""

OF_REASON: Final = (ACTIONS["redrive-reason"], ACTIONS["discard-reason"])
"""The actions on all items that died for one reason."""
