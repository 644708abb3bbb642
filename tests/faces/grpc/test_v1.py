"""What google.pubsub.v1 alone has: attributes and ordering keys, update masks, exactly-once delivery, detaching, and what is not supported."""

from __future__ import annotations

from datetime import timedelta

import grpc
import pytest
from faces.documented_limits import limit
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, Stub, code_of
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from pubqueue.faces.grpc.wire import class_of
from pubqueue.faces.grpc.wire import v1 as m
from pubqueue.model.entities import Jid, Principal
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Create

FieldMask = class_of("google.protobuf.FieldMask")

TOPIC, BILL = "projects/shop/topics/orders", "projects/shop/subscriptions/bill"
INVALID, UNIMPLEMENTED = StatusCode.INVALID_ARGUMENT, StatusCode.UNIMPLEMENTED


@pytest.fixture
async def topic(v1):
    return await v1.publisher.CreateTopic(name=TOPIC)


@pytest.fixture
async def queue(v1, topic):
    return await v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC)


async def publish(v1, data=b"a", **fields):
    message = m.PubsubMessage(data=data, **fields)
    return await v1.publisher.Publish(topic=TOPIC, messages=[message])


async def pull(v1, name=BILL, count=9):
    answer = await v1.subscriber.Pull(
        subscription=name, max_messages=count, return_immediately=True
    )
    return list(answer.received_messages)


async def test_attributes_key_time_and_id_come_along(side, v1, queue):  # G11
    before = side.broker.now()
    done = await publish(v1, attributes={"k": "v", "traceparent": "x"}, ordering_key="key")
    (found,) = await pull(v1)
    message = found.message
    assert (dict(message.attributes), message.ordering_key) == (
        {"k": "v", "traceparent": "x"},
        "key",
    )
    assert message.message_id == done.message_ids[0]
    assert before <= message.publish_time.ToMilliseconds() <= side.broker.now()


def many_attributes(more=0):
    """Return as many as a message may have, with as many bytes as all may have."""
    count = limit("attributes of a message over gRPC")
    each = limit("bytes of all keys and values, with the ordering key") // count
    found = {f"{number:03}": "v" * (each - 3) for number in range(count)}
    return found | {f"more{number}": "" for number in range(more)}


async def test_the_largest_of_everything_that_is_promised_comes_along(v1, queue):  # G11
    key, value = (limit(f"bytes of the {what} of an attribute") for what in ("key", "value"))
    ordering = limit("bytes of an ordering key")
    for given in (
        {"attributes": {"k" * key: "v" * value}, "ordering_key": "é" * (ordering // 2)},
        {"attributes": many_attributes()},
    ):
        await publish(v1, **given)
        (found,) = await pull(v1)
        await v1.subscriber.Acknowledge(subscription=BILL, ack_ids=[found.ack_id])
        assert dict(found.message.attributes) == given["attributes"]
        assert found.message.ordering_key == given.get("ordering_key", "")
    for given in (
        {"attributes": {"k" * (key + 1): "v"}},
        {"attributes": {"k": "v" * (value + 1)}},
        {"attributes": many_attributes(more=1)},
        {"ordering_key": "k" * (ordering + 1)},
    ):
        assert await code_of(publish(v1, **given)) is INVALID
    assert await pull(v1) == []


async def test_attributes_alone_are_a_message_and_nothing_at_all_is_none(v1, queue):  # G8, G11
    await publish(v1, data=b"", attributes={"k": "v"})
    assert await code_of(publish(v1, data=b"")) is INVALID
    assert len(await pull(v1)) == 1


async def test_two_ordering_keys_in_one_publish_are_refused(v1, queue):  # G8
    messages = [m.PubsubMessage(data=b"a", ordering_key=key) for key in ("a", "b")]
    assert await code_of(v1.publisher.Publish(topic=TOPIC, messages=messages)) is INVALID
    assert await pull(v1) == []


async def test_an_id_and_a_time_from_outside_are_passed_over(v1, queue):  # G7
    done = await publish(v1, message_id="7")
    assert done.message_ids[0] != "7"


@pytest.mark.parametrize("count", [0, -1])
async def test_a_pull_of_nothing_is_refused(v1, queue, count):
    assert await code_of(pull(v1, count=count)) is INVALID


async def test_a_topic_that_is_deleted_leaves_its_subscriptions(v1, queue):  # G4
    await publish(v1)
    await v1.publisher.DeleteTopic(topic=TOPIC)
    assert (await v1.subscriber.GetSubscription(subscription=BILL)).topic == "_deleted-topic_"
    await v1.publisher.CreateTopic(name=TOPIC)
    await publish(v1, b"b")
    assert [one.message.data for one in await pull(v1)] == [b"a"]


FILTERS = [
    ('attributes.kind = "order"', [b"order"]),
    ("attributes:kind", [b"order", b"invoice"]),
    ('attributes.kind != "order"', [b"invoice", b"none"]),
    ('hasPrefix(attributes.kind, "in")', [b"invoice"]),
    ('NOT attributes:kind OR attributes.kind = "order"', [b"order", b"none"]),
    ("-attributes:kind", [b"none"]),
    ('(attributes:kind AND attributes.kind != "order")', [b"invoice"]),
]


@pytest.mark.parametrize(("text", "wanted"), FILTERS)
async def test_filters_select(v1, topic, text, wanted):  # G14
    await v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC, filter=text)
    assert (await v1.subscriber.GetSubscription(subscription=BILL)).filter == text
    await publish(v1, b"order", attributes={"kind": "order"})
    await publish(v1, b"invoice", attributes={"kind": "invoice"})
    await publish(v1, b"none")
    assert [one.message.data for one in await pull(v1)] == wanted


@pytest.mark.parametrize(
    "text",
    ["nonsense", "attributes.a = b", "attributes:a AND attributes:b OR attributes:c", "a" * 257],
)
async def test_a_filter_that_cannot_be_read_is_refused(v1, topic, text):  # G14
    made = v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC, filter=text)
    assert await code_of(made) is INVALID


def update(v1, *paths, **fields):
    return v1.subscriber.UpdateSubscription(
        subscription=m.Subscription(name=BILL, **fields), update_mask=FieldMask(paths=paths)
    )


async def test_a_mask_changes_what_it_names_and_nothing_else(v1, topic):  # G37
    policy = m.RetryPolicy(minimum_backoff=timedelta(seconds=3))
    made = await v1.subscriber.CreateSubscription(
        name=BILL,
        topic=TOPIC,
        labels={"team": "a"},
        ack_deadline_seconds=30,
        retry_policy=policy,
        enable_exactly_once_delivery=True,
    )
    assert made.retry_policy.maximum_backoff.seconds == 600
    found = await update(v1, "ack_deadline_seconds", ack_deadline_seconds=40, labels={"b": ""})
    assert found.ack_deadline_seconds == 40
    found.ack_deadline_seconds = 30
    assert found == made
    found = await update(v1, "labels", "retry_policy", labels={"b": ""})
    assert dict(found.labels) == {"b": ""}
    assert not found.HasField("retry_policy")
    assert found.enable_exactly_once_delivery
    found = await update(v1, "enable_exactly_once_delivery")
    assert not found.enable_exactly_once_delivery
    assert dict(found.labels) == {"b": ""}


async def test_a_path_into_a_field_leaves_the_rest_of_it(v1, topic):  # G37
    for dead in ("one", "two"):
        await v1.publisher.CreateTopic(name=f"projects/shop/topics/{dead}")
    policy = m.DeadLetterPolicy(
        dead_letter_topic="projects/shop/topics/one", max_delivery_attempts=7
    )
    made = await v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC, dead_letter_policy=policy)
    wanted = m.DeadLetterPolicy(
        dead_letter_topic="projects/shop/topics/two", max_delivery_attempts=9
    )
    found = await update(v1, "dead_letter_policy.dead_letter_topic", dead_letter_policy=wanted)
    assert found.dead_letter_policy.dead_letter_topic == "projects/shop/topics/two"
    assert found.dead_letter_policy.max_delivery_attempts == 7
    found.dead_letter_policy.CopyFrom(made.dead_letter_policy)
    assert found == made


async def test_a_dead_letter_topic_has_to_exist(v1, topic):  # G34
    missing = m.DeadLetterPolicy(dead_letter_topic="projects/shop/topics/missing")
    made = v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC, dead_letter_policy=missing)
    assert await code_of(made) is StatusCode.NOT_FOUND
    assert await code_of(v1.subscriber.GetSubscription(subscription=BILL)) is StatusCode.NOT_FOUND
    made = await v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC)
    changed = update(v1, "dead_letter_policy", dead_letter_policy=missing)
    assert await code_of(changed) is StatusCode.NOT_FOUND
    assert await v1.subscriber.GetSubscription(subscription=BILL) == made


async def test_an_empty_list_has_no_second_page(v1, topic):
    listed = v1.subscriber.ListSnapshots(project="projects/shop", page_token="x")
    assert await code_of(listed) is INVALID
    listed = v1.publisher.ListTopicSnapshots(topic=TOPIC, page_token="x")
    assert await code_of(listed) is INVALID


@pytest.mark.parametrize(
    "paths",
    [
        ("labels.team",),
        ("dead_letter_policy.nonsense",),
        ("ack_deadline_seconds.x",),
        (),
        ("filter",),
        ("topic",),
        ("enable_message_ordering",),
        ("nonsense",),
        ("name",),
    ],
)
async def test_other_paths_and_none_are_refused(v1, queue, paths):  # G37
    assert await code_of(update(v1, *paths, filter="attributes:a")) is INVALID
    assert await v1.subscriber.GetSubscription(subscription=BILL) == queue


async def test_labels_of_a_topic_are_updated_and_nothing_else_is(v1, topic):  # G37
    def change(*paths, **fields):
        given = m.Topic(name=TOPIC, **fields)
        return v1.publisher.UpdateTopic(topic=given, update_mask=FieldMask(paths=paths))

    assert dict((await change("labels", labels={"a": "b"})).labels) == {"a": "b"}
    assert await code_of(change()) is INVALID
    assert await code_of(change("name")) is INVALID
    assert await code_of(change("nonsense")) is INVALID
    assert await code_of(change("kms_key_name", kms_key_name="x")) is UNIMPLEMENTED


@pytest.mark.parametrize("labels", [{"A": ""}, {"a": "B"}, {"": "a"}, {"x-pubqueue-detached": "1"}])
async def test_what_is_no_label_is_refused(v1, labels):
    assert await code_of(v1.publisher.CreateTopic(name=TOPIC, labels=labels)) is INVALID


NOT_SUPPORTED = [
    {"bigquery_config": m.BigQueryConfig(table="a.b.c")},
    {"cloud_storage_config": m.CloudStorageConfig(bucket="b")},
    {"bigtable_config": m.BigtableConfig(table="t")},
    {"message_transforms": [m.MessageTransform()]},
    {"tags": {"a": "b"}},
]


@pytest.mark.parametrize("field", NOT_SUPPORTED, ids=lambda field: next(iter(field)))
async def test_fields_that_are_not_supported_are_named(v1, topic, field):  # G37
    with pytest.raises(grpc.aio.AioRpcError) as problem:
        await v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC, **field)
    assert problem.value.code() is UNIMPLEMENTED
    assert next(iter(field)) in problem.value.details()
    assert await code_of(v1.subscriber.GetSubscription(subscription=BILL)) is StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    "field",
    [
        {"kms_key_name": "k"},
        {"schema_settings": m.SchemaSettings(schema="s")},
        {"message_storage_policy": m.MessageStoragePolicy(allowed_persistence_regions=["a"])},
        {"message_retention_duration": timedelta(seconds=600)},
        {"ingestion_data_source_settings": m.IngestionDataSourceSettings()},
        {"tags": {"a": "b"}},
    ],
    ids=lambda field: next(iter(field)),
)
async def test_fields_of_topics_that_are_not_supported_are_named(v1, field):  # G37
    assert await code_of(v1.publisher.CreateTopic(name=TOPIC, **field)) is UNIMPLEMENTED
    assert await code_of(v1.publisher.GetTopic(topic=TOPIC)) is StatusCode.NOT_FOUND


SNAPSHOTS = ["CreateSnapshot", "GetSnapshot", "UpdateSnapshot", "DeleteSnapshot"]


async def test_snapshots_and_schemas_are_not_supported(channel, v1, queue):  # G37
    for name in SNAPSHOTS:
        assert await code_of(getattr(v1.subscriber, name)()) is UNIMPLEMENTED
    schemas = Stub(channel, "google.pubsub.v1.SchemaService")
    for name in schemas.names:
        assert await code_of(getattr(schemas, name)()) is UNIMPLEMENTED
    assert not (await v1.subscriber.ListSnapshots(project="projects/shop")).snapshots
    assert not (await v1.publisher.ListTopicSnapshots(topic=TOPIC)).snapshots


async def test_a_detached_subscription_has_nothing_and_is_not_pulled(v1, queue):
    await publish(v1)
    await v1.publisher.DetachSubscription(subscription=BILL)
    assert (await v1.subscriber.GetSubscription(subscription=BILL)).detached
    assert await code_of(pull(v1)) is StatusCode.FAILED_PRECONDITION
    await publish(v1)
    assert not (await v1.publisher.ListTopicSubscriptions(topic=TOPIC)).subscriptions


@pytest.fixture
async def exact(v1, topic):
    return await v1.subscriber.CreateSubscription(
        name=BILL, topic=TOPIC, enable_exactly_once_delivery=True
    )


async def reasons_of(call):
    """Return the code of a call, and the reasons that it has for single ack ids."""
    try:
        await call
    except grpc.aio.AioRpcError as problem:
        details = dict(problem.trailing_metadata())["grpc-status-details-bin"]
        (packed,) = Status.FromString(details).details
        info = ErrorInfo()
        packed.Unpack(info)
        return problem.code(), dict(info.metadata)
    return StatusCode.OK, {}


def acks(v1, *ack_ids):
    return v1.subscriber.Acknowledge(subscription=BILL, ack_ids=ack_ids)


def deadlines(v1, seconds, *ack_ids):
    return v1.subscriber.ModifyAckDeadline(
        subscription=BILL, ack_ids=ack_ids, ack_deadline_seconds=seconds
    )


INVALID_ID = "PERMANENT_FAILURE_INVALID_ACK_ID"


async def test_exactly_once_worthless_ack_ids_are_named_and_the_others_count(v1, exact):  # G31
    assert exact.enable_exactly_once_delivery
    await publish(v1, b"a")
    await publish(v1, b"b")
    one, two = [found.ack_id for found in await pull(v1)]
    assert await reasons_of(acks(v1, one, "worthless")) == (
        StatusCode.ABORTED,
        {"worthless": INVALID_ID},
    )
    assert await reasons_of(acks(v1, one)) == (StatusCode.OK, {}), "what is gone comes never again"
    assert await reasons_of(deadlines(v1, 0, two)) == (StatusCode.OK, {})
    assert await reasons_of(acks(v1, two)) == (StatusCode.FAILED_PRECONDITION, {two: INVALID_ID})
    assert await reasons_of(deadlines(v1, 20, two)) == (
        StatusCode.FAILED_PRECONDITION,
        {two: INVALID_ID},
    )
    (again,) = await pull(v1)
    assert again.message.data == b"b", "a late ack does not count"


async def test_exactly_once_holds_for_the_other_binding_too(v1, tech, exact):  # G31
    await publish(v1, b"a")
    (one,) = [found.ack_id for found in await pull(v1)]

    async def settled(rpc, **named):
        return await reasons_of(getattr(tech.subscriber, rpc)(subscription="shop/bill", **named))

    assert await settled("Nack", ack_id=[one]) == (StatusCode.OK, {})
    over = StatusCode.FAILED_PRECONDITION, {one: INVALID_ID}
    assert await settled("Acknowledge", ack_id=[one]) == over
    assert await settled("ModifyAckDeadline", ack_id=one, ack_deadline_seconds=20) == over
    (two,) = [found.ack_id for found in await pull(v1)]
    assert await settled("Acknowledge", ack_id=[two, "worthless"]) == (
        StatusCode.ABORTED,
        {"worthless": INVALID_ID},
    )
    assert not await pull(v1)


async def test_exactly_once_a_stream_announces_it_and_confirms(v1, exact):  # G31
    async def requests():
        yield m.StreamingPullRequest(subscription=BILL, stream_ack_deadline_seconds=10)
        yield m.StreamingPullRequest(
            ack_ids=[first.ack_id, "worthless"],
            modify_deadline_ack_ids=["worthless"],
            modify_deadline_seconds=[10],
        )

    await publish(v1, b"a")
    (first,) = await pull(v1)
    answers = [answer async for answer in v1.subscriber.StreamingPull(requests())]
    acked = next(
        one.acknowledge_confirmation for one in answers if one.HasField("acknowledge_confirmation")
    )
    assert (list(acked.ack_ids), list(acked.invalid_ack_ids)) == ([first.ack_id], ["worthless"])
    moved = next(
        one.modify_ack_deadline_confirmation
        for one in answers
        if one.HasField("modify_ack_deadline_confirmation")
    )
    assert list(moved.invalid_ack_ids) == ["worthless"]


async def test_deadlines_may_be_longer_than_that_of_the_subscription(side, v1, queue):  # G18
    await publish(v1)
    (found,) = await pull(v1)
    await deadlines(v1, 600, found.ack_id)
    ((item, _),) = await side.store.read(held_in_bill)
    assert item.deadline - side.broker.now() > 500_000


def held_in_bill(tx):
    from pubqueue.engine.listings import Items  # noqa: PLC0415

    return tx.page(Items(BILL), None, 9)


async def test_a_retry_policy_keeps_a_message_that_is_nacked_again(side, v1, topic):  # G36
    policy = m.RetryPolicy(minimum_backoff=timedelta(seconds=100))
    await v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC, retry_policy=policy)
    await publish(v1)
    for _ in range(2):
        (found,) = await pull(v1)
        await deadlines(v1, 0, found.ack_id)
    assert await pull(v1) == []
    ((item, _),) = await side.store.read(held_in_bill)
    assert item.due - side.broker.now() > 90_000


@pytest.mark.parametrize(
    "policy",
    [
        m.RetryPolicy(minimum_backoff=timedelta(seconds=601)),
        m.RetryPolicy(minimum_backoff=timedelta(seconds=-1)),
        m.RetryPolicy(minimum_backoff=timedelta(seconds=1, microseconds=1)),
        m.RetryPolicy(minimum_backoff=timedelta(seconds=20), maximum_backoff=timedelta(seconds=10)),
    ],
)
async def test_a_retry_policy_beyond_its_bounds_is_refused(v1, topic, policy):
    made = v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC, retry_policy=policy)
    assert await code_of(made) is INVALID


@pytest.mark.parametrize("service", [PUBLISHER, SUBSCRIBER])
async def test_an_unknown_method_is_unimplemented(channel, service):  # G48
    call = channel.unary_unary(f"/{service}/Nonsense")
    assert await code_of(call(b"")) is UNIMPLEMENTED


async def test_a_call_without_a_message_is_invalid(channel, v1):  # G48
    call = channel.stream_unary(f"/{PUBLISHER}/GetTopic")(iter(()))
    assert await code_of(call) is INVALID


async def test_garbage_is_an_error_of_its_call(channel, v1, queue):  # G48
    call = channel.unary_unary(f"/{PUBLISHER}/Publish")
    assert await code_of(call(b"\xff\xff\xff")) is INVALID
    stream = channel.stream_stream(f"/{SUBSCRIBER}/StreamingPull")
    with pytest.raises(grpc.aio.AioRpcError) as problem:
        [answer async for answer in stream(iter([b"\xff\xff\xff"]))]
    assert problem.value.code() is INVALID
    await publish(v1)
    unknown = channel.unary_unary(f"/{PUBLISHER}/GetTopic")
    known = m.GetTopicRequest(topic=TOPIC).SerializeToString()
    assert await code_of(unknown(known + b"\xf8\x07\x01")) is StatusCode.OK


async def test_the_bridge_has_queues_of_others(side, v1):  # G44
    by = Principal(Jid("etl@queue.localhost"), local=True)
    await side.broker.handle(Create(by, "jobs", Settings({"queueing": True})))
    bridged = "projects/xmpp/subscriptions/jobs"
    found = await v1.subscriber.GetSubscription(subscription=bridged)
    assert found.topic == "projects/xmpp/topics/jobs"
    done = await v1.publisher.Publish(
        topic=found.topic, messages=[m.PubsubMessage(data=b"a", ordering_key="k")]
    )
    (one,) = await pull(v1, bridged)
    assert [one.message.message_id] == list(done.message_ids)
    made = v1.subscriber.CreateSubscription(name=BILL, topic=found.topic)
    assert await code_of(made) is StatusCode.FAILED_PRECONDITION, "a queue feeds no other"


@pytest.mark.parametrize("seconds", [599, 31 * 86_400 + 1])
async def test_messages_are_kept_for_a_week_or_as_long_as_requested(v1, topic, seconds):  # G25
    made = await v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC)
    assert made.message_retention_duration.seconds == 7 * 86_400
    assert not made.expiration_policy.HasField("ttl"), "it never expires"
    found = await update(
        v1, "message_retention_duration", message_retention_duration=timedelta(days=1)
    )
    assert found.message_retention_duration.seconds == 86_400
    span = timedelta(seconds=seconds)
    wrong = update(v1, "message_retention_duration", message_retention_duration=span)
    assert await code_of(wrong) is INVALID


async def test_a_subscription_may_expire(v1, topic):  # G25, G37
    week, less = timedelta(days=7), timedelta(hours=23)
    policy = m.ExpirationPolicy(ttl=week)
    made = await v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC, expiration_policy=policy)
    assert made.expiration_policy.ttl.seconds == week.total_seconds()
    wrong = update(v1, "expiration_policy", expiration_policy=m.ExpirationPolicy(ttl=less))
    assert await code_of(wrong) is INVALID
    found = await update(v1, "expiration_policy", expiration_policy=m.ExpirationPolicy())
    assert not found.expiration_policy.HasField("ttl")


def seek(v1, millis):
    return v1.subscriber.Seek(subscription=BILL, time=timestamp(millis))


async def acked(v1):
    """Pull, acknowledge and return what there is."""
    found = await pull(v1)
    ids = [one.ack_id for one in found]
    await v1.subscriber.Acknowledge(subscription=BILL, ack_ids=ids)
    return data(found)


def data(messages):
    return sorted(one.message.data for one in messages)


async def test_a_seek_to_now_empties(side, v1, queue):  # G38
    await publish(v1)
    await seek(v1, side.broker.now())
    await publish(v1, b"b")
    assert data(await pull(v1)) == [b"b"]
    await seek(v1, side.broker.now() + 60_000)
    assert await pull(v1) == []


@pytest.mark.parametrize(
    ("seconds", "nanos"), [(2**63 - 1, 0), (253_402_300_800, 0), (1, -1), (1, 10**9)]
)
async def test_a_seek_to_what_is_no_time_is_refused(v1, queue, seconds, nanos):  # G38, G48
    moment = class_of("google.protobuf.Timestamp")(seconds=seconds, nanos=nanos)
    assert await code_of(v1.subscriber.Seek(subscription=BILL, time=moment)) is INVALID


async def test_a_seek_to_a_snapshot_is_not_supported(v1, queue):  # G38
    wanted = v1.subscriber.Seek(subscription=BILL, snapshot="projects/shop/snapshots/a")
    assert await code_of(wanted) is UNIMPLEMENTED


async def test_without_retention_nothing_comes_back(side, v1, queue):  # G20, G38
    await publish(v1)
    assert await acked(v1) == [b"a"]
    await seek(v1, side.broker.now() - 60_000)
    assert await pull(v1) == []


async def test_what_is_retained_comes_back_once(side, v1, topic):  # G38
    made = await v1.subscriber.CreateSubscription(
        name=BILL, topic=TOPIC, retain_acked_messages=True
    )
    assert made.retain_acked_messages
    first = await publish(v1)
    await publish(v1, b"b", attributes={"k": "v"}, ordering_key="key")
    assert await acked(v1) == [b"a", b"b"]
    assert await pull(v1) == []
    await seek(v1, side.broker.now() - 60_000)
    again = await pull(v1)
    assert data(again) == [b"a", b"b"]
    (a, b) = sorted(again, key=lambda one: one.message.data)
    assert a.message.message_id == first.message_ids[0]
    assert (dict(b.message.attributes), b.message.ordering_key) == ({"k": "v"}, "key")
    assert await pull(v1) == []
    ids = [one.ack_id for one in again]
    await v1.subscriber.Acknowledge(subscription=BILL, ack_ids=ids)
    assert await pull(v1) == []


async def test_a_seek_to_now_can_be_taken_back(side, v1, topic):  # G38
    await v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC, retain_acked_messages=True)
    await publish(v1)
    (held,) = await pull(v1)
    await publish(v1, b"b")
    await seek(v1, side.broker.now() + 60_000)
    assert await pull(v1) == []
    await v1.subscriber.Acknowledge(subscription=BILL, ack_ids=[held.ack_id])  # too late, no error
    await seek(v1, side.broker.now() - 60_000)
    assert data(await pull(v1)) == [b"a", b"b"]


async def test_retention_of_what_is_acknowledged_is_switched_on_and_off(
    side, v1, queue
):  # G37, G38
    assert not queue.retain_acked_messages
    found = await update(v1, "retain_acked_messages", retain_acked_messages=True)
    assert found.retain_acked_messages
    await publish(v1)
    assert await acked(v1) == [b"a"]
    assert not (await update(v1, "retain_acked_messages")).retain_acked_messages
    await seek(v1, side.broker.now() - 60_000)
    assert await pull(v1) == []


def timestamp(millis):
    made = class_of("google.protobuf.Timestamp")()
    made.FromMilliseconds(millis)
    return made


DEAD_TOPIC, DEAD_BILL = "projects/shop/topics/dead", "projects/shop/subscriptions/dead"


def mortal(v1, **policy):
    dead_letters = m.DeadLetterPolicy(dead_letter_topic=DEAD_TOPIC, **policy)
    return v1.subscriber.CreateSubscription(
        name=BILL,
        topic=TOPIC,
        dead_letter_policy=dead_letters,
        retry_policy=m.RetryPolicy(minimum_backoff=timedelta(), maximum_backoff=timedelta()),
    )


async def test_after_its_last_attempt_a_message_is_in_the_dead_letter_topic(v1, topic):  # G34, G35
    await v1.publisher.CreateTopic(name=DEAD_TOPIC)
    await v1.subscriber.CreateSubscription(name=DEAD_BILL, topic=DEAD_TOPIC)
    made = await mortal(v1)
    assert made.dead_letter_policy.max_delivery_attempts == 5
    assert made.dead_letter_policy.dead_letter_topic == DEAD_TOPIC
    done = await publish(v1, b"a", attributes={"k": "v"}, ordering_key="key")
    attempts = []
    while found := await pull(v1):
        attempts.append(found[0].delivery_attempt)
        await deadlines(v1, 0, found[0].ack_id)
    assert attempts == [1, 2, 3, 4, 5]
    (dead,) = await pull(v1, DEAD_BILL)
    assert dead.message.message_id == done.message_ids[0]
    assert (dead.message.data, dead.delivery_attempt) == (b"a", 0)
    shown = dict(dead.message.attributes)
    published = dead.message.publish_time.ToJsonString()
    assert shown.pop("CloudPubSubDeadLetterSourceTopicPublishTime") == published
    assert shown == {
        "k": "v",
        "CloudPubSubDeadLetterSourceSubscription": "bill",
        "CloudPubSubDeadLetterSourceSubscriptionProject": "shop",
        "CloudPubSubDeadLetterSourceDeliveryCount": "5",
    }


async def test_each_subscription_of_the_dead_letter_topic_gets_it(v1, topic):  # G35
    await v1.publisher.CreateTopic(name=DEAD_TOPIC)
    names = [f"{DEAD_BILL}-{at}" for at in range(3)]
    for name in names:
        await v1.subscriber.CreateSubscription(name=name, topic=DEAD_TOPIC)
    await mortal(v1)
    done = await publish(v1, b"a", ordering_key="key")
    while found := await pull(v1):
        await deadlines(v1, 0, found[0].ack_id)
    got = [message for name in names for message in await pull(v1, name)]
    assert [one.message.message_id for one in got] == [done.message_ids[0]] * 3
    first, *others = [one.message for one in got]
    assert others == [first, first]
    assert first.attributes["CloudPubSubDeadLetterSourceDeliveryCount"] == "5"


async def test_without_a_taker_a_dead_message_stays_dead(side, v1, topic):  # G35
    await v1.publisher.CreateTopic(name=DEAD_TOPIC)
    await mortal(v1)
    await publish(v1)
    for _ in range(5):
        (found,) = await pull(v1)
        await deadlines(v1, 0, found.ack_id)
    assert await pull(v1) == []
    ((item, _),) = await side.store.read(held_in_bill)
    assert item.state.value == "dead"


async def test_without_a_policy_attempts_are_not_counted(v1, queue):  # G34
    await publish(v1)
    (found,) = await pull(v1)
    await deadlines(v1, 0, found.ack_id)
    (found,) = await pull(v1)
    assert found.delivery_attempt == 0


@pytest.mark.parametrize("attempts", [1, 4, 101, -1])
async def test_attempts_beyond_their_bounds_are_refused(v1, topic, attempts):
    await v1.publisher.CreateTopic(name=DEAD_TOPIC)
    assert await code_of(mortal(v1, max_delivery_attempts=attempts)) is INVALID
