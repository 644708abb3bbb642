"""The face's settings for Quality of Service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from pubqueue.model.entities import Jid


class QosTerms(Struct, frozen=True):
    """Whether the namespace is served; the recipients of events; the seconds between events about one account; events per minute."""

    enabled: bool = True
    events_to: tuple[Jid, ...] = ()
    events_every: float = 60.0
    events_per_minute: int = 60


DEFAULTS: Final = QosTerms()
