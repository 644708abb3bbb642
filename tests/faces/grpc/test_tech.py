"""What tech.pubsub alone has: labels, queries, the two kinds of pull, and topics that take their subscriptions along."""

from __future__ import annotations

import asyncio

import pytest
from faces.grpc.clients import TECH_PUBLISHER, TECH_SUBSCRIBER, Stub, code_of
from grpc import StatusCode
from harness.patience import TIMEOUT, until
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.faces.grpc import subscriptions
from pubqueue.faces.grpc.statuses import CallError
from pubqueue.faces.grpc.tech import Listed, filter_of, listed, query_of
from pubqueue.faces.grpc.wire import tech as m
from pubqueue.rules.declare import DeleteUnused
from pubqueue.rules.filters import admits, indexed

TOPIC, BILL = "/topics/shop/orders", "shop/bill"


@pytest.fixture
async def queue(tech):
    await tech.publisher.CreateTopic(name=TOPIC)
    await tech.subscriber.CreateSubscription(name=BILL, topic=TOPIC)


async def publish(tech, *labels, data=b"a", **fields):
    message = m.PubsubMessage(data=data, label=labels, **fields)
    return await tech.publisher.Publish(topic=TOPIC, message=message)


async def test_labels_come_as_they_went(tech, queue):  # G8
    labels = [
        m.Label(key="foo.com/device_type", str_value="mobile"),
        m.Label(key="least", num_value=-(2**63)),
        m.Label(key="most", num_value=2**63 - 1),
        m.Label(key="text", str_value="7"),
        m.Label(key="empty", str_value=""),
    ]
    await publish(tech, *labels)
    found = await tech.subscriber.Pull(subscription=BILL, return_immediately=True)
    assert list(found.pubsub_event.message.label) == labels
    assert found.pubsub_event.subscription == BILL
    assert found.pubsub_event.message.message_id.isdecimal()


async def test_v1_sees_a_number_as_text(tech, v1, queue):  # G10
    await publish(tech, m.Label(key="n", num_value=7))
    found = await v1.subscriber.Pull(
        subscription="projects/shop/subscriptions/bill", max_messages=1
    )
    assert dict(found.received_messages[0].message.attributes) == {"n": "7"}


@pytest.mark.parametrize(
    ("service", "rpc", "data"),
    [
        (TECH_PUBLISHER, "ListTopics", b"\n\x01\xff"),
        (TECH_PUBLISHER, "CreateTopic", b"\n\x0d/topics/p/\xff\xff\xff"),
        (TECH_PUBLISHER, "Publish", b"\n\x0e/topics/p/abcd\x12\x07\x12\x05\x0a\x03a\xff\xff"),
        (TECH_SUBSCRIBER, "Acknowledge", b"\n\x06p/bill\x12\x02\xff\xfe"),
    ],
)
async def test_a_string_that_is_not_utf_8_is_refused(channel, service, rpc, data):
    """A message of proto2 may have one, and protobuf hands it over as bytes."""
    call = channel.unary_unary(f"/{service}/{rpc}")
    assert await code_of(call(data)) is StatusCode.INVALID_ARGUMENT


async def test_an_id_from_outside_and_a_key_twice_are_refused(tech, queue):  # G7, G8
    assert await code_of(publish(tech, message_id="7")) is StatusCode.INVALID_ARGUMENT
    twice = m.Label(key="a", str_value="1"), m.Label(key="a", num_value=2)
    assert await code_of(publish(tech, *twice)) is StatusCode.INVALID_ARGUMENT
    good, bad = m.PubsubMessage(data=b"a"), m.PubsubMessage(label=twice)
    batch = tech.publisher.PublishBatch(topic=TOPIC, messages=[good, bad])
    assert await code_of(batch) is StatusCode.INVALID_ARGUMENT
    empty = await tech.subscriber.PullBatch(subscription=BILL, return_immediately=True)
    assert not empty.pull_responses, "all or none"


async def test_a_pull_at_once_of_nothing_fails_and_a_batch_is_empty(tech, queue):  # G15
    pull = tech.subscriber.Pull(subscription=BILL, return_immediately=True)
    assert await code_of(pull) is StatusCode.FAILED_PRECONDITION
    batch = await tech.subscriber.PullBatch(subscription=BILL, return_immediately=True)
    assert not batch.pull_responses


async def test_a_pull_waits_and_ends_before_the_deadline_of_its_client(
    tech, queue, monkeypatch
):  # G15
    monkeypatch.setattr(subscriptions, "EARLY", TIMEOUT)
    pull = tech.subscriber.Pull(m.PullRequest(subscription=BILL), timeout=0.05 + TIMEOUT)
    assert await code_of(pull) is StatusCode.UNAVAILABLE


async def test_a_pull_waits_for_a_message(side, tech, queue):  # G15
    waiting = asyncio.ensure_future(tech.subscriber.Pull(subscription=BILL))
    await until(lambda: side.broker.waiting.takes)
    await publish(tech)
    found = await asyncio.wait_for(waiting, TIMEOUT)
    assert found.pubsub_event.message.data == b"a"


async def test_a_subscription_without_a_name_gets_one(tech, queue):  # G5
    made = await tech.subscriber.CreateSubscription(topic=TOPIC)
    assert made.name.startswith("shop/s-")
    assert (await tech.subscriber.GetSubscription(subscription=made.name)).topic == TOPIC


async def test_queries_select_and_are_shown(tech, queue):  # G14
    query = 'device in (mobile, "old phone") AND n != 7'
    await tech.subscriber.CreateSubscription(name="shop/some", topic=TOPIC, query=query)
    shown = await tech.subscriber.GetSubscription(subscription="shop/some")
    assert shown.query == query
    await publish(tech, m.Label(key="device", str_value="mobile"), data=b"in")
    await publish(tech, m.Label(key="device", str_value="desk"), data=b"out")
    await publish(
        tech, m.Label(key="device", str_value="mobile"), m.Label(key="n", num_value=7), data=b"out"
    )
    found = await tech.subscriber.PullBatch(subscription="shop/some", return_immediately=True)
    assert [one.pubsub_event.message.data for one in found.pull_responses] == [b"in"]
    wrong = tech.subscriber.CreateSubscription(name="shop/none", topic=TOPIC, query="a b c")
    assert await code_of(wrong) is StatusCode.INVALID_ARGUMENT


async def test_a_deleted_topic_takes_its_subscriptions_along(side, channel, tech, queue):  # G4
    await publish(tech)
    await tech.publisher.DeleteTopic(topic=TOPIC)
    gone = tech.subscriber.GetSubscription(subscription=BILL)
    assert await code_of(gone) is StatusCode.NOT_FOUND
    await tech.publisher.CreateTopic(name=TOPIC)
    assert await code_of(tech.subscriber.Pull(subscription=BILL)) is StatusCode.NOT_FOUND


async def test_a_truncation_leaves_one_event_until_it_is_acknowledged(tech, v1, queue):  # G24
    await publish(tech)
    held = await tech.subscriber.Pull(subscription=BILL, return_immediately=True)
    await publish(tech)
    for _ in range(2):
        await tech.subscriber.TruncateSubscription(subscription=BILL)
    await tech.subscriber.Acknowledge(subscription=BILL, ack_id=[held.ack_id])
    await publish(tech, data=b"later")
    found = await tech.subscriber.PullBatch(subscription=BILL, return_immediately=True)
    events = [one.pubsub_event for one in found.pull_responses]
    assert [one.WhichOneof("type") for one in events] == ["truncated", "message"]
    assert (events[0].truncated, events[1].message.data) == (True, b"later")
    await tech.subscriber.Nack(subscription=BILL, ack_id=[found.pull_responses[0].ack_id])
    again = await v1.subscriber.Pull(
        subscription="projects/shop/subscriptions/bill", max_messages=1
    )
    message = again.received_messages[0].message
    assert (message.data, dict(message.attributes)) == (b"", {"x-pubqueue-event": "truncated"})
    ids = [again.received_messages[0].ack_id, found.pull_responses[1].ack_id]
    await tech.subscriber.Acknowledge(subscription=BILL, ack_id=ids)
    left = await tech.subscriber.PullBatch(subscription=BILL, return_immediately=True)
    assert not left.pull_responses


async def test_messages_go_at_the_age_of_the_truncation_policy(tech, queue):  # G24, G25
    policy = m.Subscription.TruncationPolicy(max_age_seconds=1)
    made = await tech.subscriber.CreateSubscription(
        name="shop/young", topic=TOPIC, truncation_policy=policy
    )
    assert made.truncation_policy == policy
    await publish(tech)
    await until(lambda: is_truncated(tech, "shop/young"), every=0.05)


async def is_truncated(tech, name):
    found = await tech.subscriber.PullBatch(subscription=name, return_immediately=True)
    ids = [one.ack_id for one in found.pull_responses]
    if ids:
        await tech.subscriber.Nack(subscription=name, ack_id=ids)
    return [one.pubsub_event.truncated for one in found.pull_responses] == [True]


async def test_the_oldest_messages_go_beyond_the_bytes_of_the_policy(tech, queue):  # G24
    policy = m.Subscription.TruncationPolicy(max_bytes=1_000)
    made = await tech.subscriber.CreateSubscription(
        name="shop/small", topic=TOPIC, truncation_policy=policy
    )
    assert made.truncation_policy == policy
    for data in b"abc":
        await publish(tech, data=bytes([data]) * 300)
    found = await tech.subscriber.PullBatch(subscription="shop/small", return_immediately=True)
    events = [one.pubsub_event for one in found.pull_responses]
    assert [one.message.data[:1] for one in events] == [b"b", b"c", b""]
    assert [one.truncated for one in events] == [False, False, True]
    whole = await tech.subscriber.PullBatch(subscription=BILL, return_immediately=True)
    assert len(whole.pull_responses) == 3


async def test_a_truncation_policy_of_no_bytes_is_refused(tech, queue):
    policy = m.Subscription.TruncationPolicy(max_bytes=-1)
    made = tech.subscriber.CreateSubscription(
        name="shop/odd", topic=TOPIC, truncation_policy=policy
    )
    assert await code_of(made) is StatusCode.INVALID_ARGUMENT


async def test_a_subscription_that_is_not_used_is_deleted_some_time_later(side, tech, queue):  # G25
    made = await tech.subscriber.CreateSubscription(
        name="shop/short", topic=TOPIC, garbage_collect_seconds=1
    )
    assert made.garbage_collect_seconds == 1
    gone = tech.subscriber.GetSubscription

    async def is_gone():
        await side.broker.handle(DeleteUnused())
        return await code_of(gone(subscription="shop/short")) is StatusCode.NOT_FOUND

    await until(is_gone, every=0.05)
    assert (await tech.subscriber.GetSubscription(subscription=BILL)).garbage_collect_seconds == 0


async def test_a_time_that_cannot_be_meant_is_refused(tech, queue):
    made = tech.subscriber.CreateSubscription(
        name="shop/odd", topic=TOPIC, garbage_collect_seconds=-1
    )
    assert await code_of(made) is StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("service", [TECH_PUBLISHER, TECH_SUBSCRIBER])
async def test_every_rpc_of_the_file_has_a_handler(channel, service):
    stub = Stub(channel, service)
    for name in stub.names:
        assert await code_of(getattr(stub, name)(timeout=5)) is not StatusCode.UNIMPLEMENTED


LABELS = indexed((("a", "1"), ("foo.com/key1", "two words"), ("n", "-7")))
TRUE = [
    "",
    "a = 1",
    'a = "1"',
    "a != 2",
    "a in (1, 2)",
    "a in (2) OR n = -7",
    "NOT a in (2, 3)",
    'foo.com/key1 = "two words"',
    'foo.com/key1 in ("two words", x) AND a = 1',
    "(a = 2 OR a = 1) AND n = -7",
    "b != 1",
]
FALSE = ["a = 2", "a != 1", "b = 1", "NOT (a = 1)", "a = 1 AND b = 1", 'a in ("")']


@pytest.mark.parametrize(
    ("query", "wanted"), [*((q, True) for q in TRUE), *((q, False) for q in FALSE)]
)
def test_queries_select_by_labels(query, wanted):  # G14
    text = filter_of(query)
    assert admits(text, LABELS) is wanted
    assert filter_of(query_of(text)) == filter_of(query_of(filter_of(query_of(text))))
    assert admits(filter_of(query_of(text)), LABELS) is wanted


@pytest.mark.parametrize(
    "query",
    [
        "a",
        "a =",
        "= 1",
        "a = 1 AND",
        "a = 1 b = 2",
        "(a = 1",
        "a in 1",
        "a in ()",
        "a = 1 AND b = 2 OR c = 3",
        '"',
        "a ! b",
    ],
)
def test_what_is_no_query_is_refused(query):  # G14
    with pytest.raises(CallError):
        filter_of(query)


@given(st.text(max_size=60))
def test_any_text_is_a_query_or_refused(query):
    try:
        text = filter_of(query)
    except CallError:
        return
    admits(text, LABELS)


def test_a_filter_of_v1_that_no_query_expresses_is_shown_as_it_is():
    assert query_of('hasPrefix(attributes.a, "b")') == 'hasPrefix(attributes.a, "b")'


def test_lists_have_a_project_and_a_topic():  # G3
    assert listed("") == Listed()
    assert listed("cloud.googleapis.com/project in (/projects/shop)") == Listed("shop")
    both = "pubsub.googleapis.com/topic in (/topics/shop/orders) AND cloud.googleapis.com/project in (shop)"
    assert listed(both) == Listed("shop", "projects/shop/topics/orders")


@pytest.mark.parametrize(
    "query",
    [
        "a = 1",
        "cloud.googleapis.com/project in (/projects/S!)",
        "cloud.googleapis.com/project in (a, b)",
        "x AND y",
    ],
)
def test_other_queries_of_lists_are_refused(query):  # G3
    with pytest.raises(CallError):
        listed(query)
