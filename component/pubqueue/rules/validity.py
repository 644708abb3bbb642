"""The validity of a request, independent of stored rows: names and numbers, distinct ids, and how much it names."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import MAX_GROUP_LENGTH, MAX_ID_LENGTH, NO_TIME, seconds
from pubqueue.model.records import (
    MAX_IDS,
    MAX_KEY_LENGTH,
    MAX_KEY_REMEMBERED,
    MAX_SETTLED_REMEMBERED,
    size_of_ids,
)
from pubqueue.model.transactions import OnTaken, name_of_transaction
from pubqueue.rules.access import is_hidden
from pubqueue.rules.dead_letters import Cancel, Redrive
from pubqueue.rules.nodes import SetAffiliations, SetPolicy
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle
from pubqueue.rules.settle_each import SettleEach
from pubqueue.rules.signal_links import fault_of_link
from pubqueue.rules.staging import StagePublish
from pubqueue.rules.subscribers import SetSubscriptions
from pubqueue.rules.take import MAX_WAIT
from pubqueue.rules.together import Together, names_of
from pubqueue.rules.unlock import FreeLocks, Touch
from pubqueue.rules.waits import fault_of_awaited, fault_of_hold, fault_of_signal
from pubqueue_xeps.wire.names import is_clean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Sized
    from typing import Protocol

    from pubqueue.model.entities import Draft, Headers, Millis, NodeName, Principal
    from pubqueue.model.records import PublishKey
    from pubqueue.rules.commit import CommitVersion
    from pubqueue.rules.discovery import Describe
    from pubqueue.rules.signal_links import MakeSignalLink
    from pubqueue.rules.staging import AbortVersion, ListTransactions
    from pubqueue.rules.take import Take
    from pubqueue.rules.waits import Hold, Signal

    class NamesNode(Protocol):
        """A request about one node."""

        @property
        def by(self) -> Principal:
            """Who sends it."""

        @property
        def node(self) -> NodeName | None:
            """Its name; None if the request may leave it out."""

    class NamesApp(Protocol):
        """A request about one app."""

        @property
        def app(self) -> str | None:
            """Its name; None if the request may leave it out."""


# The validity of a request, independent of stored rows: the bounds of names and numbers, and distinct ids.
#
# A face checks form and completeness only; the values are judged here, once for all faces, before any
# rule looks at rows. The sentence of a refusal begins with the name of its value, if it has one;
# `setting` repeats that name, so that a face can replace it with its own.

HIGHEST_PRIORITY: Final = 1_000_000
"""Wide enough for every use, and a safe integer; the lowest is its negative."""

MAX_SPAN: Final = seconds(3_162_240_000)
"""A hundred years."""

MAX_APP_LENGTH: Final = 255
"""Bytes of the name of an app."""

HIGHEST_NUMBER: Final = 10**18 - 1
"""Of a version, a part, an attempt, and of every count: no store has to keep a higher one."""

NO_NODE_ID: Final = Refused(
    Refusal.BAD_REQUEST, f"a node name has 1 to {MAX_ID_LENGTH} bytes and no control characters"
)
NOT_THERE: Final = Refused(Refusal.NODE_NOT_FOUND)
NO_ITEM_ID: Final = Refused(
    Refusal.BAD_REQUEST, f"an item id has 1 to {MAX_ID_LENGTH} bytes and no control characters"
)
NO_HEADER: Final = Refused(
    Refusal.BAD_REQUEST, "the name of a header has a character that no name has"
)
NO_SPAN: Final = "a duration is a number of seconds, up to a hundred years"
_TWICE: Final = "an item id occurs twice in one request"


def is_name(text: str) -> bool:
    """Return whether this can be a NodeID or ItemID: not empty, not too long, of characters that names have."""
    if not 0 < len(text) <= MAX_ID_LENGTH or not is_clean(text):
        return False
    return text.isascii() or len(text.encode()) <= MAX_ID_LENGTH


def has_clean_names(headers: Headers) -> bool:
    """Return whether the names of headers are names."""
    return all(is_clean(name) for name, _ in headers)


def is_group(text: str) -> bool:
    """Return whether this can be the name of a group."""
    return is_name(text) and len(text.encode()) <= MAX_GROUP_LENGTH


@lru_cache(maxsize=4096)
def is_node(name: NodeName) -> bool:
    """Return whether this can be a NodeID; the same few are requested again and again."""
    return is_name(name)


def of_node(request: NamesNode) -> Refused | None:
    """Refuse a request with an invalid name of a node, or that of a project which does not exist for the account."""
    if request.node is None:
        return None
    if not is_node(request.node):
        return NO_NODE_ID
    return None if request.by.projects is None else _of_name(request.by, request.node)


def _of_name(by: Principal, node: NodeName) -> Refused | None:
    return NOT_THERE if is_hidden(by, node) else None


def of_project(request: NamesNode) -> Refused | None:
    """Refuse a name of a project which does not exist for the account; what else is wrong with a name is judged later."""
    return None if request.node is None else _of_name(request.by, request.node)


def of_new_node(request: NamesNode) -> Refused | None:
    """Refuse to make a node of an invalid name, or below a project of others."""
    if of_node(request) is None or request.node is None or not is_node(request.node):
        return of_node(request)
    return Refused(Refusal.FORBIDDEN, f"{request.node!r} is for accounts of its project to make")


def of_description(request: Describe) -> Refused | None:
    """Refuse an invalid name for accounts that manage nodes; for others such a node simply does not exist."""
    return of_node(request) if request.manage else _of_name(request.by, request.node)


def of_publish(request: Publish) -> Refused | None:
    """Refuse names, priorities and spans beyond their bounds, and an id that occurs twice."""
    if not is_node(request.node):
        return NO_NODE_ID
    if request.by.projects is not None and is_hidden(request.by, request.node):
        return NOT_THERE
    drafts = request.drafts
    if request.key is not None and (no := _of_key(request.key, drafts)) is not None:
        return no
    for draft in drafts:
        wishes = draft.priority or draft.delay or draft.ttl is not None or draft.group
        wishes = wishes or draft.hold is not None or draft.joins is not None
        if draft.headers and not has_clean_names(draft.headers):
            return NO_HEADER
        if wishes and (no := _of_wishes(draft, request.by)) is not None:
            return no
        if not is_name(draft.id):
            return NO_ITEM_ID
    return _distinct([draft.id for draft in drafts]) if len(drafts) > 1 else None


def _of_key(key: PublishKey, drafts: Sequence[Draft]) -> Refused | None:
    """Refuse an invalid key, a time that is too long, and ids that are too large to be stored with a key."""
    if not is_name(key.name) or len(key.name.encode()) > MAX_KEY_LENGTH:
        return Refused(
            Refusal.BAD_REQUEST,
            f"a key is a name of 1 to {MAX_KEY_LENGTH} bytes, without control characters",
        )
    if not NO_TIME < key.remember <= MAX_KEY_REMEMBERED:
        words = f"a key is remembered for up to {MAX_KEY_REMEMBERED // 1000} seconds"
        return Refused(Refusal.BAD_REQUEST, words)
    if size_of_ids([draft.id for draft in drafts]) > MAX_IDS:
        words = f"the ids of a publish with a key have up to {MAX_IDS} bytes in all"
        return Refused(Refusal.BAD_REQUEST, words)
    return None


def _of_wishes(draft: Draft, by: Principal) -> Refused | None:
    if abs(draft.priority) > HIGHEST_PRIORITY:
        bounds = f"from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}"
        return Refused(
            Refusal.BAD_REQUEST, f"priority: a priority goes {bounds}", setting="priority"
        )
    if _too_long(draft.delay):
        return Refused(Refusal.BAD_REQUEST, f"delay: {NO_SPAN}", setting="delay")
    if _too_long(draft.ttl):
        return Refused(Refusal.BAD_REQUEST, f"ttl: {NO_SPAN}", setting="ttl")
    if draft.group and not is_group(draft.group):
        reason = f"group: a name of 1 to {MAX_GROUP_LENGTH} bytes, without control characters"
        return Refused(Refusal.BAD_REQUEST, reason, setting="group")
    if (joins := draft.joins) is not None:
        if not is_node(joins.node) or not is_name(joins.id):
            words = "joins: a join is named by its node and its id"
            return Refused(Refusal.BAD_REQUEST, words, setting="joins")
        if by.projects is not None and is_hidden(by, joins.node):
            return NOT_THERE
    if (hold := draft.hold) is not None:
        return _of_span(hold.within) or fault_of_awaited(hold, draft.delay)
    return None


def of_stage(request: StagePublish) -> Refused | None:
    """Refuse an invalid publish, and an app or a number beyond its bounds."""
    mark = request.mark
    if request.publish.key is not None:
        return Refused(Refusal.BAD_REQUEST, "what is staged has no key: its attempt is its key")
    if any(draft.hold is not None or draft.joins is not None for draft in request.publish.drafts):
        return Refused(
            Refusal.BAD_REQUEST, "what is staged is not held, and is no member of a join"
        )
    numbers = {"version": mark.version, "part": mark.part, "attempt": mark.attempt}
    return of_publish(request.publish) or of_app(mark) or _of_numbers(numbers)


def of_app(request: NamesApp) -> Refused | None:
    """Refuse a request with an invalid name of an app; if the name is optional, None is accepted."""
    if request.app is None:
        return None
    name = name_of_transaction(request.app)
    if not name or len(name.encode()) > MAX_APP_LENGTH or not is_clean(name):
        return Refused(
            Refusal.BAD_REQUEST,
            f"app has to be a name of 1 to {MAX_APP_LENGTH} bytes, without control characters",
        )
    return None


def of_abort(request: AbortVersion) -> Refused | None:
    """Refuse an app or a number beyond its bounds."""
    return of_app(request) or _of_numbers({"version": request.version})


def of_records(request: ListTransactions) -> Refused | None:
    """Refuse an app or a number beyond its bounds."""
    return of_app(request) or _of_numbers({"after": request.after})


def _of_numbers(numbers: Mapping[str, int | None]) -> Refused | None:
    for name, number in numbers.items():
        if number is not None and not 0 <= number <= HIGHEST_NUMBER:
            reason = f"{name} has to be a whole number from 0 to {HIGHEST_NUMBER}"
            return Refused(Refusal.BAD_REQUEST, reason)
    return None


def of_settle(request: Settle) -> Refused | None:
    """Refuse a name or a pause beyond its bounds, and an id that occurs twice."""
    if not is_node(request.node):
        return NO_NODE_ID
    if request.by.projects is not None and is_hidden(request.by, request.node):
        return NOT_THERE
    if request.delay is not None and (no := _of_span(request.delay)) is not None:
        return no
    if request.remember is not None and (no := _of_memory(request)) is not None:
        return no
    return _distinct(request.ids) if len(request.ids) > 1 else None


def of_take(request: Take) -> Refused | None:
    """Refuse a name beyond its bounds, a count of zero, and a wait beyond the maximum of a request."""
    if (no := of_node(request)) is not None:
        return no
    if request.count < 1:
        return Refused(Refusal.BAD_REQUEST, "count: at least one item", setting="count")
    if request.bytes is not None and request.bytes < 1:
        return Refused(Refusal.BAD_REQUEST, "bytes: at least one byte", setting="bytes")
    if (no := _of_span(request.span)) is not None:
        return no
    if not NO_TIME <= request.wait <= MAX_WAIT:
        reason = f"wait: up to {MAX_WAIT // 1000} seconds"
        return Refused(Refusal.BAD_REQUEST, reason, setting="wait")
    return None


def _of_memory(request: Settle) -> Refused | None:
    """Refuse a time to remember that is too long, or more than a single lock."""
    if request.remember is not None and not NO_TIME < request.remember <= MAX_SETTLED_REMEMBERED:
        return Refused(
            Refusal.BAD_REQUEST,
            f"a lock is remembered for up to {MAX_SETTLED_REMEMBERED // 1000} seconds",
        )
    if len(request.ids) != 1 or request.token is None:
        return Refused(Refusal.BAD_REQUEST, "what is to be remembered is one lock, by its token")
    return None


def of_touch(request: Touch) -> Refused | None:
    """Refuse a name or a span beyond its bounds, and an id that occurs twice."""
    return of_node(request) or _of_span(request.span) or _distinct(request.ids)


def of_hold(request: Hold) -> Refused | None:
    """Refuse names, texts and a span beyond their bounds."""
    return of_node(request) or _of_span(request.within) or fault_of_hold(request)


def of_signal(request: Signal) -> Refused | None:
    """Refuse names and data beyond their bounds."""
    return of_node(request) or fault_of_signal(request)


def of_signal_link(request: MakeSignalLink) -> Refused | None:
    """Refuse names and a time beyond their bounds."""
    return of_node(request) or fault_of_link(request)


def of_each(request: SettleEach) -> Refused | None:
    """Refuse a name or a span beyond its bounds; an id may occur twice."""
    template = request.template
    if isinstance(template, Settle):
        if template.remember is None:
            return of_settle(replace(template, ids=()))
        unnamed = any(lock.token is None for lock in request.locks)
        return of_settle(
            replace(template, ids=("one",), token=None if unnamed else 0)
        )  # each by itself
    return of_touch(replace(template, ids=()))


def of_free(request: FreeLocks) -> Refused | None:
    """Refuse a name beyond its bounds, and an id that occurs twice."""
    return of_node(request) or _distinct(request.ids)


def of_cancel(request: Cancel) -> Refused | None:
    """Refuse a name beyond its bounds, and an id that occurs twice."""
    return of_node(request) or _distinct(request.ids)


def of_redrive(request: Redrive) -> Refused | None:
    """Refuse names beyond their bounds or of others' projects, and an id that occurs twice."""
    if request.to is not None and not is_node(request.to):
        return of_node(request) or Refused(Refusal.BAD_REQUEST, "to is not a valid NodeID")
    if request.to is not None and (no := _of_name(request.by, request.to)) is not None:
        return no
    return of_node(request) or _distinct(request.ids or ())


def of_commit(request: CommitVersion) -> Refused | None:
    """Refuse an app or a number beyond its bounds, a part that occurs twice, and a dead-letter node without its use or the reverse."""
    totals, parts = request.totals, request.parts
    if (no := of_app(request)) is not None:
        return no
    counts = {"skipped": totals.skipped, "dead-lettered": totals.dead_lettered}
    if (no := _of_numbers({"version": request.version} | counts)) is not None:
        return no
    for part in parts:
        numbers = {"n": part.number, "attempt": part.attempt, "items": part.items}
        if (no := _of_numbers(numbers)) is not None:
            return no
    if len({part.number for part in parts}) < len(parts):
        return Refused(Refusal.BAD_REQUEST, "commit: a part is named twice")
    if (request.on_taken is OnTaken.DEAD_LETTER) != (request.dead_letter_node is not None):
        words = "commit: a dead-letter node goes with on-taken dead-letter, and nothing else"
        return Refused(Refusal.BAD_REQUEST, words)
    return None


def _of_span(span: Millis | None) -> Refused | None:
    return Refused(Refusal.BAD_REQUEST, NO_SPAN) if _too_long(span) else None


def _too_long(span: Millis | None) -> bool:
    return span is not None and not NO_TIME <= span <= MAX_SPAN


def _distinct(ids: Sequence[str]) -> Refused | None:
    if len(set(ids)) < len(ids):
        return Refused(Refusal.BAD_REQUEST, _TWICE)
    return None


# How much one request may name: its batch takes it whole, and all other requests wait for that.
#
# Judged by the request alone, before any row is loaded. Larger amounts need several requests, each of which is done whole
# or not at all, and has an answer of its own.

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
    SetPolicy:        (MAX_ENTRIES, attrgetter("policy.gives")),
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
    if isinstance(request, SetAffiliations | SetPolicy | SetSubscriptions):
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
