"""From rows to the nouns of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pubqueue.core.model import Item, State
from pubqueue.stores.sqlite.headers import unpacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.core.model import NodeName

_STATES: Final = {state.value: state for state in State}


def item_of(node: NodeName, row: Sequence[Any]) -> Item:
    """Make an item of its columns, of which the last has the headers: mostly there are none."""
    facts = row[3:-1] if row[-1] is None else (*row[3:-1], unpacked(row[-1]))
    return Item(row[0], node, row[1], _STATES[row[2]], *facts)
