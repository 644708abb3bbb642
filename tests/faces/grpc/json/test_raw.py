"""What no client of Google's sends: wrong credentials, pages of browsers, bodies that are too large, cut connections."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from functools import partial
from hashlib import sha256

import httpx
import pytest
from faces.grpc import clients
from faces.grpc.clients import TOKEN
from faces.grpc.json.clients import error_of, hosted, plain
from faces.grpc.json.conftest import BILL, TOPIC
from harness.clients.unfinished import counted
from harness.patience import TIMEOUT, until
from harness.servers.users import CHEAP, RIGHT, SERVICE

from pubqueue.accounts.credentials import User
from pubqueue.faces.grpc import transcoding
from pubqueue.faces.grpc.callers import LARGE
from pubqueue.faces.grpc.server import UntilStop
from pubqueue.faces.grpc.settings import GrpcSettings
from pubqueue.faces.grpc.statuses import STOPPING
from pubqueue.faces.grpc.transcoding import ROWS, VERSION
from pubqueue.model.entities import Jid

DIGEST = frozenset({sha256(TOKEN.encode()).hexdigest()})
PULL = {"subscription": BILL, "returnImmediately": True}


def of(answer):
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    code, status = error_of(answer.content)
    assert code == answer.status_code
    return code, status


@pytest.fixture
async def made(http):
    await http.post("/topics", json={"name": TOPIC})
    await http.post("/subscriptions", json={"name": BILL, "topic": TOPIC})


async def publish(http, data=b"a"):
    message = {"data": b64encode(data).decode()}
    return await http.post("/topics/publish", json={"topic": TOPIC, "message": message})


async def test_all_but_the_last_byte_of_a_body_counts_for_the_account(root):
    posts = {(method, f"/{VERSION}/{path}") for method, path in ROWS if method == "POST"}
    user = b64encode(f"bee:{RIGHT}".encode()).decode()
    fields = {"Authorization": f"Basic {user}", "Content-Type": "application/json"}
    assert await counted(root, posts, fields, f"bee@{SERVICE}") == posts


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/snapshots"),
        ("PUT", "/topics"),
        ("POST", "/topics/a"),
        ("OPTIONS", "/topics"),
    ],
)
async def test_what_is_no_method_is_not_found(http, method, path):  # G49
    assert of(await http.request(method, path)) == (404, "NOT_FOUND")


@pytest.mark.parametrize("body", [b"{", b"[]", b"[" * 50_000, b"\xff", b'{"name": 7}'])
async def test_what_is_no_message_is_refused(http, body):  # G48, G49
    assert of(await http.post("/topics", content=body)) == (400, "INVALID_ARGUMENT")
    assert (await http.get("/topics")).json() == {}


@pytest.mark.parametrize(
    "query", ["alt=proto", "fields=topic", "callback=a", "access_token=a", "maxResults=many"]
)
async def test_parameters_that_would_change_the_answer_are_refused(http, query):  # G49
    assert of(await http.get(f"/topics?{query}")) == (400, "INVALID_ARGUMENT")
    assert of(await http.post("/topics?alt=media", json={})) == (
        400,
        "INVALID_ARGUMENT",
    )


async def test_parameters_that_cannot_matter_are_passed_over_and_others_are_named(http):  # G49
    query = "alt=json&prettyPrint=true&key=a&quotaUser=b&uploadType=c&$.xgafv=2"
    assert (await http.get(f"/topics?{query}")).json() == {}
    for other in ("color=red", "maxResults=1&maxResults=2"):
        answer = await http.get(f"/topics?{query}&{other}")
        assert error_of(answer.content) == (400, "INVALID_ARGUMENT")
    answer = await http.post(f"/topics?{query}&name=/topics/shop/orders", json={})
    assert error_of(answer.content) == (400, "INVALID_ARGUMENT")


async def test_a_body_above_the_limit_is_not_read(root, http, made):  # G12, G49
    declared = {"Content-Length": f"{transcoding.MAX_BODY + 1}", "Expect": "100-continue"}
    answer = await answered(root, "POST", "/topics/publish", declared)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert error_of(answer.partition(b"\r\n\r\n")[2]) == (413, "INVALID_ARGUMENT")

    async def endless():
        for _ in range(transcoding.MAX_BODY // 65_536 + 1):
            yield b" " * 65_536

    assert of(await http.post("/topics", content=endless())) == (413, "INVALID_ARGUMENT")
    assert (await publish(http)).json() == {}


async def answered(root, method, path, headers, body=b""):
    """Send a request, and return all that comes until the end of the connection."""
    url = httpx.URL(root)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = {"Host": f"{url.host}:{url.port}", "Connection": "close", **headers}
    lines = [
        f"{method} /v1beta1a{path} HTTP/1.1",
        *(f"{name}: {said}" for name, said in head.items()),
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    async with asyncio.timeout(TIMEOUT):
        found = await reader.read()
    writer.close()
    return found


async def test_a_client_that_expects_continue_gets_it(root):  # G49
    body = json.dumps({"name": TOPIC}).encode()
    headers = {"Content-Length": f"{len(body)}", "Expect": "100-continue"}
    found = await answered(root, "POST", "/topics", headers, body)
    assert found.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ")
    found = await answered(root, "POST", "/topics", {**headers, "Expect": "miracles"}, body)
    assert found.startswith(b"HTTP/1.1 417 ")


async def test_a_body_that_does_not_come_is_given_up(root, monkeypatch):  # G48, G49
    monkeypatch.setattr(transcoding, "BODY_TIMEOUT", 0.05)
    found = await answered(root, "POST", "/topics", {"Content-Length": "9"}, b"{")
    assert found.startswith(b"HTTP/1.1 408 ")


async def test_the_body_of_a_get_does_not_matter(http, made):
    assert (await http.request("GET", "/topics", content=b"x")).json() == {
        "topic": [{"name": TOPIC}]
    }


async def test_a_pull_whose_client_hangs_up_takes_nothing(side, root, http, made):  # G16, G49
    async with plain(root) as gone:
        waiting = asyncio.ensure_future(
            gone.post("/subscriptions/pull", json={"subscription": BILL})
        )
        await until(lambda: side.broker.waiting.takes)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    await until(lambda: not side.broker.waiting.takes)
    await publish(http)
    assert (await http.post("/subscriptions/pull", json=PULL)).status_code == 200


async def test_a_pull_ends_before_its_client_does(http, made, monkeypatch):  # G15, G49
    monkeypatch.setattr(transcoding, "MAX_WAIT", 0.2)
    answer = await http.post("/subscriptions/pull", json={"subscription": BILL})
    assert of(answer) == (503, "UNAVAILABLE")
    batch = await http.post("/subscriptions/pullBatch", json={"subscription": BILL})
    assert batch.json() == {}


async def test_what_takes_too_long_is_given_up(http, made, monkeypatch):  # G49
    monkeypatch.setattr(transcoding, "MAX_TIME", 0.05)
    answer = await http.post("/subscriptions/pull", json={"subscription": BILL})
    assert of(answer) == (503, "UNAVAILABLE")


async def test_a_service_that_stops_reports_it(side, http, made):  # G46, G49
    waiting = asyncio.ensure_future(http.post("/subscriptions/pull", json={"subscription": BILL}))
    await until(lambda: side.broker.waiting.takes)
    await side.face.stop()
    assert of(await asyncio.wait_for(waiting, TIMEOUT)) == (503, "UNAVAILABLE")
    assert of(await http.get("/topics")) == (503, "UNAVAILABLE")


async def test_without_a_face_nothing_is_served_yet():  # G49
    async with hosted(None) as root, plain(root) as client:
        assert of(await client.get("/topics")) == (503, "UNAVAILABLE")


async def test_a_fault_of_ours_shows_nothing(side, http, monkeypatch):  # G45, G49
    async def fail(*_request):
        raise RuntimeError("secret")

    monkeypatch.setattr(side.broker, "handle_for", fail)
    answer = await http.get("/topics")
    assert of(answer) == (500, "INTERNAL")
    assert b"secret" not in answer.content


PAGES = [
    ({"Origin": "http://evil.example"}, 403, "PERMISSION_DENIED"),
    ({"Origin": "null"}, 403, "PERMISSION_DENIED"),
    ({"Origin": "http://evil.example", "Host": "evil.example"}, 401, "UNAUTHENTICATED"),
    ({"Host": "evil.example"}, 401, "UNAUTHENTICATED"),
    ({"Host": "evil.example:8086"}, 401, "UNAUTHENTICATED"),
    ({"Host": "127.0.0.1.evil.example"}, 401, "UNAUTHENTICATED"),
    ({"Host": "192.0.2.1"}, 401, "UNAUTHENTICATED"),
]


@pytest.mark.parametrize(("headers", "code", "status"), PAGES)
async def test_a_page_in_a_browser_has_no_account(http, headers, code, status):  # G40, G49
    answer = await http.post("/topics", json={"name": TOPIC}, headers=headers)
    assert of(answer) == (code, status)
    assert (await http.get("/topics")).json() == {}


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8086", "127.0.0.1", "[::1]", "[::1]:8086"]
)
async def test_a_program_on_this_machine_has_that_of_anonymous(http, host):  # G40, G49
    assert (await http.get("/topics", headers={"Host": host})).json() == {}


class TestUsers:
    """Without `anonymous`, credentials are those of a user."""

    @pytest.fixture
    def make_face(self):
        more = [
            User("tok", tokens=DIGEST, local=True),
            User("few", password=CHEAP, projects=frozenset({"shop"}), local=True),
        ]
        return partial(clients.a_face, settings=GrpcSettings(), more_users=more)

    @pytest.fixture(autouse=True)
    def local(self, side):
        names = (*clients.NAMES, "tok", "few")
        side.face.accounts.principals.welcome(Jid(f"{name}@{SERVICE}") for name in names)

    @pytest.mark.parametrize(
        "said", ["", "Basic !!!", "Basic ZXRsOndyb25n", "Bearer wrong", "Digest x", "Bearer"]
    )
    async def test_wrong_ones_are_refused(self, http, said):  # G40, G49
        for answer in (
            await http.post("/topics", json={"name": TOPIC}, headers={"Authorization": said}),
            await http.get("/nonsense", headers={"Authorization": said}),
        ):
            assert of(answer) == (401, "UNAUTHENTICATED")
            assert answer.headers.get_list("WWW-Authenticate") == [
                'Basic realm="pubqueue", charset="UTF-8"',
                'Bearer realm="pubqueue"',
            ]
        twice = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer wrong")]
        assert of(await http.get("/topics", headers=twice)) == (401, "UNAUTHENTICATED")
        assert of(await http.get("/topics")) == (401, "UNAUTHENTICATED")

    async def test_a_password_and_a_token_give_their_account(self, root):  # G40, G49
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        async with plain(root, "etl") as etl, plain(root, headers=bearer) as tok:
            await etl.post("/topics", json={"name": TOPIC})
            assert (await etl.get("/topics")).json() == {"topic": [{"name": TOPIC}]}
            assert (await tok.get("/topics")).json() == {}
            assert of(await tok.get(f"/topics/{TOPIC}")) == (404, "NOT_FOUND")

    async def test_an_ack_id_of_another_account_does_nothing(self, root):  # G22, G49
        async with plain(root, "etl") as etl, plain(root, "bee") as bee:
            await etl.post("/topics", json={"name": TOPIC})
            await etl.post("/subscriptions", json={"name": BILL, "topic": TOPIC})
            await publish(etl)
            held = (await etl.post("/subscriptions/pull", json=PULL)).json()["ackId"]
            ack = {"subscription": BILL, "ackId": [held]}
            assert of(await bee.post("/subscriptions/acknowledge", json=ack)) == (404, "NOT_FOUND")
            await etl.post(
                "/subscriptions/modifyAckDeadline",
                json={"subscription": BILL, "ackId": held, "ackDeadlineSeconds": 0},
            )
            assert (await etl.post("/subscriptions/pull", json=PULL)).status_code == 200

    async def test_other_projects_do_not_exist(self, root):  # G40, G49
        async with plain(root, "few") as few:
            assert (await few.post("/topics", json={"name": TOPIC})).status_code == 200
            other = await few.post("/topics", json={"name": "/topics/other/orders"})
            assert of(other) == (403, "PERMISSION_DENIED")
            assert of(await few.get("/topics//topics/other/orders")) == (404, "NOT_FOUND")


async def test_large_bodies_wait_for_their_turn_and_other_accounts_do_not(
    root, http, made, monkeypatch
):  # G12, G48, G49
    """A slow client has room for one large body, and its next ones wait until that is gone."""
    url, begun, read = httpx.URL(root), [], transcoding.host.read

    async def noted(request, *more):
        begun.append(request.content_length)
        return await read(request, *more)

    monkeypatch.setattr(transcoding.host, "read", noted)
    head = (
        f"POST /v1beta1a/topics HTTP/1.1\r\nHost: {url.host}\r\nContent-Length: {transcoding.MAX_BODY}\r\n"
        "Expect: 100-continue\r\n\r\n"
    )
    slow = []
    for _ in range(3):
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(head.encode())
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), TIMEOUT)
        slow.append(writer)
    assert (await publish(http, b"small")).json() == {}
    async with plain(root, "bee") as bee:
        await bee.post("/topics", json={"name": "/topics/shop/of-bee"})
        message = {"data": b64encode(bytes(LARGE)).decode()}
        said = {"topic": "/topics/shop/of-bee", "message": message}
        assert (await bee.post("/topics/publish", json=said)).json() == {}
    assert begun.count(transcoding.MAX_BODY) == 1
    slow[0].close()
    await until(lambda: begun.count(transcoding.MAX_BODY) == 2)
    for writer in slow:
        writer.close()


async def test_a_body_that_is_said_to_be_too_large_waits_for_no_room(root, http, made, monkeypatch):
    """It would have to wait until nothing else is received, and everything behind it too."""

    async def wait(*_):
        raise AssertionError("it is received")

    monkeypatch.setattr(transcoding.host, "read", wait)
    url = httpx.URL(root)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    for length in (f"{transcoding.MAX_BODY + 1}", "9" * 19):
        writer.write(
            f"POST /v1beta1a/topics HTTP/1.1\r\nHost: {url.host}\r\nContent-Length: {length}\r\n\r\n".encode()
        )
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        writer.close()
        reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.close()


async def test_a_large_request_is_not_kept_while_it_waits_for_a_message(http, made):  # G48, G49
    padded = PULL | {"x": "x" * LARGE, "returnImmediately": False}
    assert of(await http.post("/subscriptions/pull", json=padded)) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize("said", ["", "Digest x", "Basic !!!", "Bearer wrong"])
async def test_wrong_credentials_do_not_get_the_account_of_anonymous(http, said):  # G40, G49
    answer = await http.get("/topics", headers={"Authorization": said})
    assert of(answer) == (401, "UNAUTHENTICATED")


async def test_what_waits_for_anything_ends_with_the_service():  # G46
    work, begun, never = UntilStop(), asyncio.Event(), asyncio.Event()

    async def wait():
        async with work.within(TIMEOUT):
            begun.set()
            await never.wait()

    waiting = asyncio.ensure_future(wait())
    await begun.wait()
    work.end()
    assert await failed(waiting) is STOPPING
    assert await failed(wait()) is STOPPING


async def test_a_timeout_of_the_work_itself_stays_what_it_is():
    async def fail():
        async with UntilStop().within(TIMEOUT):
            raise TimeoutError("of its own")

    assert str(await failed(fail())) == "of its own"


async def failed(work):
    (found,) = await asyncio.gather(work, return_exceptions=True)
    return found
