"""Items of a node: lists them, shows one, redrives dead items, ends locks, deletes all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.commands.operation_forms import (
    OTHER,
    ask_powers,
    choose_node,
    choosing,
    confirming,
    doing,
    fact,
    facts_of,
    fields_of,
    listed,
    node_of,
    sure,
    unfit,
)
from pubqueue.faces.xmpp.commands.steps import CommandStep, Field, Form, Result, of
from pubqueue.faces.xmpp.xml.stanza import stamp
from pubqueue.model.entities import State
from pubqueue.model.replies import Power
from pubqueue.operations.items import (
    CANCEL,
    CHOICES,
    DEAD,
    DISCARD,
    ITEMS,
    PEEK,
    PURGE,
    REASONS,
    REDRIVE,
    RELEASE,
)
from pubqueue.operations.model import count
from pubqueue.rules.read import ReadItems

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.commands.steps import Shown
    from pubqueue.faces.xmpp.xml.refusals import StanzaError
    from pubqueue.model.decision import Request
    from pubqueue.model.entities import Item, Principal
    from pubqueue.model.replies import ItemEntry, ItemPage, Peeked
    from pubqueue.operations.model import Given

NAMED: Final = 50
"""Maximum number of items to choose from."""

SHOWN: Final = 4_000
"""Maximum bytes of a payload in an answer."""

WHICH, ITEM = "which", "item"


# --- peek ---------------------------------------------------------------------------------------


def _ask_items(by: Principal, given: Given) -> Request | StanzaError:
    which = given.one(WHICH) or "all"
    if which not in {value for value, _ in CHOICES}:
        return unfit(f"{WHICH}: one of {listed(value for value, _ in CHOICES)}")
    state = None if which == "all" else State(which)
    return ReadItems(by, node_of(given), max=NAMED, state=state, payloads=False)


def _choose_item(page: ItemPage, _given: Given) -> Shown:
    if not page.entries and not page.more:
        return Result(f"No such items in {page.node}.")
    options = tuple((entry.item.id, _about(entry)) for entry in page.entries)
    other = Field(OTHER + ITEM, "text-single", "Or the id of another item")
    pick = Field(ITEM, "list-single", "Item", options[0][:1], options) if options else None
    words = "Choose an item. Viewing it changes nothing, and extends no lock."
    words += f" These are the first {len(options)}." if page.more else ""
    return Form(f"Items of {page.node}", words, (pick, other) if pick else (other,))


def _about(entry: ItemEntry) -> str:
    item = entry.item
    words = [item.state.value]
    words += [f"held by {item.holder}"] if item.holder else []
    words += [f"failed {count(item.failed, 'time')}"] if item.failed else []
    words += [item.error[:80]] if item.error else []
    return f"{item.id} ({listed(words)})"


def _show_item(reply: Peeked, given: Given) -> Result:
    answer = PEEK.answer(reply, given)
    facts = [field for field in facts_of(PEEK, answer) if field.var != "payload"]
    text = reply.payload[:SHOWN].decode("utf-8", "replace")
    cut = len(reply.payload) > SHOWN
    payload = fact("payload", "Beginning of the payload" if cut else "Payload", text)
    title = f"Item {reply.item.id} of {reply.node}"
    return Result(answer.note, title=title, facts=(*facts, payload))


# --- release ------------------------------------------------------------------------------------


def _ask_locked(by: Principal, given: Given) -> Request:
    return ReadItems(by, node_of(given), max=NAMED, state=State.LOCKED, payloads=False)


def _choose_locks(page: ItemPage, _given: Given) -> Shown:
    if not page.entries and not page.more:
        return Result(f"No worker holds an item of {page.node}.")
    options = tuple((entry.item.id, _lock(entry.item)) for entry in page.entries)
    other = Field(OTHER + ITEM, "text-multi", "Or the ids of other items, one per line")
    pick = Field(ITEM, "list-multi", "Items", (), options) if options else None
    words = "Choose the items to unlock. Other workers get them at once, and no failure is counted."
    return Form(f"Locks of {page.node}", words, (pick, other) if pick else (other,))


# --- cancel -------------------------------------------------------------------------------------


def _ask_all(by: Principal, given: Given) -> Request:
    return ReadItems(by, node_of(given), max=NAMED, payloads=False)


def _choose_cancelled(page: ItemPage, _given: Given) -> Shown:
    if not page.entries and not page.more:
        return Result(f"{page.node} has no items.")
    options = tuple((entry.item.id, _about(entry)) for entry in page.entries)
    other = Field(OTHER + ITEM, "text-multi", "Or the ids of other items, one per line")
    pick = Field(ITEM, "list-multi", "Items", (), options) if options else None
    words = f"Choose the items to cancel in {page.node}. A worker that holds one is notified. This cannot be undone."
    words += f" These are the first {len(options)}." if page.more else ""
    return Form(f"Items of {page.node}", words, (pick, other) if pick else (other,))


def _lock(item: Item) -> str:
    until = f" until {stamp(item.deadline)}" if item.deadline else ""
    return f"{item.id} (held by {item.holder}{until})"


def _first(title: str, instructions: str, *more: Field) -> CommandStep:
    return CommandStep(ask_powers(Power.NODES), choose_node(title, instructions, more=more))


COMMANDS: Final = (
    choosing(ITEMS),
    choosing(DEAD),
    choosing(REASONS),
    of(
        PEEK,
        _first(
            "Look at an item",
            "Choose the queue, and which items to list.",
            Field(WHICH, "list-single", "Items", (State.DEAD.value,), CHOICES),
        ),
        CommandStep(_ask_items, _choose_item),
        doing(PEEK, _show_item),
    ),
    of(
        REDRIVE,
        _first(REDRIVE.label, REDRIVE.about, *fields_of(REDRIVE)),
        doing(REDRIVE),
    ),
    choosing(DISCARD),
    of(
        CANCEL,
        _first("Cancel items", "Choose the queue."),
        CommandStep(_ask_all, _choose_cancelled),
        doing(CANCEL),
    ),
    of(
        RELEASE,
        _first("End a lock", "Choose the queue."),
        CommandStep(_ask_locked, _choose_locks),
        doing(RELEASE),
    ),
    of(
        PURGE,
        CommandStep(
            ask_powers(Power.NODES),
            choose_node(
                "Delete all items",
                "Choose the node. You are asked once more before anything is deleted.",
                fits=lambda _node: True,
                none="You own no nodes.",
            ),
        ),
        confirming(PURGE),
        sure(PURGE),
    ),
)
