"""Computes the maximum size of an answer before the request is decided, because a committed change has to be answered.

Lists continue on another page when a stanza is full. An answer that repeats the id of each item cannot, so a request whose answer might
not fit is refused, without effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.xml.size_limits import MAX_ANSWER_BYTES
from pubqueue.faces.xmpp.xml.text import attribute
from pubqueue.model.decision import Refusal, Refused
from pubqueue.rules.nodes import SetAffiliations
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle
from pubqueue.rules.staging import StagePublish
from pubqueue.rules.subscribers import SetSubscriptions
from pubqueue.rules.unlock import Touch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.engine.table import Request

LIMIT: Final = MAX_ANSWER_BYTES - 12_000
"""Bytes for the items in an answer; the rest is for addresses, the node, and a dead item."""

ITEM: Final = len('<item id=""/>')
KNOWN: Final = len('<known xmlns="urn:x-pubqueue:0" item=""/>')
TOUCHED: Final = len('<item id="" deadline="2026-01-01T00:00:00.000Z"/>')
LOCKED: Final = len('<locked item=""/>')
"""Bytes for each item in an answer, in addition to its id."""

ENTRY: Final = 200
"""Maximum bytes of an affiliation or a subscription in an answer, in addition to its JID."""

TOO_MANY: Final = Refused(
    Refusal.TOO_MANY_ITEMS,
    f"an answer that names all of these would have more than {LIMIT} bytes: ask for fewer of them at once",
)


def largest(request: Request, wanted: str) -> int:
    """Return the maximum bytes of the answer for the items or entries that it names; 0 if it names none.

    `wanted` is the requested answer: `known` repeats the ids of existing or locked items. If only some entries can be changed, the error
    names the others.
    """
    match request:
        case Publish(drafts=drafts) | StagePublish(publish=Publish(drafts=drafts)):
            ids = [draft.id for draft in drafts]
            return _of(ids, ITEM) + (_of(ids, KNOWN) if wanted == "known" else 0)
        case Touch(ids=ids):
            return _of(ids, TOUCHED)
        case Settle(ids=ids) if wanted == "known":
            return _of(ids, LOCKED)
        case SetAffiliations(entries=entries):
            return _of([jid for jid, _ in entries], ENTRY)
        case SetSubscriptions(wishes=wishes):
            return _of([wish.jid for wish in wishes], ENTRY)
        case _:
            return 0


def _of(ids: Iterable[str], beside: int) -> int:
    return sum(len(attribute(one).encode()) + beside for one in ids)


def beyond(request: Request, wanted: str) -> Refused | None:
    """Refuse a request whose answer might not fit into a stanza."""
    return TOO_MANY if largest(request, wanted) > LIMIT else None
