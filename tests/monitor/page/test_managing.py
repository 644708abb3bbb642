"""Members, settings, schedules and users on the page: who sees them, what is asked before a change, and what is done."""

import re
from html import unescape
from urllib.parse import urlencode

import pytest
from harness.batches.facts import ANN, BOSS, JOBS, NIGHTLY, who
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.operators.browser import CHANGE, LOOK, PHONE, log_in, visit
from harness.operators.page_service import BOTH, SERVICE, shown, user
from monitor.page.test_browser import CONTRAST, NAMELESS, fits
from monitor.page.test_site import visiting
from msgspec.structs import replace
from structlog.testing import capture_logs

from pubqueue.accounts.credentials import Role
from pubqueue.model.entities import Affiliation, Jid, NodeName
from pubqueue.monitor.page import managing
from pubqueue.rules.discovery import Describe
from pubqueue.rules.inspect import ReadWorkers
from pubqueue.rules.nodes import GetAffiliations, SetAffiliations
from pubqueue.rules.schedules import AddSchedule, ListSchedules

ROOT = "r" * 43
MANAGING = ("members?node=jobs", "settings?node=jobs", "schedules", "users")


@pytest.fixture
async def service():
    async with shown(users=(*BOTH, user("root", ROOT, Role.ADMIN))) as found:
        member = SetAffiliations(who(BOSS), JOBS, ((Jid("ann@x"), Affiliation.MEMBER),))
        await found.do(a_queue(), member, AddSchedule(SERVICE, NIGHTLY.definition))
        yield found


@pytest.fixture
async def visitor(service):
    async with visiting(service) as found:
        yield found


async def does(visitor, **form):
    """Send a form, and return the status and where it leads."""
    fields = [("form", await visitor.form())]
    for name, values in form.items():
        fields += [(name, one) for one in (values if isinstance(values, list) else [values])]
    status, headers, text = await visitor.post("/ui/do", fields)
    return status, headers.get("Location", ""), text


async def test_administrators_see_all_and_others_what_nodes_have(visitor):
    for token, expected in ((LOOK, [200, 200, 403, 403]), (CHANGE, [200, 200, 403, 403]), (ROOT, [200] * 4)):  # fmt: skip
        await visitor.log_in(token)
        assert [(await visitor.get(f"/ui/{path}"))[0] for path in MANAGING] == expected
        links = (await visitor.get("/ui/"))[2]
        assert ('href="users"' in links, 'href="schedules"' in links) == (token == ROOT,) * 2
        for path in MANAGING[:2]:
            text = (await visitor.get(f"/ui/{path}"))[2]
            assert ('action="plan"' in text or 'value="affiliate"' in text) is (token == ROOT)


@pytest.mark.parametrize(
    "form",
    [
        {"action": "affiliate", "node": "jobs", "jid": "eve@x", "affiliation": "owner"},
        {"action": "configure", "node": "jobs", "settings": "rate=1"},
        {"action": "schedule-remove", "schedule": "nightly"},
        {"action": "schedule-fire", "schedule": "nightly"},
    ],
)
async def test_an_operator_manages_nothing_by_a_form_of_its_own(visitor, form):
    await visitor.log_in(CHANGE)
    assert (await visitor.get(f"/ui/ask?{urlencode(form)}"))[0] == 403
    with capture_logs() as logs:
        assert (await does(visitor, **form))[0] == 403
    assert logs == []


async def test_a_member_is_added_changed_and_removed_after_a_question(service, visitor):
    await visitor.log_in(ROOT)
    form = {"action": "affiliate", "node": "jobs", "jid": "EVE@x"}
    _, _, text = await visitor.get(f"/ui/ask?{urlencode(form | {'affiliation': 'publisher'})}")
    assert "Set the affiliation of eve@x with jobs to “publisher”?" in text
    for role in ("publisher", "none"):
        with capture_logs() as logs:
            status, to, _ = await does(visitor, **form, affiliation=role)
        assert (status, to.partition("&")[0]) == (303, "members?node=jobs")
        assert [(line["jid"], line["affiliation"], line["by"]) for line in logs] == [
            ("eve@x", role, "root@queue.example/page")
        ]
        (page,) = await service.do(GetAffiliations(SERVICE, JOBS))
        assert dict(page.entries).get("eve@x") == (None if role == "none" else role)
    for odd in ({"jid": "@", "affiliation": "owner"}, {"affiliation": "king"}, {"jid": ""}):
        given = {**form, "affiliation": "owner"} | odd
        assert (await does(visitor, **given))[0] == 400
    status, _, text = await visitor.get("/ui/members?node=jobs&q=ann&affiliation=member")
    assert (status, "ann@x" in text, BOSS.partition("/")[0] in text) == (200, True, False)
    assert (await visitor.get("/ui/members?node=jobs&affiliation=king"))[0] == 400


async def test_settings_are_changed_once_their_differences_are_shown(service, visitor):
    await visitor.log_in(ROOT)
    (there,) = await service.do(Describe(SERVICE, JOBS, manage=True))
    form = {f"set.{one.name}": one.value for one in managing.entries(there.node)}
    form |= {"form": await visitor.form(), "node": "jobs"}
    assert "Nothing would change." in (await visitor.post("/ui/plan", form))[2]
    status, _, text = await visitor.post("/ui/plan", form | {"set.rate": "5", "set.labels": "a=1\r\nb=2"})  # fmt: skip
    assert (status, "Change 2 settings of jobs?" in text) == (200, True)
    (before,) = await service.do(Describe(SERVICE, JOBS, manage=True))
    assert before.node.config == there.node.config
    lines = [unescape(one) for one in re.findall(r'name="settings" value="([^"]*)"', text)]
    assert sorted(lines) == ["labels=a=1\nb=2", "rate=5"]
    status, to, _ = await does(visitor, action="configure", node="jobs", settings=lines)
    assert (status, to.partition("&")[0]) == (303, "settings?node=jobs")
    (after,) = await service.do(Describe(SERVICE, JOBS, manage=True))
    assert after.node.config == replace(there.node.config, rate=5.0, labels="a=1\nb=2")


async def test_a_setting_that_is_refused_is_named_and_what_was_typed_stays(visitor):
    await visitor.log_in(ROOT)
    form = {"form": await visitor.form(), "node": "jobs", "set.lock_timeout": "soon"}
    status, _, text = await visitor.post("/ui/plan", form)
    assert (status, "lock_timeout" in text, 'value="soon"' in text) == (400, True, True)
    assert (await visitor.post("/ui/plan", form | {"form": ""}))[0] == 403
    assert (await visitor.post("/ui/plan", form | {"node": "none"}))[0] == 404
    await visitor.log_in(CHANGE)
    form["form"] = await visitor.form()
    assert (await visitor.post("/ui/plan", form))[0] == 403


def test_a_form_has_the_settings_that_its_kind_of_node_has():
    from harness.batches.facts import plain, queue  # noqa: PLC0415

    of_queue = {one.name for one in managing.entries(queue())}
    of_plain = {one.name for one in managing.entries(plain())}
    assert of_queue - of_plain >= {"lock_timeout", "max_failures", "source"}
    assert of_plain - of_queue >= {"persist_items", "notification_type"}
    assert "queueing" not in of_queue | of_plain
    for one in (*managing.entries(queue()), *managing.entries(plain())):
        assert not one.choices or one.value in dict(one.choices), one


async def test_a_schedule_is_run_paused_resumed_and_removed_after_a_question(service, visitor):
    await visitor.log_in(ROOT)
    for action, question in (
        ("schedule-fire", "Publish one more item of the schedule nightly now?"),
        ("schedule-pause", "Pause the schedule nightly until you resume it?"),
        ("schedule-resume", "Resume the schedule nightly from its next time on?"),
        ("schedule-remove", "Remove the schedule nightly?"),
    ):
        form = {"action": action, "schedule": "nightly"}
        assert question in (await visitor.get(f"/ui/ask?{urlencode(form)}"))[2]
        status, to, _ = await does(visitor, **form)
        assert (status, to.partition("?")[0]) == (303, "schedules")
        (page,) = await service.do(ListSchedules(SERVICE))
        assert [one.paused for one in page.schedules] == {
            "schedule-remove": [],
            "schedule-pause": [True],
        }.get(action, [False])
    assert (await does(visitor, action="schedule-fire", schedule="nightly"))[0] == 404


async def test_a_worker_is_quiet_and_resumed_after_a_question(service, visitor):
    await service.do(joins(ANN), publishes("a"))
    await visitor.log_in(CHANGE)
    form = {"node": "jobs", "worker": ANN}
    text = (await visitor.get("/ui/queue?node=jobs"))[2]
    assert "action=quiet-worker" in text
    for action, quiet in (("quiet-worker", True), ("resume-worker", False)):
        question = (await visitor.get(f"/ui/ask?{urlencode({'action': action, **form})}"))[2]
        assert f"{ANN} of jobs" in question
        assert (await does(visitor, action=action, **form))[0] == 303
        (page,) = await service.do(ReadWorkers(SERVICE, JOBS))
        assert [one.subscription.quiet for one in page.workers] == [quiet]
    assert (await does(visitor, action="quiet-worker", node="jobs", worker=""))[0] == 400


async def test_users_are_shown_without_what_proves_them(visitor):
    await visitor.log_in(ROOT)
    text = (await visitor.get("/ui/users"))[2]
    rows = re.findall(r"<tr><th.*?</tr>", text, re.DOTALL)
    seen = [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", row)) for row in rows[1:]]
    assert [words.split()[0] for words in seen] == ["changer", "looker", "root"]
    assert "admin" in seen[2]
    assert "1 token" in seen[2]
    assert seen[2].rstrip().endswith("page")
    assert seen[0].rstrip().endswith("\u2013")
    assert ROOT not in text


async def test_a_long_list_goes_on_where_it_ended(service, visitor):
    people = tuple((Jid(f"w{n:03}@x"), Affiliation.MEMBER) for n in range(130))
    await service.do(SetAffiliations(who(BOSS), JOBS, people))
    await visitor.log_in(LOOK)
    found, to = [], "members?node=jobs&q=w"
    for _ in range(4):
        text = (await visitor.get(f"/ui/{to}"))[2]
        found += re.findall(r"(w\d{3}@x)</span>", text)
        more = re.search(r'id="more" href="([^"]*)"', text)
        if more is None:
            break
        to = unescape(more[1])
    assert found == [jid for jid, _ in people]


@pytest.mark.parametrize("token", [LOOK, ROOT])
async def test_the_pages_fit_a_phone_in_the_dark_and_all_has_a_name(service, browser, token):
    long = NodeName("long-" * 40)
    await service.do(a_queue(long, title="a title " * 20))
    named = tuple((Jid(f"{'a' * 60}.{n}@example.org"), Affiliation.MEMBER) for n in range(2))
    await service.do(SetAffiliations(who(BOSS), long, named))
    paths = [f"{page}?node={long}" for page in ("members", "settings")]
    paths += ["schedules", "users"] if token == ROOT else []
    async with visit(browser, viewport=PHONE, dark=True) as page:
        await log_in(page, service.place, token)
        for path in paths:
            await page.goto(f"{service.place}/ui/{path}")
            await fits(page)
            assert await page.evaluate(CONTRAST) == [], path
            assert await page.evaluate(NAMELESS) == [], path
        if token == ROOT:
            await page.goto(f"{service.place}/ui/settings?node=jobs")
            await page.fill("#set-rate", "7")
            await page.press("#set-rate", "Enter")
            await page.wait_for_selector("text=Change 1 setting of jobs?")
            await fits(page)
            await page.click("#yes")
            await page.wait_for_selector("text=jobs was updated.")
