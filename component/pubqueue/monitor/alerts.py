"""Looks for what is wrong, and notifies people, rooms and webhooks: once, and once when it is over.

One instance at a time looks: it has the watch, which it claims again and again. It reads the queues beside the batches, a slice at a time with
pauses between, lets `rules.alerts` judge them, stores what is raised and what is over, and then reports it to all targets. What an
instance has not reported when it ends, the next one reports. Without targets nothing is read.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import msgspec
import structlog
from msgspec.structs import replace
from slixmpp.jid import JID

from pubqueue.config.alerts import shown_target
from pubqueue.faces.push.targets import Outcome
from pubqueue.logs import fault
from pubqueue.model.decision import Done, Refusal, Refused
from pubqueue.model.entities import Jid, Millis
from pubqueue.model.records import Alert, AlertPage, AlertWatch
from pubqueue.model.replies import NodePage, ServiceState
from pubqueue.rules.alerts import (
    AT_ONCE,
    LEASE,
    Mark,
    NoteAlerts,
    NoteTarget,
    ReadAlerts,
    Report,
    Sight,
    Step,
    WatchAlerts,
    Wrong,
    judge,
    look_at,
    look_at_account,
    look_at_disk,
    name_of,
    ordered,
    text_of,
    too_old_at,
)
from pubqueue.rules.inspect import NEAREST, AskService
from pubqueue.rules.read import ReadNodes
from pubqueue.rules.survey import MAX_NODES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pubqueue.config.alerts import AlertSettings
    from pubqueue.config.settings import Settings
    from pubqueue.engine.broker import Broker
    from pubqueue.faces.push.client import PushClient
    from pubqueue.faces.xmpp.announcing import Announcer
    from pubqueue.model.entities import NodeName, Principal
    from pubqueue.model.replies import Fullness

log = structlog.get_logger(__name__)


# Reports, and until when they are kept for a target.

MAX_REPORTS: Final = 100
"""Reports that wait for one target; one more, and the oldest is dropped."""

FIRST_PAUSE: Final = 1.0
MAX_PAUSE: Final = 300.0
"""Seconds until a report is sent again to a target that did not take it; each time twice as long, up to this."""

TRIES: Final = 5
"""Failures in a row after which alerts count as reported without this target: about half a minute."""

MAX_IN_BODY: Final = 500
"""Alerts in the body of a webhook; `left_out` is the number of the others."""

TAKEN: Final = range(200, 300)
"""Statuses of webhooks that have taken a report."""

CONTENT: Final = (("Content-Type", "application/json"), ("User-Agent", "pubqueue"))


def body_of(report: Report) -> bytes:
    """Return a report as JSON: its text for people, and its alerts; times are milliseconds since 1970."""
    alerts = ordered(report.alerts)
    return msgspec.json.encode(
        {
            "service": report.service,
            "text": text_of(report),
            "alerts": [_shown(one) for one in alerts[:MAX_IN_BODY]],
            "left_out": max(0, len(alerts) - MAX_IN_BODY),
        }
    )


def _shown(alert: Alert) -> dict[str, object]:
    return {
        "state": "over" if alert.over else "raised",
        "kind": alert.kind,
        "subject": alert.subject,
        "detail": alert.detail,
        "since": alert.since,
        "over": alert.over or None,
    }


class Outbox:
    """The reports for one target, one after the other; one that fails is sent again."""

    def __init__(self, target: str, alerts: Alerts) -> None:
        self.target, self._alerts = target, alerts
        self._waiting: deque[Report] = deque()
        self._news = asyncio.Event()
        self._failures = 0
        """Failures in a row."""
        self._task: asyncio.Task[None] | None = None

    @property
    def _is_waited_for(self) -> bool:
        """Whether alerts count as reported only when this target has them: not if it has failed too often."""
        return self._failures < TRIES

    def put(self, report: Report) -> None:
        """Send the report when those before it are sent."""
        self._waiting.append(report)
        if len(self._waiting) > MAX_REPORTS:
            log.warning("alerts.dropped", target=shown_target(self.target))
            self._alerts.finished(self._waiting.popleft(), self.target)
        if not self._is_waited_for:
            self._alerts.finished(report, self.target)
        self._news.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="alerts to a target")

    async def close(self) -> None:
        """Stop sending."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self._news.clear()
            if not self._waiting:
                await self._news.wait()
            else:
                await self._try(self._waiting[0])

    async def _try(self, report: Report) -> None:
        """Send a report; if it is not taken, wait, longer each time."""
        try:
            why = await self._alerts.send(self.target, report)
        except Exception as problem:  # the boundary between this target and all others
            log.error("alerts.failed", target=shown_target(self.target), **fault(problem))  # noqa: TRY400
            why = "a fault of the service, which the log shows"
        if why is not None:
            await self._alerts.note_outcome(self.target, why)
        if not why:
            self._failures = 0
            if self._waiting and self._waiting[0] is report:
                self._waiting.popleft()
            self._alerts.finished(report, self.target)
            await self._alerts.store()
            return
        self._failures += 1
        if not self._is_waited_for:
            for one in self._waiting:
                self._alerts.finished(one, self.target)
            await self._alerts.store()
        await asyncio.sleep(min(FIRST_PAUSE * 2 ** (self._failures - 1), MAX_PAUSE))


# The looks.

SLICE: Final = 50
"""Nodes that are read by one request."""

REST: Final = 0.02
"""Seconds between two slices, for other readers."""

SILENT: Final = Millis(30_000)
"""For how long the store takes no writes before that is an alert."""


class Alerts:
    """Watches for what is wrong while the broker is at work. `announcer` sends over XMPP, if that is served."""

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        by: Principal,
        announcer: Announcer | None = None,
    ) -> None:
        self._broker, self._by, self._service = broker, by, settings.jid
        self.disk = disk_of(settings.store)
        """The folder whose disk is looked at, if any."""
        self._announcer = announcer
        if announcer is not None:
            announcer.on_outcome = self._bounced
        self._client: PushClient | None = None
        self._is_on = asyncio.Event()
        self._outboxes: dict[str, Outbox] = {}
        self._under_way: dict[int, tuple[Report, set[str]]] = {}
        self._failing: dict[str, str] = {}
        self._notes: set[asyncio.Task[None]] = set()
        self._storing = asyncio.Lock()
        self._forget()
        self.take_settings(settings)

    def _forget(self) -> None:
        """Forget everything: another instance has the watch, or had it."""
        self._has_watch = False
        self._renew_at = Millis(0)
        self._marks: dict[str, Mark] = {}
        self._alerts: dict[str, Alert] = {}
        """What the store is to have."""
        self._stored: dict[str, Alert] = {}
        self._forget_the_last_look()

    def _forget_the_last_look(self) -> None:
        self._looked_at: int | None = None
        """The count of changes of the store when all queues were looked at; None: they have to be looked at."""
        self._sights: dict[str, Sight] = {}
        """What was seen then of queues with marks."""
        self._too_old_at: Millis | None = None
        """When the next item of a queue is too old."""

    def take_settings(self, settings: Settings) -> None:
        """Apply the table `[alerts]` from the next look on."""
        self._forget_the_last_look()
        self._settings: AlertSettings = settings.alerts
        self._terms = settings.alerts.terms()
        self._rooms = {JID(room).bare: room for room in settings.alerts.rooms}
        if self._announcer is not None:
            self._announcer.rooms = frozenset(self._rooms)
            self._announcer.is_on = bool(settings.alerts.to or settings.alerts.rooms)
        if self._client is not None:
            self._client.terms = settings.alerts.push_terms
        if settings.alerts.targets:
            self._is_on.set()
        else:
            self._is_on.clear()

    async def run(self) -> None:
        """Look again and again, until cancelled; without targets, wait for some."""
        try:
            while True:
                await self._is_on.wait()
                try:
                    await self.look()
                except Exception as problem:  # the next look may succeed
                    log.error("alerts.failed", **fault(problem))  # noqa: TRY400  # no trace of contents
                await asyncio.sleep(self._settings.every)
        finally:
            await self.close()

    @property
    def is_reporting(self) -> bool:
        """Whether a target is still waited for."""
        return bool(self._under_way)

    async def close(self) -> None:
        """Stop sending, and close the connections to webhooks."""
        for outbox in self._outboxes.values():
            await outbox.close()
        if self._client is not None:
            await self._client.close()

    async def look(self) -> None:
        """Look at everything once, store what has changed, and report it. Queues are read only if the store may have changed."""
        changed: list[Alert] = []
        if not await self._claim(changed):
            self._report(changed)
            return
        seen: set[str] = set()
        changes = self._broker.store_changes.count
        if self._is_as_before(changes):
            self._look_back(changed, seen)
            whole = True
        else:
            self._forget_the_last_look()
            whole = await self._look_at_queues(changed, seen)
            self._looked_at = changes if whole else None
        await self._look_at_service(changed, seen)
        if whole:
            for name in [name for name in self._marks if name not in seen]:
                self._end(name, changed)
        for target in self._failing.keys() - {self._plain(one) for one in self._settings.targets}:
            await self.note_outcome(target, "")
        if await self.store():
            self._report(changed)

    # --- the watch ---

    async def _claim(self, changed: list[Alert]) -> bool:
        """Claim the watch, or renew the claim when a third of its time has passed; return whether this instance has it."""
        now = self._broker.now()
        if self._has_watch and now < self._renew_at:
            return True
        runner = f"{self._broker.instance.number}"
        reply = await self._broker.handle(WatchAlerts(self._by, runner))
        if isinstance(reply, Refused) and reply.refusal is Refusal.STORE_FAILED:
            return self._note_silence(now, changed)
        if not isinstance(reply, AlertWatch) or reply.runner != runner:
            self._forget()
            return False
        self._renew_at = Millis(now + LEASE // 3)
        if not self._has_watch:
            await self._begin()
        self._note(Sight(Wrong.STORE, "", bad=False), now, changed)
        return self._has_watch

    def _note_silence(self, now: Millis, changed: list[Alert]) -> bool:
        """Note that the store takes no writes; the instance that had the watch reports that, although it cannot store it."""
        if self._has_watch:
            sight = Sight(Wrong.STORE, "", bad=True, detail="it takes no writes", patience=SILENT)
            self._note(sight, now, changed)
        return False

    async def _begin(self) -> None:
        """Read the stored alerts, and report those that were not reported."""
        after, more = "", True
        found: dict[str, Alert] = {}
        while more:
            page = await self._broker.handle(ReadAlerts(self._by, after))
            if not isinstance(page, AlertPage):
                return
            found |= {one.name: one for one in page.entries}
            after, more = (page.entries[-1].name if page.entries else ""), page.more
        targets = {name_of(Wrong.TARGET, self._plain(one)) for one in self._settings.targets}
        for name in [name for name in found if name.startswith(f"{Wrong.TARGET}:")]:
            alert = found.pop(name)
            if name not in targets:
                await self._broker.handle(NoteTarget(self._by, alert.subject))
            else:
                self._failing[alert.subject] = alert.detail
        self._stored, self._alerts = dict(found), dict(found)
        self._marks = {
            one.name: Mark(one.since, raised=True) for one in found.values() if not one.over
        }
        self._has_watch = True
        self._report([one for one in found.values() if not one.reported])

    # --- the looks ---

    def _is_as_before(self, changes: int) -> bool:
        """Return whether the queues are as they were at the last look, and no item has become too old since then."""
        waits = self._too_old_at is None or self._broker.now() < self._too_old_at
        return changes == self._looked_at and waits

    def _look_back(self, changed: list[Alert], seen: set[str]) -> None:
        """Judge again what was seen at the last look: time has passed."""
        now = self._broker.now()
        for name, sight in self._sights.items():
            seen.add(name)
            self._note(sight, now, changed)

    async def _look_at_queues(self, changed: list[Alert], seen: set[str]) -> bool:
        """Look at all queues, a slice at a time; return whether all were looked at."""
        after: NodeName | None = None
        count, more = 0, True
        while more:
            if count >= MAX_NODES or not await self._claim(changed):
                return False
            page = await self._broker.handle(ReadNodes(self._by, after, SLICE))
            if not isinstance(page, NodePage):
                return False
            for entry in page.entries:
                for sight in look_at(entry, self._terms, page.now):
                    seen.add(sight.name)
                    self._note(sight, page.now, changed)
                    if sight.name in self._marks:
                        self._sights[sight.name] = sight
                at = too_old_at(entry, self._terms)
                if at is not None and at > page.now:
                    self._too_old_at = at if self._too_old_at is None else min(self._too_old_at, at)
            after, more, count = page.through, page.more, count + len(page.entries)
            if more:
                await asyncio.sleep(REST)
        return True

    async def _look_at_service(self, changed: list[Alert], seen: set[str]) -> None:
        """Look at the disk, and at the accounts that are nearest to their limits."""
        seen.add(name_of(Wrong.STORE, ""))
        now = self._broker.now()
        if self.disk is not None and self._terms.disk_free:
            usage = await asyncio.to_thread(shutil.disk_usage, self.disk)
            raised = self._is_raised(Wrong.DISK, self.disk)
            sight = look_at_disk(self.disk, usage.free, self._terms, raised=raised)
            seen.add(sight.name)
            self._note(sight, now, changed)
        if not self._terms.quota:
            return
        state = await self._broker.handle(AskService(self._by))
        if not isinstance(state, ServiceState):
            seen.update(name for name in self._marks if name.startswith(f"{Wrong.QUOTA}:"))
            return
        for sight in self._sights_of_accounts(state.kept.nearest):
            seen.add(sight.name)
            self._note(sight, now, changed)

    def _sights_of_accounts(self, nearest: Sequence[Fullness]) -> Iterator[Sight]:
        """Yield the sights of the accounts that are nearest to their limits, and of those that were and are not."""
        shares = {one.holding.account: one.share for one in nearest}
        # of an account that is not among the nearest is only known that it uses no more than the last of these
        most = min(shares.values()) if len(shares) >= NEAREST else 0.0
        known = {
            name.partition(":")[2] for name in self._marks if name.startswith(f"{Wrong.QUOTA}:")
        }
        for account in shares.keys() | known:
            raised = self._is_raised(Wrong.QUOTA, account)
            share = shares.get(Jid(account), most)
            yield look_at_account(account, share, self._terms, raised=raised)

    def _is_raised(self, wrong: Wrong, subject: str) -> bool:
        mark = self._marks.get(name_of(wrong, subject))
        return mark is not None and mark.raised

    def _note(self, sight: Sight, now: Millis, changed: list[Alert]) -> None:
        """Judge a sight, and add the alert that begins or ends."""
        name = sight.name
        mark, step = judge(self._marks.get(name), sight, now, self._terms.over_after)
        if mark is None:
            self._marks.pop(name, None)
        else:
            self._marks[name] = mark
        if step is Step.RAISE:
            assert mark is not None
            alert = self._alerts[name] = Alert(name, mark.since, sight.detail)
            changed.append(alert)
        elif step is Step.END:
            self._end(name, changed, now)

    def _end(self, name: str, changed: list[Alert], now: Millis | None = None) -> None:
        """End an alert: what was wrong is well, or is not looked at any more."""
        self._marks.pop(name, None)
        alert = self._alerts.get(name)
        if alert is None or alert.over:
            return
        over = Millis(max(alert.since + 1, self._broker.now() if now is None else now))
        ended = self._alerts[name] = replace(alert, over=over, reported=Millis(0))
        changed.append(ended)

    # --- what is stored ---

    async def store(self) -> bool:
        """Store what has changed, in slices; return whether this instance has the watch, so that it may report it."""
        async with self._storing:
            return self._has_watch and await self._store_changes()

    async def _store_changes(self) -> bool:
        names = self._alerts.keys() | self._stored.keys()
        differing = sorted(n for n in names if self._alerts.get(n) != self._stored.get(n))
        for start in range(0, len(differing), AT_ONCE):
            part = differing[start : start + AT_ONCE]
            puts = tuple(self._alerts[name] for name in part if name in self._alerts)
            gone = tuple(name for name in part if name not in self._alerts)
            runner = f"{self._broker.instance.number}"
            reply = await self._broker.handle(NoteAlerts(self._by, runner, puts, gone))
            if isinstance(reply, Refused) and reply.refusal is Refusal.LOCK_LOST:
                self._forget()
                return False
            if not isinstance(reply, Done):
                return (
                    True  # the store fails: it is reported all the same, and stored by a later look
                )
            for one in puts:
                self._stored[one.name] = one
            for name in gone:
                self._stored.pop(name, None)
        return True

    # --- reports ---

    def _report(self, alerts: Sequence[Alert]) -> None:
        """Report these to all targets."""
        if not alerts:
            return
        report = Report(self._service, tuple(alerts))
        targets = self._settings.targets
        self._under_way[id(report)] = report, set(targets)
        for alert in alerts:
            event = "alert.over" if alert.over else "alert.raised"
            log.warning(event, kind=alert.kind, subject=alert.subject, detail=alert.detail)
        for target in targets:
            outbox = self._outboxes.get(target)
            if outbox is None:
                outbox = self._outboxes[target] = Outbox(target, self)
            outbox.put(report)

    def finished(self, report: Report, target: str) -> None:
        """Note that a target has a report, or will not get it; if all have it, `store` notes that."""
        _, left = self._under_way.get(id(report), (report, set[str]()))
        left.discard(target)
        if left:
            return
        self._under_way.pop(id(report), None)
        for alert in report.alerts:
            if self._alerts.get(alert.name) != alert:
                continue  # it has changed since then
            if alert.over:
                del self._alerts[alert.name]
            else:
                self._alerts[alert.name] = replace(alert, reported=self._broker.now())

    async def send(self, target: str, report: Report) -> str | None:
        """Send a report to a target; return why it was not taken, an empty word if it was, or None if that is not known."""
        if target not in self._settings.targets:
            return ""  # nobody wants it any more
        if "://" in target:
            return await self._post(target, body_of(report))
        if self._announcer is None:
            return "there is no XMPP server"
        if target in self._settings.to:
            return self._announcer.send(target, text_of(report))
        room, nick = JID(target).bare, self._settings.nick
        return await self._announcer.send_to_room(room, nick, text_of(report))

    async def _post(self, url: str, body: bytes) -> str:
        if self._client is None:
            from pubqueue.faces.push.client import PushClient  # noqa: PLC0415  # only if it is used

            self._client = PushClient(self._settings.push_terms)
        answer = await self._client.call("POST", url, CONTENT, body)
        if isinstance(answer, Outcome):
            return answer.reason
        return "" if answer.status in TAKEN else f"status {answer.status}"

    def _plain(self, target: str) -> str:
        """Return how a target is named in alerts and logs: a room or an account without a resource, a webhook without its path."""
        return shown_target(target) if "://" in target else JID(target).bare

    def _bounced(self, target: str, why: str) -> None:
        """Note what an answer says that this instance did not wait for."""
        note = asyncio.create_task(self.note_outcome(target, why), name="an outcome")
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    async def note_outcome(self, target: str, why: str) -> None:
        """Log that a target fails, or does no longer, and store it for operators."""
        shown = self._plain(target)
        if why and self._failing.get(shown) != why:
            self._failing[shown] = why
            log.warning("alerts.refused", target=shown, why=why)
        elif not why and self._failing.pop(shown, ""):
            log.info("alerts.accepted", target=shown)
        await self._broker.handle(NoteTarget(self._by, shown, why))


def disk_of(store: str) -> str | None:
    """Return the folder of a store of SQLite, None if the store is elsewhere."""
    address = urlsplit(store)
    if address.scheme != "sqlite":
        return None
    path = Path(unquote(address.path).replace("//", "/", 1)).parent
    with suppress(OSError):
        path = path.resolve()
    return str(path)
