"""Several subscriptions of one JID to one node, told apart by their ids (XEP-0060 6.1.6).

They are one row, `Subscription`, for they share nearly everything: the JID, its account, whether an owner has approved it, and
that it is told once of what happens, however many of them ask for it. What each has for itself are its id and its options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.core.decision import Refusal
from pubqueue.core.model import Subscription, Terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.core.model import Jid

MAX_OF_JID: Final = 50
"""Subscriptions of one JID to one node: a message to it names all of them."""


def terms_of(one: Subscription) -> tuple[Terms, ...]:
    """Return what each subscription of the JID has for itself, the oldest first."""
    return one.several or (Terms(one.subid, one.deliver, one.expire, one.remind, one.temporary),)


def apart(one: Subscription) -> tuple[Subscription, ...]:
    """Return each subscription of the JID by itself, the oldest first."""
    if not one.several:
        return (one,)
    return tuple(_by_itself(one, terms) for terms in one.several)


def _by_itself(one: Subscription, terms: Terms) -> Subscription:
    deliver = terms.deliver
    return replace(
        one,
        subid=terms.subid,
        deliver=deliver,
        expire=terms.expire,
        remind=terms.remind,
        temporary=terms.temporary,
        several=(terms,),
    )


def together(one: Subscription, each: tuple[Terms, ...]) -> Subscription:
    """Return the row of the JID with these subscriptions, of which there is one at least.

    It wants to be told something if one of them does, and there is something to do for it when there is for the first.
    Whoever wants to be told again is here to be told.
    """
    first = each[0]
    if len(each) == 1:
        now = replace(_by_itself(one, first), several=())
    else:
        moments = [terms.ends_next for terms in each if terms.ends_next is not None]
        now = replace(
            one,
            subid=first.subid,
            deliver=any(terms.deliver for terms in each),
            expire=min(moments, default=None),
            remind=None,
            temporary=any(terms.temporary for terms in each),
            several=each,
        )
    return now if now.listens == one.listens else replace(now, available=now.listens)


def find(one: Subscription, subid: str | None) -> Subscription | Refusal:
    """Return the one that is meant: the only one, or that of this id (XEP-0060 6.2.3.1, 6.2.3.5)."""
    if subid is None:
        return Refusal.SUBID_REQUIRED if one.several else one
    return next((each for each in apart(one) if each.subid == subid), Refusal.INVALID_SUBID)


def named(one: Subscription) -> str | None:
    """Return the id by which a change has to name the one that it is about, None if the JID has no other."""
    return one.subid if one.several else None


def counted(rows: Iterable[Subscription]) -> int:
    """Return how many subscriptions these rows are."""
    return sum(len(one.several) or 1 for one in rows)


def name_of(one: Subscription, name: str) -> str:
    """Return what an entry of a list is called in a page, where the row of its JID has this name.

    No name of a row begins with a slash. Ids are in alphabetical order there, so that a name says where it stands also
    once the subscription has ended.
    """
    return f"/{one.subid} {name}" if one.several else name


def read_name(name: str | None) -> tuple[str | None, str | None]:
    """Return of such a name the id, if it has one, and the name of the row."""
    if name is None or not name.startswith("/"):
        return None, name
    subid, _, row = name[1:].partition(" ")
    return subid, row


def listed(one: Subscription, *, backward: bool = False) -> list[Subscription]:
    """Return each subscription of the JID in the order of a list."""
    return sorted(apart(one), key=lambda each: each.subid, reverse=backward)


def subids_of(rows: Iterable[Subscription]) -> Mapping[Jid, tuple[str, ...]]:
    """Return for each JID with several the ids of those that want to be told (XEP-0060 7.1.2.4)."""
    return {
        one.jid: tuple(terms.subid for terms in one.several if terms.deliver)
        for one in rows
        if one.several and one.listens
    }
