"""Policies: a binding changes who may, what cannot be known is kept and grants nothing, and permissions are told as they are."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest
from faces.grpc import clients
from faces.grpc.clients import IAM, PUBLISHER, SUBSCRIBER, Stub, code_of
from faces.grpc.test_callers import basic
from grpc import StatusCode
from harness.servers.users import SERVICE

from pubqueue.faces.grpc.iam import account_of, granted
from pubqueue.faces.grpc.settings import GrpcSettings
from pubqueue.faces.grpc.wire import ResourceKind, v1
from pubqueue.faces.grpc.wire import iam as m
from pubqueue.model.entities import Affiliation, Jid

TOPIC, BILL = "projects/shop/topics/orders", "projects/shop/subscriptions/bill"
OK, BARRED, INVALID = StatusCode.OK, StatusCode.PERMISSION_DENIED, StatusCode.INVALID_ARGUMENT


@pytest.fixture
def make_face():
    return partial(clients.a_face, settings=GrpcSettings())


@pytest.fixture
def of(channel):
    def of(name):
        metadata = basic(name)
        return SimpleNamespace(
            publisher=Stub(channel, PUBLISHER, metadata),
            subscriber=Stub(channel, SUBSCRIBER, metadata),
            iam=Stub(channel, IAM, metadata),
        )

    return of


@pytest.fixture
async def etl(of):
    stubs = of("etl")
    await stubs.publisher.CreateTopic(name=TOPIC, labels={"team": "a"})
    await stubs.subscriber.CreateSubscription(name=BILL, topic=TOPIC)
    return stubs


def policy(etag=b"", **bindings):
    made = m.Policy(etag=etag)
    for role, members in bindings.items():
        made.bindings.add(role=f"roles/pubsub.{role}", members=members)
    return made


def publish(stubs):
    return stubs.publisher.Publish(topic=TOPIC, messages=[v1.PubsubMessage(data=b"a")])


async def test_a_binding_changes_rights_and_is_returned(of, etl):  # G39
    bee = of("bee")
    assert not (await etl.iam.GetIamPolicy(resource=TOPIC)).bindings
    wanted = policy(publisher=["user:bee", "group:all@example.org"], viewer=["domain:x.org"])
    done = await etl.iam.SetIamPolicy(resource=TOPIC, policy=wanted)
    assert list(done.bindings) == list(wanted.bindings)
    assert await etl.iam.GetIamPolicy(resource=TOPIC) == done
    assert await code_of(publish(bee)) is OK
    assert dict((await etl.publisher.GetTopic(topic=TOPIC)).labels) == {"team": "a"}
    await etl.iam.SetIamPolicy(resource=TOPIC, policy=policy(subscriber=[f"user:bee@{SERVICE}"]))
    assert await code_of(publish(bee)) is BARRED
    made = bee.subscriber.CreateSubscription(name=BILL + "2", topic=TOPIC)
    assert await code_of(made) is OK
    await etl.iam.SetIamPolicy(resource=TOPIC, policy=policy())
    assert await code_of(publish(bee)) is StatusCode.NOT_FOUND
    assert await code_of(publish(etl)) is OK


async def test_a_subscription_has_a_policy_too(of, etl):  # G39
    bee = of("bee")
    await etl.iam.SetIamPolicy(resource=BILL, policy=policy(subscriber=["user:bee"]))
    await publish(etl)
    answer = await bee.subscriber.Pull(subscription=BILL, max_messages=1)
    assert len(answer.received_messages) == 1


async def test_only_owners_see_and_set_policies(of, etl):  # G39
    bee = of("bee")
    await etl.iam.SetIamPolicy(resource=TOPIC, policy=policy(publisher=["user:bee"]))
    assert await code_of(bee.iam.GetIamPolicy(resource=TOPIC)) is BARRED
    assert await code_of(bee.iam.SetIamPolicy(resource=TOPIC, policy=policy())) is BARRED
    assert await code_of(of("ann").iam.GetIamPolicy(resource=TOPIC)) is StatusCode.NOT_FOUND


async def test_an_etag_of_another_policy_is_refused(etl):  # G39
    one = await etl.iam.GetIamPolicy(resource=TOPIC)
    await etl.iam.SetIamPolicy(resource=TOPIC, policy=policy(one.etag, publisher=["user:bee"]))
    late = etl.iam.SetIamPolicy(resource=TOPIC, policy=policy(one.etag))
    assert await code_of(late) is StatusCode.ABORTED


async def test_what_is_not_supported_is_refused(etl):  # G39
    odd = m.Policy()
    odd.bindings.add(role="roles/storage.admin", members=["user:bee"])
    assert await code_of(etl.iam.SetIamPolicy(resource=TOPIC, policy=odd)) is INVALID
    odd = policy(publisher=["user:bee"])
    odd.bindings[0].condition.expression = "true"
    refused = etl.iam.SetIamPolicy(resource=TOPIC, policy=odd)
    assert await code_of(refused) is StatusCode.UNIMPLEMENTED
    assert await code_of(etl.iam.GetIamPolicy(resource="projects/shop")) is INVALID


async def test_permissions_are_as_they_are(of, etl):  # G39
    bee = of("bee")
    await etl.iam.SetIamPolicy(resource=TOPIC, policy=policy(publisher=["user:bee"]))
    names = [f"pubsub.topics.{name}" for name in ("get", "publish", "attachSubscription", "delete")]

    async def permitted(stubs):
        answer = await stubs.iam.TestIamPermissions(resource=TOPIC, permissions=names)
        return [name.rpartition(".")[2] for name in answer.permissions]

    assert await permitted(bee) == ["get", "publish"]
    assert await permitted(etl) == ["get", "publish", "attachSubscription", "delete"]
    odd = etl.iam.TestIamPermissions(resource=TOPIC, permissions=["pubsub.topics.*"])
    assert await code_of(odd) is INVALID


async def test_a_viewer_sees_the_topic_and_can_do_nothing_with_it(of, etl):  # G39
    bee = of("bee")
    assert await code_of(bee.publisher.GetTopic(topic=TOPIC)) is StatusCode.NOT_FOUND
    for name, getting in ((TOPIC, "topics.get"), (BILL, "subscriptions.get")):
        await etl.iam.SetIamPolicy(resource=name, policy=policy(viewer=["user:bee"]))
        kind = getting.partition(".")[0]
        wanted = {"topics": ["attachSubscription", "publish"], "subscriptions": ["consume"]}[kind]
        asked = [f"pubsub.{getting}", *(f"pubsub.{kind}.{one}" for one in wanted)]
        answer = await bee.iam.TestIamPermissions(resource=name, permissions=asked)
        assert list(answer.permissions) == [f"pubsub.{getting}"]
    assert await code_of(bee.publisher.GetTopic(topic=TOPIC)) is OK
    assert await code_of(bee.subscriber.GetSubscription(subscription=BILL)) is OK
    spying = bee.subscriber.CreateSubscription(name=BILL + "2", topic=TOPIC)
    assert await code_of(spying) is BARRED
    pulling = bee.subscriber.Pull(subscription=BILL, max_messages=1, return_immediately=True)
    assert await code_of(pulling) is BARRED
    assert await code_of(publish(bee)) is BARRED
    await etl.iam.SetIamPolicy(resource=TOPIC, policy=policy())
    assert await code_of(bee.publisher.GetTopic(topic=TOPIC)) is StatusCode.NOT_FOUND


async def test_a_policy_with_too_much_changes_nothing(etl):  # G39
    wanted = policy(publisher=[f"user:{'x' * 200}{number}" for number in range(200)])
    refused = etl.iam.SetIamPolicy(resource=TOPIC, policy=wanted)
    assert await code_of(refused) is INVALID
    assert not (await etl.iam.GetIamPolicy(resource=TOPIC)).bindings


@pytest.mark.parametrize(
    ("member", "account"),
    [
        ("user:bee", f"bee@{SERVICE}"),
        ("serviceAccount:bee", f"bee@{SERVICE}"),
        ("user:Ann@example.org", "ann@example.org"),
        ("group:a@example.org", None),
        ("allUsers", None),
        ("user:", None),
        ("user:a b", None),
        ("user:a\0", None),
        ("user:a\x7f", None),
        ("user:a/b", None),
        ("domain:example.org", None),
    ],
)
def test_members(member, account):  # G39
    assert account_of(member, SERVICE) == account


def test_roles_add_up():  # G39
    both = {"roles/pubsub.publisher": ["user:a"], "roles/pubsub.subscriber": ["user:a", "user:b"]}
    found = granted(both, ResourceKind.TOPIC, "x")
    assert found == {Jid("a@x"): Affiliation.PUBLISHER, Jid("b@x"): Affiliation.MEMBER}
    assert granted({"roles/pubsub.viewer": ["user:a"]}, ResourceKind.SUBSCRIPTION, "x") == {}
