"""What docs/how-to/hold.md says, done with the service in the process; and the item that a handler holds, without one."""

import re
from datetime import timedelta

import pytest
from harness.documents.documented import ROOT, blocks_of

from pubqueue import Handlers, Hold, Publisher, Refused, Signaled
from pubqueue.testing import Service, make_item
from pubqueue_xeps.wire.waits import Signal

PAGE = ROOT / "docs/how-to/hold.md"


@pytest.fixture
def page():
    """Return what the page defines; its own functions note what they did."""
    did: list[str] = []

    async def send_mail(item):
        did.append(f"mail about {item.id}")

    async def ship(item):
        did.append(f"ship {item.id}")

    names = {"send_mail": send_mail, "ship": ship, "did": did}
    for block in blocks_of(PAGE):
        if block.language == "python":
            exec(compile(block.text, str(PAGE), "exec"), names)
    return names


async def test_its_own_test_passes(page):
    await page["test_an_order_that_is_approved"]()
    assert page["did"] == ["mail about o1", "ship o1"]


async def test_the_answer_comes_from_a_publisher_and_counts_once(page, monkeypatch):
    with Service() as service:
        service.create("orders")
        service.publish("orders", {"seats": 2}, id="o1")
        monkeypatch.setenv("PUBQUEUE_URL", service.url("ann"))
        monkeypatch.setenv("PUBQUEUE_PASSWORD", service.password)
        with pytest.raises(Refused, match="forbidden"):
            await page["approve"]("o1")  # another account has published it
        async with Publisher() as publisher:
            await publisher.publish("orders", {"seats": 2}, id="o2")
            await service.work(page["order"], node="orders")
            first = await publisher.signal("orders", "o2", "approved", signal_id="mail-17")
            assert first == Signaled("orders", "o2", "mail-17", "queued")
            with pytest.raises(Refused, match="forbidden"):  # nor is it said which items exist
                await publisher.signal("orders", "o9", "approved")
            links = await page["links"]("o2")
            form = r"https://queue\.example\.org/answer/[\w-]{60,}"
            assert [bool(re.fullmatch(form, link)) for link in links] == [True, True]
            with pytest.raises(Refused, match="forbidden"):
                await publisher.signal_link("orders", "o9", "approved", at="https://q.example")
            with pytest.raises(Refused, match="within"):
                await publisher.signal_link(
                    "orders", "o2", "approved", at="", within=timedelta(days=31)
                )
        await page["approve"]("o2")
        await service.work(page["order"], node="orders")
        assert page["did"] == ["mail about o1", "mail about o2", "ship o2"]


async def test_nobody_answers(page):
    with Service() as service:
        service.create("orders")
        service.publish("orders", {"seats": 2}, id="o1")
        await service.work(page["order"], node="orders")
        (kept,) = service.items("orders")
        assert (kept.state, kept.due_in) == ("held", 2 * 86400)
        service.advance(timedelta(days=2))
        await service.work(page["order"], node="orders")
        (kept,) = service.items("orders")
        assert (kept.state, kept.reason) == ("dead", "nobody approved it")


async def test_a_blocking_handler_holds_too():
    seen = []

    def handle(item):
        seen.append((item.woken, item.carried, [one.data for one in item.signals]))
        return None if item.woken else Hold("go", carry={"n": 1})

    handlers = Handlers()
    handlers.handler()(handle)
    with Service() as service:
        service.create("orders")
        service.publish("orders", {}, id="o1")
        await service.work(handlers, node="orders")
        service.signal("orders", "o1", "go", [1, 2])
        await service.work(handlers, node="orders")
        assert service.done("orders") == ["o1"]
    assert seen == [(None, None, []), ("signal", {"n": 1}, [[1, 2]])]


async def test_an_item_without_a_service(page):
    asked = make_item({"seats": 2}, id="o1", node="orders")
    async with asked:
        await asked.respond(await page["order"](asked))
    assert (asked.state, asked.outcome.type) == ("unlocked", "hold")
    assert (asked.outcome.signals, asked.outcome.within) == (("approved", "refused"), 2 * 86400)
    came = Signal("approved", "s1", "", "ann@localhost", None)
    answered = make_item(woken="signal", signals=[came], carried={"step": "asked"})
    assert (await page["order"](answered)).then == "dead"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, ValueError),
        ({"signals": "a", "then": "sometime"}, ValueError),
        ({"signals": ["a\n"]}, ValueError),
        ({"signals": "a", "carry": object()}, TypeError),
        ({"signals": "a", "carry": "x" * 16384}, ValueError),
    ],
)
def test_a_hold_that_cannot_be_sent_is_refused_where_it_is_made(given, error):
    with pytest.raises(error):
        Hold(**given)


async def test_an_account_that_has_no_such_item_is_told():
    with Service() as service:
        service.create("orders")
        with pytest.raises(LookupError):
            service.signal("orders", "o9", "go")
