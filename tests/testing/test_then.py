"""What docs/how-to/then.md says, done with the service in the process: follow-ups are there when their item is done, and only then."""

import asyncio
import re
from contextlib import suppress
from dataclasses import replace

import pytest
from harness.batches.inside import session_of
from harness.documents.documented import ROOT, blocks_of

from pubqueue import (
    Failed,
    FollowUp,
    FollowUpRefused,
    Handlers,
    Hold,
    Publisher,
    Refused,
    Then,
    Worker,
)
from pubqueue.testing import Service, make_item, make_items
from pubqueue_xeps.wire.refusals import Verdict
from pubqueue_xeps.wire.then import MAX_FOLLOW_UPS
from pubqueue_xeps.worker.dispatcher import in_threads

PAGE = ROOT / "docs/how-to/then.md"


@pytest.fixture
def page():
    names = {}
    for block in blocks_of(PAGE):
        if block.language == "python":
            exec(compile(block.text, str(PAGE), "exec"), names)
    return names


@pytest.fixture
def service():
    with Service() as service:
        for node in ("orders", "bills", "mails"):
            service.create(node, backoff_min=0)
        yield service


def worker(service, **settings):
    return Worker(**service.account(), **{"node": "orders", "signals": ()} | settings)


def there(service, node):
    return [(kept.id, kept.headers.get("parent")) for kept in service.items(node)]


async def test_its_own_test_passes(page):
    await page["test_an_order_that_is_done"]()


async def test_the_follow_ups_are_there_with_all_that_a_publish_has(page, service):
    service.publish("orders", {"customer": "ann"}, id="o1")
    await service.work(page["pack"], node="orders")
    assert service.done("orders") == ["o1"]
    (bill,), (mail,) = service.items("bills"), service.items("mails")
    assert bill.headers == mail.headers == {"parent": "orders/o1"}
    assert (bill.state, mail.state, mail.due_in) == ("queued", "delayed", 60)
    assert re.fullmatch(r"orders/o1/[0-9]+/then-1", bill.id)
    assert mail.id == bill.id[:-1] + "2"


async def test_the_saga_takes_back_what_was_done(page, service):
    for node in ("steps", "undo"):
        service.create(node)
    service.publish("orders", {}, id="o1")
    for name, signal in (("reserve", "done"), ("check", "done"), ("pay", "failed")):
        await service.work(page["order"], node="orders")
        service.signal("orders", "o1", signal, signal_id=name)
    await service.work(page["order"], node="orders")
    assert service.done("orders") == ["o1"]
    undone = [re.search(rb'"step":"(\w+)"', kept.payload)[1] for kept in service.items("undo")]
    assert undone == [b"check", b"reserve"]
    assert len(service.items("steps")) == 3


async def test_what_is_done_again_has_the_same_follow_ups_but_a_further_step_has_others():
    first, again = make_item(id="o1", node="orders"), make_item(id="o1", node="orders")
    again.lock = replace(first.lock, token=2)
    for hold in (None, Hold("go")):
        for item in (first, again):
            with suppress(Verdict):
                await item.respond(Then(FollowUp("bills", 1), hold=hold))
    (done, step), (done_again, other_step) = (
        [one.id for one in item.follow_ups] for item in (first, again)
    )
    assert done == done_again
    assert len({done, step, other_step}) == 3


@pytest.mark.parametrize(("hold", "name"), [(None, "then-2"), (Hold("go"), "hold-[0-9]+-2")])
async def test_a_refused_follow_up_refuses_all_and_says_which(service, hold, name):
    service.publish("orders", 1, id="o1")

    async def handle(item):
        return Then(FollowUp("bills", 1), FollowUp("nowhere", 2), FollowUp("mails", 3), hold=hold)

    app = Handlers()
    app.handler(retries=1)(handle)
    await service.work(app, node="orders")
    (kept,) = service.items("orders")
    assert (kept.state, kept.attempts) == ("dead", 2)
    assert re.fullmatch(
        rf"FollowUpRefused: Follow-up 2 of 'o1', 'orders/o1/[0-9]+/{name}' to 'nowhere', was refused:"
        r" item-not-found\. \(failed 2 times\)",
        kept.reason,
    )
    assert service.items("bills") == service.items("mails") == []


async def test_the_lock_stays_after_a_refusal(service):
    service.publish("orders", 1, id="o1")
    async with worker(service) as bot:
        async for item in bot:
            with pytest.raises(FollowUpRefused, match="Follow-up 1 of 'o1'") as refused:
                await item.retract(Then(FollowUp("nowhere", 1)))
            error = refused.value
            assert (error.number, error.node, error.condition) == (1, "nowhere", "item-not-found")
            assert item.state == "in hand"
            await item.touch()
            await item.retract(Then(FollowUp("bills", 1, id="b1")))
            await item.retract()  # it is done: a repetition changes nothing
            assert item.state == "retracted"
            break
    assert there(service, "bills") == [("b1", "orders/o1")]


async def test_a_lost_lock_publishes_nothing(service):
    service.publish("orders", 1, id="o1")
    async with worker(service) as bot:
        async for item in bot:
            service.retract("orders", "o1")
            await session_of(bot).ask_time()
            async with item:
                await item.respond(Then(FollowUp("bills", 1)))
            assert item.state == "lost"
            break
    assert service.items("bills") == []


async def test_a_reply_is_in_the_same_commit(service):
    async with Publisher(**service.account("ann")) as publisher, worker(service) as bot:
        asking = asyncio.create_task(publisher.ask("orders", 1))
        async for item in bot:
            async with item:
                await item.respond(Then(FollowUp("bills", 1), reply={"total": 12}))
            break
        assert (await asking).data == {"total": 12}
    assert len(service.items("bills")) == 1


async def test_a_plain_function_and_a_batch_have_follow_ups_and_holds(service):
    def single(item):
        return Then(FollowUp("bills", item.id))

    def several(items):
        for item in items:
            match item.data, item.woken:
                case "then", _:
                    items.settle(item, Then(FollowUp("mails", item.id)))
                case "hold", None:
                    items.settle(item, Hold("go"))
                case "fail", _:
                    items.settle(item, Failed("no"))

    app = Handlers()
    app.handler(node="orders")(single)
    app.handler(node="many", batch=4, within=0.05, retries=0)(several)
    service.create("many", backoff_min=0)
    service.publish("orders", 1, id="o1")
    for name in ("then", "hold", "fail", "done"):
        service.publish("many", name, id=name)
    await service.work(app, node=("orders", "many"), requests=4)
    assert [one[1] for one in there(service, "bills") + there(service, "mails")] == [
        "orders/o1",
        "many/then",
    ]
    assert sorted(service.done("many")) == ["done", "then"]
    assert {kept.id: kept.state for kept in service.items("many")} == {
        "hold": "held",
        "fail": "dead",
    }


@pytest.mark.parametrize("result", [Then(FollowUp("bills", 1)), Hold("go")])
async def test_a_batch_that_returns_what_is_of_one_item_fails(service, result):
    async def several(items):
        return result

    app = Handlers()
    app.handler(batch=2, within=0.05, retries=0)(several)
    service.publish("orders", 1, id="o1")
    await service.work(app, node="orders")
    (kept,) = service.items("orders")
    assert (kept.state, kept.reason) == ("dead", "TypeError (failed once)")
    assert service.items("bills") == []


async def test_an_older_service_is_not_sent_any(service):
    service.publish("orders", 1, id="o1")
    async with worker(service) as bot:
        session_of(bot).follows = False
        async for item in bot:
            with pytest.raises(Refused, match="does not know urn:x-pubqueue:0#then"):
                await item.retract(Then(FollowUp("bills", 1)))
            with pytest.raises(Refused, match="does not know urn:x-pubqueue:0#then"):
                await item.respond(Then(FollowUp("bills", 1), hold=Hold("go")))
            break
    assert service.items("bills") == []
    assert [kept.id for kept in service.items("orders")] == ["o1"]


async def test_no_follow_ups_are_an_ordinary_end(service):
    service.publish("orders", 1, id="o1")

    async def handle(item):
        return Then()

    await service.work(handle, node="orders")
    assert service.done("orders") == ["o1"]


async def test_an_item_without_a_service(page):
    item = make_item({"customer": "ann"}, id="o1", node="orders")
    async with item:
        await item.respond(await page["pack"](item))
    assert (item.state, item.outcome) == ("retracted", None)
    assert [(one.node, one.payload, one.priority, one.delay) for one in item.follow_ups] == [
        ("bills", {"to": "ann"}, 3, None),
        ("mails", {"to": "ann"}, None, 60),
    ]
    assert item.follow_ups[0].headers == {"parent": "orders/o1"}
    held = make_item(id="o2", node="orders")
    async with held:
        await held.respond(await page["order"](held))
    assert (held.state, held.outcome.signals) == ("unlocked", ("done", "failed"))
    assert held.follow_ups[0].payload == {"order": "o2", "step": "reserve"}
    one, other = make_items(make_item(), make_item())
    async with make_items(one, other) as items:
        items.settle(one, Then(FollowUp("bills", 1)))
        items.settle(other, Hold("go"))
    assert (one.state, len(one.follow_ups)) == ("retracted", 1)
    assert (other.state, other.outcome.type) == ("unlocked", "hold")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Then({"a": 1}), TypeError),
        (lambda: Then(hold="go"), TypeError),
        (lambda: Then(*[FollowUp("n", 1)] * (MAX_FOLLOW_UPS + 1)), ValueError),
    ],
)
def test_what_is_no_follow_up_is_refused_where_it_is_made(make, error):
    with pytest.raises(error):
        make()


@pytest.mark.parametrize(
    ("one", "error", "words"),
    [
        (FollowUp("bills", object()), TypeError, "has no form in JSON"),
        (FollowUp("bills", "x" * 220_000), ValueError, "may have 220000"),
        (FollowUp("bills", 1, priority=1.5), ValueError, "priority"),
        (FollowUp("bills", 1, group=""), ValueError, "group is empty"),
        (FollowUp("bills", 1, id=""), ValueError, "id is ''"),
        (FollowUp("bills", 1, headers=["a"]), TypeError, "headers are a mapping"),
        (FollowUp("bi\nlls", 1), ValueError, "node's name"),
    ],
)
async def test_one_that_cannot_be_sent_is_a_failure_of_the_handler(one, error, words):
    with pytest.raises(error, match=words):
        await make_item().respond(Then(one))


async def test_a_held_item_is_not_deleted():
    with pytest.raises(ValueError, match="not deleted"):
        await make_item().retract(Then(hold=Hold("go")))


async def test_a_worker_of_plain_functions_ends_its_items_so_too(service):
    service.publish("orders", 1, id="o1")
    with in_threads(lambda item: Then(FollowUp("bills", item.id)), 1) as handle:
        await service.work(handle, node="orders")
    assert service.done("orders") == ["o1"]
    assert [one[1] for one in there(service, "bills")] == ["orders/o1"]
