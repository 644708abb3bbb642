"""Several subscriptions of one JID to one node, distinguished by their ids (XEP-0060 6.1.6).

They are one row, `Subscription`, because they share nearly everything: the JID, its account, the
approval by an owner, and the single notification that they all get. Only its id and its options
belong to each alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.model.decision import Refusal
from pubqueue.model.entities import Subscription, Terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.model.entities import Jid


MAX_OF_JID: Final = 50
"""Subscriptions of one JID to one node: a message to it names all of them."""


def terms_of(one: Subscription) -> tuple[Terms, ...]:
    """Return each subscription's own id and options, the oldest first."""
    return one.several or (Terms(one.subid, one.deliver, one.expire, one.remind, one.temporary),)


def apart(one: Subscription) -> tuple[Subscription, ...]:
    """Return each subscription of the JID as one of its own, the oldest first."""
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
    """Return the row of the JID with these subscriptions; there is at least one.

    It gets notifications if one of them does, and it is due when the first of them is due. A
    subscription whose deliveries are switched on again counts as available.
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
    """Return the subscription that is meant: the only one, or that of this id (XEP-0060 6.2.3.1, 6.2.3.5)."""
    if subid is None:
        return Refusal.SUBID_REQUIRED if one.several else one
    return next((each for each in apart(one) if each.subid == subid), Refusal.INVALID_SUBID)


def named(one: Subscription) -> str | None:
    """Return the id by which a change has to name its subscription, None if the JID has no other."""
    return one.subid if one.several else None


def counted(rows: Iterable[Subscription]) -> int:
    """Return the number of subscriptions in these rows."""
    return sum(len(one.several) or 1 for one in rows)


def name_of(one: Subscription, name: str) -> str:
    """Return the name of an entry on a page, given the name of the JID's row on that page.

    No name of a row begins with a slash. Ids are in alphabetical order, so that a name marks a
    place even after the subscription has ended.
    """
    return f"/{one.subid} {name}" if one.several else name


def read_name(name: str | None) -> tuple[str | None, str | None]:
    """Return the id in such a name, if it has one, and the name of the row."""
    if name is None or not name.startswith("/"):
        return None, name
    subid, _, row = name[1:].partition(" ")
    return subid, row


def listed(one: Subscription, *, backward: bool = False) -> list[Subscription]:
    """Return each subscription of the JID in the order of a list."""
    return sorted(apart(one), key=lambda each: each.subid, reverse=backward)


def subids_of(rows: Iterable[Subscription]) -> Mapping[Jid, tuple[str, ...]]:
    """Return for each JID with several subscriptions the ids that are notified (XEP-0060 7.1.2.4)."""
    return {
        one.jid: tuple(terms.subid for terms in one.several if terms.deliver)
        for one in rows
        if one.several and one.listens
    }
