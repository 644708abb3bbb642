"""Search in lists that are read by name: the rows that fit, in the order that is asked for."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.decision import Decision, Done, Read, Refused
from pubqueue.model.entities import Affiliation, Jid, NodeName
from pubqueue.model.replies import Found, Page
from pubqueue.rules.alerts import ReadAlerts, Wrong
from pubqueue.rules.dead_letters import ReadReasons, matches
from pubqueue.rules.inspect import ReadConnections, ReadWorkers
from pubqueue.rules.messages import ListMessages
from pubqueue.rules.nodes import GetAffiliations
from pubqueue.rules.read import ReadItems, ReadNodes
from pubqueue.rules.registrations import ListRegistrations
from pubqueue.rules.schedules import ListSchedules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pubqueue.model.records import Alert, Registration
    from pubqueue.model.replies import ClientState, ItemEntry, ItemPage, NodeEntry, Worker
    from pubqueue.model.schedules import Schedule

    Within = (
        ReadWorkers
        | ReadConnections
        | ListSchedules
        | ListRegistrations
        | GetAffiliations
        | ReadAlerts
        | ReadNodes
        | ReadItems
        | ReadReasons
        | ListMessages
    )
    Place = tuple[float, str]
    """The place of a row: the number that it is sorted by, and its name."""


# The list is read page by page, by the request for its pages, with other readers in between. Only the rows that fit are kept, no more
# than one page. So an answer is bounded however long the list is, and who may not read the list learns nothing.

LOOKED_AT: Final = 20_000
"""Rows that are looked at for one answer."""

PAGE: Final = 100
"""Rows of one answer."""


class Search(Read, frozen=True, gc=False):
    """Request the rows of a list with a text in their names, in a state, and with a reason; by name, or by `sort` after the place `after`.

    `within` requests the page to look at next, `known` are rows of the pages before, of `looked` rows.
    """

    within: Within
    containing: str = ""
    state: str = ""
    reason: str = ""
    sort: str = ""
    after: Place | None = None
    most: int | None = None
    known: tuple[Any, ...] = ()
    looked: int = 0


class SearchFacts(Struct, frozen=True, gc=False):
    """What was decided about the page."""

    decided: Decision


class Kind(NamedTuple):
    """What a search knows of a list: its rows, and what they are selected and sorted by."""

    rows: Callable[[Any], tuple[Any, ...]]
    """Returns the rows of a page."""
    more: Callable[[Any], bool]
    """Returns whether another page follows."""
    page: Callable[[Any, tuple[Any, ...]], Any]
    """Returns a page with these rows instead."""
    onward: Callable[[Any, str], Within]
    """Returns the request for the page after the row of this name."""
    name: Callable[[Any], str]
    texts: Callable[[Any], Iterable[str]]
    """Returns what may contain the text; nothing for a row that is not shown."""
    states: Mapping[str, Callable[[Any], bool]]
    numbers: Mapping[str, Callable[[Any], float]]
    """What it can be sorted by; the lowest number comes first."""
    reason: Callable[[Any], str] = lambda _row: ""
    end: Callable[[Any], str | None] = lambda _page: None
    """Returns the name up to which a page has looked, if that is not the name of its last row."""


def search(request: Search, facts: SearchFacts) -> Decision:
    """Add a page, and answer once the rows of one answer are found, or all rows were looked at."""
    kind, reply = KINDS[type(request.within)], facts.decided.reply
    if isinstance(reply, Refused):
        return facts.decided
    if facts.decided.then is not None:  # the page takes several steps
        return Decision(Done(), then=replace(request, within=facts.decided.then))
    rows, goes_on = kind.rows(reply), kind.more(reply)
    end = kind.end(reply) or (kind.name(rows[-1]) if rows else "")
    looked, room = request.looked + (len(rows) or PAGE), _room(request)
    known = (*request.known, *(row for row in rows if _fits(kind, request, row)))
    if request.sort:
        known = tuple(nsmallest(room + 1, known, key=lambda row: _place(kind, request.sort, row)))
    full = not request.sort and len(known) > room
    if end and goes_on and not full and looked < LOOKED_AT:
        onward = kind.onward(request.within, end)
        return Decision(Done(), then=replace(request, within=onward, known=known, looked=looked))
    shown = known[:room]
    through = _through(kind, request, shown) if full or request.sort else end
    more = len(known) > room or (goes_on and not request.sort)
    page = kind.page(reply, shown)
    return Decision(Found(page, through, more, whole=not goes_on or not request.sort))


def _room(request: Search) -> int:
    return PAGE if request.most is None else max(1, min(request.most, PAGE))


def _fits(kind: Kind, request: Search, row: Any) -> bool:  # noqa: ANN401  # a row of any list
    if request.state and not kind.states[request.state](row):
        return False
    if request.reason and not matches(request.reason, kind.reason(row)):
        return False
    text = request.containing.casefold()
    if not any(text in one.casefold() for one in kind.texts(row)):
        return False
    return request.after is None or _place(kind, request.sort, row) > request.after


def _place(kind: Kind, sort: str, row: Any) -> Place:  # noqa: ANN401  # a row of any list
    return kind.numbers[sort](row), kind.name(row)


def _through(kind: Kind, request: Search, rows: tuple[Any, ...]) -> Place | str:
    """Return where the next answer begins."""
    if not rows:
        return ""
    return _place(kind, request.sort, rows[-1]) if request.sort else kind.name(rows[-1])


# The lists: what each row can be found by.


def _worker_states() -> Mapping[str, Callable[[Worker], bool]]:
    return {
        "available": lambda row: row.subscription.available,
        "away": lambda row: not row.subscription.available and not row.subscription.quiet,
        "quiet": lambda row: row.subscription.quiet,
    }


_SCHEDULE_STATES: Final[Mapping[str, Callable[[Schedule], bool]]] = {
    "running": lambda row: row.definition.enabled and not row.paused,
    "paused": lambda row: row.definition.enabled and row.paused,
    "not-enabled": lambda row: not row.definition.enabled,
    "failing": lambda row: bool(row.error),
}

_REGISTRATION_STATES: Final[Mapping[str, Callable[[Registration], bool]]] = {
    "active": lambda row: not row.disabled,
    "disabled": lambda row: row.disabled,
    "failing": lambda row: row.failures > 0,
}

_ALERT_STATES: Final[Mapping[str, Callable[[Alert], bool]]] = {
    "raised": lambda row: not row.over and row.kind != Wrong.TARGET,
    "over": lambda row: bool(row.over) and row.kind != Wrong.TARGET,
    "failing": lambda row: row.kind == Wrong.TARGET,
}

_CONNECTION_STATES: Final[Mapping[str, Callable[[ClientState], bool]]] = {
    "idle": lambda row: not row.holds,
    "busy": lambda row: row.holds > 0,
    "quiet": lambda row: row.quiet,
}


def _role(role: Affiliation) -> Callable[[tuple[Jid, Affiliation]], bool]:
    return lambda row: row[1] is role


_NODE_STATES: Final[Mapping[str, Callable[[NodeEntry], bool]]] = {
    "running": lambda row: row.node.config.queueing and not row.node.config.paused,
    "paused": lambda row: row.node.config.queueing and row.node.config.paused,
    "closed": lambda row: row.node.config.queueing and row.node.config.publish_paused,
    "plain": lambda row: not row.node.config.queueing,
    "empty": lambda row: not row.node.items,
}


DIGITS: Final = 15
"""Digits of the number of an item where it stands for a name, so that names are in the order of the numbers."""


def _numbered(page: ItemPage) -> tuple[tuple[str, ItemEntry], ...]:
    """Return the items of a page, each with the number by which its list continues."""
    return tuple((f"{_number(entry, page):0{DIGITS}}", entry) for entry in page.entries)


def _number(entry: ItemEntry, page: ItemPage) -> int:
    letter = entry.item.dead_letter
    return entry.item.seq if letter is None or not page.dead else letter.number


_LATEST: Final = 1 << 62


def _soonest(moment: int | None) -> int:
    return _LATEST if moment is None else moment


# fmt: off
KINDS: Final[Mapping[type, Kind]] = {
    ReadWorkers: Kind(
        rows=lambda page: page.workers,
        more=lambda page: page.more,
        page=lambda page, rows: replace(page, workers=rows, more=False),
        onward=lambda within, name: replace(within, after=Jid(name)),
        name=lambda row: row.subscription.jid,
        texts=lambda row: (row.subscription.jid,),
        states=_worker_states(),
        numbers={
            "holds":      lambda row: -row.subscription.in_flight,
            "window":     lambda row: -row.subscription.queue_requests,
            "unanswered": lambda row: -row.subscription.unanswered,
        },
    ),
    ReadConnections: Kind(
        rows=lambda page: page.clients,
        more=lambda page: page.more,
        page=lambda page, rows: replace(page, clients=rows, more=False),
        onward=lambda within, name: replace(within, after=Jid(name)),
        name=lambda row: row.address,
        texts=lambda row: (row.address, row.peer),
        states=_CONNECTION_STATES,
        numbers={
            "holds":     lambda row: -row.holds,
            "connected": lambda row: row.since,
        },
    ),
    ListSchedules: Kind(
        rows=lambda page: page.schedules,
        more=lambda page: page.more,
        page=lambda page, rows: replace(page, schedules=rows, more=False),
        onward=lambda within, name: replace(within, after=name),
        name=lambda row: row.name,
        texts=lambda row: (row.name, row.definition.node),
        states=_SCHEDULE_STATES,
        numbers={
            "next": lambda row: _soonest(row.due),
            "last": lambda row: -(row.last or 0),
        },
        reason=lambda row: row.error,
    ),
    ListRegistrations: Kind(
        rows=lambda page: page.entries,
        more=lambda page: page.more,
        page=lambda page, rows: replace(page, entries=rows, more=False),
        onward=lambda within, name: replace(within, after=name),
        name=lambda row: row.name,
        texts=lambda row: () if row.is_pulled else (row.name, row.node, row.account),
        states=_REGISTRATION_STATES,
        numbers={"failures": lambda row: -row.failures},
        reason=lambda row: row.error,
    ),
    GetAffiliations: Kind(
        rows=lambda page: page.entries,
        more=lambda page: page.part.more,
        page=lambda page, rows: replace(page, entries=rows, part=replace(page.part, more=False)),
        onward=lambda within, name: replace(within, page=Page(name, within.page.most)),
        name=lambda row: row[0],
        texts=lambda row: (row[0],),
        states={role.value: _role(role) for role in Affiliation if role is not Affiliation.NONE},
        numbers={"affiliation": lambda row: tuple(Affiliation).index(row[1])},
    ),
    ReadAlerts: Kind(
        rows=lambda page: page.entries,
        more=lambda page: page.more,
        page=lambda page, rows: replace(page, entries=rows, more=False),
        onward=lambda within, name: replace(within, after=name),
        name=lambda row: row.name,
        texts=lambda row: (row.kind, row.subject),
        states=_ALERT_STATES,
        numbers={"since": lambda row: row.since},
    ),
    ReadNodes: Kind(
        rows=lambda page: page.entries,
        more=lambda page: page.more,
        page=lambda page, rows: replace(page, entries=rows, more=False),
        onward=lambda within, name: replace(within, after=NodeName(name), counted=None),
        name=lambda row: row.node.name,
        texts=lambda row: (row.node.name,),
        states=_NODE_STATES,
        numbers={
            "waiting":     lambda row: -row.queued,
            "in-flight":   lambda row: -row.locked,
            "delayed":     lambda row: -row.delayed,
            "dead":        lambda row: -row.dead,
            "oldest":      lambda row: _soonest(row.oldest),
            "rate":        lambda row: -row.rate,
            "subscribers": lambda row: -row.node.subscriptions,
            "items":       lambda row: -row.node.items,
        },
        end=lambda page: page.through,
    ),
    ReadItems: Kind(
        rows=_numbered,
        more=lambda page: page.more,
        page=lambda page, rows: replace(page, entries=tuple(entry for _, entry in rows), more=False),
        onward=lambda within, name: replace(within, after=int(name)),
        name=lambda row: row[0],
        texts=lambda row: (row[1].item.id, row[1].item.publisher or "", row[1].item.holder or ""),
        states={},
        numbers={
            "priority":  lambda row: -row[1].item.priority,
            "failures":  lambda row: -row[1].item.failed,
            "size":      lambda row: -row[1].size,
            "published": lambda row: row[1].item.published,
        },
        end=lambda page: f"{page.through:0{DIGITS}}",
    ),
    ReadReasons: Kind(
        rows=lambda page: page.reasons,
        more=lambda page: page.more,
        page=lambda page, rows: replace(page, reasons=rows, more=False),
        onward=lambda within, name: replace(within, after=name, known=(), behind=0, looked=0),
        name=lambda row: row.reason,
        texts=lambda row: (row.reason,),
        states={},
        numbers={
            "last":  lambda row: -row.last,
            "first": lambda row: row.first,
        },
    ),
    ListMessages: Kind(
        rows=lambda page: page.accounts,
        more=lambda page: page.more,
        page=lambda page, rows: replace(page, accounts=rows, more=False),
        onward=lambda within, name: replace(within, after=name),
        name=lambda row: row.account,
        texts=lambda row: (row.account,),
        states={},
        numbers={
            "messages": lambda row: -row.messages,
            "bytes":    lambda row: -row.byte_count,
            "until":    lambda row: row.until,
        },
    ),
}
# fmt: on
