"""What targets get, what their answers do, and registrations that are disabled and enabled again."""

import asyncio
import base64
import hmac
import json
import os
import socket
from hashlib import sha256
from ipaddress import ip_network

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from faces.contract import stored
from faces.decoding import decoded_in_turns, is_in_steps
from faces.rest.clients import follow, links, served
from faces.rest.push.hooks import (
    Hook,
    counted,
    disabled,
    gone,
    hooked,
    pushes_to,
    pushing,
    register,
    state,
)
from faces.rest.star.steps import post, take
from harness.patience import LOOK, TIMEOUT, until
from harness.servers.users import SERVICE

from pubqueue.faces.listener.budget import SMALL, Budget
from pubqueue.faces.push import client, worker
from pubqueue.faces.push.targets import Outcome, Verdict
from pubqueue.faces.push.worker import Worker
from pubqueue.faces.rest import push
from pubqueue.model.entities import Jid, NodeName, connection, later, seconds
from pubqueue.monitor.gauges import of_pushes
from pubqueue.rules.registrations import LEASE, Enable
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.testing.engine import Calendar
from pubqueue_xeps.wire.payloads.wrapper import STEP

pytestmark = pytest.mark.usefixtures("patient")


async def test_a_message_is_posted_with_its_type_links_and_signature():  # R29, R31, W24, W05
    hook = Hook()
    async with pushing(hook) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        secret = (await register(bee, hook.url)).json()["secret"]
        body = bytes(range(256)) + b"\r\n]]>"
        await etl.post(
            await follow(etl, "/queues/jobs", "post-message"),
            content=body,
            headers={"Content-Type": "image/x-odd", "Message-Id": "a b", "Correlation-Id": "c"},
        )
        request, pushed = await hook.next()
        assert (request.method, pushed) == ("POST", body)
        headers = request.headers
        assert headers["Content-Type"] == "image/x-odd"
        assert headers["Correlation-Id"] == "c"
        assert headers["Message-Attempt"] == "1"
        assert headers["User-Agent"].startswith("pubqueue/")
        links = " ".join(headers.getall("Link"))
        assert 'rel="self"' in links
        assert f'<{rest.root}/queues/jobs>; rel="generator"' in links
        key = base64.b64decode(secret.removeprefix("whsec_"))
        said = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode()
        for changed, right in ((pushed, True), (pushed + b"x", False)):
            mac = base64.b64encode(hmac.digest(key, said + changed, sha256)).decode()
            assert (headers["webhook-signature"] == f"v1,{mac}") is right
        await gone(rest)


async def test_a_message_that_has_waited_is_pushed_with_what_came():  # W27
    hook = Hook()
    async with pushing(hook) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        await post(etl)
        found = links(await take(bee))
        await bee.post(found["hold"], data={"signal": "yes", "carry": "1"})
        await etl.post(found["signal"], data={"signal": "yes", "data": "5"})
        await register(bee, hook.url)
        request, _ = await hook.next()
        came = json.loads(request.headers["Message-Waited"])
        assert request.headers["Message-Woken"] == "signal"
        assert (came["carry"], came["signals"][0]["data"]) == ("1", "5")
        assert 'waited>; rel="waited"' in " ".join(request.headers.getall("Link"))
        await gone(rest)


async def test_messages_of_a_topic_are_pushed_in_order_to_each():
    one, other = Hook(), Hook(500, 204)
    async with pushing(one, other) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        for hook in (one, other):
            assert (await register(bee, hook.url, path="/topics/news")).status_code == 201
        for name in "abc":
            await post(etl, name.encode(), path="/topics/news")
        assert [(await one.next())[1] for _ in range(3)] == [b"a", b"b", b"c"]
        assert [(await other.next())[1] for _ in range(4)] == [b"a", b"a", b"b", b"c"]


async def test_a_message_goes_by_the_targets_own_links():  # R30
    async def begin(request):
        return await linked(request, 200)

    async def linked(request, status):
        to = f"{hook.url}/next/{hook.count}"
        return web.Response(status=status, headers={"Link": f'<{to}>; rel="create-next"'})

    hook = Hook(begin)
    async with pushing(hook) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        await register(bee, hook.url, "post-message-once")
        for name in "ab":
            await post(etl, name.encode())
        seen = [await hook.next() for _ in range(3)]
        assert [body for _, body in seen] == [b"", b"a", b"b"]
        assert [request.path[2:] for request, _ in seen] == ["", "/next/1", "/next/2"]
        await gone(rest)


async def test_an_interrupted_post_is_repeated_at_the_same_link_where_405_is_delivered():  # R30
    async def begin(_request):
        return web.Response(headers={"Link": f'<{hook.url}/n>; rel="create-next"'})

    async def cut(request):
        request.transport.abort()
        return 204

    hook = Hook(begin, cut, 405)
    async with pushing(hook) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        await register(bee, hook.url, "post-message-once")
        await post(etl, b"a")
        seen = [await hook.next() for _ in range(3)]
        assert [request.path[2:] for request, _ in seen] == ["", "/n", "/n"]
        await gone(rest)


async def hang(_request):
    await asyncio.Event().wait()


async def reset(request):
    request.transport.abort()
    return 204


async def garbage(request):
    request.transport.write(b"\x00\xffnonsense\r\n\r\n")
    request.transport.close()
    return 204


@pytest.mark.parametrize("bad", [hang, reset, garbage, 500, 301, (302, {"Location": "/0"})])
async def test_a_failure_is_tried_again_and_dies_in_the_end(bad):  # R32, W11, W12
    hook = Hook(bad)
    async with pushing(hook, timeout=0.3 if bad is hang else TIMEOUT) as rest:
        await rest.make("dead")
        await rest.make("twice", backoff_min=0, max_failures=2, dead_letter_node="dead")
        etl, bee = await rest.as_(), await rest.as_("bee")
        made = await register(bee, hook.url, path="/queues/twice")
        await post(etl, b"a", path="/queues/twice")
        await gone(rest, "/queues/twice")
        shown = await state(bee, made.headers["Location"])
        assert shown["failures"] == "2"
        assert shown["error"]
        assert "a" not in shown["error"].split()
        assert (await etl.get("/queues/dead")).json()["counts"]["messages"] == 1


async def test_a_gigabyte_of_an_answer_is_cut_off():  # W11
    sent = 0

    async def endless(request):
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while sent < 1 << 30:
                await response.write(b"x" * 65_536)
                sent += 65_536
        except (ConnectionError, RuntimeError):
            pass
        return response

    hook = Hook(endless)
    async with pushing(hook) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        await register(bee, hook.url)
        await post(etl, b"a")
        await gone(rest)
        assert sent < 64 << 20


async def test_a_bad_target_gets_one_push_at_a_time_and_costs_no_other():  # W11
    bad, good = Hook(500), Hook()
    async with pushing(bad, good, retries=0) as rest:
        await rest.make("other", backoff_min=0)
        etl, bee = await rest.as_(), await rest.as_("bee")
        await register(bee, bad.url)
        for number in range(20):
            await post(etl, f"{number}".encode())
        await bad.next()
        await register(bee, good.url, path="/queues/other")
        await post(etl, b"a", path="/queues/other")
        assert (await good.next())[1] == b"a"
        assert bad.most <= 4
        assert bad.count <= 6


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (400, "dead"),
        (403, "queued"),
        (410, "queued"),
        ((503, {"Retry-After": "3600"}), "delayed"),
    ],
)
async def test_what_an_answer_does_to_message_and_registration(answer, left):  # R32
    hook = Hook(answer)
    async with pushing(hook) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        place = (await register(bee, hook.url)).headers["Location"]
        await post(etl, b"a")
        await hook.next()
        await until(lambda: counted(etl, left), every=LOOK)
        if answer == 410:
            await until_gone(bee, place)
        elif answer == 403:
            await disabled(bee, place)
        else:
            assert (await state(bee, place))["state"] == "active"
        if left == "queued":
            taken = await bee.post("/queues/jobs/consumer", headers={"Accept-Wait": "9"})
            assert taken.content == b"a"
            assert "Message-Failed" not in taken.headers
        assert hook.count == 1


async def test_nothing_more_is_pushed_for_a_removed_user(monkeypatch):  # W20
    monkeypatch.setattr(push, "RENEW", 0.05)
    hook = Hook()
    async with pushing(hook) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        await register(bee, hook.url)
        await post(etl, b"a")
        await hook.next()
        accounts = rest.face.accounts
        accounts.adopt([user for user in accounts.users if user.name != "bee"])
        await until(lambda: not rest.face.pushing.working)
        await post(etl, b"b")
        await rest.broker.settled()
        assert await counted(etl, "queued")
        assert hook.count == 1


async def until_gone(client, place):
    async def is_gone():
        return (await client.get(place)).status_code == 404

    await until(is_gone, every=LOOK)


async def test_a_redirect_is_followed_to_what_is_allowed_alone():  # W10
    stranger = Hook()
    good, hook = Hook(), Hook()
    async with hooked(stranger), pushing(hook, good, retries=1) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        hook.answers = [(307, {"Location": good.url}), (307, {"Location": stranger.url})]
        place = (await register(bee, hook.url)).headers["Location"]
        await post(etl, b"a")
        assert (await good.next())[1] == b"a"
        await post(etl, b"b")
        await disabled(bee, place)
        assert stranger.count == 0


async def test_an_address_that_is_not_global_is_not_connected_to():  # W10
    hook = Hook()
    async with pushing(hook, networks=(), retries=1) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        place = (await register(bee, hook.url)).headers["Location"]
        await post(etl, b"a")
        await disabled(bee, place)
        assert "may not be connected to" in (await state(bee, place))["error"]
        assert hook.count == 0


async def test_a_name_that_resolves_to_another_address_the_second_time_is_not_followed(
    monkeypatch,
):  # W10
    """Of two addresses of this machine one may be connected to: the name leads to that one first, then to the other."""
    hook = Hook((204, {"Connection": "close"}))
    allowed = (ip_network("127.0.0.1/32"),)
    places = ["127.0.0.1", "127.0.0.9"]

    class Resolver(AbstractResolver):
        def __init__(self, **_options):
            pass

        async def resolve(self, host, port=0, family=socket.AF_INET):
            place = places.pop(0) if len(places) > 1 else places[0]
            return [
                ResolveResult(hostname=host, host=place, port=port, family=family, proto=0, flags=0)
            ]

        async def close(self):
            pass

    monkeypatch.setattr(client, "Names", Resolver)
    async with hooked(hook, also=["127.0.0.9"]) as root:
        named = root.replace("127.0.0.1", "hooks.test")
        push = pushes_to(named, allowed, retries=1)
        async with served(**push) as rest:
            await rest.make("jobs", backoff_min=0)
            etl, bee = await rest.as_(), await rest.as_("bee")
            place = (await register(bee, hook.url.replace("127.0.0.1", "hooks.test"))).headers[
                "Location"
            ]
            await post(etl, b"a")
            assert (await hook.next())[1] == b"a"
            await gone(rest)
            await post(etl, b"b")
            await disabled(bee, place)
            assert "may not be connected to" in (await state(bee, place))["error"]
            assert hook.count == 1


async def test_the_lock_holds_while_a_push_lasts_and_goes_back_at_once_with_the_registration():
    hook, calendar = Hook(hang), Calendar()
    async with pushing(hook, calendar=calendar, timeout=TIMEOUT) as rest:
        await rest.make("short", lock_timeout=1)
        etl, bee = await rest.as_(), await rest.as_("bee")
        place = (await register(bee, hook.url, path="/queues/short")).headers["Location"]
        await post(etl, b"a", path="/queues/short", Message_Id="a")
        await hook.next()

        async def is_extended():
            item = await stored(rest.side, "a", NodeName("short"))
            return item.deadline == later(calendar.now(), seconds(1))

        for _ in range(3):
            rest.side.advance(0.9)
            await until(is_extended, every=LOOK)
        late = await bee.post("/queues/short/consumer")
        assert late.status_code == 503
        assert (await bee.delete(place)).status_code == 204
        back = await bee.post("/queues/short/consumer", headers={"Accept-Wait": "9"})
        assert (back.status_code, back.headers["Message-Attempt"]) == (200, "2")
        assert "Message-Failed" not in back.headers


async def test_the_lock_is_of_an_address_of_this_start():
    hook = Hook(hang)
    async with pushing(hook, timeout=TIMEOUT) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        await register(bee, hook.url)
        await post(etl, b"a", Message_Id="a")
        await hook.next()
        holder = connection((await stored(rest.side, "a")).holder, SERVICE)
        assert not rest.broker.is_from_before(holder)
        rest.broker.life = "next"
        assert rest.broker.is_from_before(holder)


async def test_a_registration_outlives_its_instance(tmp_path):
    hook = Hook()
    async with hooked(hook) as root:
        push = pushes_to(root)
        async with served(SqliteStore(tmp_path / "q.db"), **push) as rest:
            await rest.make("jobs", backoff_min=0)
            bee = await rest.as_("bee")
            assert (await register(bee, hook.url)).status_code == 201
        async with served(SqliteStore(tmp_path / "q.db"), **push) as rest:
            await post(await rest.as_(), b"a")
            assert (await hook.next())[1] == b"a"
            await gone(rest)


async def set_state(client, place, wanted):
    answer = await client.post(place, data={"state": wanted})
    assert answer.status_code == 204


@pytest.mark.parametrize("kind", ["queues/jobs", "topics/news"])
async def test_a_target_is_disabled_and_enabled_again(kind):
    hook = Hook((403, {}), 204)
    async with pushing(hook) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        place = (await register(bee, hook.url, path=f"/{kind}")).headers["Location"]
        await post(etl, b"a", path=f"/{kind}")
        await hook.next()

        async def disabled():
            return (await state(bee, place))["state"] == "disabled"

        await until(disabled, every=LOOK)
        for _ in range(2):
            await set_state(bee, place, "active")
            found = await state(bee, place)
            assert (found["state"], found["failures"]) == ("active", "0")
        assert (await hook.next())[1] == b"a"
        await set_state(bee, place, "disabled")
        assert await disabled()
        await post(etl, b"b", path=f"/{kind}")
        if kind.startswith("queues"):
            free = await bee.post(f"/{kind}/consumer", headers={"Accept-Wait": "9"})
            assert (free.status_code, free.content) == (200, b"b")
        assert hook.count == 2


async def test_a_push_that_is_under_way_is_given_back_when_its_target_is_disabled():
    hook = Hook(hang)
    async with pushing(hook, timeout=60) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        place = (await register(bee, hook.url)).headers["Location"]
        await post(etl, b"a")
        await hook.next()
        await set_state(bee, place, "disabled")
        back = await bee.post("/queues/jobs/consumer", headers={"Accept-Wait": "9"})
        assert (back.status_code, back.content) == (200, b"a")
        assert "Message-Failed" not in back.headers


async def test_a_push_that_is_under_way_is_given_back_when_another_instance_disables_its_target():
    hook = Hook(hang)
    async with pushing(hook, timeout=60) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        name = (await register(bee, hook.url)).json()["id"]
        await post(etl, b"a")
        await hook.next()
        by = rest.face.accounts.principals.of(Jid(f"etl@{SERVICE}"))
        await rest.broker.handle(Enable(by, NodeName("jobs"), name, disabled=True))
        back = await bee.post("/queues/jobs/consumer", headers={"Accept-Wait": "20"})
        assert (back.status_code, back.content) == (200, b"a")
        assert "Message-Failed" not in back.headers
        await until(lambda: not rest.face.pushing.working)


async def test_pushes_are_counted_by_outcome():  # W26
    hook = Hook(500, 422, 204)
    async with pushing(hook) as rest:
        await register(await rest.as_("bee"), hook.url)
        etl = await rest.as_()
        for body in (b"a", b"b", b"c"):
            await post(etl, body)

        async def all_ended():
            return sum(rest.face.pusher.outcomes.values()) == 4

        await until(all_ended, every=LOOK)
        (family,) = of_pushes([rest.face.traffic])
        found = family.samples
        assert {one.labels["outcome"]: one.value for one in found} == {
            "bad": 1.0,
            "done": 2.0,
            "failed": 1.0,
        }


def test_another_instance_takes_over_within_five_seconds():
    assert push.RENEW * 2 < LEASE / 1000
    assert LEASE / 1000 + push.RENEW < 5


# --- large messages -------------------------------------------------------------------------------


async def test_a_large_message_is_decoded_in_many_turns_and_pushed_as_it_was(monkeypatch):
    hook, body = Hook(), os.urandom(STEP)  # is longer in base64
    async with pushing(hook) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        await rest.make("large", max_payload_size=10 * STEP)
        secret = (await register(bee, hook.url, path="/queues/large")).json()["secret"]
        with decoded_in_turns(monkeypatch) as sizes:
            assert (await etl.post("/queues/large/messages", content=body)).status_code == 201
            request, pushed = await hook.next()
        assert pushed == body
        assert is_in_steps(sizes)
        headers = request.headers
        said = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(secret.removeprefix("whsec_"))
        mac = base64.b64encode(hmac.digest(key, said, sha256)).decode()
        assert headers["webhook-signature"] == f"v1,{mac}"
        await gone(rest, "/queues/large")


class Slow:
    """A job whose pushes end when a test says so."""

    def __init__(self):
        self.account = Jid("etl@queue.x")
        self.begun, self.ends = 0, asyncio.Event()

    async def push(self, _item, _payload):
        self.begun += 1
        await self.ends.wait()
        return Outcome(Verdict.DONE)


class Other:
    """Has something of another account kept."""

    def give_up(self):
        raise AssertionError("the other account had less")


SIZE = 30 * SMALL


async def test_a_push_of_the_account_with_the_most_gives_up_and_comes_again_later(monkeypatch):
    monkeypatch.setattr(worker, "KEPT", budget := Budget(3 * SIZE))
    job = Slow()
    pushing = asyncio.create_task(Worker(None, job).pushed(None, bytes(SIZE)))
    await until(lambda: job.begun)
    budget.note(Other(), "bee@queue.x", 2 * SIZE - SMALL)
    outcome = await pushing
    assert (outcome.verdict, outcome.wait) == (Verdict.LATER, worker.PAUSE)
    assert budget.of(job.account) == 0
    job.ends.set()
    assert await Worker(None, job).pushed(None, bytes(SIZE)) == Outcome(Verdict.DONE)
    assert budget.of(job.account) == 0
