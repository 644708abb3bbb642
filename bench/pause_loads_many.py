"""Loads of single large requests: a worker with very many locks leaves, thousands of ids in one unlock, thousands of
items in one publish, many items for very many subscribers, and the presence of very many strangers."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from harness.batches.facts import BOB, BOSS, who
from harness.batches.queue_requests import publishes, retracts, unlocks
from msgspec.structs import replace

from bench.pause_loads_crowds import NEWS, lay_crowd
from bench.pause_loads_strangers import SERVICE, connected, feed, in_pieces
from bench.trickle import WORKER
from pubqueue.engine.listings import HeldBy, Total
from pubqueue.engine.rows import AFFILIATIONS, AffiliationRow, Needs, Write, Writes
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import (
    Affiliation,
    Item,
    ItemId,
    Jid,
    Millis,
    Node,
    NodeConfig,
    NodeName,
    State,
    Subscription,
)
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.presence import Leave
from pubqueue.rules.together import Together
from pubqueue.rules.unlock import Dismiss
from pubqueue.rules.validity import MAX_NAMED, MAX_PUBLISHED, MAX_TOGETHER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.trickle import CountingStore, Service
    from pubqueue.engine.ports import Transaction
    from pubqueue.rules.together import Part

HEAVY: Final = NodeName("heavy")
BULK: Final = "bulk@x"
"""Publishes many items at once. The trickle has another account, because only an account's own large requests delay it."""

AT_ONCE: Final = 5_000
DAY: Final = 86_400_000
PAYLOAD: Final = b"<job xmlns='urn:x'/>"
LARGE: Final = 4_000
"""Ids or items of one request: more than are accepted, but few enough that the request is read."""

SEEN: Final = 50
"""Messages to each subscriber that are measured; further ones would be written in the same way."""

PAUSE: Final = 0.05
"""Seconds between two checks whether a load is finished."""


async def lay_locks(store: CountingStore, size: int, now: Millis) -> None:
    """Store a queue of which one worker holds this many items."""
    node = Node(HEAVY, NodeConfig(queueing=True), Jid("boss@x"), Millis(0))
    people = [("boss@x", Affiliation.OWNER), (BULK, Affiliation.PUBLISHER)]
    writes = Writes(Millis(0), nodes=[Write(None, replace(node, items=size, subscriptions=1))])
    writes.of[AFFILIATIONS] = [
        Write(None, AffiliationRow(HEAVY, Jid(jid), role)) for jid, role in people
    ]
    row = Subscription(HEAVY, BOB, "s", 100_000, in_flight=size)
    writes.subscriptions = [Write(None, row)]
    await store.batch(lambda tx: tx.write(writes))
    for begin in range(0, size, AT_ONCE):
        part = range(begin, min(begin + AT_ONCE, size))
        await store.batch(partial(_lock, part=part, now=now))


def _lock(tx: Transaction, part: range, now: Millis) -> None:
    first, token = tx.number("item", len(part)), tx.number("token", len(part))
    writes = Writes(Millis(0))
    facts: dict[str, Any] = {"holder": BOB, "taken": now, "deadline": Millis(now + DAY)}
    for at, number in enumerate(part):
        name = ItemId(f"i{number}")
        item = Item(first + at, HEAVY, name, State.LOCKED, Jid("etl@x"), Millis(0))
        writes.items.append(Write(None, replace(item, token=token + at, acquired=1, **facts)))
        writes.payloads[item.seq] = PAYLOAD
    tx.write(writes)


async def leave(service: Service, _size: int) -> None:
    """Let the worker leave, and wait until nothing is locked to it."""
    await service.do(Leave(BOB))
    await _see_free(service)


async def dismiss(service: Service, _size: int) -> None:
    """Let an owner end the worker's subscription and its locks."""
    await service.do(Dismiss(who(BOSS), HEAVY, BOB))
    await _see_free(service)


async def _see_free(service: Service) -> None:
    assert await service.store.read(lambda tx: tx.page(Total(HeldBy(BOB)))) == [0]


async def unlock(service: Service, size: int) -> None:
    """Unlock all: thousands at once, which is refused, then in requests of maximum size."""
    names = [f"i{number}" for number in range(size)]
    broker = service.broker
    for at in range(0, size, LARGE):
        reply = await broker.handle(unlocks(BOB, *names[at : at + LARGE], node=HEAVY))
        assert isinstance(reply, Refused)
        assert reply.refusal is Refusal.TOO_MANY_ITEMS
    parts = [names[at : at + MAX_NAMED] for at in range(0, size, MAX_NAMED)]
    await asyncio.gather(*(service.do(unlocks(BOB, *part, node=HEAVY)) for part in parts))


# --- parts that are done together ----------------------------------------------------------------


async def publish_together(service: Service, size: int) -> None:
    """Publish items one by one, as many together as allowed, to a queue and to a full plain node."""
    nodes = HEAVY, NEWS
    names = [f"p{number}" for number in range(size)]
    parts = [publishes(name, by=BULK, node=nodes[at % 2]) for at, name in enumerate(names)]
    await _do_together(service, BULK, parts)


async def settle_together(service: Service, size: int) -> None:
    """Retract and unlock one by one, as many together as allowed; then as many that are refused because of the last part."""
    parts = [
        (unlocks if number % 2 else retracts)(BOB, f"i{number}", node=HEAVY)
        for number in range(size)
    ]
    refused = [*parts[: MAX_TOGETHER - 1], retracts(BOB, "gone", node=HEAVY)]
    for _ in range(3):
        reply = await service.broker.handle(Together(who(BOB), tuple(refused)))
        assert isinstance(reply, Refused)
        assert reply.part == MAX_TOGETHER - 1
    await _do_together(service, BOB, parts)


async def _do_together(service: Service, by: str, parts: Sequence[Part]) -> None:
    slices = [parts[at : at + MAX_TOGETHER] for at in range(0, len(parts), MAX_TOGETHER)]
    await asyncio.gather(*(service.do(Together(who(by), tuple(some))) for some in slices))


async def prepare_news(service: Service, _size: int) -> None:
    """Create a full plain node that keeps few items."""
    wanted = Settings({"max_items": 10, "publish_model": "open"})
    await service.do(Declare(who(BOSS, admin=True), NEWS, wanted, (Jid("boss@x"),)))
    await service.do(publishes(*(f"n{number}" for number in range(10)), by=BOSS, node=NEWS))


# --- bytes into a face ---------------------------------------------------------------------------


def _publish(name: str, by: str, node: str, ids: range) -> str:
    items = "".join(f"<item id='{name}-{n}'><a xmlns='urn:x'/></item>" for n in ids)
    return (
        f"<iq type='set' id='{name}' from='{by}' to='{SERVICE}'>"
        f"<pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='{node}'>{items}"
        "</publish></pubsub></iq>"
    )


async def lay_queue(store: CountingStore, _size: int, now: Millis) -> None:
    """Store an empty queue."""
    await lay_locks(store, 0, now)


async def prepare_large_publishes(service: Service, size: int) -> None:
    """Publish 7,000 items at once, then 4,000, then repeatedly as many as one request may have."""
    counts = 7_000, LARGE, MAX_PUBLISHED, MAX_PUBLISHED
    stanzas = []
    for number in range(size):
        count = counts[number % len(counts)]
        by = BULK if count <= MAX_PUBLISHED else "eve@x"  # refused requests are charged too
        stanzas.append(_publish(f"p{number}", by, HEAVY, range(count)))
    service.prepared = await connected(service)
    service.prepared.pieces = in_pieces(stanzas)


async def feed_publishes(service: Service, size: int) -> None:
    """Feed the publishes, all of which are answered, and check that some were accepted."""
    await feed(service, size)
    (node,) = (await service.store.read(lambda tx: tx.load(Needs(nodes={HEAVY})))).nodes
    assert node.items >= MAX_PUBLISHED


async def prepare_strangers(service: Service, size: int) -> None:
    """Prepare the presence of this many unknown accounts that come and go."""
    stanzas = [
        f"<presence{kind} from='bot{number}@evil.example/{'x' * 100}' to='{SERVICE}'/>"
        for number in range(size // 2)
        for kind in ("", " type='unavailable'")
    ]
    service.prepared = await connected(service)
    service.prepared.pieces = in_pieces(stanzas)


async def feed_presence(service: Service, _size: int) -> None:
    """Feed the presence, and wait until all of it is processed; it gets no answers."""
    await feed(service, 0)
    await service.broker.settled()


async def prepare_items_for_many(service: Service, _size: int) -> None:
    """Publish as many items at once as one request may have, to this many subscribers, who are notified over the face."""
    service.prepared = wire = await connected(service)
    service.face.claims = lambda address: address == WORKER  # type: ignore[method-assign]  # the others are the wire's
    wire.pieces = in_pieces([_publish("p", BOSS, NEWS, range(MAX_PUBLISHED))])


async def tell_many(service: Service, size: int) -> None:
    """Feed the publish, and wait until enough messages for each subscriber have been sent."""
    await feed(service, 1)
    while service.prepared.messages < size * SEEN:  # noqa: ASYNC110  # no event to wait for
        await asyncio.sleep(PAUSE)


# fmt: off
MANY_LOADS: Final = {
    "worker-leaves":    (20_000, lay_locks, leave),
    "worker-dismissed": (20_000, lay_locks, dismiss),
    "large-unlocks":    (20_000, lay_locks, unlock),
    "large-publishes":     (100, lay_queue, feed_publishes, prepare_large_publishes),
    "publishes-together":  (8_000, lay_queue, publish_together, prepare_news),
    "settles-together":   (10_000, lay_locks, settle_together),
    "strangers":       (100_000, lay_queue, feed_presence, prepare_strangers),
    "items-for-some":      (900, lay_crowd, tell_many, prepare_items_for_many),
    "items-for-many":   (20_000, lay_crowd, tell_many, prepare_items_for_many),
}
"""By name: the size, the function that fills the store, the measured work, and the preparation."""
# fmt: on
