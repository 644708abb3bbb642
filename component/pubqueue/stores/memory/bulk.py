"""Makes changes of many rows at once, of which their batch has not seen each."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from msgspec.structs import replace

from pubqueue.app.ports import StaleError
from pubqueue.app.rows import Judged
from pubqueue.core.changes import (
    BeginReview,
    BeginTrim,
    EndReview,
    EndSubscriptions,
    EndTrim,
    Forget,
    ForgetEvents,
    NoteSamples,
    PartWith,
    PurgeNode,
)
from pubqueue.core.event_log import REPLACED
from pubqueue.core.events import Event, EventKind, PublishedByCommit
from pubqueue.core.model import Millis
from pubqueue.core.transactions.model import Abort, App, Commit, Moved, Record, SetAside, Sweep

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pubqueue.core.events import LogEntry
    from pubqueue.stores.memory.contents import Contents
    from pubqueue.stores.memory.winners import Choice

    Chore = BeginReview | EndReview | BeginTrim | EndTrim
    BulkOfPeople = PartWith | Chore | EndSubscriptions
    BulkOfItems = PurgeNode | SetAside | Commit | Moved | Abort | Sweep | Judged
    Bulk = BulkOfPeople | BulkOfItems | Forget | ForgetEvents | NoteSamples


def make(contents: Contents, change: Bulk, choice: Choice | None) -> None:
    """Make the change.

    Raises:
        StaleError: a commit found something else than was believed.

    """
    match change:
        case PurgeNode():
            contents.purge(change.node)
        case (
            PartWith() | EndSubscriptions() | BeginReview() | EndReview() | BeginTrim() | EndTrim()
        ):
            _about_people(contents, change)
        case Forget() | ForgetEvents() | NoteSamples():
            _about_the_past(contents, change)
        case Commit():
            _commit(contents, change, choice)
        case Moved():
            contents.staging.move(change)
            _count_aside(contents, change)
        case Abort():
            _abort(contents, change)
        case Sweep():
            _sweep(contents, change)
        case Judged() | SetAside():
            _about_winners(change, choice)
        case _:
            assert_never(change)


def _note(contents: Contents, change: Chore) -> None:
    """Note that there is work to do for a node, or that it is done."""
    begins = isinstance(change, BeginReview | BeginTrim)
    of_items = isinstance(change, BeginTrim | EndTrim)
    table = contents.nodes.trims if of_items else contents.nodes.reviews
    table.put(change.node, begins or None)


def _about_people(contents: Contents, change: BulkOfPeople) -> None:
    nodes = contents.nodes
    match change:
        case BeginReview() | EndReview() | BeginTrim() | EndTrim():
            _note(contents, change)
        case PartWith():
            nodes.part_with(change.node, change.through)
        case EndSubscriptions():
            for jid in change.jids:
                if (change.node, jid) not in nodes.subscriptions.rows:
                    raise StaleError(f"{jid} does not subscribe to {change.node}")
                nodes.subscriptions.put((change.node, jid), None)
        case _:
            assert_never(change)


def _about_winners(change: Judged | SetAside, choice: Choice | None) -> None:
    if choice is not None and isinstance(change, Judged):
        choice.judge(change.verdicts)
    elif choice is not None and isinstance(change, SetAside):
        choice.set_aside(change)


def _forget(contents: Contents, change: Forget) -> None:
    for key in contents.items.outdated(change.now, change.limit):
        contents.items.finished.put(key, None)


def _about_the_past(contents: Contents, change: Forget | ForgetEvents | NoteSamples) -> None:
    match change:
        case Forget():
            _forget(contents, change)
        case ForgetEvents():
            contents.log.forget(change.through)
        case NoteSamples():
            _note_samples(contents, change)
        case _:
            assert_never(change)


def _note_samples(contents: Contents, change: NoteSamples) -> None:
    nodes = contents.nodes.nodes.rows
    for sample in change.samples:
        if sample.node in nodes:
            contents.samples.add(nodes[sample.node].number, sample)
    contents.samples.drop(change.before, change.limit)


# --- transactions --------------------------------------------------------------------------------


def _commit(contents: Contents, change: Commit, choice: Choice | None) -> None:
    staging = contents.staging
    app = staging.apps.rows.get(change.app) or App(change.app, change.owner)
    if app.owner != change.owner or (app.version is not None and app.version >= change.version):
        raise StaleError(f"version {change.version} of {change.app} cannot be committed")
    began = _close(contents, change)
    if change.nodes:
        _let_appear(contents, change, choice)
    for number in sorted(staging.numbers_of(change.app)):
        if number <= change.version:
            kept = change.moving if number == change.version else ()
            staging.drop((change.app, number), kept)
    at = change.at
    done = {"version": change.version, "committed": at, "used": at}
    staging.apps.put(change.app, replace(app, **done))
    number = contents.number("record")
    record = Record(
        number,
        change.app,
        change.owner,
        change.version,
        began=at if began is None else began,
        committed=at,
        items=change.items,
        bytes=change.bytes,
        totals=change.totals,
        on_taken=change.on_taken,
        dead_letter_node=change.dead_letter_node,
    )
    staging.records.put(number, record)


def _count_aside(contents: Contents, change: Moved) -> None:
    """Count in the record what was left out, and what was dead-lettered."""
    record = contents.staging.record_of((change.app, change.version))
    if record is None or not (change.skipped or change.dead_lettered):
        return
    told, left = record.totals, record.items - change.skipped
    if change.skipped:
        told = replace(told, skipped=(told.skipped or 0) + change.skipped)
    if change.dead_lettered:
        told = replace(told, dead_lettered=(told.dead_lettered or 0) + change.dead_lettered)
    contents.staging.records.put(record.id, replace(record, items=left, totals=told))


def _close(contents: Contents, change: Commit) -> Millis | None:
    """Let what waits for versions up to this one wait no longer; return when this one began."""
    staging, began = contents.staging, None
    for number in staging.numbers_of(change.app):
        version = staging.versions.rows[change.app, number].version
        if number <= change.version:
            staging.free(change.owner, version.items, version.bytes)
        if number == change.version:
            began = version.began
    return began


def _let_appear(contents: Contents, change: Commit, choice: Choice | None) -> None:
    told = {committed.node for committed in change.nodes}
    if choice is None or not choice.nodes() <= told:
        raise StaleError("the winners are not those that were counted")
    for committed in change.nodes:
        if not choice.take_places(change, committed):
            raise StaleError(f"the winners met something else in node {committed.node}")
        contents.count(committed.node, committed.added)


def _abort(contents: Contents, change: Abort) -> None:
    """Drop an open version, or some attempts at it; one that is not there needs nothing."""
    staging, key = contents.staging, (change.app, change.version)
    opened = staging.versions.rows.get(key)
    if opened is None:
        return
    version, app = opened.version, staging.apps.rows[change.app]
    named = None if change.attempts is None else set(change.attempts)
    there = [numbered.attempt for numbered in staging.attempts_of(key)]
    going = [one for one in there if named is None or (one.part, one.number) in named]
    items, size = sum(one.items for one in going), sum(one.bytes for one in going)
    staging.free(app.owner, items, size)
    staging.apps.put(app.name, replace(app, used=max(app.used, version.until)))
    if len(going) == len(there):
        staging.drop(key)
        return
    for one in going:
        staging.drop_attempt((*key, one.part, one.number))
    left = replace(version, items=version.items - items, bytes=version.bytes - size)
    staging.versions.put(key, replace(opened, version=left))


def _sweep(contents: Contents, change: Sweep) -> None:
    staging = contents.staging
    staging.sweep(change.limit)
    for _ in range(change.limit):
        first = staging.committed.first()
        if first is None or first[0] >= change.before:
            break
        staging.records.put(first[1], None)
    for name in staging.idle(change.before):
        staging.apps.put(name, None)


# --- the event log -------------------------------------------------------------------------------


def record(
    contents: Contents, entries: Iterable[LogEntry], at: Millis, choice: Choice | None
) -> None:
    """Append to the event log; what a commit makes visible is told item by item.

    Raises:
        StaleError: an event is of a node that is not there.

    """
    for entry in entries:
        events: Iterable[Event] = (entry,) if isinstance(entry, Event) else ()
        if isinstance(entry, PublishedByCommit) and choice is not None:
            events = _told(entry, at, choice)
        for event in events:
            kept = contents.nodes.nodes.rows.get(event.node)
            if kept is None:
                raise StaleError(f"node {event.node} is not there")
            contents.log.add(event, at, kept.number)


def _told(entry: PublishedByCommit, at: Millis, choice: Choice) -> Iterator[Event]:
    node, queueing = entry.node, entry.queueing
    for _, item in choice.replaced(node, queueing=queueing):
        age = Millis(max(0, at - item.published))
        who = item.acquired, None, item.publisher
        yield Event(EventKind.RETRACTED, node, item.id, *who, age, detail=REPLACED)
    for winner, there in choice.published(node, queueing=queueing):
        who = 0, None, entry.publisher
        detail = REPLACED if there else ""
        yield Event(EventKind.PUBLISHED, node, winner.row.draft.id, *who, Millis(0), detail=detail)
