"""Requests that wait: who hangs up loses nothing, all are served in turn, and each message wakes one."""

import asyncio

import pytest
from faces.rest.clients import client, follow, served
from faces.rest.star.steps import post, settle, take
from harness.batches.facts import NOW
from harness.patience import turns, until

from pubqueue.testing.engine import Calendar


async def waiting_takes(rest, count, name="bee", **headers):
    """Begin so many requests that wait, each on a connection of its own."""
    clients = [client(rest.root, name) for _ in range(count)]
    headers = headers or {"Accept_Wait": "50"}
    before = rest.face.waiting.count
    tasks = [asyncio.create_task(take(one, **headers)) for one in clients]
    await until(lambda: rest.face.waiting.count == before + count)
    return clients, tasks


async def test_ids_of_one_millisecond_have_an_order(rest, monkeypatch):
    monkeypatch.setattr(rest.broker, "now", lambda: NOW)
    made = [rest.face.new_id() for _ in range(300)]
    assert made == sorted(made)
    assert len(set(made)) == 300


async def test_a_client_that_hangs_up_gets_nothing_and_the_next_one_does(rest):  # R26, W15
    etl, ann = await rest.as_(), await rest.as_("ann")
    (gone,), (task,) = await waiting_takes(rest, 1)
    task.cancel()
    await gone.aclose()
    await until(lambda: not rest.face.waiting.count)
    await post(etl, b"a")
    message = await take(ann)
    assert (message.content, message.headers["Message-Attempt"]) == (b"a", "1")


async def test_an_item_locked_to_a_worker_that_left_is_requeued_without_a_failure(rest):  # R26, W15
    etl, ann = await rest.as_(), await rest.as_("ann")
    for _ in range(20):  # whichever comes first, the message or the end of the connection
        (gone,), (task,) = await waiting_takes(rest, 1)
        posting = asyncio.create_task(post(etl, b"a"))
        task.cancel()
        await gone.aclose()
        await posting
        message = await take(ann, Accept_Wait="20")
        assert message.status_code == 200
        assert "Message-Failed" not in message.headers
        assert (await settle(ann, message)).status_code == 204


async def test_each_message_goes_to_one_waiting_client(rest):  # W16
    etl = await rest.as_()
    clients, tasks = await waiting_takes(rest, 3)
    await post(etl, b"0")
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert [task.done() for task in tasks].count(True) == 1
    for body in (b"1", b"2"):
        await post(etl, body)
    assert sorted([(await task).content for task in tasks]) == [b"0", b"1", b"2"]
    for one in clients:
        await one.aclose()


async def test_accounts_that_wait_are_served_in_turn(rest):  # W16
    etl = await rest.as_()
    counts = {"bee": 0, "ann": 0, "eva": 0}

    async def work(name):
        worker = await rest.as_(name)
        while True:
            message = await take(worker, Accept_Wait="50")
            assert message.status_code == 200
            counts[name] += 1
            assert (await settle(worker, message)).status_code == 204

    working = [asyncio.create_task(work(name)) for name in counts]
    for number in range(60):
        await until(lambda: rest.face.waiting.count == len(counts))
        await post(etl)
        await until(lambda: sum(counts.values()) == number + 1)  # noqa: B023  # it is awaited here
    for task in working:
        task.cancel()
    assert min(counts.values()) >= 10, counts


async def test_a_paused_queue_is_as_if_it_were_empty(rest):
    await rest.make("still", paused=True)
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl, path="/queues/still")
    assert (await take(bee, "/queues/still")).status_code == 503


@pytest.mark.parametrize(
    ("nothing", "headers"),
    [(503, {"Retry-After"}), (202, {"Location", "Retry-After"}), (204, set())],
)
async def test_a_timeout_is_reported_as_configured(nothing, headers):  # R25
    async with served(nothing=nothing) as rest:
        await rest.make("jobs")
        bee = await rest.as_("bee")
        for how in ({}, {"Accept_Wait": "0.01"}, {"Prefer": "wait=0.01"}):
            answer = await take(bee, **how)
            assert answer.status_code == nothing
            assert headers <= {name.title() for name in answer.headers}
        if "Location" in headers:
            assert answer.headers["Location"] == await follow(bee, "/queues/jobs", "poller")


async def test_an_account_holds_as_much_as_the_queue_allows(rest):
    await rest.make("few", max_queue_requests=2)
    etl, bee, ann = [await rest.as_(name) for name in ("etl", "bee", "ann")]
    for _ in range(4):
        await post(etl, path="/queues/few")
    first, _ = [await take(bee, "/queues/few") for _ in range(2)]
    full = await take(bee, "/queues/few")
    assert (full.status_code, full.headers["Retry-After"]) == (429, "1")
    assert full.json()["limit"] == 2
    assert (await take(ann, "/queues/few")).status_code == 200
    assert (await settle(bee, first)).status_code == 204
    assert (await take(bee, "/queues/few")).status_code == 200


async def test_no_more_requests_wait_than_may():
    async with served(max_waiting=3, max_waiting_of_account=2) as rest:
        await rest.make("jobs")
        clients, tasks = await waiting_takes(rest, 2)
        mine = await take(await rest.as_("bee"), Accept_Wait="9")
        assert (mine.status_code, mine.json()["limit"]) == (429, 2)
        more, others = await waiting_takes(rest, 1, "ann")
        all_ = await take(await rest.as_("eva"), Accept_Wait="9")
        assert (all_.status_code, all_.json()["limit"]) == (429, 3)
        assert (await take(await rest.as_("eva"))).status_code == 503, "it does not wait"
        rest.face.waiting.end()
        for answer in await asyncio.gather(*tasks, *others):
            assert (answer.status_code, answer.headers["Connection"]) == (503, "close")
        for one in (*clients, *more):
            await one.aclose()


async def test_a_message_without_an_acknowledgement_goes_to_the_next_client():  # R23
    async with served(calendar=Calendar()) as rest:
        await rest.make("soon", lock_timeout=1)
        etl, bee, ann = [await rest.as_(name) for name in ("etl", "bee", "ann")]
        await post(etl, b"a", path="/queues/soon")
        first = await take(bee, "/queues/soon")
        waiting = asyncio.create_task(take(ann, "/queues/soon", Accept_Wait="30"))
        await until(lambda: rest.broker.waiting.takes)
        rest.side.advance(0.999)
        await turns(100)
        assert not waiting.done()
        rest.side.advance(0.001)
        second = await waiting
        assert second.content == b"a"
        assert (second.headers["Message-Attempt"], second.headers["Message-Failed"]) == ("2", "1")
        assert (await settle(bee, first)).status_code == 412
        assert (await settle(ann, second)).status_code == 204


async def test_what_fails_too_often_or_is_rejected_is_a_dead_letter_with_its_body(rest):  # W12
    await rest.make("dead")
    await rest.make("work", dead_letter_node="dead", max_failures=1)
    etl, bee = await rest.as_(), await rest.as_("bee")
    for verdict in ("outcome=failed&reason=no+seat", "outcome=reject"):
        body = verdict.encode() + b"\0"
        await post(etl, body, "image/png", path="/queues/work")
        message = await take(bee, "/queues/work")
        assert (await settle(bee, message, f"acknowledge=false&{verdict}")).status_code == 204
        letter = await take(bee, "/queues/dead", Accept_Wait="20")
        assert (letter.content, letter.headers["Content-Type"]) == (body, "image/png")
        assert (await settle(bee, letter)).status_code == 204
