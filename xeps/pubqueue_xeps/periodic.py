"""A schedule of the service that a handler declares for its own items: what it publishes when, and whether a stored one is that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, get_args
from xml.etree.ElementTree import ParseError, canonicalize

from pubqueue_xeps.limits import whole
from pubqueue_xeps.wire.names import is_clean
from pubqueue_xeps.wire.publication import written
from pubqueue_xeps.wire.times import MAX_DELAY, Span, span

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEDULE: Final = "schedule"
"""The header of the items that has the schedule's id, so that its handler gets them."""

MAX_PAYLOAD: Final = 48_000
"""How many characters of a payload can be compared: the service shows no more of it."""

Missed = Literal["once", "skip", "all"]
"""What happens at times that were missed: one item for all, none, or one for each."""


@dataclass(frozen=True, slots=True, init=False)
class Periodic:
    """A schedule, as the operations of the service name its parts. Raises ValueError or TypeError for what it cannot be."""

    id: str
    node: str
    words: Mapping[str, tuple[str, ...]] = field(repr=False)
    """All of it but its name, as the values of a form."""

    def __init__(
        self,
        cron: str,
        *,
        node: str,
        id: str,  # noqa: A002 - the name of the attribute
        zone: str = "UTC",
        payload: object = None,
        missed: Missed = "once",
        priority: int = 0,
        ttl: Span | None = None,
        group: str | None = None,
    ) -> None:
        for name, text in {"cron": cron, "node": node, "id": id, "zone": zone}.items():
            if not isinstance(text, str):
                raise TypeError(f"{name} is {text!r}; a schedule takes a text.")
            if not text.strip():
                raise ValueError(f"The {name} of a schedule must not be empty.")
        if id != id.strip() or not is_clean(id):
            raise ValueError(
                f"The id {id!r} of a schedule has spaces around it, or control characters."
            )
        if missed not in get_args(Missed):
            raise ValueError(
                f"missed is {missed!r}; it takes one of {', '.join(get_args(Missed))}."
            )
        written_payload = written({"type": id} if payload is None else payload)
        if len(written_payload) > MAX_PAYLOAD:
            raise ValueError(
                f"The payload of the schedule {id!r} has more than {MAX_PAYLOAD:,} characters."
            )
        put = object.__setattr__  # it is frozen
        put(self, "id", id)
        put(self, "node", node)
        words = {
            "cron": (" ".join(cron.split()),),
            "zone": (zone,),
            "node": (node,),
            "payload": (written_payload,),
            "missed": (missed,),
            "priority": (str(whole("priority", priority, -(2**31)) or 0),),
            "ttl": () if ttl is None else (str(span("ttl", ttl, MAX_DELAY)),),
            "headers": (f"{SCHEDULE}: {id}",),
            "group": (group,) if group else (),
        }
        put(self, "words", words)

    @property
    def key(self) -> str:
        """What it is placed by among several services: its group, or its id if it has no group."""
        return (*self.words["group"], self.id)[0]

    def is_as(self, stored: Mapping[str, tuple[str, ...]]) -> bool:
        """Return whether a stored schedule, a row of the service's answer, is this one."""
        return all(
            _MEANING.get(name, tuple)(values) == _MEANING.get(name, tuple)(stored.get(name, ()))
            for name, values in self.words.items()
        )


def _number(values: tuple[str, ...]) -> float | None:
    return float(values[0]) if values and values[0] else None


def _canonical(values: tuple[str, ...]) -> str | None:
    try:
        return canonicalize("\n".join(values), rewrite_prefixes=True)
    except ParseError:  # it was cut
        return None


_MEANING: Final = {"priority": _number, "ttl": _number, "payload": _canonical}
"""Values that may be written in several ways."""
