"""Acknowledgements, nacks and deadlines, for both bindings: many locks, each with its own verdict."""

from __future__ import annotations

from enum import Enum, unique
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct

from pubqueue.engine.table import MAX_NAMED
from pubqueue.faces.grpc.pubsub import marks, subscriptions
from pubqueue.faces.grpc.wire.ack_ids import lock_of
from pubqueue.faces.grpc.wire.statuses import invalid
from pubqueue.model.decision import Refusal, Refused, SettledEach, Touched
from pubqueue.model.entities import seconds
from pubqueue.rules.settle import Outcome, Settle, Verb
from pubqueue.rules.settle_each import SettleEach
from pubqueue.rules.unlock import Touch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pubqueue.faces.grpc.calls import Call
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import NodeName
    from pubqueue.rules.settle_each import LockName

T = TypeVar("T")

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
    node = await subscriptions.found(call, name, field)
    named = {text: lock_of(text, call.account) for text in ack_ids}
    locks = {text: lock for text, lock in named.items() if lock is not None}
    verdicts = dict.fromkeys(named, Verdict.WORTHLESS)
    is_exact = marks.has(node.config, marks.EXACTLY_ONCE)
    template = _template(call, node.name, change, late=not is_exact)
    for some in batched(locks.items(), MAX_NAMED):
        reply = await call.ask(SettleEach(template, tuple(lock for _, lock in some)), name)
        assert isinstance(reply, SettledEach)
        for (text, lock), answer in zip(some, reply.answers, strict=True):
            verdicts[text] = _verdict(answer)
            _note(call, lock, answer)
    return Settled(verdicts, is_exact)


def _note(call: Call, lock: LockName, answer: Reply) -> None:
    """Notify the stream that has delivered it of the end of a lock."""
    outstanding = call.backend.outstanding
    assert lock.token is not None
    if (
        isinstance(answer, Touched)
        and (after := dict(answer.entries)[lock.id]) > call.backend.now()
    ):
        outstanding.extended(lock.token, after)
    elif not isinstance(answer, Refused) or answer.refusal in _OVER:
        outstanding.settled(lock.token)


def batched(all_: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    """Yield the values in groups of up to `size`."""
    rest = iter(all_)
    while some := tuple(islice(rest, size)):
        yield some


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
