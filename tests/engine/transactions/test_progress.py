"""Whoever asks for a commit that goes in slices is told at once how far it is, and its end when it has one."""

import asyncio

import pytest
from harness.batches.facts import ANN, NOW
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.batches.transactions import commits, committed, in_slices, refusal, stages
from harness.batches.witness import WatchedFace

from pubqueue.engine import reader
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Payloads, Terms
from pubqueue.engine.reader import LongWork
from pubqueue.model.decision import Decision, Refusal
from pubqueue.model.transactions import AtWork, Committed, Phase
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.commit import LookAtWinners
from pubqueue.stores.sqlite.in_memory import Memory, MemoryStore

ITEMS = 6
WINNERS = ((0, 0, ITEMS),)
JUDGING, MOVING = Phase.JUDGING, Phase.MOVING


@pytest.fixture
def looks(monkeypatch):
    """The slices in which winners are judged."""
    found = []
    original = LongWork.go_on

    def go_on(self, decision, answer):
        if isinstance(decision.then, LookAtWinners) and decision.then.after is not None:
            found.append(decision.then.after)
        return original(self, decision, answer)

    monkeypatch.setattr(LongWork, "go_on", go_on)
    return found


@pytest.fixture
async def ask(monkeypatch, looks):
    """Submit a request to a broker whose commits go in slices of one item, of which some are staged; await the answer."""
    in_slices(monkeypatch)
    store = MemoryStore(Memory())
    await store.open()
    broker = Broker(
        store, Terms(CreationPolicy.ANYONE), clock=lambda: NOW, payloads=Payloads(bytes.__eq__)
    )
    face = WatchedFace(broker, [])
    broker.start()
    face.up()

    async def ask(request):
        answered = asyncio.get_running_loop().create_future()
        broker.submit(request, answered.set_result)
        return await answered

    ask.broker = broker
    await ask(a_queue())
    for number in range(ITEMS):
        await ask(stages(f"i{number}"))
    yield ask
    await broker.stop()
    await store.close()


def patient(*parts, **more):
    return commits(*(parts or WINNERS), progress=True, **more)


async def until_done(ask, request):
    """Return all answers; each is for a request of its own."""
    answers = [await ask(request)]
    while isinstance(answers[-1], AtWork):
        answers.append(await ask(request))
    return answers


async def test_the_answers_advance_through_both_halves_to_the_result(ask, looks):
    *progress, end = await until_done(ask, patient())
    assert progress[0] == AtWork(1, JUDGING, 0, ITEMS)
    assert end == committed(ITEMS)
    places = [(it.phase is MOVING, it.done) for it in progress]
    assert places == sorted(places)
    assert {it.phase for it in progress} == {JUDGING, MOVING}
    assert {it.of for it in progress} == {ITEMS}
    assert len(looks) == ITEMS, "the winners were judged once, however often it was asked"


async def test_another_connection_of_the_account_joins(ask, looks):
    await ask(patient())
    *_, end = await until_done(ask, patient(by="etl@x/elsewhere"))
    assert end == committed(ITEMS)
    assert len(looks) == ITEMS


async def test_a_requester_that_waits_joins_too(ask, looks):
    results = await asyncio.gather(ask(commits(*WINNERS)), ask(commits(*WINNERS)))
    assert results == [committed(ITEMS)] * 2
    assert len(looks) == ITEMS


async def test_the_result_is_told_again_to_whoever_lost_the_answer(ask):
    *_, end = await until_done(ask, patient())
    assert await ask(patient()) == end == committed(ITEMS)
    assert await ask(commits(*WINNERS)) == committed(ITEMS, already=True)
    assert await ask(patient((0, 7, 1))) == committed(ITEMS, already=True), "another attempt"


async def test_a_small_commit_is_answered_with_its_result(ask, monkeypatch):
    in_slices(monkeypatch, 1)
    monkeypatch.setattr("pubqueue.engine.facts.transactions.MAX_WINNERS", ITEMS)
    assert await ask(patient()) == committed(ITEMS)
    assert await ask(patient()) == committed(ITEMS, already=True)


async def test_a_refusal_is_told_once_and_then_found_out_anew(ask, looks):
    await ask(joins(ANN))
    await ask(publishes("i3"))
    await ask(stages("i3", payload=b"<other/>"))
    for round_ in (1, 2):
        *_, end = await until_done(ask, patient())
        assert refusal(end) is Refusal.ITEM_LOCKED
        assert len(looks) == round_ * ITEMS


async def test_a_refusal_that_nobody_asked_for_is_forgotten(ask, looks, monkeypatch):
    await ask(joins(ANN))
    await ask(publishes("i3"))
    await ask(stages("i3", payload=b"<other/>"))
    await ask(patient())
    await ask.broker.settled()
    monkeypatch.setattr(reader, "STALE_AFTER", -1.0)
    assert await ask(patient()) == AtWork(1, JUDGING, 0, ITEMS)
    await ask.broker.settled()
    assert len(looks) == 2 * ITEMS


async def test_of_the_outcomes_the_last_are_kept(ask, monkeypatch):
    monkeypatch.setattr(reader, "KEPT_OUTCOMES", 2)
    await until_done(ask, patient())
    for version in (2, 3, 4):
        await ask(stages(f"v{version}", version=version))
        await until_done(ask, patient((0, 0, 1), version=version))
    runs = ask.broker._long_work.commits.runs
    assert [version for _, version, *_ in runs] == [3, 4]


def test_an_outcome_is_not_kept_longer_than_the_mark_in_the_store():
    runs, answers = reader.CommitRuns(), []
    undecided = Decision(None, then=LookAtWinners(patient()))
    run = runs.join(undecided, answers.append)
    done = Committed(1, ITEMS, 0, already=False)
    run(done)
    assert runs.join(Decision(done, then=LookAtWinners(patient())), answers.append) is None
    assert answers.pop() == done
    again = runs.join(undecided, answers.append)
    assert again not in {None, run}, "the store has forgotten the version, so it is judged again"
    assert isinstance(answers.pop(), AtWork)


async def test_nobody_joins_the_commit_of_another_account(ask):
    await ask(patient())
    assert refusal(await ask(patient(by="eve@x/1"))) is Refusal.FORBIDDEN
    assert isinstance((await until_done(ask, patient()))[-1], Committed)
