"""Deliveries that a worker leaves unanswered: its items are free, and no failure is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.decision import Decision, GivenUp
from pubqueue.core.nodes.subscriptions.changes import NoteUnanswered
from pubqueue.core.queue.give_back import release

if TYPE_CHECKING:
    from pubqueue.core.changes import Change
    from pubqueue.core.model import Item, Jid, Millis, Node, Subscription


class Lock(Struct, frozen=True, gc=False):
    """The lock of a delivery, with the deadline that was sent.

    `received` means that its bytes were received, and only its `deliver` is not answered.
    """

    seq: int
    token: int
    deadline: Millis | None
    received: bool = False


class GiveUpUnanswered(Struct, frozen=True, gc=False):
    """Free the items of these locks: the JID has left all attempts of the first unanswered, and the others wait behind it."""

    to: Jid
    locks: tuple[Lock, ...]


class GiveUpFacts(Struct, frozen=True, gc=False):
    """The items that still wait for an answer, and the subscriptions of their holder to their nodes; none if the first does not wait."""

    now: Millis
    held: tuple[tuple[Item, Node], ...]
    subscriptions: tuple[Subscription, ...] = ()


def give_up(_request: GiveUpUnanswered, facts: GiveUpFacts) -> Decision:
    """Free the items without a failure; the subscriber gets nothing more until it shows itself.

    It counts as one delivery that came back (docs/decisions/0039). Its worker may be alive and lose its items by that: then a
    stanza of it, even a late answer, resumes deliveries.
    """
    changes: list[Change] = [release(item, node, facts.now) for item, node in facts.held]
    changes += [
        NoteUnanswered(one.node, one.jid, one.unanswered + 1, silenced=True)
        for one in facts.subscriptions
    ]
    return Decision(GivenUp(len(facts.held)), tuple(changes))
