"""All that is served over HTTP, on one address: what holds for each part without a line of its own."""

import asyncio
import re
from base64 import b64encode

import aiohttp
import pytest
from harness.operators.browser import chromium
from harness.patience import TIMEOUT, until
from harness.processes.program import Program
from harness.servers.users import RIGHT

from pubqueue.accounts import credentials
from pubqueue.faces.grpc.transcoding import ROWS, VERSION
from pubqueue.faces.http.problems import OWN_TYPES
from pubqueue.faces.rest.profiles import profiles_of
from pubqueue.faces.rest.settings import RestSettings
from pubqueue.faces.stomp.codec import V12, Frame, FrameReader, Side, write
from pubqueue.operations.table import OPERATIONS

CONFIG = """
jid = "queue.localhost"
server = ""
store = "sqlite:///{folder}/pubqueue.db"
http = "127.0.0.1:0"
http_proxies = ["127.0.0.9"]
[stomp]
listen = "127.0.0.1:0"
web_socket = "/stomp"
[rest]
listen = "127.0.0.1:0"
[grpc]
listen = ""
json = "127.0.0.1:0"
[[user]]
name = "root"
roles = ["admin"]
password = "{password}"
[[user]]
name = "eve"
local = true
password = "{password}"
[[node]]
name = "jobs"
queueing = true
options = {{ "pubsub#publish_model" = "open", "pubsub#access_model" = "open" }}
[[node]]
name = "news"
queueing = false
options = {{ "pubsub#publish_model" = "open", "pubsub#access_model" = "open" }}
"""
PAGE_POLICY = "script-src 'self'"
STRANGE = {
    "node": "jobs",
    "id": "one",
    "name": "x",
    "number": "1",
    "token": "1",
    "key": "k",
    "kind": "1",
    "count": "1",
}


class Service(Program):
    """The program with each part on the address of `http`."""

    def __init__(self, folder):
        path = folder / "pubqueue.toml"
        path.write_text(CONFIG.format(folder=folder, password=credentials.make(RIGHT).text))
        path.chmod(0o600)
        super().__init__(path)

    @property
    def place(self):
        return "http://" + ":".join(
            re.findall(r"http\.listening.*?host=(\S+) port=(\d+)", self.log)[-1]
        )


@pytest.fixture
async def service(tmp_path):
    async with Service(tmp_path) as started, aiohttp.ClientSession() as asking:
        await until(lambda: is_ready(asking, started.place))
        yield started


async def is_ready(asking, place):
    async with asking.get(f"{place}/readyz") as answer:
        return answer.status == 200


@pytest.fixture
async def session():
    made = aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(TIMEOUT), connector=aiohttp.TCPConnector(limit=0)
    )
    async with made:
        yield made


def basic(name, password=RIGHT):
    return {"Authorization": "Basic " + b64encode(f"{name}:{password}".encode()).decode()}


def routes():
    """Return method and path of each route of each part, with names that may be those of something."""
    for profile in profiles_of(RestSettings()):
        for route in profile.routes:
            yield (
                route.method,
                profile.prefix + re.sub(r"\{(\w+)\}", lambda m: STRANGE[m[1]], route.path),
            )
    for method, path in ROWS:
        yield method, f"/{VERSION}/{path.format(name='x')}"
    for name in OPERATIONS:
        yield "GET", f"/api/operations/{name}"
        yield "POST", f"/api/operations/{name}"
    for path in (
        "/api/operations",
        "/api/openapi.json",
        "/metrics",
        "/healthz",
        "/readyz",
        "/stomp",
    ):
        yield "GET", path
    for path in ("", "queue", "items", "reasons", "item", "ask", "login", "do", "static/page.js"):
        yield "GET", f"/ui/{path}"
    yield from (("POST", "/ui/login"), ("POST", "/ui/do"), ("POST", "/ui/logout"), ("GET", "/"))


UNKNOWN = (
    "/nowhere",
    "/rest",
    "/rest/nowhere",
    "/hornetq/nowhere",
    "/restless",
    "/api",
    "/api/x",
    f"/{VERSION}/x",
)


def is_closed(answer):
    """Return whether a browser runs nothing of an answer in the origin of the service."""
    policy = answer.headers["Content-Security-Policy"]
    page = PAGE_POLICY in policy
    shown = page or answer.content_type in OWN_TYPES
    return (
        (page or {"default-src 'none'", "sandbox"} <= set(policy.split("; ")))
        and answer.headers["X-Content-Type-Options"] == "nosniff"
        and answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        and (shown or answer.headers["Content-Disposition"].startswith("attachment"))
    )


@pytest.mark.parametrize("credentials", [{}, basic("root"), basic("root", "wrong")])
async def test_each_route_of_each_part_answers_with_the_headers_of_a_closed_origin(
    service, session, credentials
):
    wrong = []
    for method, path in [
        *routes(),
        *(("GET", path) for path in UNKNOWN),
        ("PUT", "/ui/"),
        ("BREW", "/x"),
    ]:
        async with session.request(
            method, service.place + path, headers=credentials, allow_redirects=False
        ) as answer:
            if not is_closed(answer):
                wrong.append((method, path, answer.status, answer.headers))
    assert wrong == []


@pytest.mark.parametrize("path", UNKNOWN)
async def test_an_unknown_path_is_a_problem_document(service, session, path):
    async with session.get(service.place + path, headers=basic("root")) as answer:
        document = await answer.json(content_type=None)
        if path.startswith(f"/{VERSION}"):
            assert document["error"]["status"] == "NOT_FOUND", "as Google's clients read it"
        else:
            assert answer.content_type == "application/problem+json"
            assert document["type"] == "urn:x-pubqueue:problem:not-found"
        assert answer.status == document.get("status", 404) == 404


async def test_a_malformed_request_gets_a_problem_document_without_its_bytes(service):
    host, port = service.place.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    async with asyncio.timeout(TIMEOUT):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n<script>: 1\r\n\r\n")
        answer = await reader.read()
    writer.close()
    assert b" 400 " in answer
    assert b"application/problem+json" in answer
    assert b"default-src 'none'; sandbox" in answer
    assert b"<script>" not in answer


BODY = b"<!doctype html><script>document.title = 1</script>"


@pytest.mark.parametrize(
    "kind",
    ["text/html", "image/svg+xml", "application/xhtml+xml", "text/plain", "application/json", ""],
)
async def test_each_way_to_a_message_is_a_download(service, session, kind):
    rest, hornetq = f"{service.place}/rest", f"{service.place}/hornetq"
    typed = {"Content-Type": kind, "Content-Disposition": 'inline; filename="a.html"'}
    eve, root = basic("eve"), basic("root")

    async def ask(method, url, **more):
        async with session.request(method, url, headers={**root, **more}) as answer:
            assert answer.status in {200, 201}, (url, await answer.text())
            await answer.read()
            return answer

    for node in ("queues/jobs", "topics/news"):
        for _ in range(3):
            more = {**eve, **typed, "Message-Id": "one"} if "news" in node else {**eve, **typed}
            async with session.post(f"{rest}/{node}/messages", data=BODY, headers=more) as posted:
                assert posted.status in {200, 201}
    auto = await ask("POST", f"{hornetq}/queues/jobs/pull-consumers")
    following = auto.headers["msg-consume-next"]
    topic = await ask("POST", f"{hornetq}/topics/news/pull-subscriptions")
    async with session.post(f"{rest}/topics/news/messages", data=BODY, headers={**eve, **typed}):
        pass
    found = [
        await ask("GET", f"{rest}/topics/news/messages/one"),
        await ask("GET", f"{rest}/nodes/news/messages/one"),
        *[await ask("GET", f"{rest}/topics/news/{where}") for where in ("first", "last")],
        await ask("POST", f"{rest}/queues/jobs/consumer"),
        await ask("POST", following),
        await ask("POST", topic.headers["msg-consume-next"]),
    ]
    assert all(is_closed(answer) for answer in found)
    assert {answer.headers["Content-Disposition"] for answer in found} == {
        'attachment; filename="a.html"'
    }


ATTACK = b"""<!doctype html><title>x</title><script>
fetch('/ui/').then(answer => { document.title = 'in the origin ' + answer.status; });
</script><img src=x onerror="document.title = 'ran'">"""


async def test_what_a_publisher_has_typed_runs_in_no_browser(service, session):
    where = f"{service.place}/rest/topics/news/messages"
    headers = {**basic("eve"), "Content-Type": "text/html", "Message-Id": "attack"}
    async with session.post(where, data=ATTACK, headers=headers) as posted:
        assert posted.status in {200, 201}
    async with chromium() as browser:
        context = await browser.new_context(
            http_credentials={"username": "root", "password": RIGHT}, accept_downloads=True
        )
        page = await context.new_page()
        await page.goto(f"{service.place}/ui/login")
        await page.fill("input[name=name]", "root")
        await page.fill("input[name=password]", RIGHT)
        await page.press("input[name=password]", "Enter")
        await page.wait_for_selector("text=jobs")
        async with page.expect_download() as download:
            await page.evaluate("url => { location = url; }", f"{where}/attack")
        assert (await (await download.value).path()).read_bytes() == ATTACK
        assert "in the origin" not in await page.title()


# The address of a client, which is determined in one place.

PROXY = ("127.0.0.9", 0)


async def stomp_login(session, service, headers, passcode):
    async with session.ws_connect(
        f"{service.place}/stomp", protocols=["v12.stomp"], headers=headers
    ) as made:
        frame = Frame(
            "CONNECT", {"accept-version": "1.2", "host": "x", "login": "root", "passcode": passcode}
        )
        await made.send_bytes(write(frame, V12))
        reader = FrameReader(Side.SERVER)
        while (event := reader.next_event()) is None:
            message = await made.receive()
            reader.receive(
                message.data.encode() if message.type is aiohttp.WSMsgType.TEXT else message.data
            )
        return event.command == "CONNECTED"


async def api_login(session, service, headers, passcode):
    given = {**headers, **basic("root", passcode)}
    async with session.get(f"{service.place}/api/operations", headers=given) as answer:
        return answer.status == 200


async def page_login(session, service, headers, passcode):
    form = {"name": "root", "password": passcode}
    async with session.post(
        f"{service.place}/ui/login", data=form, headers=headers, allow_redirects=False
    ) as answer:
        return answer.status == 303


LOGINS = {"WebSocket": stomp_login, "page": page_login, "API": api_login}


@pytest.mark.parametrize("part", LOGINS)
async def test_wrong_attempts_count_for_the_client_behind_the_proxy(service, part):
    log_in, number = LOGINS[part], list(LOGINS).index(part)
    stranger, alice = (
        {"X-Forwarded-For": f"{net}.{number}"} for net in ("203.0.113", "198.51.100")
    )
    through = aiohttp.TCPConnector(local_addr=PROXY)
    async with aiohttp.ClientSession(connector=through) as session, asyncio.timeout(TIMEOUT):
        waits = False
        # a slow machine may ask again after the first wait of a second; the next one is longer
        while not waits:
            assert not await log_in(session, service, stranger, "wrong")
            waits = not await log_in(session, service, stranger, RIGHT)
        assert await log_in(session, service, alice, RIGHT), "another client of the proxy does not"
    direct = aiohttp.TCPConnector(local_addr=(f"127.0.1.{number + 1}", 0))
    async with aiohttp.ClientSession(connector=direct) as session:
        assert await log_in(session, service, {}, RIGHT)


async def test_two_fields_of_credentials_are_none(service, session):
    wrong = []
    public = {"/metrics", "/healthz", "/readyz", "/"}
    for method, path in routes():
        if path in public:
            continue
        fields = [("Authorization", basic("root")["Authorization"])] * 2
        async with session.request(
            method, service.place + path, headers=fields, allow_redirects=False
        ) as answer:
            if answer.status != 401 or len(answer.headers.getall("WWW-Authenticate")) != 2:
                wrong.append((method, path, answer.status))
    assert wrong == []
