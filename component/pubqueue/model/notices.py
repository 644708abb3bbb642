"""Notices of events, and which of them the subscribers of a node get."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # msgspec reads it
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.entities import ItemReply, Level, NotificationType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pubqueue.model.entities import (
        Draft,
        Item,
        ItemId,
        Jid,
        Millis,
        Node,
        NodeConfig,
        NodeName,
        SubscriptionState,
    )


# Notices of events: to one address, to each of some, or to all subscribers of a node.
#
# A rule returns notices with its decision; they are sent after its commit, in order.

N = TypeVar("N")


@final
class Deliver(Struct, frozen=True, gc=False):
    """An item for its new holder (XEP-0254 2.2); `again` if it may have been delivered before.

    `subid` is the subscription under which it is delivered, empty if that has ended since.
    """

    to: Jid
    item: Item
    payload: bytes
    again: bool = False
    subid: str = ""
    level: Level = Level.UNACKNOWLEDGED


class Announce(Struct, frozen=True, gc=False):
    """An item for a subscriber of a plain node (XEP-0060 7.1.2.1); None: an event without details.

    `publisher` is left out if the node does not show it. `late` is the time of publish of an item that is
    announced afterwards.
    """

    to: Jid
    node: NodeName
    draft: Draft | None
    publisher: Jid | None
    late: Millis | None = None
    subids: tuple[str, ...] = ()
    """The ids of the addressee's subscriptions that the notice is for (XEP-0060 7.1.2.4)."""


class Retracted(Struct, frozen=True, gc=False):
    """The items are gone (XEP-0254 2.3): a worker counts work as done only after this."""

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
    """The node is deleted (XEP-0060 8.4.2); `uri` is the address of its replacement, if there is one."""

    to: Jid
    node: NodeName
    uri: str = ""


class Configured(Struct, frozen=True, gc=False):
    """The node's settings have changed (XEP-0060 8.2.5.3): to these, if the node sends them."""

    to: Jid
    node: NodeName
    config: NodeConfig | None = None


class SubscriptionChanged(Struct, frozen=True, gc=False):
    """The new state of a subscription (XEP-0060 12.14), for its JID, or of `about` for an owner of the node.

    `expiry` is when its lease ends, in a reminder (12.19).
    """

    to: Jid
    node: NodeName
    state: SubscriptionState
    subid: str = ""
    expiry: Millis | None = None
    about: Jid | None = None


class ApprovalWanted(Struct, frozen=True, gc=False):
    """A subscription waits for approval; the addressee, an owner, may allow or deny it (XEP-0060 8.6)."""

    to: Jid
    node: NodeName
    jid: Jid
    subid: str


ForMany = Announce | Retracted | Purged | Deleted | Configured | SubscriptionChanged
"""The notices that can be sent to many addressees."""

Notice = Deliver | Unlocked | ApprovalWanted | ForMany


@final
class ToEach(Struct, frozen=True, gc=False):
    """The same notice for each of these, in order; `what` has no addressee of its own.

    It is one value for any number of addressees; a face makes the single notices as it can send
    them. `fleeting` means that it is only for addressees that are online, and is not kept. `subids`
    are those of addressees with several subscriptions, which are notified by subscription.
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
    """Return the notice with these subscription ids; None if the addressee has only one subscription."""
    if subids is None or not isinstance(what, Announce | Retracted):
        return what
    return replace(what, subids=subids)


class Everybody(Struct, frozen=True, gc=False):
    """All subscribers of a node, more than are loaded at once: they are read as notices are sent."""


EVERYBODY: Final = Everybody()


class Several(Struct, frozen=True, gc=False):
    """Subscribers of a node of which some subscribe several times, with the ids that are notified."""

    jids: tuple[Jid, ...]
    subids: Mapping[Jid, tuple[str, ...]]


Audience = tuple["Jid", ...] | Several | Everybody


class ToAll(Struct, frozen=True, gc=False):
    """The same notice for all that subscribe to its node when it is sent.

    The notice that the node is deleted goes to those that subscribed to it then.
    """

    what: ForMany
    fleeting: bool = False


News = ToEach | ToAll
"""Notices to many addressees; those of one node are sent in their order."""


def to_each(audience: Audience, what: ForMany, *, fleeting: bool = False) -> tuple[News, ...]:
    """Return the notice for each of the audience; nothing if it is empty."""
    if isinstance(audience, Everybody):
        return (ToAll(what, fleeting),)
    if isinstance(audience, Several):
        return (of_several(audience, what, fleeting=fleeting),) if audience.jids else ()
    return (ToEach(audience, what, fleeting),) if audience else ()


def of_several(audience: Several, what: ForMany, *, fleeting: bool = False) -> ToEach:
    """Return the notice for each of them: notices of items carry subscription ids, those of the node do not (XEP-0060 12.16)."""
    subids = audience.subids if isinstance(what, Announce | Retracted) else {}
    return ToEach(audience.jids, what, fleeting, subids)


def singly(notices: Iterable[Notice | News]) -> Iterator[Notice]:
    """Return the notices one by one, except those to an audience that is not loaded."""
    for notice in notices:
        if isinstance(notice, ToEach):
            yield from notice.notices()
        elif not isinstance(notice, ToAll):
            yield notice


NOBODY: Final[Any] = ""
"""A placeholder for an addressee that is named outside the notice."""


# Which notices the subscribers of a node get, and by which kind of message, according to its settings.


def notifies(node: Node) -> bool:
    """Return whether the node notifies subscribers (XEP-0060 16.4.4, deliver_notifications)."""
    return node.config.queueing or node.config.deliver_notifications


def notify(node: Node, audience: Audience, what: ForMany) -> tuple[News, ...]:
    """Return the notice for each of the audience."""
    config = node.config
    if not notifies(node):
        return ()
    fleeting = not config.queueing and config.notification_type is NotificationType.HEADLINE
    return to_each(audience, what, fleeting=fleeting)


def announce(
    node: Node, audience: Audience, draft: Draft | None, publisher: Jid
) -> tuple[News, ...]:
    """Notify the audience of an item of a plain node."""
    return notify(node, audience, announcement(node, draft, publisher)) if audience else ()


def announcement(
    node: Node, draft: Draft | None, publisher: Jid, late: Millis | None = None
) -> Announce:
    """Return the notice of an item: with its payload if the node delivers payloads (XEP-0060 4.3)."""
    config = node.config
    if draft is not None and not config.deliver_payloads:
        draft = replace(draft, payload=b"")
    who = publisher if config.itemreply is ItemReply.PUBLISHER else None
    return Announce(NOBODY, node.name, draft, who, late)
