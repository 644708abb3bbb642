"""Pushing: to HTTP and to the push service of tech.pubsub, what answers mean, where nothing is pushed to, and by which instance."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
from base64 import b64decode
from functools import partial

import grpc
import pytest
from faces.contract import make_store
from faces.decoding import decoded_in_turns, is_in_steps
from faces.grpc import clients
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, Stub, code_of
from faces.grpc.hooks import a_hook
from faces.sides import two_sides
from grpc import StatusCode
from harness.patience import TIMEOUT, until

from pubqueue.faces.grpc import endpoints, push
from pubqueue.faces.grpc.settings import GrpcSettings
from pubqueue.faces.grpc.wire import tech as t
from pubqueue.faces.grpc.wire import v1 as m
from pubqueue.faces.push import client, worker
from pubqueue.faces.push.client import PushClient
from pubqueue.faces.push.targets import (
    EndpointTerms,
    Outcome,
    Verdict,
    may_resolve_to,
    read_endpoint,
)
from pubqueue.model.decision import Done
from pubqueue.model.entities import Jid, NodeName, Principal
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure
from pubqueue.rules.take import Take
from pubqueue.rules.waits import Hold, Signal
from pubqueue_xeps.wire.payloads.wrapper import STEP

TOPIC, BILL = "projects/shop/topics/orders", "projects/shop/subscriptions/bill"
INVALID, BARRED = StatusCode.INVALID_ARGUMENT, StatusCode.PERMISSION_DENIED


@pytest.fixture
def make_face():
    settings = GrpcSettings(
        anonymous="etl", push_to=("127.0.0.1:*", "localhost:*", "*.example.org:443")
    )
    return partial(clients.a_face, settings=settings)


@pytest.fixture
async def hook():
    async with a_hook() as one:
        yield one


@pytest.fixture
async def topic(v1):
    await v1.publisher.CreateTopic(name=TOPIC)


def subscribe(v1, url, **fields):
    return v1.subscriber.CreateSubscription(
        name=BILL, topic=TOPIC, push_config=m.PushConfig(push_endpoint=url), **fields
    )


def publish(v1, *data, **fields):
    messages = [m.PubsubMessage(data=one, **fields) for one in data]
    return v1.publisher.Publish(topic=TOPIC, messages=messages)


async def items_left(side):
    from pubqueue.engine.listings import Items  # noqa: PLC0415

    return await side.store.read(lambda tx: tx.page(Items(BILL), None, 9))


async def test_a_message_is_posted_and_an_answer_of_200_ends_it(side, v1, topic, hook):  # G26
    made = await subscribe(v1, hook.url)
    assert made.push_config.push_endpoint == hook.url
    hook.codes = [200]
    (name,) = (
        await publish(v1, b"a\0b", attributes={"kind": "order"}, ordering_key="k")
    ).message_ids
    found = await hook.next()
    assert found["subscription"] == BILL
    message = found["message"]
    assert b64decode(message["data"]) == b"a\0b"
    assert (message["messageId"], message["attributes"]) == (name, {"kind": "order"})
    assert message["orderingKey"] == "k"
    assert message["publishTime"].endswith("Z")

    async def is_done():
        return not await items_left(side)

    await until(is_done)


async def test_a_message_that_has_waited_is_pushed_with_what_came(side, v1, topic, hook):  # G53
    await subscribe(v1, "")
    (name,) = (await publish(v1, b"a")).message_ids
    boss, node = Principal(Jid("boss@x"), admin=True), NodeName(BILL)
    ((item, _),) = (await side.broker.handle(Take(boss, node))).items
    held = Hold(boss, node, item.id, ("yes",), carry="1", token=item.token)
    assert await side.broker.handle(held) == Done()
    await side.broker.handle(Signal(boss, node, item.id, "yes", "5", "1"))
    to_hook = m.PushConfig(push_endpoint=hook.url)
    await v1.subscriber.ModifyPushConfig(subscription=BILL, push_config=to_hook)
    message = (await hook.next())["message"]
    came = json.loads(message["attributes"]["x-pubqueue-waited"])
    assert (message["messageId"], message["attributes"]["x-pubqueue-woken"]) == (name, "signal")
    assert (came["carry"], came["signals"][0]["data"]) == ("1", "5")


async def test_a_large_message_is_decoded_and_written_in_many_turns(v1, topic, hook, monkeypatch):
    await subscribe(v1, hook.url)
    data = random.Random(1).randbytes(STEP)  # is longer in base64
    with decoded_in_turns(monkeypatch) as sizes:
        await publish(v1, data, attributes={"data": ""})
        found = await hook.next()
    assert b64decode(found["message"]["data"]) == data
    assert found["message"]["attributes"] == {"data": ""}
    assert is_in_steps(sizes)


@pytest.mark.parametrize("code", [302, 400, 500, 503])
async def test_every_other_answer_is_a_nack_and_no_redirect_is_followed(
    side, v1, topic, hook, code
):  # G26, G27
    await subscribe(v1, hook.url)
    hook.codes = [code]
    await publish(v1, b"a")
    first, second = await hook.next(), await hook.next()
    assert first["message"]["messageId"] == second["message"]["messageId"]
    assert hook.got.empty()


async def test_without_an_endpoint_messages_gather_and_with_one_they_go(v1, topic, hook):  # G26
    await subscribe(v1, hook.url)
    await v1.subscriber.ModifyPushConfig(subscription=BILL)
    await publish(v1, b"a")
    found = await v1.subscriber.GetSubscription(subscription=BILL)
    assert not found.push_config.push_endpoint
    config = m.PushConfig(push_endpoint=hook.url, attributes={"x": "y"})
    await v1.subscriber.ModifyPushConfig(subscription=BILL, push_config=config)
    assert (await v1.subscriber.GetSubscription(subscription=BILL)).push_config == config
    await hook.next()


async def test_what_an_endpoint_does_not_answer_is_released(side, v1, topic):  # G26
    await subscribe(v1, "http://127.0.0.1:1/nobody")
    await publish(v1, b"a")

    async def has_failed():
        found = await items_left(side)
        return found and found[0][0].failed

    await until(has_failed)


async def test_what_is_under_way_is_released_when_the_endpoint_goes(v1, topic):  # G26
    begun = asyncio.Event()

    async def hang(reader, writer):
        begun.set()
        await reader.read()
        writer.close()

    async with asyncio.timeout(TIMEOUT), await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await subscribe(v1, f"http://127.0.0.1:{port}/", ack_deadline_seconds=600)
        await publish(v1, b"a")
        await begun.wait()
        await v1.subscriber.ModifyPushConfig(subscription=BILL)
        found = await v1.subscriber.Pull(subscription=BILL, max_messages=1)
        assert [one.message.data for one in found.received_messages] == [b"a"]


@pytest.mark.parametrize(
    "url",
    [
        "https://elsewhere.org/push",
        "http://www.example.org/push",
        "http://10.0.0.1:80/",
        "http://127.0.0.2:80/",
        "http://[::1]:80/",
    ],
)
async def test_what_the_operator_does_not_list_is_refused(v1, topic, url):  # G27
    assert await code_of(subscribe(v1, url)) is BARRED
    await v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC)
    config = m.PushConfig(push_endpoint=url)
    changed = v1.subscriber.ModifyPushConfig(subscription=BILL, push_config=config)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await changed
    assert refused.value.code() is BARRED
    place = url.partition("://")[2].partition("/")[0]
    assert refused.value.details().startswith("push_to of [grpc] in the service's configuration")
    assert place.partition(":")[0] in refused.value.details()


async def test_tokens_for_endpoints_are_not_supported(v1, topic, hook):  # G37
    token = m.PushConfig.OidcToken(service_account_email="a@b")
    config = m.PushConfig(push_endpoint=hook.url, oidc_token=token)
    made = v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC, push_config=config)
    assert await code_of(made) is StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("text", "address", "allowed"),
    [
        ("http://a.example.org", "192.0.2.1", True),
        ("http://a.example.org", "127.0.0.1", False),
        ("http://a.example.org", "::1", False),
        ("http://a.example.org", "169.254.169.254", False),
        ("http://a.example.org", "fe80::1%eth0", False),
        ("http://a.example.org", "0.0.0.0", False),
        ("http://a.example.org", "64:ff9b::7f00:1", False),
        ("http://a.example.org", "64:ff9b::c000:201", True),
        ("http://a.example.org", "2002:7f00:1::", False),
        ("http://127.0.0.1", "127.0.0.1", True),
        ("http://localhost", "127.0.0.1", True),
        ("http://2130706433", "127.0.0.1", False),
    ],
)
def test_a_name_does_not_lead_to_this_machine(text, address, allowed):  # G27
    assert may_resolve_to(read_endpoint(text), address) is allowed


async def test_a_name_that_is_not_answered_holds_up_no_other_work(monkeypatch, hook):  # G27
    """It is looked up once for all that is pushed there, and those pushes end in time."""
    gate, asked = threading.Event(), []

    def look_up(host, *more, **named):
        asked.append(host)
        if host == "slow.example.org":
            gate.wait(TIMEOUT)
            raise socket.gaierror
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))]

    monkeypatch.setattr(client.socket, "getaddrinfo", look_up)
    one = PushClient(EndpointTerms(("*:*", "localhost:*"), timeout=0.1), limit=0, limit_per_host=0)
    slow = [
        asyncio.create_task(one.call("POST", "https://slow.example.org/a", (), b""))
        for _ in range(50)
    ]
    try:
        late = Outcome(Verdict.FAILED, "no answer in time")
        assert await asyncio.gather(*slow) == [late] * 50
        async with asyncio.timeout(TIMEOUT):
            await asyncio.to_thread(int)  # as the rest of the service does
            assert await one.address_of(read_endpoint("localhost:1")) == "127.0.0.1"
        assert asked == ["slow.example.org", "localhost"]
    finally:
        gate.set()
        await one.close()


async def test_the_address_that_was_checked_is_called(monkeypatch, hook):  # G27
    """A name that stands for another address the second time is not asked again."""
    asked = []

    def resolved(host, port, **_kind):
        asked.append(host)
        return [(2, 1, 6, "", ("192.0.2.1" if len(asked) == 1 else "127.0.0.1", port))]

    monkeypatch.setattr(client.socket, "getaddrinfo", resolved)
    one = PushClient(EndpointTerms(("*.example.org:*",)))
    assert await one.address_of(read_endpoint("http://a.example.org")) == "192.0.2.1"
    assert asked == ["a.example.org"]
    url = hook.url.replace("127.0.0.1", "a.example.org")
    found = await one.call("POST", url, (), b"{}")
    assert found == Outcome(Verdict.FAILED, "the address may not be connected to")
    assert (len(asked), hook.got.empty()) == (2, True)
    await one.close()


class PushService:
    """`tech.pubsub.PushEndpointService`; `codes` are what it answers, one after the other, then OK."""

    def __init__(self):
        self.codes: list[StatusCode] = []
        self.got: asyncio.Queue[t.PubsubEvent] = asyncio.Queue()

    async def handle(self, event, context):
        self.got.put_nowait(event)
        if self.codes and (code := self.codes.pop(0)) is not StatusCode.OK:
            await context.abort(code, "no")
        return b""

    async def next(self):
        async with asyncio.timeout(TIMEOUT):
            return await self.got.get()


@pytest.fixture
async def endpoint():
    one = PushService()
    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        one.handle, request_deserializer=t.PubsubEvent.FromString
    )
    rows = {"HandlePubsubEvent": handler}
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("tech.pubsub.PushEndpointService", rows),)
    )
    one.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    yield one
    await server.stop(0)


async def test_the_push_service_of_tech_gets_events(side, tech, v1, topic, endpoint):  # G26
    config = t.PushConfig(push_endpoint=endpoint.address)
    made = await tech.subscriber.CreateSubscription(
        name="shop/bill", topic="/topics/shop/orders", push_config=config
    )
    assert made.push_config == config
    endpoint.codes = [StatusCode.ABORTED, StatusCode.UNAVAILABLE]
    await publish(v1, b"a")
    events = [await endpoint.next() for _ in range(3)]
    assert [one.message.data for one in events] == [b"a"] * 3
    assert events[0].subscription == "shop/bill"

    async def is_done():
        return not await items_left(side)

    await until(is_done)
    await tech.subscriber.TruncateSubscription(subscription="shop/bill")
    assert (await endpoint.next()).truncated
    await tech.subscriber.DeleteSubscription(subscription="shop/bill")
    assert (await endpoint.next()).deleted


async def test_subscriptions_of_before_are_found_at_the_start(side, v1, topic, hook):  # G26
    await subscribe(v1, hook.url)
    await side.face.pushers.stop()
    await publish(v1, b"a")
    assert not side.face.pushers.working
    side.face.pushers.start()
    assert b64decode((await hook.next())["message"]["data"]) == b"a"


def test_another_programs_mark_is_no_endpoint(side):
    from pubqueue.model.entities import NodeConfig  # noqa: PLC0415

    assert endpoints.kept(NodeConfig(labels=f"{endpoints.PUSH}=nonsense")) is None


__all__ = ["make_store"]
NEVER = 10.0 * TIMEOUT


class Instance:
    def __init__(self, side, channel):
        self.side, self.pushers = side, side.face.pushers
        self.publisher, self.subscriber = Stub(channel, PUBLISHER), Stub(channel, SUBSCRIBER)

    async def publish(self, data):
        await self.publisher.Publish(topic=TOPIC, messages=[m.PubsubMessage(data=data)])

    async def push_to(self, url):
        config = m.PushConfig(push_endpoint=url)
        await self.subscriber.ModifyPushConfig(subscription=BILL, push_config=config)

    async def pushes_to(self, *urls):
        """Wait until it has a worker that waits for items, and pushes there; or none."""
        await until(lambda: self.pushers.targets == [*urls])
        await until(lambda: self.side.broker.waiting.takes == len(urls))


@pytest.fixture
async def hooks():
    async with a_hook() as one, a_hook() as other:
        yield one, other


@pytest.fixture
async def both(make_store, monkeypatch):
    monkeypatch.setattr(push, "RESCAN", NEVER)
    monkeypatch.setattr(worker, "WAIT", NEVER)
    face = partial(clients.a_face, settings=GrpcSettings(anonymous="etl", push_to=("127.0.0.1:*",)))
    async with two_sides(make_store, face) as sides:
        await until(lambda: all(side.face.addresses for side in sides))
        channels = [
            grpc.aio.insecure_channel(f"127.0.0.1:{side.face.addresses[0][1]}") for side in sides
        ]
        one, other = map(Instance, sides, channels)
        await one.publisher.CreateTopic(name=TOPIC)
        await one.subscriber.CreateSubscription(name=BILL, topic=TOPIC)
        yield one, other
        for channel in channels:
            await channel.close()


async def data(hook):
    return b64decode((await hook.next())["message"]["data"])


async def test_what_is_set_at_one_is_pushed_by_the_other(both, hooks):  # G26
    one, other = both
    await one.push_to(hooks[0].url)
    await other.pushes_to(hooks[0].url)
    await one.pushers.stop()
    await one.publish(b"a")
    assert await data(hooks[0]) == b"a"


async def test_another_endpoint_gets_what_is_published_then(both, hooks):  # G26
    one, _ = both
    for hook in hooks:
        await one.push_to(hook.url)
        for each in both:
            await each.pushes_to(hook.url)
    await one.pushers.stop()
    await one.publish(b"a")
    assert await data(hooks[1]) == b"a"
    assert hooks[0].got.empty()


async def test_without_an_endpoint_no_instance_pushes(both, hooks):  # G26
    one, other = both
    for urls in ([hooks[0].url], []):
        await one.push_to("".join(urls))
        for each in both:
            await each.pushes_to(*urls)
    await one.publish(b"a")
    found = await other.subscriber.Pull(subscription=BILL, max_messages=9)
    assert [each.message.data for each in found.received_messages] == [b"a"]
    assert hooks[0].got.empty()


async def test_a_deleted_subscription_has_no_worker_anywhere(both, hooks):  # G26
    one, other = both
    await one.push_to(hooks[0].url)
    for each in both:
        await each.pushes_to(hooks[0].url)
    await other.subscriber.DeleteSubscription(subscription=BILL)
    for each in both:
        await each.pushes_to()


async def test_what_an_owner_writes_by_a_form_counts_too(both, hooks):  # G26
    one, _ = both
    by, node = one.side.face.service, NodeName(BILL)
    for urls in ([hooks[0].url], []):
        labels = "".join(f"{endpoints.PUSH}={endpoints.written(url, {})}" for url in urls)
        await one.side.broker.handle(Configure(by, node, Settings({"labels": labels})))
        for each in both:
            await each.pushes_to(*urls)
