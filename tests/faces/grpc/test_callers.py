"""Who calls: tokens, passwords, certificates and none of them; and how many large requests of them are read at once."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from contextlib import suppress
from functools import partial
from hashlib import sha256
from types import SimpleNamespace

import grpc
import pytest
from faces.grpc import clients
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, TOKEN, Stub, code_of
from grpc import StatusCode
from harness.patience import until
from harness.servers.tls import certify, openssl
from harness.servers.users import CHEAP, RIGHT, SERVICE

from pubqueue.accounts import credentials
from pubqueue.accounts.credentials import User
from pubqueue.faces.grpc.callers import (
    FEWEST_CALLS,
    LARGE,
    MAX_CALLS,
    MAX_CALLS_OF_ACCOUNT,
    ROOM,
    OpenCalls,
    Turns,
    Unread,
)
from pubqueue.faces.grpc.settings import GrpcSettings
from pubqueue.faces.grpc.statuses import CallError
from pubqueue.faces.grpc.wire import v1 as m
from pubqueue.faces.listener.tls import Tls, TlsFiles
from pubqueue.model.entities import Affiliation, Jid, NodeName, Principal
from pubqueue.rules.discovery import Describe
from pubqueue.rules.nodes import SetAffiliations

TOPIC, BILL = "projects/shop/topics/orders", "projects/shop/subscriptions/bill"
OK, NOT_FOUND, BARRED, UNKNOWN = (
    StatusCode.OK,
    StatusCode.NOT_FOUND,
    StatusCode.PERMISSION_DENIED,
    StatusCode.UNAUTHENTICATED,
)
DIGEST = frozenset({sha256(TOKEN.encode()).hexdigest()})
MORE = (
    User("tok", tokens=DIGEST, local=True),
    User("cert", certificate=credentials.read_subject("CN=cert,O=example"), local=True),
    User("few", password=CHEAP, projects=frozenset({"shop"}), local=True),
)


def basic(name, password=RIGHT):
    pair = b64encode(f"{name}:{password}".encode()).decode()
    return (("authorization", f"Basic {pair}"),)


BEARER = (("authorization", f"Bearer {TOKEN}"),)


@pytest.fixture
def make_face():
    return partial(clients.a_face, settings=GrpcSettings(), more_users=MORE)


@pytest.fixture
def api(side, channel):
    principals = side.face.accounts.principals
    names = (*clients.NAMES, "tok", "cert", "few")
    principals.welcome(Jid(f"{name}@{SERVICE}") for name in names)

    def of(metadata):
        return SimpleNamespace(
            publisher=Stub(channel, PUBLISHER, metadata),
            subscriber=Stub(channel, SUBSCRIBER, metadata),
        )

    return of


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        basic("etl", "wrong"),
        basic("nobody"),
        basic("elsewhere"),
        (("authorization", "Bearer wrong"),),
        (("authorization", "Basic !!!"),),
        (("authorization", ""),),
        (("authorization", "Digest x"),),
    ],
)
async def test_without_credentials_or_with_wrong_ones_nothing_is_done(api, metadata):  # G40
    stubs = api(metadata)
    assert await code_of(stubs.publisher.CreateTopic(name=TOPIC)) is UNKNOWN
    assert await code_of(stubs.publisher.CreateTopic(name="nonsense")) is UNKNOWN
    assert await code_of(api(basic("etl")).publisher.GetTopic(topic=TOPIC)) is NOT_FOUND


@pytest.mark.parametrize(("metadata", "name"), [(basic("etl"), "etl"), (BEARER, "tok")])
async def test_a_password_and_a_token_give_their_account(side, api, metadata, name):  # G40
    await api(metadata).publisher.CreateTopic(name=TOPIC)
    node = await side.store.read(lambda tx: tx.page(nodes(), None, 9))
    assert [one.creator for one in node] == [f"{name}@{SERVICE}"]


def nodes():
    from pubqueue.engine.listings import Nodes  # noqa: PLC0415

    return Nodes()


async def test_a_user_that_is_gone_is_refused_with_its_next_call(side, api):  # G40
    stubs = api(basic("bee"))
    await stubs.publisher.CreateTopic(name=TOPIC)
    accounts = side.face.accounts
    accounts.adopt([user for user in accounts.users if user.name != "bee"])
    assert await code_of(stubs.publisher.GetTopic(topic=TOPIC)) is UNKNOWN


async def test_no_account_sees_the_topics_of_others(api):  # G3, G40
    etl, bee = api(basic("etl")), api(basic("bee"))
    await etl.publisher.CreateTopic(name=TOPIC)
    await etl.subscriber.CreateSubscription(name=BILL, topic=TOPIC)
    for call in (
        bee.publisher.GetTopic(topic=TOPIC),
        bee.publisher.Publish(topic=TOPIC, messages=[m.PubsubMessage(data=b"a")]),
        bee.publisher.DeleteTopic(topic=TOPIC),
        bee.subscriber.CreateSubscription(name=BILL + "2", topic=TOPIC),
        bee.subscriber.GetSubscription(subscription=BILL),
        bee.subscriber.Pull(subscription=BILL, max_messages=1, return_immediately=True),
        bee.subscriber.DeleteSubscription(subscription=BILL),
    ):
        assert await code_of(call) is NOT_FOUND
    assert not (await bee.publisher.ListTopics(project="projects/shop")).topics
    assert await code_of(bee.publisher.CreateTopic(name=TOPIC)) is StatusCode.ALREADY_EXISTS


async def test_other_projects_do_not_exist_for_a_user_with_projects(api):  # G40
    few = api(basic("few"))
    other = TOPIC.replace("shop", "other")
    await few.publisher.CreateTopic(name=TOPIC)
    await api(basic("etl")).publisher.CreateTopic(name=other)
    assert await code_of(few.publisher.CreateTopic(name=other)) is BARRED
    assert await code_of(few.publisher.GetTopic(topic=other)) is NOT_FOUND
    assert not (await few.publisher.ListTopics(project="projects/other")).topics
    assert await code_of(few.publisher.GetTopic(topic="projects/xmpp/topics/a")) is NOT_FOUND


# affiliation of the topic's publisher and the queue's worker -> codes of: publish, subscribe, pull, delete
A = Affiliation
RIGHTS = [
    (A.OWNER, OK, OK, OK, OK),
    (A.PUBLISHER, OK, OK, OK, BARRED),
    (A.PUBLISH_ONLY, OK, BARRED, BARRED, BARRED),
    (A.MEMBER, BARRED, OK, OK, BARRED),
    (A.NONE, NOT_FOUND, NOT_FOUND, NOT_FOUND, NOT_FOUND),
    (A.OUTCAST, NOT_FOUND, NOT_FOUND, NOT_FOUND, NOT_FOUND),
]


@pytest.mark.parametrize("row", RIGHTS, ids=lambda row: row[0].value)
async def test_rights_by_affiliation(side, api, row):  # G40
    affiliation, publish, subscribe, pull, delete = row
    etl, bee = api(basic("etl")), api(basic("bee"))
    await etl.publisher.CreateTopic(name=TOPIC)
    await etl.subscriber.CreateSubscription(name=BILL, topic=TOPIC)
    by = Principal(Jid(f"etl@{SERVICE}"))
    entries = ((Jid(f"bee@{SERVICE}"), affiliation),)
    for node in (TOPIC, BILL):
        await side.broker.handle(SetAffiliations(by, node, entries))
    message = m.PubsubMessage(data=b"a")
    assert await code_of(bee.publisher.Publish(topic=TOPIC, messages=[message])) is publish
    made = bee.subscriber.CreateSubscription(name=BILL + "2", topic=TOPIC)
    assert await code_of(made) is subscribe
    pulled = bee.subscriber.Pull(subscription=BILL, max_messages=1, return_immediately=True)
    assert await code_of(pulled) is pull
    assert await code_of(bee.subscriber.DeleteSubscription(subscription=BILL)) is delete
    assert await code_of(bee.publisher.DeleteTopic(topic=TOPIC)) is delete


async def test_rights_that_end_end_with_the_next_call_and_locks_give_none(side, api):  # G40
    etl, bee = api(basic("etl")), api(basic("bee"))
    await etl.publisher.CreateTopic(name=TOPIC)
    await etl.subscriber.CreateSubscription(name=BILL, topic=TOPIC)
    by, jid = Principal(Jid(f"etl@{SERVICE}")), Jid(f"bee@{SERVICE}")
    await side.broker.handle(SetAffiliations(by, BILL, ((jid, A.MEMBER),)))
    await etl.publisher.Publish(topic=TOPIC, messages=[m.PubsubMessage(data=b"a")])
    answer = await bee.subscriber.Pull(subscription=BILL, max_messages=1)
    ids = [one.ack_id for one in answer.received_messages]
    await side.broker.handle(SetAffiliations(by, BILL, ((jid, A.NONE),)))
    for ack_ids in (ids, []):
        done = bee.subscriber.Acknowledge(subscription=BILL, ack_ids=ack_ids)
        assert await code_of(done) is NOT_FOUND
    pulled = bee.subscriber.Pull(subscription=BILL, max_messages=1, return_immediately=True)
    assert await code_of(pulled) is NOT_FOUND
    assert (await side.broker.handle(Describe(by, NodeName(BILL), manage=True))).node.items == 1


async def test_an_ack_id_of_another_account_does_nothing(side, api):  # G22
    etl, bee = api(basic("etl")), api(basic("bee"))
    await etl.publisher.CreateTopic(name=TOPIC)
    await etl.subscriber.CreateSubscription(name=BILL, topic=TOPIC)
    by, entries = Principal(Jid(f"etl@{SERVICE}")), ((Jid(f"bee@{SERVICE}"), A.MEMBER),)
    await side.broker.handle(SetAffiliations(by, BILL, entries))
    await etl.publisher.Publish(topic=TOPIC, messages=[m.PubsubMessage(data=b"a")])
    answer = await etl.subscriber.Pull(subscription=BILL, max_messages=1)
    ids = [one.ack_id for one in answer.received_messages]
    await bee.subscriber.Acknowledge(subscription=BILL, ack_ids=ids)
    await bee.subscriber.ModifyAckDeadline(subscription=BILL, ack_ids=ids, ack_deadline_seconds=0)
    empty = await bee.subscriber.Pull(subscription=BILL, max_messages=1, return_immediately=True)
    assert not empty.received_messages, "it is still held"


class TestTls:
    @pytest.fixture
    async def files(self, tmp_path):
        key, certificate = await certify(tmp_path, "localhost")
        ca_key, ca = await certify(tmp_path, "authority")
        return SimpleNamespace(
            key=key, certificate=certificate, ca_key=ca_key, ca=ca, folder=tmp_path
        )

    async def client_certificate(self, files, subject):
        key, request = files.folder / "client.key", files.folder / "client.csr"
        made = files.folder / "client.crt"
        words = "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
        await openssl(f"{words} -subj {subject} -keyout {key} -out {request}")
        await openssl(
            f"x509 -req -in {request} -CA {files.ca} -CAkey {files.ca_key} -CAcreateserial -days 1 -out {made}"
        )
        return key.read_bytes(), made.read_bytes()

    @pytest.fixture
    def make_face(self, files):
        tls = Tls(
            TlsFiles(str(files.certificate), str(files.key), str(files.ca)),
            face="grpc",
            alpn=("h2",),
        )
        return partial(clients.a_face, settings=GrpcSettings(), tls=tls, more_users=MORE)

    def connected(self, side, files, pair):
        key, chain = pair
        trust = files.certificate.read_bytes()
        credentials = grpc.ssl_channel_credentials(trust, key, chain)
        port = side.face.addresses[0][1]
        return grpc.aio.secure_channel(f"localhost:{port}", credentials)

    async def test_a_certificate_gives_the_account_of_its_subject(self, side, files):  # G40
        side.face.accounts.principals.welcome([Jid(f"cert@{SERVICE}")])
        pair = await self.client_certificate(files, "/O=example/CN=cert")
        async with self.connected(side, files, pair) as channel:
            made = await Stub(channel, PUBLISHER).CreateTopic(name=TOPIC)
            assert made.name == TOPIC
            wrong = Stub(channel, PUBLISHER, (("authorization", "Bearer wrong"),))
            assert await code_of(wrong.GetTopic(topic=TOPIC)) is UNKNOWN
        (found,) = await side.store.read(lambda tx: tx.page(nodes(), None, 9))
        assert found.creator == f"cert@{SERVICE}"

    async def test_an_unknown_certificate_is_unauthenticated(self, side, files):  # G40
        pair = await self.client_certificate(files, "/CN=stranger")
        async with self.connected(side, files, pair) as channel:
            call = Stub(channel, PUBLISHER).GetTopic(topic=TOPIC)
            assert await code_of(call) is UNKNOWN

    async def test_after_a_reload_new_connections_get_the_new_certificate(self, side, files):
        pair = await self.client_certificate(files, "/O=example/CN=cert")
        before = files.certificate.read_bytes()
        await certify(files.folder, "localhost")
        await side.face.reload()
        assert before != files.certificate.read_bytes()
        async with self.connected(side, files, pair) as channel:
            call = Stub(channel, PUBLISHER).GetTopic(topic=TOPIC)
            assert await code_of(call) is NOT_FOUND


HALF = ROOM // 2


class Crowd:
    """Requests that take their turns, and stay until they are let go."""

    def __init__(self):
        self.turns, self.inside, self.gates = Turns(), [], {}

    def come(self, name, size, account=None):
        self.gates[name] = asyncio.Event()
        return asyncio.create_task(self._stay(name, size, account or name))

    async def _stay(self, name, size, account):
        async with self.turns.of(size, account):
            self.inside.append(name)
            await self.gates[name].wait()
            self.inside.remove(name)

    async def are(self, *names):
        await until(lambda: self.inside == list(names))


@pytest.fixture
async def crowd():
    one = Crowd()
    yield one
    for gate in one.gates.values():
        gate.set()


async def test_as_many_as_there_is_room_for_go_on_in_their_order(crowd):
    tasks = [crowd.come(name, HALF) for name in "abcd"]
    await crowd.are("a", "b")
    crowd.gates["b"].set()
    await crowd.are("a", "c")
    crowd.gates["a"].set()
    await crowd.are("c", "d")
    for name in "cd":
        crowd.gates[name].set()
    await asyncio.gather(*tasks)


async def test_an_account_has_half_of_the_room_and_others_do_not_wait_for_it(crowd):
    for name in "abc":
        crowd.come(name, HALF, "eve")
    await crowd.are("a")
    crowd.come("other", HALF)
    await crowd.are("a", "other")
    crowd.come("third", HALF)
    crowd.gates["other"].set()
    await crowd.are("a", "third")  # and b waits for a, which is of its account
    crowd.gates["a"].set()
    await crowd.are("third", "b")


async def test_accounts_take_turns(crowd):
    crowd.come("first", ROOM)
    await crowd.are("first")
    for name, account in (("a", "eve"), ("b", "eve"), ("c", "eve"), ("d", "bee")):
        crowd.come(name, ROOM, account)
    await until(lambda: len(crowd.gates) == 5)
    for name, following in zip(("first", "a", "d", "b"), "adbc", strict=True):
        crowd.gates[name].set()
        await crowd.are(following)


async def test_small_ones_do_not_wait(crowd):
    crowd.come("large", ROOM)
    crowd.come("waiting", ROOM)
    await crowd.are("large")
    crowd.come("small", LARGE - 1)
    await crowd.are("large", "small")


async def test_one_that_is_larger_than_the_room_goes_alone(crowd):
    crowd.come("huge", ROOM * 2)
    await crowd.are("huge")
    crowd.come("large", LARGE)
    crowd.gates["huge"].set()
    await crowd.are("large")


async def test_those_that_give_up_are_passed_over_and_one_that_fails_makes_room(crowd):
    first = crowd.come("a", ROOM)
    await crowd.are("a")
    gone = crowd.come("b", ROOM)
    crowd.come("c", ROOM)
    await until(lambda: len(crowd.gates) == 3)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await until(lambda: "c" in crowd.inside)


def test_a_request_is_read_once_and_garbage_is_none():
    whole = Unread(m.Topic, m.Topic(name="a").SerializeToString())
    assert (whole.size, whole.read().name) == (3, "a")
    assert Unread(m.Topic, b"\xff\xff").read() is None


async def test_with_room_for_each_an_account_waits_for_itself_alone(crowd):
    crowd.turns = Turns(1 << 60, ROOM)
    for name in "abc":
        crowd.come(name, HALF + 1, "eve")
        crowd.come(name * 2, HALF + 1, name)
    await crowd.are("a", "aa", "bb", "cc")
    crowd.gates["a"].set()
    await crowd.are("aa", "bb", "cc", "b")


def test_an_account_has_half_of_the_calls_and_less_while_others_have_many():
    calls = OpenCalls()
    held = {name: fill(calls, name) for name in ("a", "b", "c")}
    assert held == {"a": MAX_CALLS_OF_ACCOUNT, "b": MAX_CALLS // 4, "c": MAX_CALLS // 8}
    last = [fill(calls, f"{n}") for n in range(20)]
    assert min(last) == FEWEST_CALLS, "however many others have"
    for _ in range(held["a"]):
        calls.leave("a")
    assert fill(calls, "new") > MAX_CALLS // 8


def fill(calls, name):
    """Open calls until there are too many, and return how many there are."""
    for count in range(MAX_CALLS + 1):
        with suppress(CallError):
            calls.enter(name)
            continue
        return count
    raise AssertionError("there is no bound")
