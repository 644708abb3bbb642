"""Joins: items that wait until other items are done, their members; as text, and as programs see them.

A service with the feature `urn:x-pubqueue:0#joins` keeps the count. A join is published held and open; members are published with its name;
then it is closed. When the last member is done, it goes to a worker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from pubqueue_xeps.wire.names import checked
from pubqueue_xeps.wire.ns import PUBQUEUE
from pubqueue_xeps.wire.requests import IqRequest
from pubqueue_xeps.wire.xml_text import attributes, content, quote

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MEMBERS: Final = f"{{{PUBQUEUE}}}join"


@dataclass(frozen=True, slots=True)
class Join:
    """The name of an item that waits until its members are done: give it to `publish` in `joins`. Raises ValueError for an invalid name."""

    node: str
    id: str

    def __post_init__(self) -> None:
        if not self.node or not self.id:
            raise ValueError("A join is named by its node and its id.")
        checked(self.node, "The node of a join")
        checked(self.id, "The id of a join")


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a join: how many are still to come, how many of these are dead, how many there were, and whether more may be added."""

    to_come: int
    dead: int
    total: int
    is_open: bool = False


class Awaited(Protocol):
    """What an item waits for, beside its members: a `Hold`."""

    @property
    def signals(self) -> tuple[str, ...]:
        """The names of signals."""

    @property
    def within(self) -> float | None:
        """Seconds."""

    @property
    def then(self) -> str:
        """What becomes of it after that time."""

    @property
    def carry(self) -> str | None:
        """What it carries, as JSON."""


def published(what: Awaited | None, *, join: bool) -> str:
    """Return the element of a publish whose items are held from the beginning, as joins if `join`; empty if they are not."""
    if what is None:
        return f"<hold xmlns='{PUBQUEUE}'><join/></hold>" if join else ""
    if what.carry is not None:
        raise ValueError("hold has something to carry; what is published carries its payload.")
    return hold(what, "<join/>" if join else "")


def hold(what: Awaited, more: str = "") -> str:
    """Return the element that holds an item; `more` is added to it."""
    span = None if what.within is None else f"{math.ceil(what.within * 1000) / 1000:.3f}"
    names = "".join(f"<signal name={quote(name)}/>" for name in what.signals)
    carry = "" if what.carry is None else f"<carry>{content(what.carry)}</carry>"
    words = attributes(within=span, then=what.then)
    return f"<hold xmlns='{PUBQUEUE}'{words}>{names}{carry}{more}</hold>"


def member(joins: Join) -> str:
    """Return the element beside a publish of members."""
    return f"<joins xmlns='{PUBQUEUE}'{attributes(node=joins.node, item=joins.id)}/>"


def close(joins: Join) -> IqRequest:
    """Ask to add no more members to a join."""
    body = f"<close-join xmlns='{PUBQUEUE}'{attributes(node=joins.node, item=joins.id)}/>"
    return IqRequest("set", f"the end of the join {joins.id!r}", body)


def read_members(wait: Element) -> Members | None:
    """Return what a delivery says of the members of a join, None if the item is none."""
    found = wait.find(MEMBERS)
    if found is None:
        return None
    try:
        to_come, dead, total = [int(found.get(name, "")) for name in ("to-come", "dead", "total")]
    except ValueError:
        return None
    return Members(to_come, dead, total, found.get("open") in ("1", "true"))
