"""Checks the configuration, the store and the server without serving."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from pubqueue.config.nodes import Comparison, Preview
from pubqueue.config.users import accounts_of, service_of
from pubqueue.engine.context import now
from pubqueue.engine.listings import SUMMED, Contents, MembersOf, RowSums
from pubqueue.engine.ports import StoreError
from pubqueue.model.joins import DAMAGED
from pubqueue.model.sums import UNREADABLE, sum_of
from pubqueue.stores import run_read_only
from pubqueue.stores.sqlite.in_memory import MemoryStore
from pubqueue.wiring.faces import faces_of
from pubqueue.wiring.serving import broker_of, stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.config.settings import Settings
    from pubqueue.engine.listings import Content
    from pubqueue.engine.ports import Transaction


T = TypeVar("T")


async def prepare(settings: Settings) -> None:
    """Create the store, or migrate it to the newest schema, as the start does.

    Raises:
        StoreError: the store cannot be used.

    """
    async with stored(settings) as store:
        await store.open()


async def check_offline(settings: Settings) -> list[str]:
    """Check the declared nodes and schedules, without the store or a port; return a line about each.

    Raises:
        ConfigError: a declared node or schedule is invalid.

    """
    compare = _comparison(settings)
    nothing = MemoryStore()
    await nothing.open()
    _, schedules = await nothing.read(compare)
    await nothing.close()
    return schedules


def _comparison(
    settings: Settings,
) -> Callable[[Transaction], tuple[tuple[int, list[str]], list[str]]]:
    """Return a function that compares the declared nodes and schedules with a store.

    Raises:
        ConfigError: one of them is invalid. The function may raise it too.

    """
    nodes = Comparison(settings.node, service_of(settings))
    schedules = Preview(settings.schedule, {node.name for node in settings.node}, now())
    return lambda tx: (nodes.lines(tx), schedules.lines(tx))


AT_ONCE: Final = 32
"""Items that are read together to compare them with their checksums."""

NAMED: Final = 20
"""Damaged items that are named."""


def see_that_contents_are_sound(tx: Transaction) -> None:
    """Compare everything that is stored of items, and the rows that say who may do what, with their checksums.

    Raises:
        StoreError: some of it is damaged.

    """
    damaged: list[str] = []
    joins: list[Content] = []
    for table in ("item", "done_item", "staged"):
        after: tuple[int, int] | None = None
        while rows := tx.page(Contents(table), after, AT_ONCE):
            after = rows[-1].place
            joins += [row for row in rows if row.wait is not None and row.wait.join is not None]
            damaged += [
                f"{row.id} of {row.node}"
                for row in rows
                if row.headers == UNREADABLE
                or (row.wait is not None and row.wait.damaged)
                or row.joins == DAMAGED
                or row.sum not in {None, sum_of(row.id, row.payload, row.group, row.headers)}
            ]
    wrong: list[str] = []
    for summed in SUMMED:
        place: tuple[int, str] | None = None
        while sums := tx.page(RowSums(summed), place, 16 * AT_ONCE):
            place = sums[-1].place
            wrong += [one.name for one in sums if one.known not in {None, one.due}]
    miscounted = [f"{row.id} of {row.node}" for row in joins if _is_miscounted(tx, row)]
    words = (
        "the stored content of {} items is damaged: {}",
        "{} rows are damaged: {}",
        "{} joins do not wait for as many members as there are: {}",
    )
    if found := [
        text.format(len(names), _names(names))
        for text, names in zip(words, (damaged, wrong, miscounted), strict=True)
        if names
    ]:
        raise StoreError("; ".join(found))


def _is_miscounted(tx: Transaction, row: Content) -> bool:
    """Count the members of a join again; those whose queues are to be swept are still there."""
    join = None if row.wait is None else row.wait.join
    return join is not None and tx.page(MembersOf(row.place[0])) != [(join.to_come, join.dead)]


def _names(damaged: list[str]) -> str:
    return ", ".join(damaged[:NAMED]) + (", ..." if len(damaged) > NAMED else "")


def _compared(
    job: Callable[[Transaction], T],
) -> Callable[[Transaction], T]:
    """Return the job, with a look at the stored contents before it."""

    def both(tx: Transaction) -> T:
        see_that_contents_are_sound(tx)
        return job(tx)

    return both


async def check(settings: Settings, *, patience: float = 5.0) -> list[str]:
    """Check the store, without changing it, and connect to the server; return a line about each.

    Raises:
        StoreError, ConfigError, RefusedByServerError: as `serve`.
        TimeoutError: the server cannot be reached, or did not accept us in time. The argument, if
            any, is the condition of its last stream error.

    """
    declared = await check_offline(settings)
    found, sentences = await asyncio.to_thread(
        run_read_only, settings.store, _compared(_comparison(settings))
    )
    about_store = [f"store: {sentence}" for sentence in sentences]
    if found is not None:
        (nodes, about_nodes), about_schedules = found
        about_store.insert(0, f"store: good, {nodes} nodes")
        about_store += [*about_nodes, *about_schedules]
    else:
        about_store += declared
    broker, _ = broker_of(settings, MemoryStore())
    for face in faces_of(broker, settings, accounts_of(settings), lambda: None):
        about_store.append(await face.check(patience))
    return about_store
