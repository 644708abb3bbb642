"""SQLite and PostgreSQL side by side: the same changes, drawn at random, leave the same rows, and the same answers.

They share the code between rows and statements, so what they agree on can still be wrong: the models of the state machines in
`tests/engine` are the second opinion on that. Here a statement of one of them is held against that of the other.
"""

import random
from contextlib import nullcontext
from functools import partial
from itertools import zip_longest

import pytest
from harness.batches.facts import ANN, BOB, JOBS, NOW, after, window
from harness.stores.store_contents import ALL, contents, everything, next_token, recount
from msgspec.structs import replace
from stores.steps import DEAD, EMPTY, BrokenError, add, do, make, release

from pubqueue.engine.listings import (
    DeadItems,
    ItemEntries,
    Items,
    NodeEntries,
    Orphans,
    ReadyNodes,
)
from pubqueue.model import changes
from pubqueue.model.entities import NO_TIME, State
from pubqueue.model.transactions import Sweep
from pubqueue.model.waits import Came, Wait
from pubqueue.stores.postgres.store import PostgresStore
from pubqueue.stores.sqlite import SqliteStore

CAME = Came("s1", "yes", "{}", "boss@x", 5)
PURGING = 20
"""The batch in which a queue is emptied."""
FROM = 9
"""The last token that is given before the changes begin."""


def seen(tx):
    """Return all that is kept, and what is asked of it in every order."""
    rooms = {JOBS: 4, DEAD: 4}
    pages = [
        Items(JOBS, (ANN, BOB)),
        Items(DEAD, newest=True),
        DeadItems(JOBS),
        DeadItems(DEAD),
        NodeEntries((JOBS, DEAD)),
        *(ItemEntries(JOBS, ALL, state, True, 40) for state in (None, State.DEAD)),  # noqa: FBT003
    ]
    queues = [
        sorted(
            (item.aside, -item.priority, item.seq)
            for item, _ in tx.ready({node: room}, now, ALL).rows
        )
        for now in (NOW, after(5))
        for node, room in rooms.items()
    ]
    listed = [tx.page(which, None, 7) for which in pages]
    listed.append([look.node for look in tx.page(ReadyNodes(), None, 99) if look.node])
    return everything(tx), queues, listed, due(tx), [tx.next_due()], recount(tx)


def due(tx):
    """Return what is overdue; of what is due at once either may come first."""
    found = tx.due(after(6), ALL)
    orders = (found.locks, "deadline"), (found.lives, "expires"), (found.delayed, "due")
    for rows, moment in orders:
        assert [getattr(row, moment) for row in rows] == sorted(
            getattr(row, moment) for row in rows
        )
    return [sorted(row.seq for row in rows) for rows, _ in orders]


def some_change(chance, tx, serial):
    """Return a change that an item of the store may meet, or a new item."""
    items = [item for node in (JOBS, DEAD) for item, _ in contents(tx, node)]
    if not items or chance.random() < 0.3:
        at = after(chance.randrange(9))
        pause = {"state": State.DELAYED, "due": at} if chance.random() < 0.3 else {}
        life = {"expires": after(chance.randrange(9))} if chance.random() < 0.3 else {}
        return add(f"i{serial}", priority=chance.randrange(3), **pause, **life)
    item = chance.choice(items)
    other = DEAD if item.node == JOBS else JOBS
    moment, who = after(chance.randrange(9)), chance.choice((ANN, BOB))
    ends = [
        changes.RemoveItem(item, moment),
        changes.GiveUp(item, NOW, "x", 1, chance.choice((None, other))),
    ]
    match item.state:
        case State.LOCKED:
            pause = chance.choice((None, moment))
            back = State.QUEUED if pause is None else State.DELAYED
            return chance.choice(
                [
                    release(item, state=back, due=pause),
                    changes.Extend(item, moment),
                    changes.Hold(item, Wait(("yes",), NOW, carry="1"), pause),
                    changes.TakeSignal(item, CAME),
                    *ends,
                ]
            )
        case State.QUEUED:
            more = (
                changes.Postpone(item, moment),
                changes.ReplacePayload(item, b"<new/>", item.publisher),
            )
            return chance.choice(
                [changes.Lock(item, who, tx.number("token", 1), moment, NOW), *more, *ends]
            )
        case State.HELD:
            return chance.choice(
                [changes.Wake(item), changes.TakeSignal(item, CAME, wakes=True), *ends]
            )
        case State.DELAYED:
            return chance.choice(
                [
                    changes.Lock(item, who, tx.number("token", 1), moment, NOW),
                    changes.Ripen(item),
                    *ends,
                ]
            )
        case _:
            return chance.choice([changes.Revive(item, chance.choice((JOBS, DEAD))), ends[0]])


def some_changes(tx, chance, number):
    """Make changes in one batch, of which every third fails."""
    for serial in range(6):
        do(tx, some_change(chance, tx, 10 * number + serial))
    if number == PURGING:
        do(tx, changes.PurgeNode(JOBS))
        do(tx, Sweep(NO_TIME, 1000, tuple(tx.page(Orphans(), None, 1000))))
    if number % 3 == 0:
        raise BrokenError


async def furnish(store):
    """Make two queues and two workers."""
    await store.open()
    await make(store, changes.CreateNode(EMPTY), changes.CreateNode(replace(EMPTY, name=DEAD)))
    await make(store, *(changes.AddSubscription(window(jid, 99)) for jid in (ANN, BOB)))
    while await store.batch(next_token) < FROM:  # each begins where it likes
        pass


def differences(one, other):
    """Return what is in one place here and another there, part by part: whole stores are too long to read."""
    parts = zip(one, other, strict=True)
    return [pair for pairs in parts for pair in zip_longest(*pairs) if pair[0] != pair[1]]


@pytest.mark.parametrize("seed", range(6))
async def test_both_do_the_same_and_undo_all_of_a_batch(seed, tmp_path, postgres):
    stores = SqliteStore(tmp_path / "queue.db"), PostgresStore(postgres.address)
    chances = random.Random(seed), random.Random(seed)
    for store in stores:
        await furnish(store)
    for number in range(25):
        before = await stores[0].batch(seen)
        for store, chance in zip(stores, chances, strict=True):
            with nullcontext() if number % 3 else pytest.raises(BrokenError):
                await store.batch(partial(some_changes, chance=chance, number=number))
        now = await stores[0].batch(seen)
        assert differences(now, await stores[1].batch(seen)) == []
        assert number % 3 or differences(now, before) == []
    for store in stores:
        await store.close()
