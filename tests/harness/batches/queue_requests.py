"""Requests to a queue, each in one short call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.batches.facts import BOSS, ETL, JOBS, draft, who

from pubqueue.model.entities import ItemId, Jid, Millis
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle, Verb
from pubqueue.rules.settle_each import LockName, SettleEach
from pubqueue.rules.subscribe import Options, Subscribe
from pubqueue.rules.unlock import Touch
from pubqueue.rules.validity import MAX_PUBLISHED
from pubqueue.rules.waits import Hold, Signal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.model.entities import NodeName


def a_queue(name: NodeName = JOBS, **settings: Any) -> Declare:
    """Declare a queue of the boss's, to which `etl` publishes, open to all; settings by their names."""
    wanted = Settings({"queueing": True, "access_model": "open"} | settings)
    return Declare(who(BOSS, admin=True), name, wanted, (Jid("boss@x"),), (Jid("etl@x"),))


def joins(
    jid: str, requests: int = 1, *, node: NodeName = JOBS, at: Millis | None = None
) -> Subscribe:
    return Subscribe(who(jid), node, Jid(jid), f"{node}-{jid}", Options(requests), at)


def publishes(*names: str, by: str = ETL, node: NodeName = JOBS, **facts: Any) -> Publish:
    """Publish items of these names; `facts` are those of each draft, spans in seconds."""
    spans = {key: Millis(round(facts.pop(key) * 1000)) for key in ("delay", "ttl") if key in facts}
    drafts = tuple(draft(name, **spans, **facts) for name in names)
    return Publish(who(by), node, drafts)


def publishes_all(names: Sequence[str], **facts: Any) -> list[Publish]:
    """Publish any number of items, in as few requests as possible."""
    parts = (names[at : at + MAX_PUBLISHED] for at in range(0, len(names), MAX_PUBLISHED))
    return [publishes(*part, **facts) for part in parts]


def retracts(jid: str, *names: str, node: NodeName = JOBS) -> Settle:
    return Settle(who(jid), node, tuple(map(ItemId, names)), Verb.RETRACT)


def settles_each(said: Settle | Touch, *locks: tuple[Any, ...]) -> SettleEach:
    """Settle each of these locks: an id, a token and a holder, as far as they are given."""
    return SettleEach(said, tuple(LockName(*lock) for lock in locks))


def touches(jid: str, *names: str, node: NodeName = JOBS) -> Touch:
    return Touch(who(jid), node, tuple(map(ItemId, names)))


def holds(jid: str, name: str, *signals: str, node: NodeName = JOBS, **said: Any) -> Hold:
    """Let an item wait for these signals; `within` is in seconds."""
    within = said.pop("within", None)
    span = None if within is None else Millis(round(within * 1000))
    return Hold(who(jid), node, ItemId(name), signals, span, **said)


def signals(
    name: str, word: str, data: str = "", *, by: str = BOSS, once: str = "", node: NodeName = JOBS
) -> Signal:
    """Send an item a signal, under its own name as its id if no other is given in `once`."""
    return Signal(who(by), node, ItemId(name), word, data, once or word)


def unlocks(jid: str, *names: str, node: NodeName = JOBS, **said: Any) -> Settle:
    return Settle(who(jid), node, tuple(map(ItemId, names)), Verb.UNLOCK, **said)
