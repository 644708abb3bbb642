"""The page without a browser: who is let in, what a form has to bring, and what is said when something cannot be."""

import asyncio
import re
from html import unescape
from ipaddress import ip_network
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request
from harness.batches.facts import ANN, JOBS, who
from harness.batches.queue_requests import a_queue, holds, joins, publishes
from harness.clients.unfinished import counted
from harness.operators.browser import CHANGE, LOOK
from harness.operators.page_service import BOTH, SERVICE, shown, user
from harness.patience import TIMEOUT
from msgspec.structs import replace
from structlog.testing import capture_logs
from yarl import URL

from pubqueue.accounts import credentials
from pubqueue.accounts.accounts import FREE
from pubqueue.accounts.credentials import Role, User
from pubqueue.engine.observe import Phase
from pubqueue.faces.listener.budget import STRANGERS
from pubqueue.model.entities import ItemId, NodeName
from pubqueue.monitor.asking import is_guarded
from pubqueue.monitor.page.logins import Logins
from pubqueue.monitor.page.site import HEADERS, OFF
from pubqueue.rules.inspect import Peek
from pubqueue.rules.take import Take
from pubqueue_xeps.wire.payloads.wrapper import wrap


class Visitor:
    """Somebody with cookies and no browser; follows no redirect."""

    def __init__(self, place, session):
        self.place, self.session = place, session

    async def get(self, path, **words):
        async with self.session.get(
            f"{self.place}{path}", allow_redirects=False, **words
        ) as answer:
            return answer.status, answer.headers, await answer.text()

    async def post(self, path, form, **words):
        async with self.session.post(
            f"{self.place}{path}", data=form, allow_redirects=False, **words
        ) as answer:
            return answer.status, answer.headers, await answer.text()

    async def log_in(self, token):
        return (await self.post("/ui/login", {"password": token}))[0]

    async def form(self):
        _, _, text = await self.get("/ui/")
        return text.split('name="form" value="')[1].partition('"')[0]


@pytest.fixture
async def visitor(service):
    async with visiting(service) as found:
        yield found


def visiting(service):
    jar = aiohttp.CookieJar(unsafe=True)  # of an address without a name too
    session = aiohttp.ClientSession(cookie_jar=jar, timeout=aiohttp.ClientTimeout(TIMEOUT))

    class Visiting:
        async def __aenter__(self):
            return Visitor(service.place, session)

        async def __aexit__(self, *_):
            await session.close()

    return Visiting()


async def test_before_there_is_a_secret_a_login_is_asked_to_wait(visitor, monkeypatch):
    monkeypatch.setattr(Logins, "has_secret", property(lambda _self: False))
    assert await visitor.log_in(LOOK) == 503
    monkeypatch.undo()
    assert await visitor.log_in(LOOK) == 303


async def test_without_a_token_there_is_no_page_but_an_explanation():
    async with shown(users=()) as service, visiting(service) as visitor:
        for path in ("/", "/ui/", "/ui/queue?node=jobs", "/ui/static/page.js"):
            status, _, text = await visitor.get(path)
            assert (status, text) == (404, OFF)
        assert (await visitor.get("/healthz"))[0] == 200


async def test_without_a_login_nothing_is_shown(service, visitor):
    await service.do(a_queue())
    for path in ("", "queue?node=jobs", "items?node=jobs", "ask?action=purge"):
        status, headers, text = await visitor.get(f"/ui/{path}")
        assert (status, "jobs" in text) == (303, False)
        assert headers["Location"].partition("?")[0] == "login"
        part = {"X-Pubqueue-Part": "1"}
        assert (await visitor.get(f"/ui/{path}", headers=part))[0] == 401
    assert (await visitor.post("/ui/do", {"action": "purge", "node": "jobs"}))[0] == 401


@pytest.mark.parametrize("token", ["", "wrong", LOOK[:-1], f"{LOOK}x", "ä" * 30])
async def test_a_wrong_token_opens_nothing_and_is_logged(visitor, token):
    with capture_logs() as logs:
        assert await visitor.log_in(token) == 403
    assert [line["event"] for line in logs] == ["login.refused"]
    assert not token or token not in str(logs)
    assert (await visitor.get("/ui/"))[0] == 303


FORM, PARTS = "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        (FORM, b"password=\xff", 400),
        (FORM, b"password=%ff", 400),
        (FORM, b"&a=" * 5_000, 400),
        (FORM, b"x" * 300_000, 413),
        (f"{FORM}; charset=rot13", b"password=\xff", 400),
        (PARTS, b'--x\r\nContent-Disposition: form-data; name="to"\r\n\r\n\xff\r\n--x--\r\n', 415),
        ("text/plain", b"password=a", 415),
    ],
)
async def test_a_form_that_cannot_be_read_is_no_attempt_to_log_in(visitor, kind, body, status):
    with capture_logs() as logs:
        answer = await visitor.post("/ui/login", body, headers={"Content-Type": kind})
    assert (answer[0], logs) == (status, [])


@pytest.mark.parametrize("path", ["queue?node=a%26b%20%C3%A4&hours=6", "?q=a+b", "items?node=jobs"])
async def test_a_log_in_returns_to_where_one_was(service, visitor, path):
    _, headers, _ = await visitor.get(f"/ui/{path}")
    _, _, text = await visitor.get(f"/ui/{headers['Location']}")
    to = unescape(text.split('name="to" value="')[1].partition('"')[0])
    status, _, text = await visitor.post("/ui/login", {"password": "wrong", "to": to})
    assert status == 403
    assert unescape(text.split('name="to" value="')[1].partition('"')[0]) == to
    status, headers, _ = await visitor.post("/ui/login", {"password": LOOK, "to": to})
    wanted = URL(f"{service.place}/ui/{path}")
    assert (status, URL(f"{service.place}/ui/").join(URL(headers["Location"]))) == (303, wanted)
    _, headers, _ = await visitor.get("/ui/login", params={"to": to})
    assert URL(f"{service.place}/ui/").join(URL(headers["Location"])) == wanted


@pytest.mark.parametrize(
    "to",
    [
        *("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"),
        *("queue\r\nX: y", "queue?a\r\nX: y", "queue?a=ä", "../metrics", "login", "logout", "do"),
        f"queue?{'a' * 4_000}",
    ],
)
async def test_a_log_in_leads_nowhere_else(visitor, to):
    status, headers, _ = await visitor.post("/ui/login", {"password": LOOK, "to": to})
    assert (status, headers["Location"]) == (303, "./")


async def test_a_user_who_was_logged_out_at_a_question_returns_to_it(service, visitor):
    asked = f"{service.place}/ui/ask?action=purge&node=jobs"
    for referer, wanted in (
        (asked, "login?to=ask%3Faction%3Dpurge%26node%3Djobs"),
        ("https://evil.example/ui/ask?action=purge&node=jobs", "login"),
        (f"{service.place}/ui/nowhere", "login"),
    ):
        form = {"action": "purge", "node": "jobs"}
        status, _, text = await visitor.post("/ui/do", form, headers={"Referer": referer})
        assert status == 401
        assert f'href="{wanted}">Log in again' in text


async def wrong(visitor, times, **words):
    return [
        (await visitor.post("/ui/login", {"password": f"wrong {n}"}, **words))[0]
        for n in range(times)
    ]


async def test_after_many_wrong_tokens_an_address_waits_and_a_right_one_from_elsewhere_logs_in(
    service, visitor
):
    with capture_logs() as logs:
        assert await wrong(visitor, FREE + 3) == [403] * (FREE + 1) + [429] * 2
        status, headers, text = await visitor.post("/ui/login", {"password": LOOK})
    assert (status, headers["Retry-After"]) == (429, "1")
    assert "too many wrong attempts" in text
    assert [line["event"] for line in logs] == ["login.refused"] * (FREE + 1)
    there = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
    async with aiohttp.ClientSession(connector=there) as session:
        assert await Visitor(service.place, session).log_in(LOOK) == 303


async def test_behind_a_proxy_on_this_host_each_address_waits_for_itself(visitor):
    one, other = ({"X-Forwarded-For": f"1.2.3.4, {address}"} for address in ("::1", "192.0.2.1"))
    with capture_logs() as logs:
        assert (await wrong(visitor, FREE + 2, headers=one))[-1] == 429
    assert {line["peer"] for line in logs} == {"::1"}
    assert (await visitor.post("/ui/login", {"password": LOOK}, headers=one))[0] == 429
    assert (await visitor.post("/ui/login", {"password": LOOK}, headers=other))[0] == 303
    assert await visitor.log_in(LOOK) == 303


async def raw(place, text):
    """Return the first bytes of the answer to what may be no HTTP."""
    url = URL(place)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(text)
    answer = await reader.read(4096)
    writer.close()
    await writer.wait_closed()
    return answer.decode()


async def test_no_answer_names_versions_of_the_software(service, visitor, monkeypatch):
    for path in ("/", "/ui/login", "/ui/none", "/none", "/healthz", "/readyz", "/metrics"):
        _, headers, _ = await visitor.get(path)
        assert headers["Server"] == "pubqueue"
    head = "Server: pubqueue\r\n"
    assert head in await raw(service.place, b"no HTTP at all\r\n\r\n")
    assert head in await raw(
        service.place, b"POST /ui/login HTTP/1.1\r\nHost: x\r\nContent-Length: a\r\n\r\n"
    )
    monkeypatch.setattr(service.monitor.health, "readiness", None)  # a fault of ours
    status, headers, _ = await visitor.get("/readyz")
    assert (status, headers["Server"]) == (500, "pubqueue")


async def test_a_token_that_is_not_set_opens_nothing():
    async with shown(users=BOTH[:1]) as service, visiting(service) as visitor:
        assert await visitor.log_in("") == 403
        assert await visitor.log_in(CHANGE) == 403
        assert await visitor.log_in(LOOK) == 303


async def test_the_cookie_is_for_this_page_alone(visitor):
    _, headers, _ = await visitor.post("/ui/login", {"password": LOOK})
    said = headers["Set-Cookie"]
    assert "HttpOnly" in said
    assert "SameSite=Strict" in said
    assert "Secure" not in said
    _, headers, _ = await visitor.post(
        "/ui/login", {"password": LOOK}, headers={"X-Forwarded-Proto": "https"}
    )
    assert "Secure" in headers["Set-Cookie"]
    assert LOOK not in said


async def test_all_but_the_last_byte_of_a_form_counts_for_who_sends_it(service, visitor):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    login, own = ("POST", "/ui/login"), [("POST", "/ui/do"), ("POST", "/ui/logout")]
    assert await counted(service.place, [login], form, STRANGERS) == {login}
    _, headers, _ = await visitor.post("/ui/login", {"password": CHANGE})
    form["Cookie"] = headers["Set-Cookie"].partition(";")[0]
    assert await counted(service.place, own, form, "changer@queue.example") == set(own)


async def test_a_cookie_that_was_changed_opens_nothing(service):
    async with visiting(service) as visitor:
        _, headers, _ = await visitor.post("/ui/login", {"password": LOOK})
    cookie = headers["Set-Cookie"].partition("=")[2].partition(";")[0]
    user_name, mark, until, name, mac = cookie.split(":")
    forged = [
        f"changer:{mark}:{until}:{name}:{mac}",
        f"{user_name}:{mark}:{int(until) + 1}:{name}:{mac}",
        f"{user_name}:{mark}:{until}:{name}x:{mac}",
        f"{user_name}:{mark}:{until}:{name}:{mac[:-1]}",
        f"{user_name}:{mark}:{'9' * 400}:{name}:{mac}",
        f"{user_name}:{mark}:{until}:{name}:{mac[:-1]}\u00e4",
        *("", ":", "looker", "looker::::", "none:1:2:3:4"),
    ]
    async with aiohttp.ClientSession() as session:
        for value, status in [*((one, 303) for one in forged), (cookie, 200)]:
            asked = session.get(
                f"{service.place}/ui/",
                headers={"Cookie": f"pubqueue={value}"},
                allow_redirects=False,
            )
            async with asked as answer:
                assert answer.status == status, value


async def test_after_a_logout_a_copy_of_the_cookie_is_invalid_too(service, visitor):
    _, headers, _ = await visitor.post("/ui/login", {"password": LOOK})
    copy = headers["Set-Cookie"].partition(";")[0]
    form = await visitor.form()
    assert (await visitor.post("/ui/logout", {"form": form}))[0] == 303
    async with visiting(service) as other:
        assert (await other.get("/ui/", headers={"Cookie": copy}))[0] == 303


async def test_every_answer_is_closed(visitor):
    await visitor.log_in(LOOK)
    for path in (
        *("/ui/", "/ui/login", "/ui/static/page.js", "/ui/static/none"),
        *("/ui/queue?node=none", "/ui/nowhere", "/ui/ask?action=purge&node=jobs"),
    ):
        _, headers, text = await visitor.get(path)
        assert {name: headers[name] for name in HEADERS if name != "Cache-Control"} == {
            name: value for name, value in HEADERS.items() if name != "Cache-Control"
        }
        assert "<style" not in text
        assert " style=" not in text
        assert " onclick=" not in text


async def test_a_viewer_can_change_nothing(service, visitor):
    await service.do(a_queue(), publishes("a"))
    await visitor.log_in(LOOK)
    _, _, text = await visitor.get("/ui/queue?node=jobs")
    assert "ask?" not in text
    assert (await visitor.get("/ui/ask?action=purge&node=jobs"))[0] == 403
    form = {"action": "purge", "node": "jobs", "form": await visitor.form()}
    assert (await visitor.post("/ui/do", form))[0] == 403
    assert (await service.do(Peek(SERVICE, JOBS, ItemId("a"))))[0].item.id == "a"


async def test_text_and_bytes_are_shown_and_never_break_the_page(service, visitor):
    nasty = b"</div><script>alert(1)</script>\x1b[2J"
    await service.do(
        a_queue(),
        publishes("text", payload=wrap(nasty[:-4], 'text/plain; a="<b>"').xml),
        publishes("bytes", payload=wrap(nasty, "image/png").xml),
    )
    await visitor.log_in(CHANGE)
    for name, part in (
        ("text", "&lt;/div&gt;&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("text", "31 bytes of text/plain; a=&#34;&lt;b&gt;&#34;"),
        ("bytes", "000000  3c 2f 64 69 76 3e 3c 73 63 72 69 70 74 3e 61 6c  &lt;/div&gt;"),
        ("bytes", "35 bytes of image/png, in hexadecimal."),
    ):
        _, _, text = await visitor.get(f"/ui/item?node=jobs&id={name}")
        assert part in text
        assert "<script>alert" not in text


@pytest.mark.parametrize(
    ("parent", "link"),
    [
        ("orders/o1", '<a href="item?node=orders&amp;id=o1">orders/o1</a>'),
        ("a%2Fb/<c>", '<a href="item?node=a%2Fb&amp;id=%3Cc%3E">a/b/&lt;c&gt;</a>'),
        ("anything", None),
    ],
)
async def test_an_item_names_the_one_that_it_follows(service, visitor, parent, link):
    await service.do(a_queue(), publishes("a", headers=(("parent", parent),)))
    await visitor.log_in(LOOK)
    text = (await visitor.get("/ui/item?node=jobs&id=a"))[2]
    assert "<dt>Header parent</dt>" in text
    assert ("<dt>Follows</dt>" in text) is (link is not None)
    assert link is None or link in text


async def test_payloads_are_shown_to_operators_only(service, visitor):
    await service.do(a_queue(), publishes("a", payload=b"<job xmlns='x'>a secret</job>"))
    await visitor.log_in(LOOK)
    assert "a secret" not in (await visitor.get("/ui/item?node=jobs&id=a"))[2]
    await visitor.log_in(CHANGE)
    assert "a secret" in (await visitor.get("/ui/item?node=jobs&id=a"))[2]


@pytest.mark.parametrize(
    ("change", "headers"),
    [
        ({"form": ""}, {}),
        ({"form": "0" * 64}, {}),
        ({}, {"Origin": "https://evil.example"}),
        ({}, {"Origin": "null"}),
        ({}, {"Origin": "http://["}),
        ({}, {"Origin": "//127.0.0.1"}),
        ({}, {"Sec-Fetch-Site": "cross-site"}),
        ({}, {"Sec-Fetch-Site": "same-site"}),
    ],
)
async def test_a_form_from_elsewhere_does_nothing(service, visitor, change, headers):
    await service.do(a_queue(), publishes("a"))
    await visitor.log_in(CHANGE)
    form = {"action": "purge", "node": "jobs", "form": await visitor.form()}
    with capture_logs() as logs:
        assert (await visitor.post("/ui/do", form | change, headers=headers))[0] == 403
    assert logs == []
    assert (await service.do(Peek(SERVICE, JOBS, ItemId("a"))))[0].item.id == "a"
    own = {"Origin": service.place, "Sec-Fetch-Site": "same-origin"}
    assert (await visitor.post("/ui/do", form, headers=own))[0] == 303


async def test_actions_are_in_the_audit_log_with_user_and_address(service, visitor):
    await service.do(a_queue(), publishes("a", "b"), joins(ANN))
    await visitor.log_in(CHANGE)
    form = {"node": "jobs", "form": await visitor.form()}
    with capture_logs() as logs:
        for action in ("pause", "resume", "redrive", "purge"):
            status, headers, _ = await visitor.post("/ui/do", form | {"action": action})
            assert status == 303
            assert parse_qs(urlsplit(headers["Location"]).query)["node"] == ["jobs"]
    done = [(line["operation"], line["by"], line["node"]) for line in logs]
    assert done == [
        (action, "changer@queue.example/page", "jobs")
        for action in ("pause", "resume", "redrive", "purge")
    ]


ODD = "<b>&\u201c'\""
"""The name of a signal that would break a page."""


async def held_for(service, *names):
    """Make a queue with an item that is held for these signals."""
    await service.do(a_queue(), publishes("a"))
    (taken,) = await service.do(Take(who(ANN), JOBS))
    ((item, _),) = taken.items
    await service.do(holds(ANN, "a", *names, token=item.token))


async def test_a_held_item_has_a_button_for_each_signal_that_it_waits_for(service, visitor):
    await held_for(service, "yes", ODD)
    assert await visitor.log_in(CHANGE) == 303
    _, _, text = await visitor.get("/ui/item?node=jobs&id=a")
    assert ODD not in text
    links = re.findall(r'id="signal\d" href="([^"]*)"', text)
    asked = [parse_qs(urlsplit(unescape(link)).query)["signal"] for link in links]
    assert asked == [["yes"], [ODD]]
    _, _, text = await visitor.get(f"/ui/{unescape(links[1])}")
    assert ODD not in text
    names = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', text)
    form = {name: unescape(value) for name, value in names} | {"data": "caf\u00e9"}
    for note in ("waits for a worker now", "had this signal already"):
        status, headers, _ = await visitor.post("/ui/do", form)
        assert (status, headers["Location"].partition("&")[0]) == (303, "item?node=jobs")
        _, _, text = await visitor.get(f"/ui/{headers['Location']}")
        assert note in text
    item = (await service.do(Peek(SERVICE, JOBS, ItemId("a"))))[0].item
    (came,) = item.wait.came
    assert (came.name, came.data, came.by) == (ODD, '"caf\u00e9"', "changer@queue.example")


async def test_a_viewer_sees_what_an_item_waits_for_and_cannot_send_it(service, visitor):
    await held_for(service, "yes")
    await visitor.log_in(LOOK)
    _, _, text = await visitor.get("/ui/item?node=jobs&id=a")
    assert ("Waits for" in text, "ask?action=signal" in text) == (True, False)
    wanted = {"action": "signal", "node": "jobs", "item": "a", "signal": "yes"}
    assert (await visitor.get(f"/ui/ask?{urlencode(wanted)}"))[0] == 403
    assert (await visitor.post("/ui/do", wanted | {"form": await visitor.form()}))[0] == 403


async def test_an_item_is_meant_by_its_very_name(service, visitor):
    await service.do(a_queue(), publishes(" a ", "a"), joins(ANN, 1))
    await visitor.log_in(CHANGE)
    form = {"action": "release", "node": "jobs", "item": " a ", "form": await visitor.form()}
    assert (await visitor.post("/ui/do", form))[0] == 303
    assert (await visitor.post("/ui/do", form | {"item": "a "}))[0] == 404


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"action": "explode", "node": "jobs"}, 400),
        ({"action": "purge", "node": "none"}, 404),
        ({"action": "release", "node": "jobs"}, 400),
        ({"action": "signal", "node": "jobs", "item": "a"}, 400),
        ({"action": "signal", "node": "jobs", "signal": "yes"}, 400),
        ({"action": "signal", "node": "jobs", "item": "none", "signal": "yes"}, 404),
        ({"action": "signal", "node": "jobs", "item": "a", "signal": "y" * 256}, 400),
        ({"action": "cancel", "node": "jobs"}, 400),
        ({"action": "discard-reason", "node": "jobs"}, 400),
        ({"action": "discard-reason", "node": "none", "reason": "a"}, 404),
        ({"action": "release", "node": "jobs", "item": "a"}, 412),
        ({"action": "release", "node": "jobs", "item": "none"}, 404),
        ({"action": "purge", "node": ""}, 400),
        ({"action": "purge", "node": "a\0"}, 400),
    ],
)
async def test_what_cannot_be_done_is_refused_in_words_and_not_logged(
    service, visitor, form, status
):
    await service.do(a_queue(), publishes("a"))
    await visitor.log_in(CHANGE)
    with capture_logs() as logs:
        found, _, text = await visitor.post("/ui/do", form | {"form": await visitor.form()})
    assert (found, "Something went wrong" in text, logs) == (status, True, [])


async def test_unsigned_text_is_not_shown(visitor):
    await visitor.log_in(LOOK)
    _, _, text = await visitor.get("/ui/?said=send+money&mark=00")
    assert "send money" not in text


async def test_what_no_name_has_in_it_is_not_looked_for(visitor):
    await visitor.log_in(LOOK)
    for path in (
        "?sort=odd",
        "?state=odd",
        "?after=odd",
        "?after=1",
        "queue?node=%00",
        "?q=%00",
        "?after=a%00b",
        "item?node=jobs&id=%00",
        "items?node=jobs&state=queued&after=odd",
        "items?node=jobs&state=queued&after=01",
        "items?node=jobs&state=queued&sort=odd",
        "items?node=jobs&state=queued&sort=size&after=7",
    ):
        assert (await visitor.get(f"/ui/{path}"))[0] == 400


async def test_a_process_that_does_not_serve_reports_it(service, visitor):
    await visitor.log_in(LOOK)
    service.monitor.at_rest(Phase.WAITING)
    status, _, text = await visitor.get("/ui/")
    assert status == 503
    assert "does not serve at present" in text
    service.monitor.at_work(service.broker, ())


async def test_a_store_that_does_not_answer_is_not_waited_for_for_ever(
    service, visitor, monkeypatch
):
    await visitor.log_in(LOOK)
    monkeypatch.setattr("pubqueue.monitor.asking.TIMEOUT", 0.01)

    async def never(_request):
        await asyncio.Event().wait()

    monkeypatch.setattr(service.broker, "handle", never)
    status, _, text = await visitor.get("/ui/")
    assert status == 503
    assert "The store does not answer" in text


async def test_a_session_holds_on_another_instance_with_the_same_tokens(service, visitor):
    _, headers, _ = await visitor.post("/ui/login", {"password": LOOK})
    cookie = {"Cookie": headers["Set-Cookie"].partition(";")[0]}
    async with shown(users=BOTH) as other, visiting(other) as there:
        assert (await there.get("/ui/", headers=cookie))[0] == 200
    changed = user("looker", f"{LOOK}2", Role.VIEWER), BOTH[1]
    async with shown(users=changed) as other, visiting(other) as there:
        assert (await there.get("/ui/", headers=cookie))[0] == 303


PASSWORD = credentials.make("correct horse")


async def test_a_user_logs_in_with_a_password_and_is_named_in_the_log(service, visitor):
    boss = User("boss", password=PASSWORD, roles=frozenset({Role.ADMIN}))
    service.accounts.adopt([*BOTH, boss])
    await service.do(a_queue())
    with capture_logs() as logs:
        for name, password, status in (
            ("boss", "wrong", 403),
            ("nobody", "correct horse", 403),
            ("", "correct horse", 403),
            (" boss ", "correct horse", 303),
        ):
            given = {"name": name, "password": password}
            assert (await visitor.post("/ui/login", given))[0] == status
        form = {"form": await visitor.form(), "action": "pause", "node": "jobs"}
        assert (await visitor.post("/ui/do", form))[0] == 303
    assert [(line["event"], line.get("user")) for line in logs[:4]] == [
        ("login.refused", "boss"),
        ("login.refused", ""),
        ("login.refused", ""),
        ("page.login", "boss"),
    ]
    assert logs[4]["by"] == "boss@queue.example/page"
    assert "correct horse" not in str(logs)


async def test_a_user_without_a_role_or_for_other_faces_is_not_let_in(service, visitor):
    bare = user("bare", "x" * 20)
    elsewhere = replace(user("far", "y" * 20, Role.ADMIN), faces=frozenset({"line"}))
    service.accounts.adopt([*BOTH, bare, elsewhere])
    status, _, text = await visitor.post("/ui/login", {"password": "x" * 20})
    assert (status, "has no role" in text) == (403, True)
    status, _, text = await visitor.post("/ui/login", {"password": "y" * 20})
    assert (status, "Wrong name, password or token" in text) == (403, True)


async def test_a_user_that_is_removed_is_out_with_the_next_request(service, visitor):
    await visitor.log_in(CHANGE)
    assert (await visitor.get("/ui/"))[0] == 200
    form = {"form": await visitor.form(), "action": "pause", "node": "jobs"}
    service.accounts.adopt(BOTH[:1])
    assert (await visitor.get("/ui/"))[0] == 303
    assert (await visitor.post("/ui/do", form))[0] == 401
    service.accounts.adopt([])
    assert (await visitor.get("/ui/"))[2] == OFF
    service.accounts.adopt(BOTH)
    assert (await visitor.get("/ui/"))[0] == 200


@pytest.mark.parametrize(
    ("remote", "proxies", "guarded"),
    [
        ("127.0.0.1", (), True),
        ("::1", (), True),
        ("::ffff:127.0.0.1", (), True),
        ("192.0.2.7", (), False),
        ("192.0.2.7", ("192.0.2.0/24",), True),
        ("::ffff:192.0.2.7", ("192.0.2.7",), True),
        ("198.51.100.7", ("192.0.2.0/24", "2001:db8::/32"), False),
        ("2001:db8::1", ("192.0.2.0/24", "2001:db8::/32"), True),
        ("", ("192.0.2.0/24",), False),
    ],
)
def test_a_password_comes_from_this_host_or_a_proxy_that_is_named(remote, proxies, guarded):
    headers = {"X-Forwarded-For": "203.0.113.1", "X-Forwarded-Proto": "https"}
    request = make_mocked_request("POST", "/ui/login", headers=headers).clone(remote=remote)
    networks = [ip_network(text) for text in proxies]
    assert is_guarded(request, networks) is guarded


async def test_over_plain_http_from_elsewhere_no_login_is_possible(service, visitor, monkeypatch):
    monkeypatch.setattr("pubqueue.monitor.asking.is_guarded", lambda _request, _proxies: False)
    status, _, text = await visitor.post("/ui/login", {"password": LOOK})
    assert (status, "Log in over HTTPS" in text) == (403, True)
    assert (await visitor.get("/ui/"))[0] == 303


async def test_a_dead_letter_node_that_does_not_exist_is_said_on_the_page(service, visitor):
    assert await visitor.log_in(LOOK) == 303
    await service.do(a_queue(JOBS, dead_letter_node="graves"))
    _, _, text = await visitor.get("/ui/queue?node=jobs")
    assert 'id="no-dead-letter"' in text
    assert "does not exist; until it does, dead items stay here." in text
    await service.do(a_queue(NodeName("graves"), dead_letter_node=""))
    _, _, text = await visitor.get("/ui/queue?node=jobs")
    assert 'id="no-dead-letter"' not in text
    assert 'id="dead-letter"' in text
