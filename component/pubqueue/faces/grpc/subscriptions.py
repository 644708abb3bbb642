"""Subscriptions for both bindings, and what acknowledges their messages."""

from __future__ import annotations

import asyncio
from enum import Enum, unique
from typing import TYPE_CHECKING, Final, TypeVar

from grpc import StatusCode
from msgspec import Struct

from pubqueue.faces.flow import stepped
from pubqueue.faces.grpc import topics
from pubqueue.faces.grpc.statuses import CallError, invalid, not_found, unfit
from pubqueue.faces.grpc.wire import ResourceKind, lock_of, type_of
from pubqueue.model.decision import Refusal, Refused, SettledEach, Taken, Touched
from pubqueue.model.entities import seconds
from pubqueue.model.replies import Described
from pubqueue.rules.discovery import Describe
from pubqueue.rules.nodeconfig import MAX_PAYLOAD_BYTES
from pubqueue.rules.nodes import Configure, Create, Delete, Purge
from pubqueue.rules.seek import Seek
from pubqueue.rules.settle import Outcome, Settle, Verb
from pubqueue.rules.settle_each import SettleEach
from pubqueue.rules.take import Take
from pubqueue.rules.unlock import Touch
from pubqueue.rules.validity import MAX_NAMED
from pubqueue_xeps.wire.payloads import wrapper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pubqueue.faces.grpc.calls import Call
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Item, Millis, Node, NodeName
    from pubqueue.rules.nodeconfig import Value
    from pubqueue.rules.settle_each import LockName
    from pubqueue_xeps.wire.payloads.wrapper import Body


# Subscriptions, for both bindings: queues, fed by the node of their topic, from which items are pulled.

MAX_PULLED: Final = 1_000
"""Messages of one answer."""

EARLY: Final = 0.1
"""Seconds before the client's own deadline in which a pull is answered."""

SETTINGS: Final[Mapping[str, Value]] = {
    "queueing": "1",
    "access_model": "whitelist",
    "publish_model": "publishers",
    "max_payload_size": MAX_PAYLOAD_BYTES,
    "max_queue_requests": 1_000_000,
    "max_failures": 1_000_000,
    "backoff_min": 1,
    "backoff_max": 1,
    "backoff_jitter": 0,
    "group_limit": 1_000,
}
"""Settings of the node of a new subscription."""


async def create(
    call: Call, name: str, topic: str, more: topics.Fields, *, field: str = "name"
) -> None:
    """Create a subscription to a topic, with settings of its queue.

    Raises:
        CallError: it exists, its topic does not, or the account may not.

    """
    node = call.node(name, ResourceKind.SUBSCRIPTION, field, creates=True)
    source = await topics.found_topic(call, topic)
    if source.config.queueing:
        raise unfit(f"{topic} is a queue, and only a plain node has subscriptions")
    wanted = {**SETTINGS, **more, "source": source.name}
    await call.ask(Create(call.by, node, topics.settings_of(wanted)), name)


async def found(call: Call, name: str, field: str = "subscription") -> Node:
    """Return the node of a subscription.

    Raises:
        CallError: there is none that the account may know of.

    """
    node = call.node(name, ResourceKind.SUBSCRIPTION, field)
    reply = await call.ask(Describe(call.by, node, manage=False, known=True), name)
    assert isinstance(reply, Described)
    if not reply.node.config.queueing:
        raise not_found(name)
    return reply.node


MAX_KNOWN: Final = 1_000
"""Subscriptions that are known to accounts without another look."""


async def known(call: Call, name: str, field: str = "subscription") -> Node:
    """Return the node of a subscription as the account has found it, if no node has changed since then. Rights are judged with each request.

    Raises:
        CallError: there is none that the account may know of.

    """
    key = call.by, call.node(name, ResourceKind.SUBSCRIPTION, field)
    nodes = call.backend.known  # what is read before a change goes into the table of before
    if (node := nodes.get(key)) is None:
        node = await found(call, name, field)
        if len(nodes) >= MAX_KNOWN:
            nodes.clear()
        nodes[key] = node
    return node


async def delete(call: Call, name: str) -> None:
    """Delete a subscription, with everything in it.

    Raises:
        CallError: there is none, or the account may not.

    """
    node = await found(call, name)
    await call.ask(Delete(call.by, node.name, queueing=True), name)


async def pull(call: Call, name: str, count: int, wait: float) -> list[tuple[Item, bytes]]:
    """Return up to `count` items, locked to the account; if there are none, wait so many seconds for the first.

    Raises:
        CallError: there is no subscription, or the account may not.

    """
    node = await known(call, name)
    check_attached(node)
    if call.left is not None:
        wait = max(0.0, min(wait, call.left - EARLY))
    by = call.backend.puller(call.by)
    request = Take(by, node.name, min(count, MAX_PULLED), seconds(wait), ahead=True)
    reply = await call.take(request, name)
    assert isinstance(reply, Taken)
    return list(reply.items)


async def truncate(call: Call, name: str, *, notify: bool = False) -> None:
    """Remove all messages of a subscription; with `notify` its subscriber gets an event that reports it, if none waits.

    Raises:
        CallError: there is none, or the account may not.

    """
    node = await found(call, name)
    await call.ask(Purge(call.by, node.name, says_so=notify, queueing=True), name)


async def seek(call: Call, name: str, since: Millis) -> None:
    """Lead a subscription to a moment, and wait until it is there.

    Raises:
        CallError: there is none, or the account may not.

    """
    node = await found(call, name)
    await call.ask(Seek(call.by, node.name, since), name)


async def configure(call: Call, name: str, fields: topics.Fields, *, purges: bool = False) -> None:
    """Change settings of the queue of a subscription; with `purges` its messages are removed too.

    Raises:
        CallError: there is none, or the account may not.

    """
    node = await found(call, name)
    wanted = topics.settings_of(fields)
    await call.ask(Configure(call.by, node.name, wanted, purges=purges, queueing=True), name)


async def detach(call: Call, name: str) -> None:
    """End the feeding of a subscription, and remove its messages.

    Raises:
        CallError: there is none, or the account may not.

    """
    await configure(call, name, {"source": "", topics.DETACHED: "1"}, purges=True)


def check_attached(node: Node) -> None:
    """Refuse to pull from a subscription that has been detached.

    Raises:
        CallError: it has been.

    """
    if topics.has(node.config, topics.DETACHED):
        raise unfit("The subscription is detached from its topic.")


# Acknowledgements, nacks and deadlines, for both bindings: many locks, each with its own verdict.

T = TypeVar("T")

MANY: Final = 100
"""Messages, or ack ids, that are converted beside other calls."""

MAX_ACK_IDS: Final = 2_500
"""Ack ids of one call."""

MAX_DEADLINE: Final = 600
"""Seconds for which a message may be held."""


@unique
class Verdict(Enum):
    """The result for an ack id."""

    DONE = "done"
    GONE = "gone"
    """The message does not exist any more: it will not be delivered again."""
    WORTHLESS = "worthless"
    """It names no lock, or one that is over or another account's."""
    FAILED = "failed"
    """The store failed; a repetition may succeed."""


_OVER: Final = frozenset({Refusal.ITEM_NOT_FOUND, Refusal.LOCK_LOST, Refusal.LOCKED_BY_ANOTHER})
"""Refusals that mean that the lock has ended."""

_OF_REFUSALS: Final = {
    Refusal.ITEM_NOT_FOUND: Verdict.GONE,
    Refusal.STORE_FAILED: Verdict.FAILED,
}


class Settled(Struct, frozen=True):
    """The verdict of each ack id, and whether the subscription delivers exactly once, so that clients have to know it."""

    verdicts: dict[str, Verdict]
    is_exact: bool


class Change(Struct, frozen=True):
    """The action for the locks: an acknowledgement, or a new deadline in so many seconds; 0 is a nack."""

    deadline: int | None = None


NACKED: Final = "a client of gRPC has refused it"
"""Why a message is released, for operators."""

ACK: Final = Change()
NACK: Final = Change(0)


async def settle(
    call: Call, name: str, ack_ids: Sequence[str], change: Change, *, field: str = "subscription"
) -> Settled:
    """Settle the locks that these ack ids name, each by itself, and return the verdict of each.

    Raises:
        CallError: there is no subscription, or the whole request was refused.

    """
    if len(ack_ids) > MAX_ACK_IDS:
        raise invalid(f"a call has at most {MAX_ACK_IDS} ack ids")
    if change.deadline is not None and not 0 <= change.deadline <= MAX_DEADLINE:
        raise invalid(f"ack_deadline_seconds must be between 0 and {MAX_DEADLINE}")
    node = await known(call, name, field)
    named = await beside(ack_ids, lambda: {text: lock_of(text, call.account) for text in ack_ids})
    locks = {text: lock for text, lock in named.items() if lock is not None}
    verdicts = dict.fromkeys(named, Verdict.WORTHLESS)
    is_exact = topics.has(node.config, topics.EXACTLY_ONCE)
    # one that was recalled comes again, after the one before it: a late acknowledgement would take it out of the order
    late = not is_exact and not node.config.group_ahead
    template = _template(call, node.name, change, late=late)
    texts = list(locks)
    for first in range(0, len(texts), MAX_NAMED):
        some = texts[first : first + MAX_NAMED]
        own = tuple([locks[text] for text in some])
        reply = await call.ask(SettleEach(template, own, admitted=True), name)
        assert isinstance(reply, SettledEach)
        for text, lock, answer in zip(some, own, reply.answers, strict=True):
            verdicts[text] = _verdict(answer)
            _note(call, lock, answer)
    return Settled(verdicts, is_exact)


STEP: Final = wrapper.STEP
"""Bytes of messages that are converted before others have their turn."""

EACH: Final = 2_000
"""Bytes that a message counts for beside its own: those of small ones are converted a hundred at a time."""


async def converted(
    items: list[tuple[Item, bytes]], convert: Callable[[Item, bytes, Body | None], T]
) -> list[T]:
    """Return what is made of each of these, which are forgotten one by one; large ones are decoded in steps, between which others have their turn."""
    found: list[T] = []
    since = 0
    items.reverse()
    while items:
        item, payload = items.pop()
        found.append(convert(item, payload, await body_of(item, payload)))
        since += len(payload) + EACH
        if since > STEP and items:
            since = 0
            await asyncio.sleep(0)
    return found


async def body_of(item: Item, payload: bytes) -> Body | None:
    """Return what a large message carries, decoded in steps; None of one that is decoded in no time."""
    if len(payload) <= STEP:
        return None
    return await stepped(wrapper.unwrap_in_steps(payload, type_of(item.headers)))


async def beside(values: Sequence[object], convert: Callable[[], T]) -> T:
    """Return what is made of these values: in a thread if they are many."""
    return convert() if len(values) <= MANY else await asyncio.to_thread(convert)


def _note(call: Call, lock: LockName, answer: Reply) -> None:
    """Notify the stream that has delivered it of the end of a lock."""
    outstanding = call.backend.outstanding
    assert lock.token is not None
    if (
        isinstance(answer, Touched)
        and (after := dict(answer.entries)[lock.id]) > call.backend.broker.now()
    ):
        outstanding.extended(lock.token, after)
    elif not isinstance(answer, Refused) or answer.refusal in _OVER:
        outstanding.settled(lock.token)


def _template(call: Call, node: NodeName, change: Change, *, late: bool) -> Settle | Touch:
    if change.deadline is None:
        return Settle(call.by, node, (), Verb.RETRACT, late=late)
    if not change.deadline:
        return Settle(call.by, node, (), Verb.UNLOCK, outcome=Outcome.FAILED, reason=NACKED)
    return Touch(call.by, node, (), seconds(change.deadline), exact=True)


def _verdict(reply: Reply) -> Verdict:
    if isinstance(reply, Refused):
        return _OF_REFUSALS.get(reply.refusal, Verdict.WORTHLESS)
    return Verdict.DONE


REASONS: Final = {
    Verdict.WORTHLESS: "PERMANENT_FAILURE_INVALID_ACK_ID",
    Verdict.FAILED: "TRANSIENT_FAILURE_STORE",
}
"""Verdicts that clients get, in the words that they know. A message that is gone will not be delivered again, so it is not a failure."""


def check(settled: Settled) -> None:
    """Fail with the ack ids that could not be settled, if the subscription delivers exactly once; the others are settled.

    Raises:
        CallError: there are such, with the reason of each.

    """
    if not settled.is_exact:
        return
    reasons = {
        text: REASONS[verdict] for text, verdict in settled.verdicts.items() if verdict in REASONS
    }
    if not reasons:
        return
    are_all = len(reasons) == len(settled.verdicts)
    code = StatusCode.FAILED_PRECONDITION if are_all else StatusCode.ABORTED
    raise CallError(code, "Some acknowledgement IDs in the request were invalid.", reasons)
