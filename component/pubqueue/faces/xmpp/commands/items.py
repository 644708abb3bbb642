"""Items of a node: look at one, give dead ones another life, end a lock, delete all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.core.model import ItemId, NodeName, State
from pubqueue.core.nodes.manage import Describe, Purge
from pubqueue.core.queue.free import FreeLocks
from pubqueue.core.queue.redrive import Redrive
from pubqueue.core.reading.oversee import Peek
from pubqueue.core.reading.overviews import Power
from pubqueue.core.reading.read import ReadItems
from pubqueue.faces.xmpp.commands.stages import WARN, Command, Field, Form, Result, Stage, own
from pubqueue.faces.xmpp.commands.words import (
    ask_powers,
    choose_node,
    count,
    fact,
    listed,
    node_of,
    unfit,
)
from pubqueue.faces.xmpp.text import stamp

if TYPE_CHECKING:
    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Described, Done, Redriven
    from pubqueue.core.model import Asker, Item
    from pubqueue.core.reading.overviews import Freed, Peeked
    from pubqueue.core.reading.pages import ItemEntry, ItemPage
    from pubqueue.faces.xmpp.commands.stages import Given, Shown
    from pubqueue.faces.xmpp.refusals import StanzaError

NAMED: Final = 50
"""Items that are named to choose from, at most."""

SHOWN: Final = 4_000
"""Bytes of a payload that are shown."""

WHICH, ITEM, OTHER, TO, SURE = "which", "item", "other_item", "to", "sure"

CHOICES: Final = (
    (State.DEAD.value, "Dead items"),
    (State.LOCKED.value, "Items that workers hold"),
    (State.QUEUED.value, "Items that wait"),
    (State.DELAYED.value, "Items that wait for a time"),
    ("all", "All items"),
)

REVIVED: Final = 1_000
"""As many as one redrive without names takes; there may be more then."""


# --- peek ---------------------------------------------------------------------------------------


def _ask_items(by: Asker, given: Given) -> Request | StanzaError:
    which = given.one(WHICH) or "all"
    if which not in {value for value, _ in CHOICES}:
        return unfit(f"{WHICH}: one of {listed(value for value, _ in CHOICES)}")
    state = None if which == "all" else State(which)
    return ReadItems(by, node_of(given), max=NAMED, state=state, payloads=False)


def _choose_item(page: ItemPage, _given: Given) -> Shown:
    if not page.entries and not page.more:
        return Result(f"There are no such items in {page.node}.")
    options = tuple((entry.item.id, _about(entry)) for entry in page.entries)
    other = Field(OTHER, "text-single", "Or another item, by its id")
    pick = Field(ITEM, "list-single", "Item", options[0][:1], options) if options else None
    words = "Choose the item you want to look at. Looking takes nothing from anybody."
    words += f" These are the first {len(options)}." if page.more else ""
    return Form(f"Items of {page.node}", words, (pick, other) if pick else (other,))


def _about(entry: ItemEntry) -> str:
    item = entry.item
    words = [item.state.value]
    words += [f"held by {item.holder}"] if item.holder else []
    words += [f"failed {count(item.failed, 'time')}"] if item.failed else []
    words += [item.error[:80]] if item.error else []
    return f"{item.id} ({listed(words)})"


def _ask_peek(by: Asker, given: Given) -> Request | StanzaError:
    name = given.one(OTHER) or given.one(ITEM)
    return Peek(by, node_of(given), ItemId(name)) if name else unfit("choose an item")


def _show_item(reply: Peeked, _given: Given) -> Result:
    facts = tuple(field for field in _facts(reply.item) if any(field.value))
    text = reply.payload[:SHOWN].decode("utf-8", "replace")
    cut = len(reply.payload) > SHOWN
    payload = fact("payload", "Payload, as it begins" if cut else "Payload", text)
    note = f"{count(len(reply.payload), 'byte')} of payload."
    title = f"Item {reply.item.id} of {reply.node}"
    return Result(note, title=title, facts=(*facts, payload))


def _facts(item: Item) -> tuple[Field, ...]:
    letter = item.dead_letter
    return (
        fact("state", "State", item.state.value),
        fact("publisher", "Published by", item.publisher),
        fact("published", "Published at", stamp(item.published)),
        fact("priority", "Priority", str(item.priority)),
        fact("acquired", "Handed out, times", str(item.acquired)),
        fact("failed", "Failed, times", str(item.failed)),
        fact("error", "Last error", item.error),
        fact("died", "Died at", stamp(letter.at) if letter else ""),
        fact("origin", "Came dead from", (letter.origin or "") if letter else ""),
        fact("last_holder", "Last held by", (letter.holder or "") if letter else ""),
        fact("holder", "Held by", item.holder or ""),
        fact("deadline", "The lock ends at", stamp(item.deadline) if item.deadline else ""),
        fact("due", "Not before", stamp(item.due) if item.due else ""),
        fact("expires", "Dead after", stamp(item.expires) if item.expires else ""),
        fact("headers", "Headers", "\n".join(f"{name}: {value}" for name, value in item.headers)),
    )


# --- redrive ------------------------------------------------------------------------------------


def _ask_redrive(by: Asker, given: Given) -> Request:
    ids = tuple(map(ItemId, given.lines(ITEM)))
    to = given.one(TO)
    return Redrive(by, node_of(given), ids or None, NodeName(to) if to else None)


def _show_redriven(reply: Redriven, given: Given) -> Result:
    note = f"{count(reply.count, 'dead item')} of {reply.node} live again."
    if reply.count >= REVIVED and not given.lines(ITEM):
        note += " There may be more: execute this once again."
    elif not reply.count:
        note += " There is none, or where they would go is no room for them."
    return Result(note, WARN if not reply.count else "info")


# --- release ------------------------------------------------------------------------------------


def _ask_locked(by: Asker, given: Given) -> Request:
    return ReadItems(by, node_of(given), max=NAMED, state=State.LOCKED, payloads=False)


def _choose_locks(page: ItemPage, _given: Given) -> Shown:
    if not page.entries and not page.more:
        return Result(f"Nobody holds an item of {page.node}.")
    options = tuple((entry.item.id, _lock(entry.item)) for entry in page.entries)
    other = Field(OTHER, "text-multi", "Or other items, by their ids, one a line")
    pick = Field(ITEM, "list-multi", "Items", (), options) if options else None
    words = "Choose the items to take away from their holders. Others get them at once, and it counts as nobody's failure."
    return Form(f"Locks of {page.node}", words, (pick, other) if pick else (other,))


def _lock(item: Item) -> str:
    until = f" until {stamp(item.deadline)}" if item.deadline else ""
    return f"{item.id} (held by {item.holder}{until})"


def _ask_free(by: Asker, given: Given) -> Request | StanzaError:
    names = dict.fromkeys((*given.lines(ITEM), *given.lines(OTHER)))
    if not names:
        return unfit("choose an item at least")
    return FreeLocks(by, node_of(given), tuple(map(ItemId, names)))


def _show_freed(reply: Freed, _given: Given) -> Result:
    return Result(f"{count(reply.count, 'lock')} of {reply.node} ended; the items wait again.")


# --- purge --------------------------------------------------------------------------------------


def _ask_node(by: Asker, given: Given) -> Request:
    return Describe(by, node_of(given), manage=True)


def _confirm(reply: Described, _given: Given) -> Shown:
    node = reply.node
    words = f"{node.name} has {count(node.items, 'item')}. All of them will be deleted, those that workers hold too. They cannot be brought back."
    sure = Field(SURE, "boolean", "Yes, delete all items", ("0",), required=True)
    return Form(f"Delete all items of {node.name}", words, (sure,))


def _ask_purge(by: Asker, given: Given) -> Request | Result:
    if not given.says_yes(SURE):
        return Result("Nothing was deleted, for it was not confirmed.", WARN)
    return Purge(by, node_of(given))


def _show_purged(_reply: Done, given: Given) -> Result:
    return Result(f"All items of {node_of(given)} are deleted.")


def _first(title: str, instructions: str, *more: Field) -> Stage:
    return Stage(ask_powers(Power.NODES), choose_node(title, instructions, more=more))


COMMANDS: Final = (
    Command(
        own("peek"),
        "Look at an item",
        Power.NODES,
        (
            _first(
                "Look at an item",
                "Choose the queue, and which of its items to choose from.",
                Field(WHICH, "list-single", "Items", (State.DEAD.value,), CHOICES),
            ),
            Stage(_ask_items, _choose_item),
            Stage(_ask_peek, _show_item),
        ),
    ),
    Command(
        own("redrive"),
        "Give dead items another life",
        Power.NODES,
        (
            _first(
                "Give dead items another life",
                "They go back to where they died, or to the node you name, and count as never having failed.",
                Field(ITEM, "text-multi", "Only these items, by their ids, one a line"),
                Field(TO, "text-single", "To this node, instead of where they came from"),
            ),
            Stage(_ask_redrive, _show_redriven),
        ),
    ),
    Command(
        own("release"),
        "End the lock of an item",
        Power.NODES,
        (
            _first("End a lock", "Choose the queue."),
            Stage(_ask_locked, _choose_locks),
            Stage(_ask_free, _show_freed),
        ),
    ),
    Command(
        own("purge"),
        "Delete all items of a node",
        Power.NODES,
        (
            Stage(
                ask_powers(Power.NODES),
                choose_node(
                    "Delete all items",
                    "Choose the node. You are asked once more before anything is deleted.",
                    fits=lambda _node: True,
                    none="You own no node here.",
                ),
            ),
            Stage(_ask_node, _confirm),
            Stage(_ask_purge, _show_purged),
        ),
    ),
)
