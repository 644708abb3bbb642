"""Workers that hold items and send nothing: they are pinged, and count as gone if they do not answer (XEP-0199).

A worker whose server died cannot report that it left. Without pings its items would wait for their lock timeout.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.changes import PutRow
from pubqueue.core.decision import Decision, Done
from pubqueue.core.model import later, seconds
from pubqueue.core.presence.ping_answer import PingAnswer

if TYPE_CHECKING:
    from pubqueue.core.model import Jid, Millis

USUAL: Final = 30.0
"""Seconds of silence after which a worker that holds items is pinged."""

MAX_ANSWER: Final = 15.0
"""Seconds to answer a ping, at most half of the silence before it: a link that loses packets needs seconds, and a busy worker is late."""

ATTEMPTS: Final = 2
"""Pings in a row without an answer after which the worker counts as gone."""

REMEMBERED: Final = seconds(600)
"""Time for which an answer that came to another instance is remembered. It is used within a minute."""


class Silence(Struct, frozen=True, gc=False):
    """The facts about a holder: times in seconds of one clock. `asked` is when the open ping was sent."""

    last_seen: float
    asked: float | None = None
    unanswered: int = 0


class Step(enum.Enum):
    """The next action for a holder."""

    NOTHING = enum.auto()
    PING = enum.auto()
    GONE = enum.auto()


def step(known: Silence, now: float, ping_after: float) -> Step:
    """Return the next action: ping a silent holder, and give up one that left its pings unanswered."""
    if known.asked is None:
        return Step.PING if now - known.last_seen >= ping_after else Step.NOTHING
    if now - known.asked < min(MAX_ANSWER, ping_after / 2):
        return Step.NOTHING
    return Step.GONE if known.unanswered >= ATTEMPTS else Step.PING


def pinged(known: Silence, now: float) -> Silence:
    """Return the holder with a ping sent now."""
    return Silence(known.last_seen, now, known.unanswered + 1)


class AnsweredElsewhere(Struct, frozen=True, gc=False):
    """A JID has answered a ping of another instance: a server may route answers to any of several."""

    jid: Jid


class AnsweredFacts(Struct, frozen=True, gc=False):
    """Whether the JID holds an item."""

    now: Millis
    holds: bool


def answered_elsewhere(request: AnsweredElsewhere, facts: AnsweredFacts) -> Decision:
    """Record the answer for the instance that waits for it. Nothing is stored for a JID that holds nothing."""
    if not facts.holds:
        return Decision(Done())
    answer = PingAnswer(request.jid, facts.now, later(facts.now, REMEMBERED))
    return Decision(Done(), (PutRow(answer),))
