"""A full JID that has become available: deliveries to it resume.

Any address can send presence; it is kept only for addresses that are known here (docs/decisions/0067).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.addresses import account_of
from pubqueue.core.changes import Change, ForgetResource, NoteActivity, NoteResource
from pubqueue.core.decision import Decision, Done, FeaturesWanted
from pubqueue.core.nodes.subscriptions.changes import SetAvailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pubqueue.core.model import Jid, Subscription

MAX_RESOURCES: Final = 100
"""The maximum number of full JIDs of an account that are known to be available."""


class Arrive(Struct, frozen=True, gc=False):
    """A full JID has sent available presence."""

    jid: Jid


class ArriveFacts(Struct, frozen=True, gc=False):
    """The subscriptions of the full JID and of its account, and the full JIDs of the account that came, in order.

    It `is_somebody` if it holds an item, or its account has an affiliation or a subscription anywhere.
    """

    subscriptions: tuple[Subscription, ...]
    here: tuple[Jid, ...] = ()
    is_somebody: bool = False
    wants_features: bool = False
    """Whether a level of its deliveries depends on what its client can do."""


def arrive(request: Arrive, facts: ArriveFacts) -> Decision:
    """Resume deliveries to an address that has become available and still has subscriptions.

    Any address can send presence: it is kept only for addresses that are known here.
    """
    known = facts.is_somebody or bool(facts.subscriptions)
    changes: list[Change] = []
    if known:
        changes += [*note_here((request.jid,), facts.here), *shows_itself(request.jid)]
    changes += [
        SetAvailable(subscription.node, subscription.jid, available=True)
        for subscription in facts.subscriptions
        if not subscription.available or subscription.unanswered
    ]
    reply = FeaturesWanted() if facts.wants_features else Done()
    return Decision(reply, tuple(changes))


def shows_itself(jid: Jid) -> tuple[NoteActivity, ...]:
    """Note that a full JID has shown activity now."""
    return () if account_of(jid) == jid else (NoteActivity(jid),)


def note_here(came: Iterable[Jid], here: tuple[Jid, ...]) -> Iterator[Change]:
    """Add full JIDs to those of an account that are known to be available; beyond the maximum the first are dropped."""
    new = [jid for jid in dict.fromkeys(came) if account_of(jid) != jid and jid not in here]
    yield from map(NoteResource, new[-MAX_RESOURCES:])
    too_many = max(0, len(here) + min(len(new), MAX_RESOURCES) - MAX_RESOURCES)
    yield from map(ForgetResource, here[:too_many])
