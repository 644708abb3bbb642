"""Items that wait: how a handler holds its item, the signals that come for one, and both as text.

A service with the feature `urn:x-pubqueue:0#hold` keeps what comes with the item.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from pubqueue_xeps.wire import joins
from pubqueue_xeps.wire.names import checked
from pubqueue_xeps.wire.ns import PUBQUEUE
from pubqueue_xeps.wire.payloads.decoding import DecodeError
from pubqueue_xeps.wire.refusals import Outcome
from pubqueue_xeps.wire.requests import IqRequest
from pubqueue_xeps.wire.times import read_time, until
from pubqueue_xeps.wire.xml_text import attributes, content, legal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.wire.joins import Members
    from pubqueue_xeps.wire.times import When

MAX_DATA: Final = 16_384
"""Bytes of the data of a signal, and of what an item carries, as JSON in XML."""

AtDeadline = Literal["deliver", "dead", "discard"]

Woken = Literal["count", "signal", "time"]


@dataclass(frozen=True, slots=True, init=False)
class Hold(Outcome):
    """Returned by a handler to let its item wait: for one of these signals, for a time, or for both.

    The lock ends, no failure is counted, and those so far are forgotten: this step is done. The item comes again, to
    any worker, when a signal with one of the names has come, or after `within` (seconds, a timedelta, or an aware datetime); then
    `item.woken` is "signal" or "time", and `item.signals` has what came. A signal that came earlier, while the handler
    was at work, wakes it at once. With `then="dead"` the item is dead after that time instead, with "discard" it is deleted.
    `carry` is a value that JSON can express, of up to 16 KiB, and comes again as `item.carried`; None leaves it as it is.

    Raises TypeError or ValueError for a value that cannot be sent, or if there is nothing to wait for.
    """

    signals: tuple[str, ...] = ()
    within: float | None = None
    then: AtDeadline = "deliver"
    carry: str | None = None
    """As JSON."""

    def __init__(
        self,
        signals: str | Iterable[str] = (),
        within: When | None = None,
        then: AtDeadline = "deliver",
        carry: object = None,
    ) -> None:
        names = (signals,) if isinstance(signals, str) else tuple(signals)
        if not names and within is None:
            raise ValueError("Hold needs a signal, or a time: nothing would wake the item.")
        if then not in ("deliver", "dead", "discard"):
            raise ValueError(f"then is {then!r}; it is deliver, dead or discard.")
        put = object.__setattr__  # it is frozen
        put(self, "type", "hold")
        put(self, "delay", None)
        put(self, "reason", None)
        put(self, "signals", tuple([checked(name, "The name of a signal") for name in names]))
        put(self, "within", None if within is None else until("within", within))
        put(self, "then", then)
        put(self, "carry", None if carry is None else as_json(carry, "carry"))


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal that came for an item: its name and id, the account that sent it, and when, by the service's clock."""

    name: str
    id: str
    text: str
    """The data as it was sent."""
    by: str
    at: datetime | None

    @property
    def data(self) -> Any:  # noqa: ANN401 - any value of JSON
        """The data, from JSON; None if there is none. Raises DecodeError if it is not JSON."""
        return from_json(self.text)


@dataclass(frozen=True, slots=True)
class Waited:
    """What woke an item, what it carries as JSON, the signals that have come for it, in order, and its members if it is a join."""

    woken: Woken | None = None
    carry: str = ""
    signals: tuple[Signal, ...] = ()
    members: Members | None = None


@dataclass(frozen=True, slots=True)
class Signaled:
    """The result of a signal: the item, its state, and whether it had the signal already, under its id.

    `state` is "queued" if it was held for the signal. In another state it keeps the signal until it is held for it.
    """

    node: str
    id: str
    signal_id: str
    state: str
    again: bool = False


def as_json(value: object, what: str) -> str:
    """Return a value as JSON; raise TypeError or ValueError if it has none, or is too long."""
    text = msgspec.json.encode(value).decode()
    size = len(content(text).encode())
    if size > MAX_DATA:
        raise ValueError(f"{what} has {size} bytes as it is sent, and may have {MAX_DATA}.")
    return legal(text, what)


def from_json(text: str) -> Any:  # noqa: ANN401 - any value of JSON
    """Return the value of a text, None for an empty one; raise DecodeError if it is not JSON."""
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError as error:
        raise DecodeError(f"The text is not JSON: {error}") from None


WAIT: Final = f"{{{PUBQUEUE}}}wait"
CARRY: Final = f"{{{PUBQUEUE}}}carry"
SIGNAL: Final = f"{{{PUBQUEUE}}}signal"
LINK: Final = f"{{{PUBQUEUE}}}signal-linked"
SIGNALED: Final = f"{{{PUBQUEUE}}}signaled"


def read_wait(message: Element) -> Waited:
    """Return what a delivery says of an item that has waited; for one that has not, nothing."""
    wait = message.find(WAIT)
    if wait is None:
        return NOTHING
    woken: Woken | None = None
    if (word := wait.get("woken")) in ("count", "signal", "time"):
        woken = word  # type: ignore[assignment]  # one of the three
    signals = tuple(map(_signal, wait.iterfind(SIGNAL)))
    return Waited(woken, wait.findtext(CARRY) or "", signals, joins.read_members(wait))


NOTHING: Final = Waited()


def _signal(one: Element) -> Signal:
    try:
        at = read_time(one.get("stamp", ""))
    except ValueError:
        at = None
    name, id_ = one.get("name", ""), one.get("id", "")
    return Signal(name, id_, one.text or "", one.get("by", ""), at)


def request(node: str, item: str, name: str, text: str, signal_id: str) -> IqRequest:
    """Ask to give an item a signal."""
    names = attributes(
        node=checked(node, "The node's name"),
        item=checked(item, "The item's id"),
        name=checked(name, "The name of a signal"),
        id=checked(signal_id, "The id of a signal"),
    )
    body = f"<signal xmlns='{PUBQUEUE}'{names}>{content(text)}</signal>"
    return IqRequest("set", f"the signal {name!r} to {item!r}", body)


def link_request(node: str, item: str, name: str, within: float | None) -> IqRequest:
    """Ask for a link that sends an item a signal."""
    span = None if within is None else f"{math.ceil(within * 1000) / 1000:.3f}"
    names = attributes(
        node=checked(node, "The node's name"),
        item=checked(item, "The item's id"),
        name=checked(name, "The name of a signal"),
        within=span,
    )
    label = f"a link that sends {name!r} to {item!r}"
    return IqRequest("set", label, f"<signal-link xmlns='{PUBQUEUE}'{names}/>")


def read_link(answer: Element, at: str) -> str:
    """Return the link in an answer, below the address `at` of the service."""
    found = answer.find(LINK)
    return at.rstrip("/") + ("" if found is None else found.get("path", ""))


def read_signaled(answer: Element, node: str, item: str, signal_id: str) -> Signaled:
    """Return what an answer says."""
    found = answer.find(SIGNALED)
    state, again = ("", None) if found is None else (found.get("state", ""), found.get("again"))
    return Signaled(node, item, signal_id, state, again in ("1", "true"))
