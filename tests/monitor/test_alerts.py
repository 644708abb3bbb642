"""Alerts on a broker and a store: said once by one instance, over restarts, failing targets and a store that fails."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web
from harness.batches.facts import ANN, JOBS, NOW
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, unlocks
from harness.documents.documented import blocks
from harness.operators.page_service import SERVICE, Face
from harness.patience import until
from structlog.testing import capture_logs

from pubqueue.config.alerts import AlertRuleSettings, AlertSettings
from pubqueue.config.settings import Settings
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.ports import Instance
from pubqueue.model.decision import Refusal, refuse
from pubqueue.model.entities import Millis, NodeName
from pubqueue.model.records import Alert, Quota, Quotas
from pubqueue.monitor import alerts as module
from pubqueue.monitor.alerts import Alerts, Outbox, body_of, disk_of
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.alerts import LEASE, NoteAlerts, ReadAlerts, Report, WatchAlerts, text_of
from pubqueue.rules.nodes import Delete
from pubqueue.rules.settle import Outcome
from pubqueue.stores.sqlite.in_memory import Memory, MemoryStore

TO, ROOM = "ann@x.example", "ops@rooms.example"
RULE = AlertRuleSettings(dead=1, oldest=600.0, no_workers=10.0)
USUAL = AlertSettings(to=(TO,), rule=(RULE,), over_after=20.0)


class Announcer:
    """Notes what is told to whom; `refuses` has why a target does not take it."""

    def __init__(self):
        self.sent, self.refuses, self.asked = [], {}, asyncio.Event()
        self.rooms, self.is_on = frozenset(), False

    def send(self, jid, text):
        self.asked.set()
        if why := self.refuses.get(jid, ""):
            return why
        self.sent.append((jid, text))
        return ""

    async def send_to_room(self, room, nick, text):
        return self.send(f"{room}/{nick}", text)


class Watcher:
    """An instance with a clock of its own."""

    def __init__(self, memory, number, settings, announcer, at=NOW):
        self.now = at
        store = MemoryStore(memory)
        self.store = store
        self.broker = Broker(store, Terms(CreationPolicy.ANYONE), clock=lambda: self.now)
        self.broker.serve_as(Instance(number))
        Face.up(self.broker)
        everything = Settings(jid="queue.example", secret="s", store="memory:", alerts=settings)
        self.alerts = Alerts(self.broker, everything, SERVICE, announcer)

    async def do(self, *requests):
        replies = [await self.broker.handle(request) for request in requests]
        await self.broker.settled()
        return replies

    async def look(self, after=0.0):
        """Look that many seconds later, and wait until all who are told have it."""
        self.now = Millis(self.now + round(after * 1000))
        await self.alerts.look()
        await self.settled()

    async def settled(self):
        await until(lambda: not self.alerts.is_reporting)

    async def rows(self):
        (page,) = await self.do(ReadAlerts(SERVICE))
        return {one.name: one for one in page.entries}


@asynccontextmanager
async def watcher(memory=None, number=1, settings=USUAL, announcer=None, at=NOW):
    found = Watcher(memory or Memory(), number, settings, announcer or Announcer(), at)
    await found.store.open()
    found.broker.start()
    try:
        yield found
    finally:
        await found.alerts.close()
        await found.broker.stop()
        await found.store.close()


@pytest.fixture
def announcer():
    return Announcer()


def lines(announcer):
    return [line for _, text in announcer.sent for line in text.splitlines()]


NO_WORKERS = "queue.example: ALERT jobs: no workers: 1 waiting, and no worker is available"


async def test_it_is_said_once_and_once_when_it_is_over(announcer):
    async with watcher(announcer=announcer) as one:
        await one.do(a_queue(), publishes("a"))
        for _ in range(4):
            await one.look(after=5)
        assert announcer.sent == [(TO, NO_WORKERS)]
        await one.do(joins(ANN, 2))
        for _ in range(6):
            await one.look(after=5)
        assert announcer.sent[1:] == [(TO, "queue.example: OVER jobs: no workers, after 40 s")]
        await one.look(after=5)
        assert await one.rows() == {}


async def test_dead_items_are_said_at_once_and_nothing_of_an_item_is(announcer):
    async with watcher(announcer=announcer) as one:
        await one.do(a_queue(), joins(ANN, 2), publishes("secret-id"))
        reason = "secret reason"
        await one.do(unlocks(ANN, "secret-id", outcome=Outcome.REJECT, reason=reason))
        await one.look()
        assert lines(announcer) == ["queue.example: ALERT jobs: dead items: 1 dead, the limit is 1"]


async def test_what_comes_and_goes_is_said_once(announcer):
    async with watcher(announcer=announcer) as one:
        await one.do(a_queue(), joins(ANN, 2))
        for round_ in range(5):
            await one.do(publishes(f"{round_}"))
            await one.do(unlocks(ANN, f"{round_}", outcome=Outcome.REJECT))
            await one.look(after=5)
            await one.do(retracts(ANN, f"{round_}"))
            await one.look(after=5)
        assert len(announcer.sent) == 1


async def test_several_alerts_of_one_look_are_one_message(announcer):
    async with watcher(announcer=announcer) as one:
        for name in ("a", "b", "c"):
            await one.do(a_queue(NodeName(name)), publishes("i", node=NodeName(name)))
        await one.look()
        await one.look(after=15)
        ((_, text),) = announcer.sent
        assert text.count("ALERT") == 3


async def test_a_queue_that_is_deleted_ends_its_alerts(announcer):
    async with watcher(announcer=announcer) as one:
        await one.do(a_queue(), publishes("a"))
        await one.look()
        await one.look(after=15)
        await one.do(Delete(SERVICE, JOBS))
        await one.look(after=1)
        assert lines(announcer)[-1] == "queue.example: OVER jobs: no workers, after 16 s"


async def test_a_restart_says_nothing_again_and_still_says_when_it_is_over(announcer):
    memory = Memory()
    async with watcher(memory, announcer=announcer) as one:
        await one.do(a_queue(), publishes("a"))
        await one.look()
        await one.look(after=15)
        await one.look(after=1)
        at = one.now
    async with watcher(memory, announcer=announcer, at=at) as again:
        await again.look(after=5)
        assert len(announcer.sent) == 1
        await again.do(joins(ANN, 2))
        await again.look(after=5)
        await again.look(after=25)
    assert lines(announcer)[1:] == ["queue.example: OVER jobs: no workers, after 51 s"]


async def test_what_was_not_told_before_the_end_is_told_by_the_next_life(announcer):
    memory = Memory()
    announcer.refuses[TO] = "not connected"
    async with watcher(memory, announcer=announcer) as one:
        await one.do(a_queue(), publishes("a"))
        await one.alerts.look()
        one.now = Millis(one.now + 15_000)
        await one.alerts.look()
        await until(announcer.asked.is_set)
    announcer.refuses.clear()
    async with watcher(memory, announcer=announcer, at=one.now) as again:
        await again.look(after=1)
        assert announcer.sent == [(TO, NO_WORKERS)]


async def test_of_two_instances_one_speaks_and_the_other_takes_over(announcer):
    memory, other_announcer = Memory(), Announcer()
    async with (
        watcher(memory, 1, announcer=announcer) as one,
        watcher(memory, 2, announcer=other_announcer) as two,
    ):
        await one.do(a_queue(), publishes("a"))
        for _ in range(4):
            await one.look(after=5)
            await two.look(after=5)
        assert (len(announcer.sent), other_announcer.sent) == (1, [])
        await two.look(after=LEASE / 1000)  # the first one looks no more
        await two.do(joins(ANN, 2))
        await two.look(after=1)
        await two.look(after=25)
        assert len(other_announcer.sent) == 1
        assert lines(other_announcer)[0].startswith("queue.example: OVER jobs: no workers")
        one.now = two.now
        await one.look(after=1)
        assert len(announcer.sent) == 1


async def test_a_store_that_takes_no_writes_is_said_by_the_instance_that_had_the_watch(announcer):
    async with watcher(announcer=announcer) as one:
        await one.look()
        handle = one.broker.handle

        async def full(request):
            if isinstance(request, WatchAlerts | NoteAlerts):
                return refuse(Refusal.STORE_FAILED).reply
            return await handle(request)

        one.broker.handle = full
        for _ in range(5):
            await one.look(after=16)
        assert lines(announcer) == ["queue.example: ALERT store: it takes no writes"]
        one.broker.handle = handle
        for _ in range(4):
            await one.look(after=16)
        assert lines(announcer)[1:] == ["queue.example: OVER store, after 112 s"]


async def test_a_full_disk_is_said(announcer, tmp_path, monkeypatch):
    async with watcher(announcer=announcer) as one:
        one.alerts.disk = str(tmp_path)
        free = 5 << 20
        usage = type("Usage", (), {"free": property(lambda _self: free)})
        monkeypatch.setattr(module.shutil, "disk_usage", lambda _place: usage())
        await one.look()
        expected = "5 MiB are free, the limit is 1024 MiB"
        assert lines(announcer) == [f"queue.example: ALERT {tmp_path}: disk: {expected}"]
        free = 2 << 30
        await one.look(after=1)
        await one.look(after=30)
        assert lines(announcer)[1:] == [f"queue.example: OVER {tmp_path}: disk, after 31 s"]


@pytest.mark.parametrize(
    ("store", "folder"),
    [("sqlite:///var/x/q.db", "/var/x"), ("postgresql://p@h/d", None), ("memory:", None)],
)
def test_the_disk_is_that_of_the_file(store, folder):
    assert disk_of(store) == folder


async def test_an_account_near_its_limit_is_said(announcer):
    async with watcher(announcer=announcer) as one:
        terms = Terms(CreationPolicy.ANYONE, quotas=Quotas(Quota(10, 0, 0)))
        one.broker.adopt(terms)
        for name in range(9):
            await one.do(a_queue(NodeName(f"{name}")))
        owner = a_queue().by.account
        await one.look()
        assert lines(announcer) == [f"queue.example: ALERT {owner}: quota: 90% of a limit is used"]


# --- targets -------------------------------------------------------------------------------------


async def test_a_target_that_refuses_is_noted_and_gets_it_later(announcer, monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.0)
    where = f"{ROOM}/pubqueue"
    settings = msgspec.structs.replace(USUAL, rooms=(ROOM,))
    announcer.refuses[where] = "the room refuses: forbidden"
    async with watcher(settings=settings, announcer=announcer) as one:
        await one.do(a_queue(), publishes("a"))
        await one.look()
        one.now = Millis(one.now + 15_000)
        noted, note = asyncio.Event(), one.alerts.note_outcome

        async def noting(target, why):
            await note(target, why)
            if why:
                noted.set()

        one.alerts.note_outcome = noting
        with capture_logs() as logs:
            await one.alerts.look()
            await noted.wait()
        refused = [line for line in logs if line["event"] == "alerts.refused"]
        assert [line["target"] for line in refused] == [ROOM]
        row = (await one.rows())[f"target:{ROOM}"]
        assert row.detail == "the room refuses: forbidden"
        announcer.refuses.clear()
        await one.settled()
        assert {jid for jid, _ in announcer.sent} == {TO, where}
        assert f"target:{ROOM}" not in await one.rows()


async def test_a_target_that_fails_for_long_holds_up_no_alert(announcer, monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.0)
    where = f"{ROOM}/pubqueue"
    settings = msgspec.structs.replace(USUAL, rooms=(ROOM,))
    announcer.refuses[where] = "the room refuses: forbidden"
    async with watcher(settings=settings, announcer=announcer) as one:
        await one.do(a_queue(), publishes("a"))
        await one.look()
        await one.look(after=15)
        await one.look(after=1)
        assert (await one.rows())["no workers:jobs"].reported > 0
        await one.do(joins(ANN, 2))
        await one.look(after=1)
        await one.look(after=30)
        await one.look(after=1)
        assert list(await one.rows()) == [f"target:{ROOM}"]
        announcer.refuses.clear()
        await until(lambda: len(announcer.sent) == 4)
        texts = {to: [text for jid, text in announcer.sent if jid == to] for to in (TO, where)}
        assert texts[where] == texts[TO]


async def test_what_waits_for_a_target_is_bounded(announcer, monkeypatch):
    monkeypatch.setattr(module, "MAX_REPORTS", 2)
    announcer.refuses[TO] = "not connected"
    async with watcher(announcer=announcer) as one:
        outbox, reports = Outbox(TO, one.alerts), [Report("q", ()) for _ in range(3)]
        finished = []
        one.alerts.finished = lambda report, _target: finished.append(report)
        for report in reports:
            outbox.put(report)
        assert finished == reports[:1]
        await outbox.close()


async def test_a_reload_turns_alerts_on_and_off(announcer):
    async with watcher(settings=AlertSettings(), announcer=announcer) as one:
        asked = []
        handle = one.broker.handle

        async def counted(request):
            asked.append(request)
            return await handle(request)

        one.broker.handle = counted
        running = asyncio.create_task(one.alerts.run())
        await one.broker.settled()
        assert asked == []  # nothing is read for nobody
        settings = Settings(jid="queue.example", store="memory:", alerts=USUAL)
        one.alerts.take_settings(settings)
        await until(lambda: bool(asked))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def webhook(answers):
    """Serve a webhook; yield its URL and the bodies it got. `answers` are statuses, the last one for all further calls."""
    got = []

    async def take(request):
        got.append(await request.json())
        status = answers.pop(0) if len(answers) > 1 else answers[0]
        where = {"Location": "/elsewhere"} if status == 307 else {}
        return web.Response(status=status, headers=where)

    app = web.Application()
    app.router.add_post("/hook/secret", take)
    app.router.add_post("/elsewhere", take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    (host, port), *_ = runner.addresses
    try:
        yield f"http://{host}:{port}/hook/secret", got
    finally:
        await runner.cleanup()


def to_webhook(url, *networks):
    return msgspec.structs.replace(USUAL, to=(), webhooks=(url,), webhook_networks=networks)


async def test_a_webhook_gets_json_again_until_it_takes_it(monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.0)
    async with webhook([500, 204]) as (url, got):
        async with watcher(settings=to_webhook(url, "127.0.0.0/8")) as one:
            await one.do(a_queue(), publishes("a"))
            await one.look()
            await one.look(after=15)
        assert len(got) == 2
        assert (
            got[0]
            == got[1]
            == {
                "service": "queue.example",
                "text": NO_WORKERS,
                "alerts": [
                    {
                        "state": "raised",
                        "kind": "no workers",
                        "subject": "jobs",
                        "detail": "1 waiting, and no worker is available",
                        "since": NOW,
                        "over": None,
                    }
                ],
                "left_out": 0,
            }
        )


@pytest.mark.parametrize(
    ("status", "networks", "why"),
    [
        (204, (), "the address may not be connected to"),
        (307, ("127.0.0.0/8",), "too many redirects"),
        (404, ("127.0.0.0/8",), "status 404"),
    ],
)
async def test_a_webhook_is_called_only_where_it_may_be(status, networks, why):
    async with webhook([status]) as (url, got):
        async with watcher(settings=to_webhook(url, *networks)) as one:
            with capture_logs() as logs:
                refused = await one.alerts.send(url, Report("q", ()))
                await one.alerts.note_outcome(url, refused)
            assert refused == why
            assert len(got) == (0 if not networks else 1)
            shown = url.removesuffix("/hook/secret")
            assert list(await one.rows()) == [f"target:{shown}"]
        assert "secret" not in f"{logs}"


def test_the_body_of_a_webhook_is_bounded():
    many = tuple(Alert(f"dead items:{at}", NOW) for at in range(10_000))
    body = msgspec.json.decode(body_of(Report("q", many)))
    assert (len(body["alerts"]), body["left_out"]) == (500, 9_500)


async def test_queues_are_read_in_slices_and_a_look_that_finds_nothing_writes_only_the_claim(
    announcer, monkeypatch
):
    monkeypatch.setattr(module, "REST", 0.0)
    async with watcher(announcer=announcer) as one:
        for start in range(0, 1_000, 100):
            made = [a_queue(NodeName(f"q{at:05}")) for at in range(start, start + 100)]
            await asyncio.gather(*map(one.broker.handle, made))
        asked = []
        handle = one.broker.handle

        async def counted(request):
            asked.append(type(request).__name__)
            return await handle(request)

        one.broker.handle = counted
        await one.look()
        assert asked.count("ReadNodes") == 1_000 // module.SLICE
        assert asked.count("WatchAlerts") == 1
        assert asked.count("NoteAlerts") == 0


@pytest.fixture
async def counted(announcer, monkeypatch):
    """A watcher of many queues, and the kinds of its requests."""
    monkeypatch.setattr(module, "REST", 0.0)
    async with watcher(announcer=announcer) as one:
        for start in range(0, 1_000, 100):
            made = [a_queue(NodeName(f"q{at:05}")) for at in range(start, start + 100)]
            await asyncio.gather(*map(one.broker.handle, made))
        one.asked, handle = [], one.broker.handle

        async def noted(request):
            one.asked.append(type(request).__name__)
            return await handle(request)

        one.broker.handle = noted
        await one.look()
        yield one


WHOLE = 1_000 // module.SLICE


async def reads(one, after=15.0):
    """Look later; return how many requests read queues."""
    one.asked.clear()
    await one.look(after)
    return one.asked.count("ReadNodes")


async def test_queues_are_read_again_only_when_the_store_has_changed(counted):
    assert counted.asked.count("ReadNodes") == WHOLE
    assert [await reads(counted) for _ in range(3)] == [0, 0, 0]
    await counted.do(publishes("a", node=NodeName("q00500")))
    assert [await reads(counted) for _ in range(2)] == [WHOLE, 0]
    counted.broker.others_wrote()
    assert [await reads(counted) for _ in range(2)] == [WHOLE, 0]
    everything = Settings(jid="queue.example", secret="s", store="memory:", alerts=USUAL)
    counted.alerts.take_settings(everything)
    assert [await reads(counted) for _ in range(2)] == [WHOLE, 0]


async def test_what_only_time_makes_wrong_is_noticed_although_nothing_has_changed(
    counted, announcer
):
    node = NodeName("q00500")
    await counted.do(joins(ANN, 0, node=node))
    await counted.do(publishes("a", node=node))
    assert await reads(counted, 1.0) == WHOLE
    assert announcer.sent == []
    assert await reads(counted, 11.0) == 0
    assert lines(announcer) == [NO_WORKERS.replace("jobs", node)], "after its patience"
    assert await reads(counted, 500.0) == 0
    announcer.sent.clear()
    assert await reads(counted, 100.0) == WHOLE, "the item is too old"
    (line,) = lines(announcer)
    assert "old item" in line
    assert [await reads(counted) for _ in range(2)] == [0, 0]
    await counted.do(Delete(SERVICE, node))
    announcer.sent.clear()
    assert await reads(counted) == WHOLE
    over = [line for line in lines(announcer) if line.startswith("OVER")]
    assert len(over) == 2, "both end with their queue"


# --- the page ------------------------------------------------------------------------------------


def test_the_page_shows_what_is_sent():
    """docs/operations/alerts.md has a message, and the body of a webhook."""
    (shown,) = [one for one in blocks("text") if one.page == "docs/operations/alerts.md"]
    since = Millis(1_795_360_903_935)
    jobs = Alert("dead items:jobs", since, "12 dead, the limit is 10")
    mail = Alert("no workers:mail", since, "3 waiting, and no worker is available")
    old = Alert("old item:nightly-report", since, over=Millis(since + 2_400_000))
    report = Report("queue.example.org", (jobs, mail, old))
    assert shown.text.strip() == text_of(report)
    (posted,) = [one for one in blocks("json") if one.page == "docs/operations/alerts.md"]
    sent = body_of(Report("queue.example.org", (jobs,)))
    assert msgspec.json.decode(posted.text) == msgspec.json.decode(sent)
