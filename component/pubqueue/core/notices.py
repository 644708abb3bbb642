"""What others are told of what has happened: to one, to each of some, or to all who subscribe to a node.

A rule gives notices back with its decision; they leave after its commit, in order.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # msgspec reads it
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pubqueue.core.model import (
        Draft,
        Item,
        ItemId,
        Jid,
        Millis,
        NodeConfig,
        NodeName,
        SubscriptionState,
    )


N = TypeVar("N")


@final
class Deliver(Struct, frozen=True, gc=False):
    """An item for the one who now holds it (XEP-0254 2.2); `again` if it may have been told before.

    `subid` is the subscription under which it goes out, empty where that has ended since.
    """

    to: Jid
    item: Item
    payload: bytes
    again: bool = False
    subid: str = ""


class Announce(Struct, frozen=True, gc=False):
    """An item for a subscriber of a plain node (XEP-0060 7.1.2.1); None: something has happened, and no more is said.

    `publisher` is left out where the node keeps it to itself. `late` is when an item that is told of afterwards was
    published.
    """

    to: Jid
    node: NodeName
    draft: Draft | None
    publisher: Jid | None
    late: Millis | None = None
    subids: tuple[str, ...] = ()
    """Of the addressee's several subscriptions those that it is told for (XEP-0060 7.1.2.4)."""


class Retracted(Struct, frozen=True, gc=False):
    """The items are gone (XEP-0254 2.3): what a worker waits for before it counts work as done."""

    to: Jid
    node: NodeName
    ids: tuple[ItemId, ...]
    subids: tuple[str, ...] = ()
    """As in `Announce` (XEP-0060 7.2.2.2)."""


class Unlocked(Struct, frozen=True, gc=False):
    """The items are no longer the addressee's (XEP-0254 2.4 and 4)."""

    to: Jid
    node: NodeName
    ids: tuple[ItemId, ...]


class Purged(Struct, frozen=True, gc=False):
    """The node has lost all its items (XEP-0060 8.5.2)."""

    to: Jid
    node: NodeName


class Deleted(Struct, frozen=True, gc=False):
    """The node is gone (XEP-0060 8.4.2); what takes its place is at `uri`, if anything does."""

    to: Jid
    node: NodeName
    uri: str = ""


class Configured(Struct, frozen=True, gc=False):
    """The node has other settings (XEP-0060 8.2.5.3): these, where they are told."""

    to: Jid
    node: NodeName
    config: NodeConfig | None = None


class SubscriptionChanged(Struct, frozen=True, gc=False):
    """How a subscription stands from now on (XEP-0060 12.14): told to its JID, or of `about` to an owner of the node.

    `expiry` is when its lease ends, which is near (12.19).
    """

    to: Jid
    node: NodeName
    state: SubscriptionState
    subid: str = ""
    expiry: Millis | None = None
    about: Jid | None = None


class ApprovalWanted(Struct, frozen=True, gc=False):
    """Somebody wants to subscribe, which an owner, the addressee, may allow or deny (XEP-0060 8.6)."""

    to: Jid
    node: NodeName
    jid: Jid
    subid: str


ForMany = Announce | Retracted | Purged | Deleted | Configured | SubscriptionChanged
"""What can be told to many at once."""

Notice = Deliver | Unlocked | ApprovalWanted | ForMany


@final
class ToEach(Struct, frozen=True, gc=False):
    """The same notice for each of these, in order; `what` has no addressee of its own.

    However many they are, it is one value, and a face makes the notices only as it can send them. `fleeting`: it is
    for those who are there to hear it, and kept for nobody. `subids` are those of addressees who are told which of their
    several subscriptions it is for.
    """

    to: tuple[Jid, ...]
    what: ForMany
    fleeting: bool = False
    subids: Mapping[Jid, tuple[str, ...]] = {}

    def notices(self, start: int = 0) -> Iterator[Notice]:
        """Return the notices, from that of the addressee at `start`."""
        return (
            for_subids(replace(self.what, to=jid), self.subids.get(jid)) for jid in self.to[start:]
        )


def for_subids(what: N, subids: tuple[str, ...] | None) -> N:
    """Return the notice as it is told for these subscriptions; None where the addressee has no other."""
    if subids is None or not isinstance(what, Announce | Retracted):
        return what
    return replace(what, subids=subids)


class Everybody(Struct, frozen=True, gc=False):
    """All who subscribe to a node, more than are loaded at once: they are looked up as they are told."""


EVERYBODY: Final = Everybody()


class Several(Struct, frozen=True, gc=False):
    """Those who subscribe to a node, where some of them do so several times: with the ids of what these are told for."""

    jids: tuple[Jid, ...]
    subids: Mapping[Jid, tuple[str, ...]]


Audience = tuple["Jid", ...] | Several | Everybody


class ToAll(Struct, frozen=True, gc=False):
    """The same notice for all who subscribe to its node when their turn to be told comes.

    That the node is deleted is told to those who subscribed to it then.
    """

    what: ForMany
    fleeting: bool = False


News = ToEach | ToAll
"""What is told to many; of one node it is told in its order."""


def to_each(audience: Audience, what: ForMany, *, fleeting: bool = False) -> tuple[News, ...]:
    """Return the notice for each of the audience; nothing where there is nobody."""
    if isinstance(audience, Everybody):
        return (ToAll(what, fleeting),)
    if isinstance(audience, Several):
        return (of_several(audience, what, fleeting=fleeting),) if audience.jids else ()
    return (ToEach(audience, what, fleeting),) if audience else ()


def of_several(audience: Several, what: ForMany, *, fleeting: bool = False) -> ToEach:
    """Return the notice for each of them: of items it is told for which subscription, of the node not (XEP-0060 12.16)."""
    subids = audience.subids if isinstance(what, Announce | Retracted) else {}
    return ToEach(audience.jids, what, fleeting, subids)


def singly(notices: Iterable[Notice | News]) -> Iterator[Notice]:
    """Return the notices one by one, but for those to a crowd, of whom nobody is named."""
    for notice in notices:
        if isinstance(notice, ToEach):
            yield from notice.notices()
        elif not isinstance(notice, ToAll):
            yield notice


NOBODY: Final[Any] = ""
"""In the place of an addressee that is named beside the notice."""
