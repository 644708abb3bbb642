"""Kept messages that end without a delivery: their time is over, or an administrator drops them. Answers are forgotten the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.changes import DropRow
from pubqueue.core.decision import Decision, Refusal, refuse
from pubqueue.core.qos.keep import summed, without
from pubqueue.core.qos.model import EVERYBODY, KeptMessage, MessagesEnded, MessageTotal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.core.model import Jid, Millis, Principal

SLICE: Final = 500
"""Messages that end in one request."""


class ForgetMessages(Struct, frozen=True, gc=False):
    """End a slice of the messages, and forget a slice of the answers, whose time is over; for the service itself."""


class DropMessages(Struct, frozen=True, gc=False):
    """End the messages that are held of an account, of which `count` have ended before; only an administrator may."""

    by: Principal
    account: Jid
    count: int = 0


class EndFacts(Struct, frozen=True, gc=False):
    """The messages that are to end, and the totals of their accounts and of all."""

    now: Millis
    messages: tuple[KeptMessage, ...]
    totals: Mapping[str, MessageTotal]


def forget_messages(_request: ForgetMessages, facts: EndFacts) -> Decision:
    """End those whose time is over."""
    return _end(tuple(one for one in facts.messages if one.until <= facts.now), facts)


def drop_messages(request: DropMessages, facts: EndFacts) -> Decision:
    """End those that are held."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN)
    ending = tuple(one for one in facts.messages if one.held)
    decision = _end(ending, facts)
    count = request.count + len(ending)
    if len(facts.messages) < SLICE:
        return replace(decision, reply=MessagesEnded((), more=False, count=count))
    return replace(decision, then=replace(request, count=count))


def _end(ending: tuple[KeptMessage, ...], facts: EndFacts) -> Decision:
    totals = dict(facts.totals)
    for message in ending:
        for name in (message.account, EVERYBODY):
            totals[name] = without(totals.get(name, MessageTotal(name)), message)
    changes = (*(DropRow(KeptMessage, one.mark) for one in ending), *summed(totals.values()))
    held = tuple(message for message in ending if message.held)
    more = len(facts.messages) >= SLICE
    return Decision(MessagesEnded(held, more=more), changes, work=len(ending))
