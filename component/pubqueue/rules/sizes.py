"""How much one request may name: its batch takes it whole, and all other requests wait for that.

Judged by the request alone, before any row is loaded. Larger amounts need several requests, each of which is done whole
or not at all, and has an answer of its own.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from pubqueue.model.decision import Refusal, Refused
from pubqueue.rules.dead_letters import Cancel, Redrive
from pubqueue.rules.nodes import SetAffiliations
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle
from pubqueue.rules.settle_each import SettleEach
from pubqueue.rules.staging import StagePublish
from pubqueue.rules.subscribers import SetSubscriptions
from pubqueue.rules.together import Together, names_of
from pubqueue.rules.unlock import FreeLocks, Touch

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

MAX_PUBLISHED: Final = 1_000
"""Items of one publish, staged or not."""

MAX_TOGETHER: Final = 1_000
"""Parts that are done together, and the items in all of them."""

MAX_BYTES_TOGETHER: Final = 4 << 20
"""Bytes of the payloads of these in total."""

MAX_NAMED: Final = 500
"""Items that one request names by their ids: those of a retract, an unlock, a touch, and of operators' requests."""

MAX_ENTRIES: Final = 500
"""Affiliations or subscriptions that one request changes."""

_OF_ITEMS: Final = MAX_NAMED, attrgetter("ids")
_TOO_MANY_ENTRIES: Final = Refused(
    Refusal.BAD_REQUEST, f"a request changes up to {MAX_ENTRIES} entries"
)

# fmt: off
SIZES: Final[dict[type, tuple[int, Callable[[Any], Sized]]]] = {
    Publish:          (MAX_PUBLISHED, attrgetter("drafts")),
    StagePublish:     (MAX_PUBLISHED, attrgetter("publish.drafts")),
    Settle:           _OF_ITEMS,
    SettleEach:       (MAX_NAMED, attrgetter("locks")),
    Together:         (MAX_TOGETHER, lambda request: range(sum(map(names_of, request.parts)))),
    Touch:            _OF_ITEMS,
    Cancel:           _OF_ITEMS,
    FreeLocks:        _OF_ITEMS,
    Redrive:          (MAX_NAMED, lambda request: request.ids or ()),
    SetAffiliations:  (MAX_ENTRIES, attrgetter("entries")),
    SetSubscriptions: (MAX_ENTRIES, attrgetter("wishes")),
}
# fmt: on
"""For each kind of request with many names: how many it may have, and what it names."""


def size_of(request: object) -> int:
    """Return how many items or entries the request names; 1 if its kind names only one."""
    kind = type(request)
    return len(SIZES[kind][1](request)) if kind in SIZES else 1


def too_many(request: object) -> Refused | None:
    """Refuse a request with more names than one batch accepts."""
    kind = type(request)
    if kind not in SIZES:
        return None
    most, named = SIZES[kind]
    if len(named(request)) <= most:
        return _too_large(request) if type(request) is Together else None
    if isinstance(request, SetAffiliations | SetSubscriptions):
        return _TOO_MANY_ENTRIES
    return Refused(Refusal.TOO_MANY_ITEMS, limit=most)


def _too_large(request: Together) -> Refused | None:
    """Refuse payloads that are larger than one write may be; the items of single publishes are limited one by one."""
    publishes = (part for part in request.parts if type(part) is Publish)
    size = sum(len(draft.payload) for part in publishes for draft in part.drafts)
    if size <= MAX_BYTES_TOGETHER:
        return None
    words = f"the payloads of what is done together have up to {MAX_BYTES_TOGETHER} bytes in all"
    return Refused(Refusal.PAYLOAD_TOO_BIG, words, MAX_BYTES_TOGETHER)
