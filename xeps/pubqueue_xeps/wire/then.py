"""Follow-ups: items that are published in the commit in which another item ends, or is held.

A service with the feature `urn:x-pubqueue:0#then` does both or neither. Without it nothing is sent.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final

from pubqueue_xeps.wire import joins
from pubqueue_xeps.wire.names import checked
from pubqueue_xeps.wire.ns import PUBQUEUE, PUBSUB
from pubqueue_xeps.wire.publication import NewItem, payload_text, wrapped
from pubqueue_xeps.wire.refusals import Outcome
from pubqueue_xeps.wire.requests import publishing
from pubqueue_xeps.wire.waits import Hold
from pubqueue_xeps.wire.xml_text import attributes, quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pubqueue_xeps.wire.times import When

__all__ = ["FollowUp", "Then"]

FEATURE: Final = f"{PUBQUEUE}#then"

MAX_FOLLOW_UPS: Final = 998
"""Follow-ups of one item; with its end and a reply they are a commit of 1,000 parts."""

MAX_BYTES: Final = 220_000
"""Bytes of all follow-ups of one item as they are sent: XMPP servers take 256 KiB of a client at a time, and a hold needs some of these."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """An item that is published when the item of a handler ends: its node, its payload, and what else `Publisher.publish` takes.

    Without `id`, the id is made from the handler's item and the place in `Then`. The handler's item is named in the header `parent`.
    """

    node: str
    payload: object
    _: KW_ONLY
    id: str | None = None
    priority: int | None = None
    delay: When | None = None
    ttl: When | None = None
    headers: Mapping[str, str] | None = None
    group: str | None = None
    type: str | None = None
    """The content type of a payload that is a str, bytes or an Element."""


@dataclass(frozen=True, slots=True, init=False)
class Then:
    """Returned by a handler whose item is done: the follow-ups are published in the commit that deletes the item.

    So each follow-up is published once, whenever a worker or the service is killed, and none if the lock is lost. The worker's account has
    to be a publisher of their nodes. If one of them is refused, nothing is done, and the item has failed with `FollowUpRefused`. With
    `reply`, the item is answered in the same commit, if it asks for a reply. With `hold`, the item is not done but held, as `Hold` says, in
    that commit.

    Raises TypeError for what is no FollowUp, ValueError for more than 998 of them.
    """

    follow_ups: tuple[FollowUp, ...]
    reply: object = None
    hold: Hold | None = None

    def __init__(
        self, *follow_ups: FollowUp, reply: object = None, hold: Hold | None = None
    ) -> None:
        _check(follow_ups, hold)
        if len(follow_ups) > MAX_FOLLOW_UPS:
            raise ValueError(
                f"Then has {len(follow_ups)} follow-ups, and may have {MAX_FOLLOW_UPS}."
            )
        put = object.__setattr__  # it is frozen
        put(self, "follow_ups", follow_ups)
        put(self, "reply", reply)
        put(self, "hold", hold)


def _check(follow_ups: Sequence[object], hold: object) -> None:
    for one in follow_ups:
        if not isinstance(one, FollowUp):
            raise TypeError(f"Then takes FollowUp(node, payload), not {type(one).__name__}.")
    if hold is not None and not isinstance(hold, Hold):
        raise TypeError(f"hold is {hold!r}; it takes a Hold.")


@dataclass(frozen=True, slots=True, init=False)
class Ending(Outcome):
    """How an item ends or is held, and what is published in that commit: items with their ids, and the same as text.

    Raises TypeError or ValueError for items that cannot be sent.
    """

    hold: Hold | None = None
    items: tuple[tuple[str, NewItem], ...] = ()
    text: str = ""

    def __init__(self, items: Sequence[tuple[str, NewItem]], hold: Hold | None) -> None:
        text = "".join(_then(node, new) for node, new in items)
        size = len(text.encode())
        if size > MAX_BYTES:
            raise ValueError(
                f"The follow-ups have {size} bytes as they are sent, and may have {MAX_BYTES}. Put what is"
                " large elsewhere, and publish where it is."
            )
        put = object.__setattr__  # it is frozen
        put(self, "type", "release" if hold is None else "hold")
        put(self, "delay", None)
        put(self, "reason", None)
        put(self, "hold", hold)
        put(self, "items", tuple(items))
        put(self, "text", text)

    @property
    def beside(self) -> str:
        """The elements next to the retract, or next to the unlock that holds the item."""
        return self.text if self.hold is None else joins.hold(self.hold) + self.text


def _then(node: str, new: NewItem) -> str:
    name = checked(new.id or "", "The item id")
    new = wrapped(new)
    said = publishing.metadata(new.delay, new.priority, new.ttl, new.group)
    named = attributes(node=checked(node, "The node's name"), **said)
    payload = payload_text(new.payload, f"payload of {name!r}")
    item = f"<item xmlns='{PUBSUB}' id={quote(name)}>{payload}</item>"
    return f"<then xmlns='{PUBQUEUE}'{named}>{item}{publishing.headers(new.headers)}</then>"
