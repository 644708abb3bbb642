"""The page in a browser: it can be used by keyboard, on a phone, in the dark, and whatever stands in a queue is only text.

What its console complains of, and a request to another host, fails each of these tests (`harness.operators.browser`).
"""

import click
import pytest
from harness.batches.facts import ANN, JOBS, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.machines.packaged import needs
from harness.operators.browser import CHANGE, DESKTOP, LOOK, PHONE, log_in, shows, visit
from harness.operators.page_service import SERVICE, shown
from harness.operators.sampled_hour import an_hour

from pubqueue.cli import main
from pubqueue.model.entities import ItemId, Jid, NodeName
from pubqueue.rules.inspect import Peek
from pubqueue.rules.read import ReadItems
from pubqueue.rules.settle import Outcome, Settle, Verb

pytestmark = needs("chromium")
HOSTILE = """"'><script>alert(1)</script><img src=x onerror=alert(2)>&lt;{{7*7}}{% raw %}"""


def fails(jid, name, reason, node=JOBS):
    said = {"outcome": Outcome.REJECT, "reason": reason}
    return Settle(who(jid), node, (ItemId(name),), Verb.UNLOCK, **said)


async def tab_to(page, name, most=60):
    """Press Tab until the link or button of that name has the focus."""
    for _ in range(most):
        await page.keyboard.press("Tab")
        if (await page.evaluate("document.activeElement.textContent")).strip() == name:
            return
    raise AssertionError(f"no way to {name} by keyboard")


async def test_a_wrong_token_is_refused_and_the_right_one_logs_in(service, browser):
    await service.do(a_queue(), publishes("a"))
    async with visit(browser) as page:
        await page.goto(f"{service.place}/ui/queue?node=jobs")
        await page.fill("#password", "wrong")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("[role=alert]:text-is('Wrong name, password or token.')")
        await page.wait_for_selector("#password:focus")
        await page.fill("#password", LOOK)
        await page.keyboard.press("Enter")
        await page.wait_for_selector("h1:has-text('jobs')")
        assert "looker, read-only" in await page.inner_text("header")
        await page.click("text=Log out")
        await page.wait_for_selector("h1:text-is('Log in')")


async def test_by_keyboard_alone_one_logs_in_finds_a_queue_pauses_it_and_is_asked_before(
    service, browser
):
    await service.do(a_queue(), a_queue(NodeName("other")), publishes("a"))
    async with visit(browser) as page:
        await page.goto(service.place)
        await page.wait_for_selector("#name:focus")
        await page.keyboard.press("Tab")  # a token has no name
        await page.keyboard.type(CHANGE)
        await page.keyboard.press("Enter")
        await shows(page, "h1:text-is('Queues')")
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.className") == "skip"
        await tab_to(page, "jobs")
        await page.keyboard.press("Enter")
        await shows(page, "h1:has-text('jobs')")
        await tab_to(page, "Pause…")
        await page.keyboard.press("Enter")
        await shows(page, "text=Pause deliveries of jobs until you resume it?")
        await tab_to(page, "Yes, pause it")
        await page.keyboard.press("Enter")
        await shows(page, "[role=status].note")
        assert await page.inner_text("[role=status].note") == "jobs is paused."
        assert await page.inner_text(".facts .tag") == "paused"
        await tab_to(page, "Resume…")
        await page.keyboard.press("Enter")
        await shows(page, "text=No, go back")  # a key into a page that is going is lost
        await tab_to(page, "No, go back")
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".tag.off")


async def test_plots_have_their_numbers_in_words(service, browser):
    await service.do(a_queue(), publishes("a"))
    await an_hour(service, JOBS)
    async with visit(browser) as page:
        await log_in(page, service.place, LOOK)
        assert "Waiting from " in await page.get_attribute("svg.small", "aria-label")
        await page.click("#row1")
        await shows(page, "h1:has-text('jobs')")
        titles = await page.locator("figcaption").all_inner_texts()
        assert titles == ["Items in the queue", "Items per minute", "From publish to done"]
        words = await page.locator("svg.plot title").all_text_contents()
        assert "waiting: last 1, most 39" in words[0]
        assert "published: last 0, most 8" in words[1]
        assert "longest: last " in words[2]
        assert await page.locator("svg.plot path").count() == 10
        await page.click("text=6 hours")
        await page.wait_for_selector("h2:text-is('The last 6 hours')")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [PHONE, DESKTOP])
async def test_every_page_fits_and_can_be_read(service, browser, dark, size):
    node, long = JOBS, "long-" * 40
    await service.do(a_queue(node, dead_letter_node=""), a_queue(NodeName(long)))
    await service.do(publishes("a", "b", long), joins(ANN, 1))
    await service.do(fails(ANN, "a", "a reason " * 30), publishes("x", node=NodeName(long)))
    await an_hour(service, node)
    async with visit(browser, viewport=size, dark=dark) as page:
        await page.goto(service.place)
        await fits(page)
        await log_in(page, service.place, CHANGE)
        for path in (
            *("", "?plain=1", f"queue?node={node}", f"queue?node={long}", f"items?node={node}"),
            *(
                f"items?node={node}&state=dead",
                f"items?node={node}&state=dead&reason=a*",
                f"reasons?node={node}",
                "dead",
                f"item?node={node}&id=a",
                f"item?node={node}&id={long}",
            ),
            *(f"ask?action=purge&node={node}", "queue?node=none"),
        ):
            await page.goto(f"{service.place}/ui/{path}")
            await fits(page)
            assert await page.evaluate(CONTRAST) == [], path


async def fits(page):
    """Nothing is wider than the screen: not the page, nor a table in it, which would be cut."""
    for wide, room in await page.evaluate(
        "[document.documentElement, ...document.querySelectorAll('.scroll')]"
        ".map((one) => [one.scrollWidth, one.clientWidth])"
    ):
        assert wide <= room, page.url


CONTRAST = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((c) => c / 255)
      .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const one of document.querySelectorAll("body *")) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || one.closest("svg") || !one.checkVisibility()) continue;
    const [a, b] = [light(getComputedStyle(one).color), light(ground(one))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push(`${one.tagName} ${one.textContent.trim().slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return found;
}"""
"""Text that has less contrast than WCAG 2.2 asks for (1.4.3)."""

NAMELESS = """() => [...document.querySelectorAll("a, button, select, textarea, input:not([type=hidden]), [role=region], svg[role=img]")]
  .filter((one) => one.checkVisibility())
  .filter((one) => !(one.textContent.trim() || one.ariaLabel || (one.labels && one.labels.length)))
  .map((one) => one.outerHTML)"""


async def test_all_of_a_page_is_chosen_at_once_and_what_can_be_done_stays_in_reach(
    service, browser
):
    names = [f"item {number:02}" for number in range(60)]
    await service.do(a_queue(), publishes(*names), joins(ANN, 60))
    await service.do(*(fails(ANN, name, "no") for name in names))
    async with visit(browser, viewport=PHONE) as page:
        await log_in(page, service.place, CHANGE)
        await page.goto(f"{service.place}/ui/items?node=jobs&state=dead")
        for place in ("0", "document.body.scrollHeight / 2", "document.body.scrollHeight"):
            await page.evaluate(f"scrollTo(0, {place})")
            assert await page.evaluate(IN_SIGHT, "#choose"), place
        await page.evaluate("scrollTo(0, 0)")
        await tab_to_id(page, "all")
        await page.keyboard.press("Space")
        assert await page.inner_text("#count") == "50 selected"
        assert await page.locator("input[name=item]:checked").count() == 50
        await page.uncheck("#item7")
        assert await page.inner_text("#count") == "49 selected"
        assert await page.evaluate("document.getElementById('all').indeterminate")
        await page.check("#all")
        await page.click("#choose")
        await page.wait_for_selector("text=Requeue 50 items of jobs?")
        await page.goto(f"{service.place}/ui/queue?node=jobs")
        for place in ("0", "document.body.scrollHeight / 2", "document.body.scrollHeight"):
            await page.evaluate(f"scrollTo(0, {place})")
            assert await page.evaluate(IN_SIGHT, "#action-purge"), place


IN_SIGHT = """(which) => {
  const one = document.querySelector(which), box = one.getBoundingClientRect();
  const hit = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  return box.top >= 0 && box.bottom <= innerHeight && one.contains(hit);
}"""
"""Whether something is on the screen, and nothing in front of it."""


async def tab_to_id(page, name, most=60):
    for _ in range(most):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.id") == name:
            return
    raise AssertionError(f"no way to {name} by keyboard")


async def test_json_stands_on_several_lines(service, browser):
    payload = b'<json xmlns="urn:xmpp:json:0">{"a":[1.50,{"b":"&lt;i>"}]}</json>'
    await service.do(a_queue(), publishes("a", payload=payload))
    async with visit(browser) as page:
        await log_in(page, service.place, CHANGE)
        await page.goto(f"{service.place}/ui/item?node=jobs&id=a")
        text = await page.inner_text("#payload")
        lines = ["{", '  "a": [', "    1.50,", "    {", '      "b": "<i>"', "    }", "  ]", "}"]
        assert text.splitlines() == lines
        assert "of JSON, reformatted." in await page.inner_text("main")


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
async def test_where_there_is_no_queue_yet_one_reads_what_to_do(service, browser, size):
    async with visit(browser, viewport=size) as page:
        await log_in(page, service.place, LOOK)
        assert await page.inner_text("h2") == "There is no queue yet"
        typed = [text.split() for text in await page.locator("pre").all_inner_texts()]
        commands = [words[1] for words in typed if words[0] == "pubqueue"]
        assert commands == ["node", "worker", "publish"]
        assert set(commands) <= set(main.list_commands(click.Context(main)))
        await fits(page)
        assert await page.evaluate(CONTRAST) == []
        await page.fill("#q", "a")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=No queue has that in its name.")


async def test_all_that_can_be_used_has_a_name_and_tables_have_headers(service, browser):
    await service.do(a_queue(), publishes("a", "b"), joins(ANN, 1))
    await service.do(fails(ANN, "a", "no"))
    async with visit(browser) as page:
        await log_in(page, service.place, CHANGE)
        for path in (
            "",
            "queue?node=jobs",
            "items?node=jobs&state=dead",
            "item?node=jobs&id=a",
            "reasons?node=jobs",
            "dead",
        ):
            await page.goto(f"{service.place}/ui/{path}")
            assert await page.evaluate(NAMELESS) == [], path
            assert await page.evaluate("document.documentElement.lang") == "en"
            headless = "[...document.querySelectorAll('table')].filter((t) => !t.caption || !t.tHead).length"
            assert await page.evaluate(headless) == 0
            assert await page.locator("h1").count() == 1


async def test_what_stands_in_a_queue_is_only_text(service, browser):
    node, item = NodeName(HOSTILE), ItemId(HOSTILE)
    worker = Jid(f"ann@x/{HOSTILE}")
    payload = f"<job xmlns='x'><![CDATA[{HOSTILE}]]></job>".encode()
    await service.do(a_queue(node, title=HOSTILE))
    await service.do(
        publishes(HOSTILE, "b", node=node, payload=payload), joins(worker, 2, node=node)
    )
    await service.do(fails(worker, HOSTILE, HOSTILE, node))
    await an_hour(service, node)
    async with visit(browser) as page:
        await log_in(page, service.place, CHANGE)
        assert await page.inner_text("#row1") == node
        await page.fill("#q", HOSTILE)
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=All")
        assert await page.input_value("#q") == HOSTILE
        await page.click("#row1")
        await shows(page, "figure")
        assert await page.inner_text("h1") == node
        assert worker in await page.inner_text("#workers")
        await page.click("#of-dead")
        await shows(page, "#items")
        assert HOSTILE in await page.inner_text("#items")
        await page.click("#row1")
        await page.wait_for_selector("#payload")
        assert await page.inner_text("#payload") == payload.decode()
        await page.click("#action")
        await shows(page, "#yes")
        assert item in await page.inner_text("main ul")
        await page.click("#yes")
        said = await page.inner_text(".note")
        assert said == f"1 dead item of {node} requeued."
        assert await page.locator("main script, main img").count() == 0


async def break_the_policy(browser, place):
    async with visit(browser) as page:
        await page.goto(place)
        await page.evaluate("document.body.setAttribute('style', 'color: red')")
        await page.evaluate("fetch('https://elsewhere.example/').catch(() => 0)")


async def test_what_breaks_the_policy_of_the_page_would_be_seen(service, browser):
    with pytest.raises(AssertionError, match="Content Security Policy"):
        await break_the_policy(browser, service.place)


async def test_what_is_chosen_is_released_and_revived_after_a_question(service, browser):
    await service.do(a_queue(), publishes("a", "b", "c"), joins(ANN, 2))
    await service.do(fails(ANN, "a", "no seat left"))
    async with visit(browser) as page:
        await log_in(page, service.place, CHANGE)
        await page.goto(f"{service.place}/ui/items?node=jobs&state=dead")
        assert "no seat left" in await page.inner_text("#items")
        await page.check("#item1")
        await page.click("#choose")
        await page.wait_for_selector("text=Requeue 1 item of jobs?")
        assert await dead(service) == ["a"]
        await page.click("#yes")
        assert await page.inner_text(".note") == "1 dead item of jobs requeued."
        assert await dead(service) == []
        await page.goto(f"{service.place}/ui/items?node=jobs&state=locked")
        for box in await page.locator("td input").all():
            await box.check()
        await page.click("#choose")
        await page.click("#yes")
        assert "ended; the items wait again" in await page.inner_text(".note")


async def test_what_waits_or_is_held_is_cancelled_after_a_question(service, browser):
    await service.do(a_queue(), publishes("a", "b", "c", "d"), joins(ANN, 1))
    async with visit(browser) as page:
        await log_in(page, service.place, CHANGE)
        await page.goto(f"{service.place}/ui/item?node=jobs&id=d")
        await page.click("#action:text-is('Cancel…')")
        await page.wait_for_selector("text=Remove 1 item of jobs before they are done?")
        await page.click("#yes")
        assert await page.inner_text(".note") == "1 item of jobs cancelled."
        await page.goto(f"{service.place}/ui/items?node=jobs")
        await page.check("#all")
        await service.do(retracts(ANN, "a"))
        await page.click("#choose:text-is('Cancel selected…')")
        await page.click("#yes")
        said = "2 items of jobs cancelled. 1 of them was in flight: the workers are notified."
        said += " Not found, perhaps already done: a."
        assert await page.inner_text(".note") == said
        assert (await service.do(ReadItems(SERVICE, JOBS)))[0].entries == ()


async def test_dead_items_are_counted_by_reason_and_discarded_or_revived_by_it(service, browser):
    reasons = ["no row 1", "no row 22", "timed out", "odd", "odd"]
    await service.do(a_queue(), publishes(*"abcde"), joins(ANN, 5))
    await service.do(*(fails(ANN, name, why) for name, why in zip("abcde", reasons, strict=True)))
    async with visit(browser) as page:
        await log_in(page, service.place, CHANGE)
        await page.goto(f"{service.place}/ui/items?node=jobs&state=dead")
        await page.click("#reasons")
        await shows(page, "#of-reasons")
        rows = await page.locator("#of-reasons tbody tr").all_inner_texts()
        assert [row.split("\t")[:2] for row in rows] == [
            ["no row *", "2"],
            ["odd", "2"],
            ["timed out", "1"],
        ]
        await page.click("#row1")
        await shows(page, "#reason:text-is('no row *')")
        assert await page.locator("tbody tr").count() == 2
        await page.click("#discard-reason")
        question = "Delete the dead items of jobs that died of “no row *”?"
        assert (await page.inner_text("#question")).startswith(question)
        await page.click("#yes")
        assert await page.inner_text(".note") == "2 items of jobs discarded."
        await page.goto(f"{service.place}/ui/reasons?node=jobs")
        await page.click("#redrive-reason1")
        await page.click("#yes")
        assert await page.inner_text(".note") == "2 dead items of jobs requeued."
        await page.goto(f"{service.place}/ui/items?node=jobs&state=dead")
        await page.check("#all")
        await page.click("#choose2:text-is('Discard selected…')")
        await page.click("#yes")
        assert await page.inner_text(".note") == "1 item of jobs discarded."
        left = (await service.do(ReadItems(SERVICE, JOBS)))[0].entries
        assert [entry.item.id for entry in left] == ["d", "e"]


async def test_items_of_a_plain_node_have_no_buttons(service, browser):
    await service.do(a_queue(queueing=False), publishes("a"))
    async with visit(browser) as page:
        await log_in(page, service.place, CHANGE)
        for path in ("items?node=jobs", "item?node=jobs&id=a"):
            await page.goto(f"{service.place}/ui/{path}")
            await page.wait_for_selector("text=etl@x" if "id" in path else "#row1")
            assert await page.locator("#choose, #action").count() == 0


async def test_problems_come_first_any_column_sorts_and_plain_nodes_stand_apart(service, browser):
    await service.do(*(a_queue(NodeName(name)) for name in ("busy", "dead", "idle")))
    await service.do(a_queue(NodeName("news"), queueing=False))
    await service.do(joins(ANN, 1, node=NodeName("dead")), publishes("x", node=NodeName("dead")))
    await service.do(fails(ANN, "x", "no", NodeName("dead")), publishes("y", node=NodeName("news")))
    await service.do(joins(ANN, 1, node=NodeName("busy")))
    await service.do(publishes(*"abc", node=NodeName("busy")))
    async with visit(browser) as page:
        await log_in(page, service.place, LOOK)
        names = "tbody th"
        assert await page.locator(names).all_inner_texts() == ["dead", "busy", "idle"]
        tags = await page.locator("tbody tr >> nth=0 >> .tag").all_inner_texts()
        assert tags == ["failing", "dead items"]
        totals = dict(
            zip(
                await page.locator("#totals dt").all_inner_texts(),
                await page.locator("#totals dd").all_inner_texts(),
                strict=True,
            )
        )
        assert (totals["Queues"], totals["With problems"]) == ("3", "1")
        assert (totals["Waiting"], totals["In flight"], totals["Dead"]) == ("2", "1", "1")
        await tab_to(page, "Waiting")
        await page.keyboard.press("Enter")
        await shows(page, "th[aria-sort=descending]:has-text('Waiting')")
        assert await page.locator(names).all_inner_texts() == ["busy", "dead", "idle"]
        await page.click("#sort-name")
        await shows(page, "th[aria-sort=ascending]:has-text('Name')")
        assert await page.locator(names).all_inner_texts() == ["busy", "dead", "idle"]
        await page.click("#tab-plain")
        await shows(page, "h1:text-is('Plain nodes')")
        assert await page.locator(names).all_inner_texts() == ["news"]
        await page.click("#tab-queues")
        await page.wait_for_selector("h1:text-is('Queues')")


async def test_why_an_item_failed_last_stands_beside_it(service, browser):
    await service.do(a_queue(), publishes("a"), joins(ANN, 1))
    said = {"outcome": Outcome.FAILED, "reason": "no seat left"}
    await service.do(Settle(who(ANN), JOBS, (ItemId("a"),), Verb.UNLOCK, **said))
    async with visit(browser) as page:
        await log_in(page, service.place, LOOK)
        await page.goto(f"{service.place}/ui/items?node=jobs")
        assert "no seat left" in await page.inner_text("#items")
        await page.click("#row1")
        await shows(page, "dt:text-is('Last error')")
        assert "no seat left" in await page.inner_text("dl.list")


async def dead(service):
    found = await service.do(*(Peek(SERVICE, JOBS, ItemId(name)) for name in "abc"))
    return [one.item.id for one in found if one.item.state == "dead"]


async def test_a_page_follows_what_happens_and_keeps_the_focus_and_what_is_chosen(service, browser):
    await service.do(a_queue(), publishes("a"))
    async with visit(browser) as page:
        await page.clock.install()
        await log_in(page, service.place, CHANGE)
        await page.goto(f"{service.place}/ui/queue?node=jobs")
        await page.focus("#of-queued")
        await service.do(publishes("b", "c"))
        await page.clock.fast_forward(6_000)
        await page.wait_for_selector("#of-queued:text-is('3')")
        assert await page.evaluate("document.activeElement.id") == "of-queued"
        await page.uncheck("#follow")
        await service.do(publishes("d"))
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        await page.clock.fast_forward(60_000)
        assert asked == []
        assert await page.inner_text("#of-queued") == "3"


async def test_a_user_who_is_logged_out_elsewhere_gets_a_message(service, browser):
    await service.do(a_queue())
    async with visit(browser) as page:
        await page.clock.install()
        await log_in(page, service.place, LOOK)
        await page.context.clear_cookies()
        await page.clock.fast_forward(6_000)
        await page.wait_for_selector("#told:text('You are logged out')")


async def test_without_the_script_all_is_there(service, browser):
    await service.do(a_queue(), publishes("a"))
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await log_in(page, service.place, CHANGE)
    assert not await page.is_visible("#follow")
    await page.click("#row1")
    await page.click("#action-purge")
    await page.click("#yes")
    assert await page.inner_text(".note") == "1 item of jobs deleted."
    await context.close()


async def test_ten_thousand_queues_are_paged_and_searched(tmp_path, browser):
    async with shown(f"sqlite:{tmp_path / 'q.db'}") as service:
        names = [NodeName(f"queue {number:05}") for number in range(10_000)]
        for at in range(0, len(names), 500):
            await service.do_all(a_queue(name) for name in names[at : at + 500])
        async with visit(browser) as page:
            await log_in(page, service.place, LOOK)
            assert await page.locator("tbody tr").count() == 50
            await page.click("#more")
            await page.wait_for_selector("text=queue 00050")
            assert await page.inner_text("#totals dd >> nth=0") == "10,000"
            await service.do(publishes("a", node=names[7_000]))
            await page.goto(f"{service.place}/ui/")
            assert await page.inner_text("#row1") == "queue 07000"
            assert await page.inner_text("tbody tr >> nth=0 >> .tag") == "no workers"
            await page.fill("#q", "QUEUE 0999")
            await page.keyboard.press("Enter")
            await shows(page, "text=10 queues of 10.")
            assert await page.locator("tbody tr").count() == 10
            await page.goto(f"{service.place}/ui/")
            await page.select_option("#narrow", "no-workers")
            await page.focus("#q")
            await page.keyboard.press("Enter")
            await page.wait_for_url("**state=no-workers**")
            assert await page.locator("tbody tr").count() == 1
            assert await page.inner_text("#totals dd >> nth=0") == "10,000"


PAINTED = """new Promise(painted => new PerformanceObserver(seen => {
    if (seen.getEntriesByName("first-contentful-paint").length) painted(true);
}).observe({type: "paint", buffered: true}))"""
"""Awaited by the page. A function that is asked again and again would be evaluated there, which the page's policy forbids."""
BYTES = "performance.getEntriesByType('navigation')[0].decodedBodySize"


async def test_ten_thousand_queues_are_painted_and_walked_without_a_mouse(tmp_path, browser):
    """What is sent at first does not grow with the number of queues, and the keyboard alone reaches the last page."""
    async with shown(f"sqlite:{tmp_path / 'q.db'}") as service:
        sizes = []
        async with visit(browser) as page:
            for many in (60, 10_000):
                for at in range(0, many, 500):
                    names = [NodeName(f"queue {n:05}") for n in range(at, min(at + 500, many))]
                    await service.do_all(map(a_queue, names))
                if not sizes:
                    await log_in(page, service.place, LOOK)
                await page.goto(f"{service.place}/ui/?sort=name")
                assert await page.evaluate(PAINTED)
                sizes.append(await page.evaluate(BYTES))
            assert sizes[1] < sizes[0] * 1.1
            for number, tabs in ((50, 1), (100, 2)):  # later on, the link back is before it
                await page.locator("#row50").focus()
                for _ in range(tabs):
                    await page.keyboard.press("Tab")
                assert await page.evaluate("document.activeElement.id") == "more"
                await page.keyboard.press("Enter")
                await page.wait_for_selector(f"text=queue {number:05}")
            await page.locator("#row1").focus()
            await page.keyboard.press("Enter")
            await page.wait_for_url("**queue?node=**")
            assert await page.inner_text("h1") == "queue 00100"


async def test_the_items_of_a_queue_are_searched_and_sorted(tmp_path, browser):
    async with shown(f"sqlite:{tmp_path / 'q.db'}") as service:
        await service.do(a_queue())
        names = [f"job-{n:03}" for n in range(120)]
        for at, name in enumerate(names):
            await service.do(publishes(name, priority=at % 60))
        async with visit(browser) as page:
            await log_in(page, service.place, LOOK)
            await page.goto(f"{service.place}/ui/items?node=jobs&state=queued")
            await page.fill("#q", "JOB-1")
            await page.keyboard.press("Enter")
            await page.wait_for_url("**q=JOB-1**")
            assert await page.locator("tbody tr").count() == 20
            await page.fill("#q", "")
            await page.select_option("#order", "priority")
            await page.focus("#q")
            await page.keyboard.press("Enter")
            await page.wait_for_url("**sort=priority**")
            assert await page.inner_text("#row1") == "job-059"
            assert await page.inner_text("#row2") == "job-119"
            await page.click("#more")
            await page.wait_for_url("**after=**")
            assert await page.inner_text("#row1") == "job-034"
            assert await page.locator("tbody tr").count() == 50
            await page.click("#first")
            await page.wait_for_url("**sort=priority")
            assert await page.inner_text("#row1") == "job-059"
