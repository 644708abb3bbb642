"""Alerts: what is wrong, when it is reported, and when it is over.

The rules are pure. A look at a queue is a `Sight` for each thing that may be wrong with it; what is remembered of it is a `Mark`; and `judge`
is the table that turns both into the next mark and a step. One instance at a time looks: it claims the watch, as workers of
pushes claim a registration (`rules.registrations`), and only its alerts are stored.
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto, unique
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.model.changes import DropRow, PutRow
from pubqueue.model.decision import Decision, Done, Read, Refusal, Refused, Request, refuse
from pubqueue.model.entities import Millis, later
from pubqueue.model.records import Alert, AlertPage, AlertWatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pubqueue.model.entities import Principal
    from pubqueue.model.replies import NodeEntry


# What may be wrong.


@unique
class Wrong(StrEnum):
    """What may be wrong, the worst first. The value is the beginning of an alert's name, and of its line in a message."""

    STORE = "store"
    """The store takes no writes."""
    DISK = "disk"
    """The disk of the store has little room."""
    NO_WORKERS = "no workers"
    """Items wait, and no worker is available to take one."""
    OLD = "old item"
    """The oldest waiting item waits too long."""
    DEAD = "dead items"
    QUOTA = "quota"
    """An account uses nearly all of a limit."""
    TARGET = "target"
    """A target of alerts does not take them. This is shown to operators and sent nowhere."""


WORST: Final = tuple(Wrong)


class QueueRule(Struct, frozen=True):
    """The bounds of the queues whose names match one of the patterns; 0: not looked at. Times are milliseconds."""

    nodes: tuple[str, ...] = ("*",)
    dead: int = 1
    oldest: Millis = Millis(900_000)
    no_workers: Millis = Millis(60_000)

    def covers(self, name: str) -> bool:
        """Return whether the name matches one of the patterns; upper and lower case differ."""
        return any(fnmatchcase(name, pattern) for pattern in self.nodes)


class AlertTerms(Struct, frozen=True, kw_only=True):
    """When something is wrong, and how long it has to be well before it is over."""

    rules: tuple[QueueRule, ...] = (QueueRule(),)
    """For a queue the first one that covers it applies."""
    over_after: Millis = Millis(60_000)
    disk_free: int = 1 << 30
    """Bytes; 0: not looked at."""
    quota: float = 0.9
    """A share of a limit; 0: not looked at."""

    def rule_of(self, name: str) -> QueueRule | None:
        """Return the rule that applies to a queue, None if none does."""
        return next((rule for rule in self.rules if rule.covers(name)), None)


def name_of(wrong: Wrong, subject: str) -> str:
    """Return the name of an alert."""
    return f"{wrong.value}:{subject}"


# A look: what is wrong now, and for how long it has to be before it is reported.


class Sight(Struct, frozen=True):
    """Whether something is `bad` now. It is reported when it has been bad for `patience`; `detail` has the figures in words."""

    wrong: Wrong
    subject: str
    bad: bool
    detail: str = ""
    patience: Millis = Millis(0)

    @property
    def name(self) -> str:
        """The name of its alert."""
        return name_of(self.wrong, self.subject)


def look_at(entry: NodeEntry, terms: AlertTerms, now: Millis) -> Iterator[Sight]:
    """Yield a sight for each thing that may be wrong with a queue. That a paused one does not progress is intended."""
    node = entry.node
    rule = terms.rule_of(node.name) if node.config.queueing else None
    if rule is None:
        return
    runs = not node.config.paused
    if rule.dead:
        detail = f"{entry.dead} dead, the limit is {rule.dead}"
        yield Sight(Wrong.DEAD, node.name, entry.dead >= rule.dead, detail)
    if rule.oldest:
        age = 0 if entry.oldest is None else now - entry.oldest
        detail = f"it has waited for {span(age)}, the limit is {span(rule.oldest)}"
        yield Sight(Wrong.OLD, node.name, runs and age > rule.oldest, detail)
    if rule.no_workers:
        takers = bool(node.subscriptions) and bool(entry.window_free or entry.locked)
        bad = runs and entry.queued > 0 and not takers
        detail = f"{entry.queued} waiting, and no worker is available"
        yield Sight(Wrong.NO_WORKERS, node.name, bad, detail, rule.no_workers)


def too_old_at(entry: NodeEntry, terms: AlertTerms) -> Millis | None:
    """Return the moment from which the oldest item of a queue is too old, if nothing changes; None if that never comes.

    All other sights of a queue stay as they are until it changes.
    """
    node = entry.node
    rule = terms.rule_of(node.name) if node.config.queueing else None
    if rule is None or not rule.oldest or entry.oldest is None or node.config.paused:
        return None
    return Millis(entry.oldest + rule.oldest + 1)


MARGIN: Final = 1.1
"""How much more room than the bound a disk needs before its alert is over."""

LOWER: Final = 0.95
"""The share of the bound below which an account has to fall before its alert is over."""


def look_at_disk(place: str, free: int, terms: AlertTerms, *, raised: bool) -> Sight:
    """Return the sight of a disk. While its alert is raised the bound is wider, so that it does not come and go."""
    bound = terms.disk_free * (MARGIN if raised else 1.0)
    detail = f"{free >> 20} MiB are free, the limit is {terms.disk_free >> 20} MiB"
    return Sight(Wrong.DISK, place, free < bound, detail)


def look_at_account(account: str, share: float, terms: AlertTerms, *, raised: bool) -> Sight:
    """Return the sight of an account by the share of its limit that it uses; while its alert is raised the bound is lower."""
    bound = terms.quota * (LOWER if raised else 1.0)
    return Sight(Wrong.QUOTA, account, share >= bound, f"{share:.0%} of a limit is used")


UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def span(millis: int) -> str:
    """Return a time in its largest unit of which there are at least two, rounded down: 90 s, 15 min, 3 h."""
    for size, unit in UNITS:
        if millis >= 2 * size:
            return f"{millis // size} {unit}"
    return f"{max(0, millis) // 1000} s"


# The table: what is remembered, and what is reported.


class Mark(Struct, frozen=True):
    """What is remembered of something that is wrong, or was: since when, whether it was reported, and since when it is well again."""

    since: Millis
    raised: bool = False
    well: Millis | None = None


@unique
class Step(Enum):
    """What is reported."""

    NOTHING = auto()
    RAISE = auto()
    END = auto()


def judge(
    mark: Mark | None, sight: Sight, now: Millis, over_after: Millis
) -> tuple[Mark | None, Step]:
    """Return what is remembered from now on, and what is reported.

    | remembered | now | long enough? | remembered then | reported |
    | --- | --- | --- | --- | --- |
    | nothing | well | | nothing | nothing |
    | nothing or wrong | wrong | no | wrong, since the first look | nothing |
    | nothing or wrong | wrong | for `patience` | raised | raise |
    | wrong | well | | nothing | nothing |
    | raised | wrong | | raised | nothing |
    | raised | well | no | raised, well since the first look | nothing |
    | raised | well | for `over_after` | nothing | end |

    A moment that is later than now is from a clock that was ahead: it counts as now.
    """
    if mark is None or not mark.raised:
        if not sight.bad:
            return None, Step.NOTHING
        since = now if mark is None else min(mark.since, now)
        ripe = now - since >= sight.patience
        return Mark(since, ripe), Step.RAISE if ripe else Step.NOTHING
    if sight.bad:
        return Mark(mark.since, raised=True), Step.NOTHING
    well = now if mark.well is None else min(mark.well, now)
    if now - well >= over_after:
        return None, Step.END
    return Mark(mark.since, raised=True, well=well), Step.NOTHING


# The requests: one instance claims the watch, and stores what it reports.

LEASE: Final = Millis(45_000)
"""The time of a claim, which is renewed well before; after an instance dies, another takes over at its end."""

AT_ONCE: Final = 200
"""Alerts that are stored, or read, by one request."""

WATCH: Final = "alerts"
"""The name of the watch."""

MAX_DETAIL: Final = 300
"""The maximum characters of a detail."""


class WatchAlerts(Request, frozen=True, gc=False):
    """Claim the watch for `LEASE`; only the service itself does. Instances with other names wait for the end of the claim."""

    by: Principal
    runner: str


class WatchFacts(Struct, frozen=True, gc=False):
    """The watch, as some instance has claimed it."""

    now: Millis
    known: AlertWatch | None


class NoteAlerts(Request, frozen=True, gc=False):
    """Store alerts, and forget others by name; only the service itself does, and only the instance that has the watch."""

    by: Principal
    runner: str
    alerts: tuple[Alert, ...] = ()
    gone: tuple[str, ...] = ()


class NoteFacts(Struct, frozen=True, gc=False):
    """The watch, and the stored alerts among those that are to be forgotten."""

    known: AlertWatch | None
    gone: tuple[Alert, ...] = ()


class NoteTarget(Request, frozen=True, gc=False):
    """Note why a target of alerts does not take them, or with an empty `why` that it does; only the service itself does.

    Any instance may: the answer of a room reaches whichever the server chooses.
    """

    by: Principal
    target: str
    why: str = ""


class TargetFacts(Struct, frozen=True, gc=False):
    """What is known of the target."""

    now: Millis
    known: Alert | None


OF_WATCH: Final = frozenset({WatchAlerts, NoteAlerts, NoteTarget})
"""Requests that change only what is stored of alerts."""


class ReadAlerts(Read, frozen=True, gc=False):
    """Request the alerts after a name, those of targets among them."""

    after: str = ""
    most: int = AT_ONCE


class AlertsFacts(Struct, frozen=True, gc=False):
    """The alerts, one more than requested if there are more."""

    alerts: tuple[Alert, ...]


FOR_ADMINS: Final = "only administrators of the service may do this"


def watch(request: WatchAlerts, facts: WatchFacts) -> Decision:
    """Return the watch: its `runner` is the requester, unless another instance has it."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, FOR_ADMINS)
    known, end = facts.known, later(facts.now, LEASE)
    # an end that no claim gives is from a clock that was ahead
    if known is not None and known.runner != request.runner and facts.now < known.until <= end:
        return Decision(known)
    mine = AlertWatch(WATCH, request.runner, end)
    return Decision(mine, (PutRow(mine),))


def note(request: NoteAlerts, facts: NoteFacts) -> Decision:
    """Store the alerts, if the requester has the watch."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, FOR_ADMINS)
    if facts.known is None or facts.known.runner != request.runner:
        return refuse(Refusal.LOCK_LOST)
    puts = tuple(PutRow(one) for one in request.alerts)
    drops = tuple(DropRow(Alert, one.name) for one in facts.gone)
    return Decision(Done(), (*puts, *drops))


def note_target(request: NoteTarget, facts: TargetFacts) -> Decision:
    """Store why the target fails, or that it does not; the same again changes nothing."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, FOR_ADMINS)
    known, why = facts.known, request.why[:MAX_DETAIL]
    if known is None and not why:
        return Decision(Done())
    if not why:
        return Decision(Done(), (DropRow(Alert, name_of(Wrong.TARGET, request.target)),))
    if known is not None and known.detail == why:
        return Decision(Done())
    since = facts.now if known is None else known.since
    row = Alert(name_of(Wrong.TARGET, request.target), since, why, reported=facts.now)
    return Decision(Done(), (PutRow(row),))


def read_alerts(request: ReadAlerts, facts: AlertsFacts) -> Decision:
    """Return a page of alerts, for administrators."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, FOR_ADMINS)
    most = at_most(request)
    return Decision(AlertPage(facts.alerts[:most], len(facts.alerts) > most))


def at_most(request: ReadAlerts) -> int:
    """Return how many alerts one answer has."""
    return max(1, min(request.most, AT_ONCE))


def fault_of_note(request: NoteAlerts) -> Refused | None:
    """Return what no row can make right: more alerts than one request stores."""
    if len(request.alerts) + len(request.gone) > AT_ONCE:
        return Refused(Refusal.TOO_MANY_ITEMS, limit=AT_ONCE)
    return None


# A report: what all targets get at once.

MAX_LINES: Final = 20
"""Lines of a message; what is left out is counted in its last line."""

MAX_NAMED: Final = 100
"""Characters of a subject in a line."""


class Report(Struct, frozen=True):
    """What one look has found: alerts that are raised, and those that are over, each with its state then."""

    service: str
    alerts: tuple[Alert, ...]


def text_of(report: Report) -> str:
    """Return a report as lines for people, the worst first: what is raised, then what is over."""
    lines = [_line(alert) for alert in ordered(report.alerts)]
    left = len(lines) - MAX_LINES
    if left > 0:
        lines = [*lines[:MAX_LINES], f"... and {left} more"]
    if len(lines) == 1:
        return f"{report.service}: {lines[0]}"
    return "\n".join([f"{report.service}:", *lines])


def ordered(alerts: Sequence[Alert]) -> list[Alert]:
    """Return alerts in the order of a report."""
    return sorted(alerts, key=lambda one: (one.over > 0, WORST.index(Wrong(one.kind)), one.subject))


def _line(alert: Alert) -> str:
    name = alert.subject if len(alert.subject) <= MAX_NAMED else f"{alert.subject[:MAX_NAMED]}..."
    about = alert.kind if not name else f"{name}: {alert.kind}"
    if alert.over:
        return f"OVER {about}, after {span(alert.over - alert.since)}"
    return f"ALERT {about}: {alert.detail}"
