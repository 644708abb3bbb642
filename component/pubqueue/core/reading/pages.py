"""What can be read of a queue: pages of its event log, its items, its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.reading import sampled, summaries

if TYPE_CHECKING:
    from pubqueue.core.events import Event
    from pubqueue.core.model import Item, Millis, Node, NodeName


class EventEntry(Struct, frozen=True, gc=False):
    """An event in the log: its number, which only rises, and its time."""

    seq: int
    at: Millis
    event: Event


class EventPage(Struct, frozen=True, gc=False):
    """Events in the order of their numbers; all of them up to `through`.

    `oldest` and `newest` are the ends of the whole log; 0 before the first event.
    """

    entries: tuple[EventEntry, ...]
    oldest: int
    newest: int
    through: int
    more: bool


class ItemEntry(Struct, frozen=True, gc=False):
    """An item in a read: with the size of its payload, and the payload if it was requested."""

    item: Item
    size: int
    payload: bytes | None = None


class ItemPage(Struct, frozen=True, gc=False):
    """Items of a node in the order of their numbers, or of their dead letters if `dead`.

    `done` is the number of items that the node keeps although they are done; they are in no page.
    """

    node: NodeName
    entries: tuple[ItemEntry, ...]
    newest: int
    through: int
    more: bool
    dead: bool = False
    done: int = 0


class NodeEntry(Struct, frozen=True, gc=False):
    """A node, its items by state, and its workers. `oldest` is when its oldest waiting item was published."""

    node: Node
    queued: int
    locked: int
    delayed: int
    dead: int
    window_free: int
    oldest: Millis | None = None
    owned: bool = False
    rate: float = 0.0
    """Items done per minute recently, as far as this process knows."""
    failing: float = 0.0
    """Items that failed per minute recently, as far as this process knows."""
    too_large: int = 0
    """Waiting items that no protocol of a connected worker can carry, of the first 20,000."""


class SurveyRow(Struct, frozen=True, gc=False):
    """A node with its problems, the worst first."""

    entry: NodeEntry
    problems: tuple[str, ...]


class Totals(Struct, frozen=True, gc=False):
    """Totals: nodes, queues, `troubled` queues, and items of queues; `problems` with the number of queues each."""

    queues: int = 0
    plain: int = 0
    troubled: int = 0
    queued: int = 0
    locked: int = 0
    delayed: int = 0
    dead: int = 0
    rate: float = 0.0
    problems: tuple[tuple[str, int], ...] = ()


class Survey(Struct, frozen=True, gc=False):
    """Nodes in the requested order, and the totals; with `whole` all nodes were looked at."""

    rows: tuple[SurveyRow, ...]
    totals: Totals
    more: bool = False
    whole: bool = True
    now: Millis | None = None


class NodePage(Struct, frozen=True, gc=False):
    """Nodes by name, as of `now`; `more` may follow `through`. Their settings are for owners only."""

    entries: tuple[NodeEntry, ...]
    more: bool
    now: Millis
    through: NodeName | None = None


class Trimmed(Struct, frozen=True, gc=False):
    """The log is shorter; `more` may be removed."""

    more: bool


class NewerItems(Struct, frozen=True, gc=False):
    """Items of a plain node with their payloads, by number; `through` is the number to continue from, and `more` may follow.

    `newest` is the highest number of an item in the node. If the item from which it was read is not `kept` any more,
    others after it may have been removed as well before they were read.
    """

    node: Node
    items: tuple[tuple[Item, bytes], ...]
    through: int
    newest: int
    more: bool = False
    kept: bool = True


class Newest(Struct, frozen=True, gc=False):
    """The highest number of an item in each node, 0 if there is none."""

    numbers: tuple[tuple[NodeName, int], ...]


Pages = NewerItems | Newest
Reply = (
    Pages
    | EventPage
    | ItemPage
    | NodePage
    | Survey
    | Trimmed
    | summaries.Reply
    | sampled.SamplePage
)
