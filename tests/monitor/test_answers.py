"""The page of a link that sends a signal, as whoever bears the link sees it."""

import re
from html import unescape

import aiohttp
import pytest
from harness.batches.facts import ANN, BOSS, JOBS, who
from harness.batches.queue_requests import a_queue, holds, publishes, retracts
from harness.operators.page_service import SERVICE, shown
from harness.patience import TIMEOUT

from pubqueue.engine.observe import Phase
from pubqueue.model.entities import ItemId, State
from pubqueue.model.records import ServiceSecret
from pubqueue.monitor.answers import MAX_NOTE, OVER, THANKS, USED
from pubqueue.rules.inspect import Peek
from pubqueue.rules.signal_links import SECRET, MakeSignalLink
from pubqueue.rules.take import Take

ODD = "<script>alert(1)</script>&\"'{title}"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
async def service():
    async with shown(users=()) as found:
        await found.do(a_queue(), publishes("a"))
        yield found


@pytest.fixture
async def browser():
    timeout = aiohttp.ClientTimeout(TIMEOUT)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        yield session


async def is_held(service, *names):
    """Take the item, and let it wait."""
    (taken,) = await service.do(Take(who(ANN), JOBS))
    ((item, _),) = taken.items
    await service.do(holds(ANN, "a", *names, token=item.token))


async def made(service, name="yes", once="1"):
    """Return the address of a link."""
    proposed = ServiceSecret(SECRET, b"s" * 32)
    request = MakeSignalLink(who(BOSS), JOBS, ItemId("a"), name, once, proposed)
    return f"{service.place}{(await service.do(request))[0].path}"


async def asked(browser, method, url, **words):
    async with browser.request(method, url, **words) as answer:
        return answer.status, answer.headers, unescape(await answer.text())


async def item(service):
    return (await service.do(Peek(SERVICE, JOBS, ItemId("a"))))[0].item


async def test_to_open_a_link_does_nothing_and_its_button_sends_the_signal_once(service, browser):
    await is_held(service, "yes")
    url = await made(service)
    for method in ("HEAD", "GET", "GET"):
        status, headers, text = await asked(browser, method, url)
        assert status == 200
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "“yes”" in text
    assert (await item(service)).state is State.HELD
    status, _, text = await asked(browser, "POST", url, data={"note": "fine,\u00e9"})
    assert (status, THANKS in text) == (200, True)
    (came,) = (await item(service)).wait.came
    assert (came.name, came.data, came.by) == ("yes", '"fine,\u00e9"', "boss@x")
    status, _, text = await asked(browser, "POST", url)
    assert (status, USED in text) == (410, True)
    assert len((await item(service)).wait.came) == 1


async def test_the_other_links_of_a_question_are_over_with_its_answer(service, browser):
    yes, no = await made(service, "yes", "1"), await made(service, "no", "2")
    await is_held(service, "yes", "no")
    assert (await asked(browser, "POST", yes))[0] == 200
    status, _, text = await asked(browser, "POST", no)
    assert (status, OVER in text) == (410, True)
    await is_held(service, "no")  # another question
    assert (await asked(browser, "POST", no))[0] == 410
    assert (await item(service)).state is State.HELD


async def test_an_answer_that_is_quicker_than_the_hold_counts(service, browser):
    url = await made(service)
    assert (await asked(browser, "POST", url))[0] == 200
    await is_held(service, "yes")
    assert (await item(service)).state is State.QUEUED


async def test_a_link_to_what_is_gone_is_over(service, browser):
    url = await made(service)
    await service.do(retracts(BOSS, "a"))
    status, _, text = await asked(browser, "POST", url)
    assert (status, OVER in text, "a" * 9 in text) == (410, True, False)


async def test_names_are_text_wherever_they_stand(service, browser):
    url = await made(service, ODD)
    async with browser.get(url) as answer:
        text = await answer.text()
    assert "<script" not in text
    assert ODD in unescape(text)
    assert re.findall(r"<(\w+)", text).count("form") == 1


@pytest.mark.parametrize("text", ["x", "A" * 60, "A" * 8_500, "%00", "..%2f", "%FF"])
async def test_a_text_that_is_no_link_asks_no_store(service, browser, text, monkeypatch):
    await made(service)
    await asked(browser, "GET", f"{service.place}/answer/x")  # it knows the secret now
    monkeypatch.setattr(service.broker, "handle", None)
    for method in ("GET", "POST"):
        status, _, shown = await asked(browser, method, f"{service.place}/answer/{text}")
        assert (status in {400, 404, 414}, "Send" in shown) == (True, False)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ({"data": {"note": "x" * (MAX_NOTE + 1)}}, 400),
        ({"data": b"note=%FF", "headers": FORM}, 400),
        ({"data": b"x" * 300_000, "headers": FORM}, 413),
        ({"json": {"note": "x"}}, 415),
    ],
)
async def test_a_form_that_cannot_be_read_sends_nothing(service, browser, words, status):
    await is_held(service, "yes")
    url = await made(service)
    assert (await asked(browser, "POST", url, **words))[0] == status
    assert (await item(service)).state is State.HELD
    assert (await asked(browser, "POST", url))[0] == 200


async def test_while_the_service_is_at_rest_its_bearer_is_asked_to_wait(service, browser):
    url = await made(service)
    service.monitor.at_rest(Phase.STARTING)
    status, headers, text = await asked(browser, "POST", url)
    assert (status, headers["Cache-Control"], "later" in text) == (503, "no-store", True)
