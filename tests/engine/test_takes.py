"""Takes: items for a single request, on both stores, with the rules of subscribers."""

import asyncio
from collections import Counter
from functools import partial

import pytest
from faces.sides import Side
from harness.batches.facts import BOSS, JOBS, draft, queue, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, unlocks
from harness.batches.shell import Shell
from harness.batches.toy_face import LineFace
from harness.patience import TIMEOUT
from harness.servers.users import SERVICE
from harness.stores.store_reader import StoreReader

from pubqueue.engine.dispatch import WaitingTakers
from pubqueue.engine.windows import OpenWindows
from pubqueue.model.changes import OpenWindow
from pubqueue.model.decision import Done, Refusal, Refused, Taken
from pubqueue.model.entities import AccessModel, Affiliation, ItemId, Jid, Millis, State
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Delete, SetAffiliations
from pubqueue.rules.presence import Departure, Leave
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle, Verb
from pubqueue.rules.take import MAX_OF_ACCOUNT, Take
from pubqueue.stores.postgres.store import PostgresStore
from pubqueue.stores.sqlite import SqliteStore

ETL = "etl@x"
"""An account that takes: by itself, as HTTP clients do, or by its connections."""
LONG = Millis(600_000)


@pytest.fixture(params=["sqlite", "postgres"])
def make_store(request, tmp_path):
    if request.param == "sqlite":
        return partial(SqliteStore, tmp_path / "queue.db")
    return partial(PostgresStore, request.getfixturevalue("postgres").address)


def always():
    return True


class Worked:
    """An instance that serves, with its requests and answers."""

    def __init__(self, side):
        self.side, self.broker = side, side.broker

    async def do(self, request):
        reply = await self.broker.handle(request)
        assert not isinstance(reply, Refused), reply
        return reply

    def asks(self, by=ETL, count=1, wait=LONG):
        """Start to wait; the `end` of the future ends the wait."""
        answer = asyncio.get_running_loop().create_future()
        answer.end = self.broker.take(Take(who(by), JOBS, count, wait), answer.set_result, always)
        return answer

    async def takes(self, by=ETL, count=1, wait=0):
        return ids(await self.asks(by, count, wait))

    async def waits(self, by=ETL, count=1):
        """Start to wait, and return once the take is decided and there is no item."""
        answer = self.asks(by, count)
        await self.broker.settled()
        assert not answer.done()
        return answer

    async def item(self, name):
        return await self.side.store.read(lambda tx: StoreReader(tx).item(JOBS, ItemId(name)))


def ids(reply):
    assert isinstance(reply, Taken), reply
    return [item.id for item, _ in reply.items]


@pytest.fixture
async def instance(make_store):
    side = Side(make_store(), partial(LineFace, service=SERVICE))
    async with asyncio.timeout(TIMEOUT):
        await side.begin()
        worked = Worked(side)
        await worked.do(a_queue())
        await side.broker.settled()
        yield worked
        await side.end()


async def test_waiting_items_are_locked_to_the_asker_and_returned_in_the_answer(instance):
    await instance.do(publishes("a"))
    reply = await instance.asks()
    ((item, payload),) = reply.items
    assert (reply.node, item.id, payload) == (JOBS, "a", b"<job/>")
    assert (item.state, item.holder, item.acquired) == (State.LOCKED, ETL, 1)
    assert item == await instance.item("a"), "as it is committed, with its token and deadline"
    await instance.do(retracts(ETL, "a"))
    assert await instance.item("a") is None


async def test_a_take_without_a_wait_is_answered_at_once(instance):
    assert await instance.takes() == []
    await instance.do(publishes("a"))
    assert (await instance.item("a")).state is State.QUEUED, "and the window is closed"


async def test_a_waiting_take_gets_items_that_are_published_meanwhile(instance):
    first, second = await instance.waits(), await instance.waits()
    await instance.do(publishes("a"))
    assert ids(await first) == ["a"]
    assert not second.done(), "one publish wakes one"
    await instance.do(publishes("b", "c"))
    assert ids(await second) == ["b"]
    assert (await instance.item("c")).state is State.QUEUED


async def test_a_wait_ends_without_anything(instance):
    assert await instance.takes(wait=Millis(30)) == []
    await instance.do(publishes("a"))
    assert (await instance.item("a")).acquired == 0


async def test_a_window_is_for_one_delivery_of_as_many_as_are_there(instance):
    await instance.do(publishes("a", "b"))
    assert await instance.takes(count=5) == ["a", "b"]
    await instance.do(publishes("c"))
    assert (await instance.item("c")).acquired == 0
    await instance.do(publishes("d", "e"))
    assert await instance.takes(count=2) == ["c", "d"]


async def test_an_account_has_no_more_in_flight_than_a_subscription_may_have(instance):
    await instance.do(a_queue(max_queue_requests=3))
    await instance.do(publishes(*"abcdefg"))
    assert await instance.takes(f"{ETL}/1", count=2) == ["a", "b"]
    assert await instance.takes(f"{ETL}/2", count=9) == ["c"], "all addresses count"
    assert await instance.asks(f"{ETL}/3") == Refused(Refusal.WINDOW_FULL, limit=3)
    assert await instance.takes("bob@x", count=1) == ["d"], "of another account others"
    await instance.do(retracts(f"{ETL}/1", "a"))
    assert await instance.takes(f"{ETL}/3", count=9) == ["e"]


async def test_several_takes_of_an_account_are_one_window(instance):
    await instance.do(a_queue(max_queue_requests=3))
    waiting = [await instance.waits(f"{ETL}/{number}") for number in range(5)]
    await instance.do(publishes(*"abcdefg"))
    await instance.broker.settled()
    assert [one.done() for one in waiting] == [True] * 3 + [False] * 2
    await instance.do(retracts(f"{ETL}/1", "b"))
    assert ids(await waiting[3]) == ["d"]


async def test_an_asker_that_has_gone_gets_nothing(instance):
    there, gone = await instance.waits("bob@x/1"), await instance.waits("bob@x/2")
    await instance.do(Leave(Jid("bob@x/2"), how=Departure.LOST))
    assert ids(await gone) == []
    withdrawn = await instance.waits()
    withdrawn.end()
    assert ids(await withdrawn) == []
    await instance.do(publishes("a", "b"))
    assert ids(await there) == ["a"]
    assert (await instance.item("b")).acquired == 0


async def test_items_locked_for_a_departed_asker_are_released_without_a_failure(instance):
    answer = await instance.waits()
    instance.broker.submit(publishes("a"), lambda _reply: answer.end())  # after the commit
    assert ids(await answer) == []
    await instance.broker.settled()
    back = await instance.item("a")
    assert (back.state, back.failed) == (State.QUEUED, 0)
    assert await instance.takes("bob@x") == ["a"], "and to others at once"


async def test_items_of_a_connection_are_freed_when_it_ends(instance):
    await instance.do(publishes("a"))
    assert await instance.takes("bob@x/1") == ["a"]
    await instance.do(Leave(Jid("bob@x/1"), how=Departure.CLOSED))
    assert (await instance.item("a")).state is State.QUEUED


async def test_an_unlocked_item_returns_to_its_worker_if_no_other_takes_it(instance):
    await instance.do(a_queue(backoff_min=3600, backoff_max=3600))
    await instance.do(publishes("a"))
    assert await instance.takes() == ["a"]
    await instance.do(unlocks(ETL, "a"))
    assert await instance.takes() == [], "not at once"
    assert await instance.takes("bob@x") == ["a"]


async def test_an_outcast_waits_for_nothing_and_a_deleted_queue_has_nothing(instance):
    mine, other = await instance.waits(), await instance.waits("bob@x")
    boss = who(BOSS, admin=True)
    await instance.do(SetAffiliations(boss, JOBS, ((Jid(ETL), Affiliation.OUTCAST),)))
    await instance.do(Publish(boss, JOBS, (draft("a"),)))
    assert await mine == Refused(Refusal.FORBIDDEN)
    assert ids(await other) == ["a"]
    third = await instance.waits("bob@x")
    await instance.do(Delete(boss, JOBS))
    assert await third == Refused(Refusal.NODE_NOT_FOUND)


async def test_a_member_of_a_closed_queue_waits_whatever_else_happens(instance):
    boss = who(BOSS, admin=True)
    await instance.do(SetAffiliations(boss, JOBS, ((Jid("bob@x"), Affiliation.MEMBER),)))
    await instance.do(Configure(boss, JOBS, Settings({"access_model": "whitelist"})))
    waiting = await instance.waits("bob@x")
    await instance.do(a_queue("others"))
    await instance.do(Publish(boss, JOBS, (draft("a"),)))
    assert ids(await waiting) == ["a"]


async def test_too_many_takes_of_an_account_are_refused_and_the_next_one_is_not(instance):
    waiting = [instance.asks() for _ in range(MAX_OF_ACCOUNT)]
    await instance.broker.settled()
    over = Refused(Refusal.TOO_MANY_WAITING, limit=MAX_OF_ACCOUNT)
    assert await instance.asks() == over
    await instance.do(publishes("there"))
    assert ids(await waiting.pop(0)) == ["there"]
    other = await instance.waits("bob@x")
    waiting[0].end()
    again = await instance.waits()
    for one in (*waiting, other, again):
        one.end()
    assert await instance.takes() == []


async def test_waiting_takes_are_answered_when_the_service_stops(instance):
    waiting = await instance.waits()
    await instance.broker.drain(1.0)
    assert ids(await waiting) == []


# --- with all that holds for subscribers ---


async def test_a_paused_queue_is_as_if_it_were_empty(instance):
    boss = who(BOSS, admin=True)
    await instance.do(publishes("a"))
    await instance.do(Configure(boss, JOBS, Settings({"paused": True})))
    assert await instance.takes() == []
    waiting = await instance.waits()
    await instance.do(Configure(boss, JOBS, Settings({"paused": False})))
    assert ids(await waiting) == ["a"]


async def test_priorities_delays_and_groups_hold(instance):
    await instance.do(publishes("late", delay=3600, priority=9))
    await instance.do(publishes("low"))
    await instance.do(publishes("high", priority=5))
    await instance.do(publishes("g1", "g2", group="g"))
    assert await instance.takes(count=9) == ["high", "low", "g1"]
    await instance.do(retracts(ETL, "g1"))
    assert await instance.takes(count=9) == ["g2"], "the next of the group"


async def test_no_more_is_taken_than_the_rate_lets_go(instance):
    await instance.do(a_queue(rate=0.001))
    await instance.do(publishes("a", "b"))
    assert await instance.takes(count=9) == ["a"]
    assert await instance.takes(count=9) == []


async def test_an_item_whose_delay_ends_wakes_waiting_workers(instance):
    await instance.do(publishes("a", delay=0.05))
    assert ids(await instance.asks()) == ["a"]


async def taken_and_delivered(instance, rounds):
    """Let a worker and an account work as fast as they can; return the number of items of each."""
    went = Counter()
    worker = instance.side.face.connect("worker")

    def work(words):
        if words.startswith("ITEM"):
            went["worker"] += 1
            worker.say(f"DONE jobs {words.split()[2]}")

    worker.on_words = work
    worker.say("TAKE jobs 1")
    await instance.broker.settled()
    for number in range(rounds):
        answer = instance.asks()
        await instance.do(publishes(f"{number}"))
        await instance.broker.settled()
        if not answer.done():
            await instance.do(publishes(f"{number}-again"))
        for item, _ in (await answer).items:
            went["taker"] += 1
            await instance.do(Settle(who(ETL), JOBS, (item.id,), Verb.RETRACT))
    return went


async def test_takes_of_single_items_share_with_an_idle_worker(instance):
    went = await taken_and_delivered(instance, 20)
    assert went["taker"] == 20
    assert went["worker"] >= 19, "none of its turns is passed over"


async def test_an_account_with_much_in_hand_does_not_go_ahead_of_a_worker_with_less(instance):
    await instance.do(a_queue(max_queue_requests=10))
    await instance.do(publishes(*"abcdef"))
    assert await instance.takes(count=6) == list("abcdef")
    bee = instance.side.face.connect("bee")
    bee.say("TAKE jobs 10")
    assert await bee.hear() == "OK"
    waiting = await instance.waits()
    await instance.do(publishes(*"ghijkl"))
    assert [(await bee.hear()).split()[2] for _ in "ghijkl"] == list("ghijkl")
    assert not waiting.done()
    await instance.do(publishes("m", "n"))
    assert len(ids(await waiting)) == 1


# --- crashes, and batches that come to nothing ---


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    shell.do(a_queue(lock_timeout=60))
    yield shell
    shell.close()


def test_items_locked_by_an_unanswered_take_return_at_the_timeout(shell, tmp_path):
    shell.takers.add(1)
    done = shell.batch(publishes("a"), Take(who(ETL), JOBS, number=1))
    assert [one.item.id for one in done.taken[1]] == ["a"]
    again = Shell(tmp_path / "queue.db")
    again.do(joins("bob@x/1"))
    assert again.batch(everywhere=True).deliveries == ()
    again.wait(61)
    (delivery,) = again.batch(Expire()).deliveries
    assert (delivery.to, delivery.item.failed) == ("bob@x/1", 1)
    again.close()


def test_a_window_that_a_lost_batch_has_used_is_open_again(shell):
    shell.takers.add(1)
    shell.batch(Take(who(ETL), JOBS, 2, number=1))
    lost = shell.batch(publishes("a"))
    assert list(lost.taken) == [1]
    shell.changes.forget()  # it was not committed after all
    assert list(shell.batch(publishes("b")).taken) == [1]


def test_a_window_that_a_lost_batch_has_opened_is_not_there(shell):
    shell.takers.add(1)
    shell.batch(Take(who(ETL), JOBS, number=1))
    shell.changes.forget()
    assert shell.batch(publishes("a")).taken == {}


def test_a_window_is_used_up(shell):
    shell.takers |= {1, 2}
    assert list(shell.batch(publishes("a"), Take(who(ETL), JOBS, number=1)).taken) == [1]
    assert shell.batch(publishes("b")).taken == {}
    shell.takers.discard(2)  # it went while its request was on the way
    assert shell.batch(Take(who(ETL), JOBS, number=2)).taken == {}


def test_a_take_writes_no_row_of_its_own_and_needs_no_second_commit(shell):
    shell.takers.add(1)
    before = shell.dump()
    assert shell.batch(Take(who(ETL), JOBS, number=1)).decisions[0].reply == Taken(JOBS)
    assert shell.dump() == before
    assert isinstance(shell.do(publishes("a")), type(shell.do(publishes("b"))))
    assert isinstance(shell.do(retracts(ETL, "a")), Done)


def test_abandoned_windows_do_not_accumulate(shell):
    shell.batch(*(Take(who(ETL), JOBS, number=number) for number in range(1, 200)))
    shell.batch(publishes("a"))
    assert not shell.changes.takes


def test_takes_of_many_queues_are_examined_in_slices(shell):
    names = [f"q{number}" for number in range(600)]
    for name in names:
        shell.do(a_queue(name))
    for number, name in enumerate(names, 1):
        shell.takers.add(number)
        shell.batch(Take(who(ETL), name, number=number))
    done = shell.batch(everywhere=True)
    looked = []
    while done.rest:
        looked.append(len(done.rest))
        done = shell.batch(rest=done.rest)
    assert looked, "not all of them in one batch"
    assert max(looked) <= 256


def test_an_answered_take_leaves_nothing_behind():
    takers = WaitingTakers()
    heard = []
    for _ in range(3):
        request, answer = takers.add(Take(who(ETL), JOBS), heard.append)
        answer(Taken(JOBS))
    assert takers.of(ETL) == (3, 3)
    assert request.number in takers
    takers.committed({}, {}, rest=[JOBS])
    assert heard == [], "the queue is looked at again at once"
    takers.committed({}, {}, rest=[])
    assert heard == [Taken(JOBS)] * 3
    assert (takers.of(ETL), len(takers)) == ((0, 0), 0)


def test_an_account_that_waits_often_stands_in_the_line_no_longer_than_is_asked_for():
    def nothing(_node, _account):
        return Affiliation.NONE

    windows = OpenWindows(range(100))
    for number in range(50):
        windows.open(OpenWindow(JOBS, number, who(ETL), 1, 0))
    assert (
        windows.room(
            queue(max_queue_requests=20, access_model=AccessModel.OPEN), {(JOBS, ETL): 5}, 99
        )
        == 15
    )
    line = windows.line(
        queue(max_queue_requests=20, access_model=AccessModel.OPEN), {(JOBS, ETL): 5}, 9, nothing
    )
    assert [(one.in_flight, one.end) for one in line] == [(n, n + 1) for n in range(5, 14)]
    line = windows.line(
        queue(max_queue_requests=20, access_model=AccessModel.OPEN), {(JOBS, ETL): 5}, 99, nothing
    )
    assert len(line) == 15


async def test_no_more_bytes_are_taken_than_one_item_beyond_what_there_is_room_for(instance):
    await instance.do(publishes("a", "b", "c"))
    size = (await instance.item("a")).size
    by = who(ETL)
    answer = asyncio.get_running_loop().create_future()
    instance.broker.take(
        Take(by, JOBS, 9, LONG, bytes=size + 1, span=Millis(1_000)),
        answer.set_result,
        always,
    )
    reply = await answer
    assert ids(reply) == ["a", "b"]
    now = instance.broker.now()
    assert all(item.deadline <= now + 1_000 for item, _ in reply.items)


async def test_nothing_is_delivered_to_a_requester_whose_login_is_not_valid_any_more(instance):
    valid, answers = {"etl"}, []
    take = Take(who(ETL), JOBS, 1, LONG)
    instance.broker.take(take, answers.append, lambda: "etl" in valid)
    await instance.broker.settled()
    valid.clear()
    await instance.do(publishes("a"))
    assert answers == [Refused(Refusal.NOT_TRUSTED)]
    assert ids(await instance.asks("bob@x")) == ["a"], "it was released at once"


async def test_a_wait_ends_when_the_login_does(instance):
    valid, answers = {"etl"}, []
    take = Take(who(ETL), JOBS, 1, LONG)
    instance.broker.take(take, answers.append, lambda: "etl" in valid)
    await instance.broker.settled()
    instance.broker.judge_waits_again()
    assert answers == []
    valid.clear()
    instance.broker.judge_waits_again()
    assert answers == [Refused(Refusal.NOT_TRUSTED)]
