"""Operations on items: list them, look at one, cancel them, end locks, delete all; and their events."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pubqueue.model import replies
from pubqueue.model.entities import ItemId, NodeName, State, is_number
from pubqueue.operations.model import (
    AFTER,
    MAX_ROWS,
    NODE,
    NUMBERED_AFTER,
    Action,
    Answer,
    Cell,
    Column,
    Of,
    Offer,
    Operation,
    Parameter,
    ParameterKind,
    UnfitError,
    any_nodes,
    count,
    queues,
    stamp,
)
from pubqueue.operations.nodes import node_of
from pubqueue.operations.pretty import shown
from pubqueue.operations.searching import answered, searched, searches
from pubqueue.rules.dead_letters import (
    Cancel,
)
from pubqueue.rules.inspect import Peek, ReadHistory
from pubqueue.rules.nodes import Purge
from pubqueue.rules.read import ReadEvents, ReadItems
from pubqueue.rules.unlock import FreeLocks
from pubqueue.rules.validity import MAX_NAMED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pubqueue.model.decision import Cancelled, Request
    from pubqueue.model.entities import Item, Millis, Principal
    from pubqueue.model.joins import Join
    from pubqueue.operations.model import Given, Row


SHOWN: Final = 49_152
"""Bytes of a payload that `peek` returns, so that any payload fits into a stanza, however it is escaped there."""

ALL: Final = "all"

CHOICES: Final = (
    (State.DEAD.value, "Dead items"),
    (State.LOCKED.value, "Items that workers hold"),
    (State.QUEUED.value, "Items that wait"),
    (State.DELAYED.value, "Items that wait for a time"),
    (State.HELD.value, "Items that are held for a signal or for others"),
    (State.DONE.value, "Items that are done and kept"),
    (ALL, "All items but those that are done"),
)

WHICH: Final = Parameter(
    *("state", ParameterKind.CHOICE, "Items"),
    choices=CHOICES,
    usual=ALL,
    help="Only items in this state.",
)

REASON: Final = Parameter(
    *("reason", ParameterKind.TEXT, "Only those that died of this; * stands for any text"),
    help="Only items that died for this reason, as `pubqueue dead --reasons` shows it; * stands for any text.",
)
LISTED: Final = replace(REASON, help="Only items that died for this reason; * stands for any text.")

ABOUT_ITEMS: Final = (
    Column("id", "Item"),
    Column("state", "State"),
    Column("published", "Published at", Cell.SINCE),
    Column("priority", "Priority", Cell.COUNT),
    Column("acquired", "Deliveries", Cell.COUNT),
    Column("failed", "Failures", Cell.COUNT),
    Column("error", "Last error"),
    Column("holder", "Held by"),
    Column("size", "Bytes", Cell.COUNT),
    Column("seq", "Number", Cell.COUNT, more=True),
    Column("publisher", "Published by", more=True),
    Column("deadline", "The lock ends at", Cell.MOMENT, more=True),
    Column("due", "Not before", Cell.MOMENT, more=True),
    Column("expires", "Dead after", Cell.MOMENT, more=True),
    Column("delivered", "Delivered last at", Cell.MOMENT, more=True),
    Column("done", "Done at", Cell.MOMENT, more=True),
    Column("worker", "Done by", more=True),
    Column("waits_for", "Waits for", Cell.NAMES, more=True),
    Column("since", "Held since", Cell.SINCE, more=True),
    Column("members", "Members to come", Cell.COUNT, more=True),
    Column("dead_members", "Dead members", Cell.COUNT, more=True),
    Column("open", "May get more members", Cell.FLAG, more=True),
)

# --- lists --------------------------------------------------------------------------------------


OWN: Final = frozenset({"state", "reason"})
"""What the request for a page of items selects itself."""

NUMBER: Final = "number"
"""The usual order of items."""


def _read_items(by: Principal, given: Given, after: str) -> ReadItems:
    which = given.one("state")
    state = None if which in {"", ALL} else State(which)
    if given.one("reason") and state is not State.DEAD:
        raise UnfitError("reason: only dead items have died of one; choose their state as well")
    return page_of_items(by, given, after, state)


def page_of_items(by: Principal, given: Given, after: str, state: State | None) -> ReadItems:
    """Return the request for a page of items, of those in this state if it is given."""
    return ReadItems(
        *(by, node_of(given), _number(after)),
        max=given.number("max"),
        state=state,
        payloads=False,
        reason=given.one("reason"),
    )


def _number(after: str) -> int:
    if after and not is_number(after):
        raise UnfitError("after: a whole number from 0")
    return int(after or 0)


def by_number(answer: Callable[[Any, Given], Answer]) -> Callable[[Any, Given], Answer]:
    """Return how a list of items is answered; one that was searched continues by a number, too."""
    of_search = answered(answer)

    def answered_with(reply: Any, given: Given) -> Answer:  # noqa: ANN401  # a page, or what was found
        known = of_search(reply, given)
        is_place = not known.through.isdigit()
        return known if is_place else replace(known, through=str(int(known.through)))

    return answered_with


def _items(page: replies.ItemPage, _given: Given) -> Answer:
    row = _of_item_dead if page.dead else _of_item
    rows = tuple(map(row, page.entries))
    note = f"{count(len(rows), 'item')} of {page.node}."
    if page.done:
        note += f" It also keeps {count(page.done, 'done item')}: choose their state to list them."
    return Answer(note, rows, str(page.through), more=page.more)


def _of_item(entry: replies.ItemEntry) -> Row:
    item = entry.item
    return (
        item.id,
        item.state.value,
        item.published,
        item.priority,
        item.acquired,
        item.failed,
        item.error or None,
        item.holder,
        entry.size,
        item.seq,
        item.publisher,
        item.deadline,
        None if item.finish else item.due,
        item.expires,
        *_of_finish(item),
        *_wait(item),
        *_members(item),
    )


def _of_finish(item: Item) -> tuple[Millis | None, Millis | None, str | None]:
    """Return when an item was delivered last, and when and by whom it was done, if it is done."""
    if (finish := item.finish) is None:
        return None, None, None
    return finish.delivered, finish.at, finish.worker


def _wait(item: Item) -> tuple[tuple[str, ...] | None, int | None]:
    """Return what a held item waits for, and since when."""
    if item.state is not State.HELD or item.wait is None:
        return None, None
    join = item.wait.join
    return (*item.wait.signals, *(() if join is None else (in_words(join),))), item.wait.since


def awaited(item: Item) -> str:
    """Return in words what a held item waits for; empty if that is only a time."""
    return ", ".join(_wait(item)[0] or ())


def in_words(join: Join) -> str:
    """Return what a join waits for beside signals: `3 members, 1 dead`."""
    dead = f", {join.dead} dead" if join.dead else ""
    more = " and those to be added" if join.is_open else ""
    return f"{count(join.to_come, 'member')}{dead}{more}"


def _members(item: Item) -> tuple[int | None, int | None, bool | None]:
    """Return how many members of a join are to come, how many of these are dead, and whether it may get more."""
    join = None if item.wait is None else item.wait.join
    return (None, None, None) if join is None else (join.to_come, join.dead, join.is_open)


def _of_item_dead(entry: replies.ItemEntry) -> Row:
    """Return the row of a dead item among dead ones, whose pages are ordered by the numbers of their deaths."""
    letter, row = entry.item.dead_letter, list(_of_item(entry))
    row[9] = entry.item.seq if letter is None else letter.number
    return tuple(row)


IN_ITEMS: Final = searches(ReadItems, "their ids, publishers or holders", order=NUMBER)

ITEMS: Final = Operation(
    "items",
    "List the items of a node",
    "The items of a node in the order of publishing, in one state or in all; also what a queue keeps of what is done.",
    replies.Power.NODES,
    (NODE, WHICH, LISTED, *IN_ITEMS, AFTER, MAX_ROWS),
    ABOUT_ITEMS,
    searched(_read_items, own=OWN, order=NUMBER),
    by_number(_items),
    place="seq",
    manual="List the items of a node.\n\n"
    "Items are in the order in which they were published; dead items, in the order of their deaths. With --state done, items that their"
    " workers have done, if the queue keeps them (`x-queueing#keep_done`): `--json` has who has done each, and when.",
)

# --- events -------------------------------------------------------------------------------------


def _ask_events(by: Principal, given: Given) -> Request:
    node = given.one("node")
    return ReadEvents(
        *(by, NodeName(node) if node else None, given.number("after") or 0, given.number("until")),
        max=given.number("max"),
        item=ItemId(given.one("item")) if given.one("item") else None,
    )


def _events(page: replies.EventPage, _given: Given) -> Answer:
    note = f"{count(len(page.entries), 'event')}; the log goes from {page.oldest} to {page.newest}."
    rows = tuple(map(_event, page.entries))
    through, oldest, newest = str(page.through), page.oldest, page.newest
    return Answer(note, rows, through, more=page.more, oldest=oldest, newest=newest)


def _event(entry: replies.EventEntry) -> Row:
    event = entry.event
    return (
        entry.seq,
        entry.at,
        event.kind,
        event.node,
        event.item,
        event.worker,
        event.detail or None,
        event.attempt,
        event.publisher,
        event.age,
        event.held,
        event.origin,
        event.to,
    )


EVENTS: Final = Operation(
    "events",
    "Read the event log",
    "What happened to the items of nodes that keep an event log: of one node, or of all that you may read.",
    replies.Power.NODES,
    (
        Parameter("node", ParameterKind.NODE, "Node"),
        NUMBERED_AFTER,
        Parameter("until", ParameterKind.COUNT, "Up to this number"),
        MAX_ROWS,
        Parameter("item", ParameterKind.ITEM, "Only those of the item with this id"),
    ),
    (
        Column("seq", "Number", Cell.COUNT),
        Column("at", "At", Cell.MOMENT),
        Column("type", "What happened"),
        Column("node", "Node"),
        Column("item", "Item"),
        Column("worker", "Worker"),
        Column("detail", "Detail"),
        Column("attempt", "Attempt", Cell.COUNT, more=True),
        Column("publisher", "Published by", more=True),
        Column("age_ms", "Milliseconds since the publish", Cell.COUNT, more=True),
        Column("held_ms", "Milliseconds it was held", Cell.COUNT, more=True),
        Column("from", "From node", more=True),
        Column("to", "To node", more=True),
    ),
    _ask_events,
    _events,
    place="seq",
    nodes=any_nodes(),
)

# --- choosing items in a form -------------------------------------------------------------------

CHOSEN_FROM: Final = ("max", "50")
"""The maximum number of items to choose from."""


def _described(page: replies.ItemPage) -> Iterator[tuple[str, str]]:
    for entry in page.entries:
        item = entry.item
        words = [item.state.value]
        words += [f"held by {item.holder}"] if item.holder else []
        words += [f"failed {count(item.failed, 'time')}"] if item.failed else []
        words += [item.error[:80]] if item.error else []
        yield item.id, f"{item.id} ({', '.join(words)})"


def _locks(page: replies.ItemPage) -> Iterator[tuple[str, str]]:
    for item in (entry.item for entry in page.entries):
        until = f" until {stamp(item.deadline)}" if item.deadline else ""
        yield item.id, f"{item.id} (held by {item.holder}{until})"


def that_wait(page: replies.ItemPage) -> Iterator[tuple[str, str]]:
    """Yield the ids of held items, and what a form shows of each: what it waits for."""
    for item in (entry.item for entry in page.entries):
        until = f" until {stamp(item.due)}" if item.due else ""
        yield item.id, f"{item.id} (waits for {awaited(item) or 'its time'}{until})"


OTHERS: Final = "Or the ids of other items, one per line"

# --- the history of one item --------------------------------------------------------------------

REPLIED: Final = "replied"
"""The word for the reply to an item, which is in no event log."""

LOG_OFF: Final = "{0} keeps no event log, so these are the steps that the item itself records. Turn the log on with: pubqueue node set {0} event_log=1"


def _history(reply: replies.History, _given: Given) -> Answer:
    rows = list(map(_step, reply.steps))
    if reply.result is not None and not reply.more:
        rows.append(_of_result(*reply.result))
    return Answer(history_note(reply), tuple(rows), str(reply.through), more=reply.more)


def _of_result(item: Item, payload: bytes) -> Row:
    """Return the reply to an item as a step: when, by whom, and what it says."""
    read = shown(payload, item.headers, SHOWN)
    where, by = item.node, item.publisher
    return (item.published, REPLIED, by, None, where, *(None,) * 4, by, None, read.text)


def history_note(reply: replies.History) -> str:
    """Return the state of the item in a sentence, and one more if its node keeps no event log."""
    item, node = reply.item, reply.node
    if item is None:
        note = f"{reply.id} is no longer in {node.name}, and is not kept."
    else:
        words = [item.state.value]
        words += [f"held by {item.holder}"] if item.holder else []
        if item.finish and item.finish.worker:
            words[0] += f" by {item.finish.worker}"
        words += [f"delivered {count(item.acquired, 'time')}"] if item.acquired else []
        words += [f"failed {count(item.failed, 'time')}"] if item.failed else []
        note = f"{item.id} in {node.name} is {', '.join(words)}" + (
            f"; last error: {item.error}" if item.error else "."
        )
    return note if node.config.event_log else f"{note}\n{LOG_OFF.format(node.name)}"


def _step(entry: replies.EventEntry) -> Row:
    event = entry.event
    return (
        entry.at,
        event.kind,
        event.worker,
        event.detail or None,
        event.node,
        event.to,
        event.attempt,
        event.held,
        event.origin,
        event.publisher,
        entry.seq or None,
        None,
    )


HISTORY: Final = Operation(
    "item",
    "Show the history of an item",
    "Each step with its time, worker and reason: from the event log of the node, and of the one in which the item died. If the node keeps no log, what the item itself records."
    " At the end is the reply to it, if it was asked and you may read the reply.",
    replies.Power.NODES,
    (
        NODE,
        Parameter(
            *("item", ParameterKind.ITEM, "Item"),
            required=True,
            offer=Offer(
                *(ITEMS, _described, "No such items in {node}.", "Or the id of another item"),
                given=(CHOSEN_FROM,),
                title="Items of {node}",
                about="Choose an item. One that is no longer in the queue can be named if the queue keeps an event log.{first}",
            ),
        ),
        NUMBERED_AFTER,
        MAX_ROWS,
    ),
    (
        Column("at", "At", Cell.MOMENT),
        Column("type", "What happened"),
        Column("worker", "Worker"),
        Column("detail", "Reason"),
        Column("node", "Node"),
        Column("to", "To node"),
        Column("attempt", "Attempt", Cell.COUNT, more=True),
        Column("held_ms", "Milliseconds it was held", Cell.COUNT, more=True),
        Column("from", "From node", more=True),
        Column("publisher", "Published by", more=True),
        Column("seq", "Number", Cell.COUNT, more=True),
        Column("payload", "Reply"),
    ),
    lambda by, given: ReadHistory(
        *(by, node_of(given), ItemId(given.one("item")), given.number("after") or 0),
        max=given.number("max"),
    ),
    _history,
    place="seq",
    nodes=queues(about="Choose the queue."),
    manual="Show what happened to an item.\n\n"
    "Prints each step with its time, worker and reason, also of an item that is done or was moved to another node when it died. The steps"
    " are those of the event log. If the node keeps none, only what the item itself records is printed: when it was published and last"
    " delivered, and its death, or who has done it if the queue keeps done items. If the item was asked, its reply is the last step, for"
    " accounts that may read it. `pubqueue peek` shows the payload.",
    sums=True,
)

# --- one item -----------------------------------------------------------------------------------


def _peeked(reply: replies.Peeked, _given: Given) -> Answer:
    read = shown(reply.payload, reply.item.headers, SHOWN)
    note = f"{count(len(reply.payload), 'byte')} of payload."
    content = len(reply.payload), read.words or None, read.text
    return Answer(note, ((*_facts(reply.item), *content, *_waited(reply.item)),))


def _waited(item: Item) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Return what an item waits for, and what has come for it: the name of each signal, its sender, and when."""
    came = () if item.wait is None else item.wait.came
    said = tuple([f"{one.name} by {one.by} at {stamp(one.at)}" for one in came])
    return _wait(item)[0], said or None


def _facts(item: Item) -> Row:
    letter = item.dead_letter
    return (
        item.id,
        item.state.value,
        item.publisher,
        item.published,
        item.priority,
        item.acquired,
        item.failed,
        item.error or None,
        *((None, None, None) if letter is None else (letter.at, letter.origin, letter.holder)),
        item.holder,
        item.deadline,
        None if item.finish else item.due,
        item.expires,
        *_of_finish(item),
        tuple(f"{name}: {value}" for name, value in item.headers),
    )


PEEK: Final = Operation(
    "peek",
    "Look at an item",
    "Looking changes nothing, and extends no lock.",
    replies.Power.NODES,
    (
        NODE,
        Parameter(
            *("item", ParameterKind.ITEM, "Item"),
            required=True,
            offer=Offer(
                *(ITEMS, _described, "No such items in {node}.", "Or the id of another item"),
                given=(CHOSEN_FROM,),
                title="Items of {node}",
                about="Choose an item. Viewing it changes nothing, and extends no lock.{first}",
            ),
        ),
    ),
    (
        Column("id", "Item", more=True),
        Column("state", "State"),
        Column("publisher", "Published by"),
        Column("published", "Published at", Cell.MOMENT),
        Column("priority", "Priority", Cell.COUNT),
        Column("acquired", "Deliveries", Cell.COUNT),
        Column("failed", "Failures", Cell.COUNT),
        Column("error", "Last error"),
        Column("died", "Died at", Cell.MOMENT),
        Column("origin", "Moved here from"),
        Column("last_holder", "Last held by"),
        Column("holder", "Held by"),
        Column("deadline", "The lock ends at", Cell.MOMENT),
        Column("due", "Not before", Cell.MOMENT),
        Column("expires", "Dead after", Cell.MOMENT),
        Column("delivered", "Delivered last at", Cell.MOMENT),
        Column("done", "Done at", Cell.MOMENT),
        Column("worker", "Done by"),
        Column("headers", "Headers", Cell.NAMES),
        Column("size", "Bytes", Cell.COUNT, more=True),
        Column("content", "Content"),
        Column("payload", "Payload"),
        Column("waits_for", "Waits for", Cell.NAMES, more=True),
        Column("signals", "Signals", Cell.NAMES, more=True),
    ),
    lambda by, given: Peek(by, node_of(given), ItemId(given.one("item"))),
    _peeked,
    single=True,
    nodes=queues(about="Choose the queue, and which items to list."),
    manual="Show an item, its last error and its payload.\n\n"
    "This does not lock or change the item. Up to 48 KiB of the payload are shown: JSON on several lines, text as text, and the beginning"
    " of bytes in hexadecimal.",
)


# --- what is done to them -----------------------------------------------------------------------


def named(given: Given, most: int) -> tuple[ItemId, ...]:
    """Return the named items.

    Raises:
        UnfitError: there is none, or there are too many for one request.

    """
    names = given.lines("item")
    if not 0 < len(names) <= most:
        raise UnfitError(f"item: choose an item at least, and {most} at most")
    return tuple(map(ItemId, names))


TAKEN_OUT: Final = (
    Column("count", "Removed", Cell.COUNT),
    Column("in_flight", "Of these in flight", Cell.COUNT),
    Column("missing", "Not found", Cell.NAMES),
)

NAMED: Final = 10
"""Up to how many items a sentence names."""


def taken_out(reply: Cancelled, done: str, missing: str) -> Answer:
    """Return what happened to items that were to be removed; missing ones are named."""
    note = f"{count(reply.count, 'item')} of {reply.node} {done}."
    if reply.held:
        note += f" {reply.held} of them {'was' if reply.held == 1 else 'were'} in flight: the workers are notified."
    if reply.missing:
        left = len(reply.missing) - NAMED
        names = ", ".join(reply.missing[:NAMED]) + (f" and {left} more" if left > 0 else "")
        note += f" {missing}: {names}."
    row = reply.count, reply.held, reply.missing
    return Answer(note, (row,), warns=bool(reply.missing) or not reply.count)


CANCEL: Final = Operation(
    "cancel",
    "Cancel items",
    "Items are removed from the queue before they are done, in any state: waiting, delayed, held, dead, or in flight. The worker of an item in flight is notified.",
    replies.Power.NODES,
    (
        NODE,
        Parameter(
            *("item", ParameterKind.LINES, "Items, by their ids, one per line"),
            required=True,
            offer=Offer(
                *(ITEMS, _described, "{node} has no items.", OTHERS),
                given=(CHOSEN_FROM,),
                label="Items",
                title="Items of {node}",
                about="Choose the items to cancel in {node}. A worker that holds one is notified. This cannot be undone.{first}",
            ),
        ),
    ),
    TAKEN_OUT,
    lambda by, given: Cancel(by, node_of(given), named(given, MAX_NAMED)),
    lambda reply, _given: taken_out(reply, "cancelled", "Not found, perhaps already done"),
    single=True,
    changes=True,
    final=True,
    takes_away=True,
    question="Remove {} before they are done? A worker that holds one is notified.",
    actions=(Action(Of.ITEMS, "Cancel", "Yes, cancel"),),
    nodes=queues(about="Choose the queue."),
    manual="Remove items from a queue before they are done.\n\n"
    "An item may be waiting, delayed, held, dead or in flight; the worker of an item in flight is notified. A publisher may cancel its own"
    " items, an owner all items. Exits with 1 if an item was not found; it may be done already.",
)


OTHERS_GET_THEM: Final = "Other workers can get them at once, and no failure is counted."


def _ask_release(by: Principal, given: Given) -> Request:
    names = given.lines("item")
    if not names:
        raise UnfitError("item: choose an item at least")
    return FreeLocks(by, node_of(given), tuple(map(ItemId, names)))


def _released(reply: replies.Freed, _given: Given) -> Answer:
    note = f"{count(reply.count, 'lock')} of {reply.node} ended; the items wait again."
    return Answer(note, ((reply.count,),))


RELEASE: Final = Operation(
    "release",
    "End the lock of an item",
    "The locks of items end. Other workers get them at once, and no failure is counted.",
    replies.Power.NODES,
    (
        NODE,
        Parameter(
            *("item", ParameterKind.LINES, "Items"),
            required=True,
            offer=Offer(
                *(ITEMS, _locks, "No worker holds an item of {node}.", OTHERS),
                given=(CHOSEN_FROM, ("state", State.LOCKED.value)),
                title="Locks of {node}",
                about="Choose the items to unlock. Other workers get them at once, and no failure is counted.",
            ),
        ),
    ),
    (Column("count", "Locks ended", Cell.COUNT),),
    _ask_release,
    _released,
    single=True,
    changes=True,
    takes_away=True,
    question=f"Release {{}}? {OTHERS_GET_THEM}",
    actions=(Action(Of.ITEMS, "Release", "Yes, release"),),
    nodes=queues("End a lock", "Choose the queue."),
    manual="Take items away from the workers that hold them.\n\n"
    f"Releases all items that you name, or none. {OTHERS_GET_THEM}",
)


PURGE: Final = Operation(
    "purge",
    "Delete all items of a node",
    "All items of the node are deleted, including those in flight.",
    replies.Power.NODES,
    (NODE,),
    (Column("count", "Deleted", Cell.COUNT),),
    lambda by, given: Purge(by, node_of(given)),
    lambda reply, _given: Answer(
        f"{count(reply.items, 'item')} of {reply.node} deleted.", ((reply.items,),)
    ),
    single=True,
    changes=True,
    final=True,
    takes_away=True,
    sure="All items of {} will be deleted, those that workers hold too.",
    question="Delete all items of {}, including those that workers hold?",
    actions=(Action(Of.NODE, "Purge", "Yes, delete all items"),),
    nodes=any_nodes(
        "Delete all items",
        "Choose the node. You are asked once more before anything is deleted.",
    ),
    manual="Delete all items of a node.\n\n"
    "This includes items that workers hold. You have to confirm, unless you pass --yes.",
)

ON_ITEMS: Final = (ITEMS, PEEK, HISTORY, CANCEL, RELEASE, PURGE, EVENTS)
