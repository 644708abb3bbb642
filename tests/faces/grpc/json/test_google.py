"""Google's own client of JSON (google-api-python-client), unmodified, with the discovery document of v1beta1a that it has."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode

import pytest
from faces.grpc.json.clients import refused
from faces.grpc.json.conftest import BILL, TOPIC
from harness.patience import TIMEOUT, until

EVERY_BYTE = bytes(range(256))


def message(data=b"order 1", **fields):
    return {"data": b64encode(data).decode(), **fields}


async def publish(google, *data, **fields):
    messages = [message(one, **fields) for one in data]
    answer = await google.topics("publishBatch", body={"topic": TOPIC, "messages": messages})
    return answer["messageIds"]


async def pull_batch(google, **more):
    body = {"subscription": BILL, "returnImmediately": True, **more}
    return (await google.subscriptions("pullBatch", body=body)).get("pullResponses", [])


async def test_topics_and_subscriptions_are_administered(google):  # G1, G49, G50
    assert await google.topics("create", body={"name": TOPIC}) == {"name": TOPIC}
    assert await refused(google.topics("create", body={"name": TOPIC})) == (409, "ALREADY_EXISTS")
    assert await google.topics("get", topic=TOPIC) == {"name": TOPIC}
    made = await google.subscriptions("create", body={"name": BILL, "topic": TOPIC})
    assert made == {"name": BILL, "topic": TOPIC, "ackDeadlineSeconds": 10}
    assert await google.subscriptions("get", subscription=BILL) == made
    assert await google.topics("list") == {"topic": [{"name": TOPIC}]}
    assert await google.subscriptions("list") == {"subscription": [made]}
    assert await google.subscriptions("delete", subscription=BILL) == {}
    assert await refused(google.subscriptions("get", subscription=BILL)) == (404, "NOT_FOUND")
    assert await google.topics("delete", topic=TOPIC) == {}
    assert await refused(google.topics("get", topic=TOPIC)) == (404, "NOT_FOUND")
    assert await google.topics("list") == {}


async def test_a_message_is_published_pulled_and_acknowledged(google, side, queue):  # G20, G49
    labels = [
        {"key": "least", "numValue": str(-(2**63))},
        {"key": "most", "numValue": str(2**63 - 1)},
        {"key": "kind", "strValue": "book"},
    ]
    before = side.broker.now()
    body = {"topic": TOPIC, "message": message(EVERY_BYTE, label=labels)}
    assert await google.topics("publish", body=body) == {}
    pull = {"subscription": BILL, "returnImmediately": True}
    found = await google.subscriptions("pull", body=pull)
    event = found["pubsubEvent"]
    assert event.keys() == {"subscription", "message"}
    assert event["subscription"] == BILL
    came = event["message"]
    assert b64decode(came["data"], validate=True) == EVERY_BYTE
    assert came["label"] == labels
    assert came["messageId"].isdecimal()
    assert before <= int(came["publishTime"]) <= side.broker.now()
    ack = {"subscription": BILL, "ackId": [found["ackId"]]}
    for _ in range(2):  # a late one is no error
        assert await google.subscriptions("acknowledge", body=ack) == {}
    assert await refused(google.subscriptions("pull", body=pull)) == (400, "FAILED_PRECONDITION")


async def test_batches_come_in_order_and_under_their_ids(google, queue):  # G7, G49
    ids = await publish(google, *(b"%d" % n for n in range(150)))
    found = await pull_batch(google, maxEvents=120)
    assert [one["pubsubEvent"]["message"]["messageId"] for one in found] == ids[:120]
    more = await pull_batch(google, maxEvents=0)
    assert [b64decode(one["pubsubEvent"]["message"]["data"]) for one in more] == [
        b"%d" % n for n in range(120, 150)
    ]
    assert (
        await google.subscriptions(
            "pullBatch", body={"subscription": BILL, "returnImmediately": True}
        )
        == {}
    )


async def test_a_pull_waits_for_a_message(side, google, other, queue):  # G15, G49
    waiting = asyncio.ensure_future(google.subscriptions("pull", body={"subscription": BILL}))
    await until(lambda: side.broker.waiting.takes)
    await other.topics("publish", body={"topic": TOPIC, "message": message()})
    found = await asyncio.wait_for(waiting, TIMEOUT)
    assert b64decode(found["pubsubEvent"]["message"]["data"]) == b"order 1"


@pytest.mark.parametrize("field", ["ackId", "ackIds"])
async def test_a_deadline_of_nothing_gives_it_back(google, queue, field):  # G18, G49
    await publish(google, b"a")
    (found,) = await pull_batch(google)
    ids = found["ackId"] if field == "ackId" else [found["ackId"]]
    for seconds in (600, 0):
        assert not await pull_batch(google)
        body = {"subscription": BILL, field: ids, "ackDeadlineSeconds": seconds}
        assert await google.subscriptions("modifyAckDeadline", body=body) == {}
    (again,) = await pull_batch(google)
    assert again["ackId"] != found["ackId"]


async def test_one_or_several_ack_ids_have_a_deadline_but_not_both(google, queue):  # G49
    both = {"subscription": BILL, "ackId": "a", "ackIds": ["b"], "ackDeadlineSeconds": 10}
    invalid = 400, "INVALID_ARGUMENT"
    assert await refused(google.subscriptions("modifyAckDeadline", body=both)) == invalid
    late = {"subscription": BILL, "ackIds": ["a", "b"], "ackDeadlineSeconds": 601}
    assert await refused(google.subscriptions("modifyAckDeadline", body=late)) == invalid
    unknown = {"subscription": BILL, "ackIds": ["a", "b"], "ackDeadlineSeconds": 60}
    assert await google.subscriptions("modifyAckDeadline", body=unknown) == {}


async def test_a_push_config_is_set_where_the_operator_allows_it(google, queue):  # G27, G49
    body = {"subscription": BILL, "pushConfig": {"pushEndpoint": "https://example.org/a"}}
    barred = await refused(google.subscriptions("modifyPushConfig", body=body))
    assert barred == (403, "PERMISSION_DENIED")
    assert await google.subscriptions("modifyPushConfig", body={"subscription": BILL}) == {}


async def test_pages_have_each_thing_once(google, queue):  # G3, G49
    names = [f"/topics/shop/more-{n}" for n in range(5)]
    for name in names:
        await google.topics("create", body={"name": name})
    query = "cloud.googleapis.com/project in (/projects/shop)"
    pages = await asyncio.to_thread(google.pages, "topics", query=query, maxResults=2)
    assert [len(page) for page in pages] == [2, 2, 2]
    assert sorted(one["name"] for page in pages for one in page) == sorted([TOPIC, *names])
    of_topic = f"pubsub.googleapis.com/topic in ({TOPIC})"
    ((one,),) = await asyncio.to_thread(google.pages, "subscriptions", query=of_topic)
    assert one["name"] == BILL
    unknown = refused(google.topics("list", query="color in (red)"))
    assert await unknown == (400, "INVALID_ARGUMENT")
    foreign = refused(google.topics("list", pageToken="nonsense"))
    assert await foreign == (400, "INVALID_ARGUMENT")


async def test_a_list_whose_url_would_be_long_is_posted(google, queue):  # G3, G49
    query = " " * 2_048 + "cloud.googleapis.com/project in (/projects/shop)"
    assert await google.topics("list", query=query, maxResults=1) == {"topic": [{"name": TOPIC}]}


async def test_a_subscription_without_a_name_gets_one(google, queue):  # G5, G49
    made = await google.subscriptions("create", body={"topic": TOPIC})
    assert made["name"].startswith("/subscriptions/shop/s-")
    assert await google.subscriptions("get", subscription=made["name"]) == made


async def test_what_the_document_does_not_have_is_taken_too(google, http, queue):  # G49
    """A query, truncation and garbage collection: the seed has them, and the document does not."""
    given = {
        "name": "/subscriptions/shop/some",
        "topic": TOPIC,
        "query": "kind = book",
        "truncationPolicy": {"maxBytes": "1000"},
        "garbageCollectSeconds": "86400",
        "ackDeadlineSeconds": 20,
    }
    made = await http.post("/subscriptions", json=given)
    assert made.json() == given
    await publish(google, b"in", label=[{"key": "kind", "strValue": "book"}])
    await publish(google, b"out", label=[{"key": "kind", "strValue": "pen"}])
    body = {"subscription": given["name"], "returnImmediately": True}
    found = await google.subscriptions("pullBatch", body=body)
    (one,) = found["pullResponses"]
    assert b64decode(one["pubsubEvent"]["message"]["data"]) == b"in"


async def test_a_truncated_event_has_no_message(google, tech, queue):  # G24, G49
    await publish(google, b"a")
    await tech.subscriber.TruncateSubscription(subscription="shop/bill")
    (found,) = await pull_batch(google)
    assert found["pubsubEvent"] == {"subscription": BILL, "truncated": True}


@pytest.mark.parametrize(
    "name",
    ["/topics/xmpp/a%2Fb", "/topics/xmpp/a%20b%25", "/topics/a.b:c/T~+%41", "topics/shop/abc"],
)
async def test_names_travel_in_paths(google, name):  # G2, G44, G49
    await google.topics("create", body={"name": name})
    assert (await google.topics("get", topic=name))["name"] == "/" + name.lstrip("/")
    assert await google.topics("delete", topic=name) == {}


async def test_json_publishes_v1_pulls_and_json_acknowledges(google, v1, queue):  # G49, G50
    (own,) = await publish(google, b"a", label=[{"key": "n", "numValue": "7"}])
    name = "projects/shop/subscriptions/bill"
    (found,) = (await v1.subscriber.Pull(subscription=name, max_messages=9)).received_messages
    assert (found.message.data, found.message.message_id) == (b"a", own)
    assert dict(found.message.attributes) == {"n": "7"}
    ack = {"subscription": BILL, "ackId": [found.ack_id]}
    await google.subscriptions("acknowledge", body=ack)
    late = {"subscription": BILL, "ackIds": [found.ack_id], "ackDeadlineSeconds": 0}
    await google.subscriptions("modifyAckDeadline", body=late)
    assert not await pull_batch(google), "it is done"


async def test_an_error_has_googles_form(google, queue):  # G8, G45, G49
    invalid = 400, "INVALID_ARGUMENT"
    assert await refused(google.topics("create", body={"name": "nonsense"})) == invalid
    assert await refused(google.topics("get", topic="nonsense")) == invalid
    own = {"topic": TOPIC, "message": message(messageId="7")}
    assert await refused(google.topics("publish", body=own)) == invalid
    empty = {"topic": TOPIC, "messages": []}
    assert await refused(google.topics("publishBatch", body=empty)) == invalid
    nowhere = {"topic": "/topics/shop/none", "message": message()}
    assert await refused(google.topics("publish", body=nowhere)) == (404, "NOT_FOUND")
    pull = {"subscription": "/subscriptions/shop/none"}
    assert await refused(google.subscriptions("pull", body=pull)) == (404, "NOT_FOUND")


async def test_a_message_of_ten_megabytes_and_one_too_large(google, queue):  # G9, G12, G49
    large = b"\xff" * 9_999_900  # and some bytes of the request around them
    await google.topics("publish", body={"topic": TOPIC, "message": message(large)})
    (found,) = await pull_batch(google)
    assert b64decode(found["pubsubEvent"]["message"]["data"]) == large
    body = {"topic": TOPIC, "message": message(b"x" * (11 << 20))}
    assert await refused(google.topics("publish", body=body)) == (413, "INVALID_ARGUMENT")
    assert await publish(google, b"next")
