"""The contract of faces: what a queue promises holds at each of them, whichever instance a client is connected to.

A class that inherits `FaceContract` has two fixtures. `connected` is a function that connects an account to an instance, and returns a
`sides.Client`; `words_for`, one that returns what a client is told of a refusal. Faces whose clients are bound to no connection
have a second class, whose clients send their requests to the two instances in turn. Faces whose clients are connected to the instance itself inherit
`ConnectionContract` too; the classes after it are for protocols that have more, each with what the one before has.

Three kinds of faults have their case where they can be: a conversation that only one process knows, in `InTurn` (over XMPP and STOMP it is a
connection's, which is at one instance); a decision made of several requests, in `ConditionContract`; the address of a client behind a proxy, in
`AccountContract` (STOMP over TCP has none; over WebSocket, `test_over_http` has it). That a reader takes what a writer writes and no more is
about single texts: `test_readers` and `test_carried`.
"""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from faces.sides import NEWS, SHOPS, two_sides
from harness.batches.facts import JOBS
from harness.batches.queue_requests import a_queue, publishes
from harness.depth import examples
from harness.patience import TIMEOUT, until
from harness.servers.users import RIGHT, SERVICE
from harness.stores.store_reader import StoreReader

from pubqueue.accounts.accounts import FREE_NAMES
from pubqueue.engine.listings import Items
from pubqueue.model.decision import Done, Refusal, Refused
from pubqueue.model.entities import ItemId, Jid, Millis, NodeName, Principal, State, account_of
from pubqueue.model.limits import ACCOUNT
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Create
from pubqueue.rules.take import Take
from pubqueue.rules.waits import Hold, Signal
from pubqueue.stores.postgres.store import PostgresStore
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.stores.sqlite.in_memory import Memory, MemoryStore

if TYPE_CHECKING:
    from faces.sides import Client

MANY = examples(100)
AN_HOUR = 3600

BODIES = [
    (b"<a xmlns='urn:x'>1 &lt; 2</a>", "application/xml"),
    (b"<a xmlns='urn:x'/>", "application/atom+xml"),
    (b"<!-- one --><a xmlns='urn:x'/>", "application/xml"),
    (b"<json xmlns='urn:xmpp:json:0'>{}</json>", "application/xml"),
    (b'{"a": [1, 2]}', "application/json"),
    (b'{"a": ', "application/json"),
    (b'{"a": 1}', "application/problem+json"),
    ("caf\u00e9 ]]> & <b>".encode(), "text/plain; charset=utf-8"),
    (b"two\r\nlines", "text/plain"),
    (b"\xef\xbb\xbfmark", "text/plain"),
    (b"&<" * 24_000, "text/plain"),  # its escapes would make it four times as long
    (b"a=1&b=2", "application/x-www-form-urlencoded"),
    (bytes(range(256)), "image/png"),
    (bytes(range(256)), None),
    (b"text", None),
    (b"", "text/plain"),
    (b"", None),
]
"""Bodies and their content types, of each row by which they are stored."""


CAME = 'caf\u00e9 "1:2"\nC:\\\\x ]]> & <b> \U0001f600 %41'
"""A text that no protocol can have in its messages as it is."""


SEPARATORS = ("/", "%", "%2F", "%252F", ":", "#", "?", "&", ";", ".", "\\c", "'", " ", "\u3000")
"""What faces put between names or escape in them: here it is in the names of nodes and items themselves."""

UNWILLING = [{"max_items": 1}, {"publish_paused": True}, {"max_payload_size": 1}, {"type": "urn:y"}]
"""Settings with which a queue refuses some or all items."""


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make_store(request, tmp_path):
    """How to open the one store of a test, again for each instance."""
    return store_of(request, tmp_path)


def store_of(request, tmp_path):
    """Return how to open the store of the parameter."""
    if request.param == "memory":
        return partial(MemoryStore, Memory())
    if request.param == "sqlite":
        return partial(SqliteStore, tmp_path / "queue.db")
    return partial(PostgresStore, request.getfixturevalue("postgres").address)


@pytest.fixture
async def sides(make_store, face_of):
    """Two instances, and the queue `jobs`."""
    async with asyncio.timeout(TIMEOUT), two_sides(make_store, face_of) as both:
        made = await both[0].broker.handle(a_queue(publish_model="open"))
        assert not isinstance(made, Refused)
        yield both


async def by_id(side, name, node=JOBS):
    """Return the item of this id as it is in the store, or None."""
    return await side.store.read(lambda tx: StoreReader(tx).item(NodeName(node), ItemId(name)))


stored = by_id
"""As that, for an item that a client has published; a face whose clients choose no ids replaces it."""


def payer(client: Client) -> Principal:
    """Return the principal whose account pays for what a client sends."""
    return Principal(Jid(client.address), local=True)


async def collect(client: Client, count: int) -> list[str]:
    """Work: retract so many items as they come, and return their ids."""
    done = []
    for _ in range(count):
        done.append(await client.item())
        assert await client.retract("jobs", done[-1]) == ""
    return done


async def send_each_body(client: Client) -> dict[str, tuple[str | None, bytes]]:
    """Publish each of `BODIES`; return content type and body by the ids of the items, in order."""
    sent = {f"{number}": (kind, body) for number, (body, kind) in enumerate(BODIES)}
    for name, (kind, body) in sent.items():
        assert await client.send("jobs", name, body, kind) == ""
    return sent


class FaceContract:
    """What holds for every face."""

    async def test_an_item_is_delivered_and_retracted(self, sides, connected):
        one, _ = sides
        etl, bee = await connected(one, "etl"), await connected(one, "bee")
        assert await bee.subscribe("jobs", 1) == ""
        assert await etl.publish("jobs", "a") == ""
        assert await collect(bee, 1) == ["a"]
        assert await stored(one, "a") is None

    async def test_no_more_than_the_window_is_in_flight(self, sides, connected):
        one, _ = sides
        etl, bee = await connected(one, "etl"), await connected(one, "bee")
        await bee.subscribe("jobs", 2)
        for name in "abc":
            assert await etl.publish("jobs", name) == ""
        assert [await bee.item(), await bee.item()] == ["a", "b"]
        assert (await stored(one, "c")).state is State.QUEUED
        assert bee.items() == []
        assert await bee.retract("jobs", "a") == ""
        assert await bee.item() == "c"

    async def test_an_item_that_was_held_and_is_woken_tells_its_next_worker_what_came(
        self, sides, connected
    ):
        one, other = sides
        etl, bee = await connected(one, "etl"), await connected(other, "bee")
        assert await etl.publish("jobs", "a") == ""
        ann, boss = (Principal(Jid(f"{name}@x"), local=True) for name in ("ann", "boss"))
        taken = await one.broker.handle(Take(ann, JOBS, 1, Millis(0)))
        ((item, _),) = taken.items
        held = Hold(ann, JOBS, item.id, ("yes", CAME[:5]), carry=CAME, token=item.token)
        assert await one.broker.handle(held) == Done()
        for name, data in (("later", ""), (CAME[:5], CAME)):
            said = await other.broker.handle(Signal(boss, JOBS, item.id, name, data, f"id {name}"))
            assert not isinstance(said, Refused)
        assert await bee.subscribe("jobs", 1) == ""
        assert await bee.item() == "a"
        woken, came = bee.waits["a"]
        assert (woken, came["carry"]) == ("signal", CAME)
        texts = [(came["name"], came["id"], came["data"], came["by"]) for came in came["signals"]]
        assert texts == [
            ("later", "id later", "", "boss@x"),
            (CAME[:5], f"id {CAME[:5]}", CAME, "boss@x"),
        ]

    async def test_a_refusal_is_answered(self, sides, connected):
        one, _ = sides
        etl = await connected(one, "etl")
        assert await etl.publish("nowhere", "a") != ""
        assert await etl.retract("jobs", "nothing") != ""
        assert await etl.publish("jobs", "a") == "", "and costs nothing else"

    @pytest.mark.parametrize("settings", UNWILLING, ids=lambda settings: next(iter(settings)))
    async def test_what_a_stranger_sets_in_a_queue_refuses_no_publish_to_the_node_that_feeds_it(
        self, sides, connected, settings
    ):
        one, _ = sides
        news = Settings({"queueing": False, "access_model": "open", "publish_model": "open"})
        fed = Settings({"queueing": True, "source": NEWS} | settings)
        boss = Principal(Jid("boss@x"), local=True)
        stranger = Principal(Jid("stranger@x"), local=True)
        for by, name, wanted in ((boss, NEWS, news), (stranger, "hers", fed)):
            made = await one.broker.handle(Create(by, NodeName(name), wanted))
            assert not isinstance(made, Refused)
        etl = await connected(one, "etl")
        for name in "abc":
            assert await etl.publish(NEWS, name) == ""
        hers = await one.store.read(lambda tx: StoreReader(tx).node(NodeName("hers")))
        assert hers.items + hers.config.left_out.items == 3

    separators = SEPARATORS

    async def test_of_names_that_are_one_when_they_are_joined_each_is_its_own(
        self, sides, connected
    ):
        one, _ = sides
        etl, bee = await connected(one, "etl"), await connected(one, "bee")
        for number, by in enumerate(self.separators):
            first, second = f"eu{number}", f"eu{number}{by}x"
            items = {first: f"x{by}{number}", second: f"{number}"}
            for node, item in items.items():
                await one.broker.handle(a_queue(NodeName(node), publish_model="open"))
                named = publishes(item, node=NodeName(node), headers=(("name", item),))
                assert not isinstance(await one.broker.handle(named), Refused)
                assert await bee.subscribe(node, 2) == "", node
            assert {await bee.item(), await bee.item()} == set(items.values())
            assert await bee.retract(first, items[first]) == "", by
            rest = [await by_id(one, item, node) for node, item in items.items()]
            assert [item and item.state for item in rest] == [None, State.LOCKED], by
            assert await bee.retract(second, items[second]) == "", by
            assert await by_id(one, items[second], second) is None
        for number, by in enumerate(self.separators):
            first, second = f"eu{number}", f"eu{number}{by}x"
            for node, other in ((second, first), (first, second)):
                assert await etl.publish(node, f"p{by}{node}") == "", by
                assert await stored(one, f"p{by}{node}", node) is not None
                assert await stored(one, f"p{by}{node}", other) is None

    @pytest.fixture
    def principals(self, sides):
        """What makes the principals of each face."""
        return [side.face.accounts.principals for side in sides]

    async def test_a_node_of_a_project_that_does_not_exist_for_an_account_is_not_there(
        self, sides, connected, principals
    ):
        one, _ = sides
        wanted = Settings({"access_model": "open", "publish_model": "open"})
        made = await one.broker.handle(
            Create(Principal(Jid("boss@x"), local=True), NodeName(SHOPS), wanted)
        )
        assert not isinstance(made, Refused)
        bee, etl = await connected(one, "bee"), await connected(one, "etl")
        named = {account_of(Jid(bee.address)): frozenset({"bees", "xmpp"})}
        for each in principals:
            each.assign(named | {account_of(Jid(etl.address)): None})
        bee, etl = await connected(one, "bee"), await connected(one, "etl")
        assert await bee.publish(SHOPS, "a") != ""
        assert await etl.publish(SHOPS, "b") == ""
        assert await bee.publish("jobs", "c") == ""
        rows = await one.store.read(lambda tx: tx.page(Items(NodeName(SHOPS)), None, 9))
        assert len(rows) == 1

    async def test_a_publish_at_one_instance_reaches_clients_of_the_other(self, sides, connected):
        one, other = sides
        etl, bee = await connected(one, "etl"), await connected(other, "bee")
        assert await bee.subscribe("jobs", 10) == ""
        working = asyncio.create_task(collect(bee, MANY))
        for number in range(MANY):
            assert await etl.publish("jobs", f"{number}") == ""
        assert sorted(map(int, await working)) == list(range(MANY))

    async def test_workers_at_both_instances_share_a_queue(self, sides, connected):
        etl = await connected(sides[0], "etl")
        workers = [await connected(side, "bee") for side in sides]
        for worker in workers:
            assert await worker.subscribe("jobs", 3) == ""
        names = [f"{number}" for number in range(60)]
        done: list[str] = []

        async def work(worker):
            while True:
                done.extend(await collect(worker, 1))

        working = [asyncio.create_task(work(worker)) for worker in workers]
        for name in names:
            await etl.publish("jobs", name)
        await until(lambda: len(done) >= len(names))
        for task in working:
            task.cancel()
        assert sorted(done) == sorted(names), "each once"

    async def test_what_a_client_leaves_behind_goes_to_another_at_any_instance(
        self, sides, connected
    ):
        one, other = sides
        etl, bee = await connected(one, "etl"), await connected(one, "bee")
        await bee.subscribe("jobs", 1)
        await etl.publish("jobs", "a")
        assert await bee.item() == "a"
        await bee.leave()
        second = await connected(other, "ann")
        await second.subscribe("jobs", 1)
        assert await collect(second, 1) == ["a"]

    @pytest.mark.parametrize("why", ["requests", "cost"])
    async def test_an_account_with_too_much_under_way_waits_and_no_other(
        self, sides, connected, why
    ):
        one, _ = sides
        etl, bee = await connected(one, "etl"), await connected(one, "bee")
        by, admissions = payer(etl), [side.broker.admission for side in sides]
        for admission in admissions if why == "cost" else ():
            admission.charge(by, ACCOUNT.refused + AN_HOUR)
        count = ACCOUNT.requests if why != "cost" else 0
        loads = [(one, one.take(by, 0)) for one in admissions for _ in range(count)]
        publishing = asyncio.create_task(etl.publish("jobs", "a"))
        for name in "bcdefghi":
            assert await bee.publish("jobs", name) == ""
        answer = publishing.done() and publishing.result()
        assert answer or not publishing.done()
        for admission, load in loads:
            admission.done(load)
        for admission in admissions if why == "cost" else ():
            admission.charge(by, -AN_HOUR)  # as if the time had passed
        await until(lambda: not any(one.beyond(by) for one in admissions))
        if await publishing:  # it was refused, as where all clients share a stream
            assert await etl.publish("jobs", "a") == ""

    async def test_what_is_refused_is_charged_to_its_account(self, sides, connected):
        one, _ = sides
        etl, bee = await connected(one, "etl"), await connected(one, "bee")
        charged = []
        for side in sides:
            side.broker.admission.charge = lambda by, cost: charged.append((by.account, cost > 0))
        assert await bee.publish("jobs", "b") == ""
        assert charged == []
        assert await etl.publish("nowhere", "a") != ""
        assert set(charged) == {(payer(etl).account, True)}

    @pytest.mark.parametrize("refusal", Refusal)
    def test_every_refusal_has_words(self, refusal, words_for):
        assert words_for(Refused(refusal, "because", 7))


class InTurn:
    """The stores that processes can share, for a contract whose clients send each request to another instance than the one before."""

    # the end of a login is about one wait, at one instance
    test_a_user_that_is_gone_gets_nothing_for_which_it_waits = None
    test_an_item_that_comes_as_the_login_ends_is_released = None

    test_every_refusal_has_words = None

    @pytest.fixture(params=["sqlite", "postgres"])
    def make_store(self, request, tmp_path):
        return store_of(request, tmp_path)

    async def test_a_list_goes_on_at_the_next_instance(self, sides, connected, page):
        names = {f"made{number}" for number in range(5)}
        for name in names:
            await sides[0].broker.handle(a_queue(NodeName(name), queueing=False))
        etl = await connected(sides[0], "etl")
        found, token = [], None
        while token != "":
            some, token = await page(etl, token or "")
            found += some
        assert sorted(found) == sorted(names)


class ConnectionContract(FaceContract):
    """What holds in addition where clients are connected to the instance itself."""

    async def test_nothing_is_locked_to_a_client_of_another_instance(self, sides, connected):
        one, other = sides
        etl, bee = await connected(one, "etl"), await connected(other, "bee")
        await bee.subscribe("jobs", 1)
        other.face.go_down()
        await etl.publish("jobs", "a")
        await one.broker.settled()
        waits = await stored(one, "a")
        assert (waits.state, waits.acquired) == (State.QUEUED, 0)
        other.face.go_up()
        assert await bee.item() == "a"

    async def test_a_client_that_does_not_read_delays_no_other_and_gets_it_later(
        self, sides, connected
    ):
        one, _ = sides
        etl = await connected(one, "etl")
        slow, bee = await connected(one, "slow"), await connected(one, "bee")
        await slow.subscribe("jobs", 1)
        slow.stop_reading()
        await bee.subscribe("jobs", 1)
        await etl.publish("jobs", "a")
        assert await bee.item() == "a"
        await etl.publish("jobs", "b")
        await one.broker.settled()
        assert (await stored(one, "b")).state is State.QUEUED
        slow.read_on()
        assert await slow.item() == "b"

    @pytest.mark.parametrize("how", ["closed", "broken"])
    async def test_a_connection_that_breaks_is_a_failure_and_one_that_is_closed_is_none(
        self, sides, connected, how
    ):
        one, _ = sides
        etl, bee = await connected(one, "etl"), await connected(one, "bee")
        await bee.subscribe("jobs", 1)
        await etl.publish("jobs", "a")
        assert await bee.item() == "a"
        await (bee.leave() if how == "closed" else bee.breaks())
        await one.broker.settled()
        back = await stored(one, "a")
        assert (back.holder, back.failed) == (None, int(how == "broken"))

    async def test_what_the_clients_of_an_instance_that_died_held_is_released(
        self, sides, connected
    ):
        one, other = sides
        etl = await connected(one, "etl")
        for name in ("bee", "ann"):
            client = await connected(other, name)
            await client.subscribe("jobs", 5)
            await etl.publish("jobs", name)
            assert await client.item() == name
        await other.kill()
        second = await connected(one, "eva")
        await second.subscribe("jobs", 5)
        assert sorted([await second.item(), await second.item()]) == ["ann", "bee"]
        assert [(await stored(one, name)).failed for name in ("ann", "bee")] == [0, 0]

    async def test_an_instance_that_begins_ends_what_was_left_under_its_number(
        self, sides, connected, make_store, face_of
    ):
        one, other = sides
        etl, bee = await connected(one, "etl"), await connected(one, "bee")
        await bee.subscribe("jobs", 5)
        await etl.publish("jobs", "a")
        assert await bee.item() == "a"
        for side in (other, one):
            await side.kill()
        async with two_sides(make_store, face_of) as (again, _):
            assert again.broker.instance.number == 0
            second = await connected(again, "eva")
            await second.subscribe("jobs", 1)
            assert await collect(second, 1) == ["a"]

    async def test_an_address_has_its_instance(self, sides, connected):
        for number, side in enumerate(sides):
            client = await connected(side, "bee")
            assert client.address.startswith(f"bee@{SERVICE}/")
            assert f".{number}." in client.address


class BytesContract(ConnectionContract):
    """What holds in addition where a payload is any bytes, with a content type."""

    async def test_any_body_comes_out_as_it_went_in(self, sides, connected):
        one, other = sides
        etl, bee, ann = [
            await connected(*who) for who in ((one, "etl"), (one, "bee"), (other, "ann"))
        ]
        assert await bee.subscribe("jobs", len(BODIES)) == ""
        sent = await send_each_body(etl)
        assert {await bee.item() for _ in sent} == sent.keys()
        assert bee.bodies == sent
        await bee.leave()
        assert await ann.subscribe("jobs", len(BODIES)) == ""
        assert {await ann.item() for _ in sent} == sent.keys()
        assert ann.bodies == sent

    async def test_what_is_stored_of_any_body_is_one_element(self, sides, connected):
        one, _ = sides
        await send_each_body(await connected(one, "etl"))
        rows = await one.store.read(lambda tx: tx.page(Items(JOBS), None, 99))
        assert len(rows) == len(BODIES)
        for _, payload in rows:
            assert ET.fromstring(payload).tag.startswith("{")

    async def test_a_body_that_is_too_large_as_it_is_stored_is_refused_with_the_bound(
        self, sides, connected
    ):
        etl = await connected(sides[0], "etl")
        assert "65536" in await etl.send("jobs", "a", b"\0" * 60_000, "image/png")
        assert await etl.send("jobs", "a", b"\0" * 40_000, "image/png") == ""


class AccountContract(BytesContract):
    """What holds in addition where clients log in. `logs_in` connects a user to an instance, from a peer, or returns what is said."""

    async def test_a_client_that_authenticates_as_a_user_has_its_account(self, sides, logs_in):
        one, other = sides
        etl = await logs_in(one, "etl", RIGHT)
        bee = await logs_in(other, "bee", RIGHT)
        assert etl.address.startswith(f"etl@{SERVICE}/")
        assert await bee.subscribe("jobs", 1) == ""
        assert await etl.publish("jobs", "a") == ""
        assert await bee.item() == "a"
        assert (await stored(one, "a")).publisher == f"etl@{SERVICE}"

    async def test_a_wrong_password_and_an_unknown_name_get_the_same_answer(self, sides, logs_in):
        wrong = await logs_in(sides[0], "etl", "wrong")
        assert isinstance(wrong, str)
        assert await logs_in(sides[0], "nobody", RIGHT) == wrong
        assert await logs_in(sides[0], "elsewhere", RIGHT) == wrong, "a user of other faces"

    async def test_a_peer_that_is_often_wrong_has_to_wait_and_no_other(self, sides, logs_in):
        """Where a proxy can be before the clients, both are behind one."""
        names = itertools.count()
        while not isinstance(await logs_in(sides[0], "bee", RIGHT, "192.0.2.1"), str):
            assert isinstance(
                await logs_in(sides[0], f"eve{next(names)}", "wrong", "192.0.2.1"), str
            )
        assert next(names) > FREE_NAMES
        assert not isinstance(await logs_in(sides[0], "bee", RIGHT, "192.0.2.2"), str)

    async def test_a_user_that_is_gone_is_out_and_what_it_held_is_free(self, sides, logs_in):
        one, _ = sides
        etl, bee = await logs_in(one, "etl", RIGHT), await logs_in(one, "bee", RIGHT)
        await bee.subscribe("jobs", 1)
        await etl.publish("jobs", "a")
        assert await bee.item() == "a"
        one.face.accounts.adopt([user for user in one.face.accounts.users if user.name != "bee"])
        assert isinstance(await logs_in(one, "bee", RIGHT), str)
        assert await etl.subscribe("jobs", 1) == ""
        assert await etl.item() == "a"
        assert (await stored(one, "a")).failed == 0


class TakeContract(AccountContract):
    """What holds in addition where clients can ask for items, instead of subscribing."""

    async def test_what_is_there_is_taken_and_retracted(self, sides, connected):
        one, _ = sides
        etl = await connected(one, "etl")
        for name in "abc":
            await etl.publish("jobs", name)
        assert await etl.take("jobs", 2, 0) == (["a", "b"], "")
        assert await etl.retract("jobs", "a") == ""
        assert await stored(one, "a") is None
        assert (await stored(one, "b")).holder == etl.address

    async def test_where_there_is_nothing_the_answer_is_empty_and_where_there_is_no_queue_a_refusal(
        self, sides, connected
    ):
        etl = await connected(sides[0], "etl")
        assert await etl.take("jobs", 1, 0) == ([], "")
        assert await etl.take("jobs", 1, 0.05) == ([], "")
        assert await etl.take("nowhere", 1, 9) != ([], "")

    async def test_a_client_that_waits_at_one_instance_gets_an_item_published_at_the_other(
        self, sides, connected
    ):
        one, other = sides
        etl, bee = await connected(one, "etl"), await connected(other, "bee")
        for name in "abc":
            waiting = asyncio.create_task(bee.take("jobs", 1, TIMEOUT))
            await until(lambda: any(side.broker.waiting.takes for side in sides))
            assert await etl.publish("jobs", name) == ""
            assert await waiting == ([name], "")
            assert await bee.retract("jobs", name) == ""

    async def test_what_was_taken_returns_when_the_client_goes(self, sides, connected):
        one, other = sides
        etl, bee = await connected(one, "etl"), await connected(other, "bee")
        await etl.publish("jobs", "a")
        assert await bee.take("jobs", 1, TIMEOUT) == (["a"], "")
        await bee.leave()
        assert await etl.take("jobs", 1, TIMEOUT) == (["a"], "")

    async def test_a_client_that_breaks_while_it_waits_gets_nothing(self, sides, connected):
        one, _ = sides
        etl, bee = await connected(one, "etl"), await connected(one, "bee")
        waiting = asyncio.create_task(bee.take("jobs", 1, TIMEOUT))
        await until(lambda: one.broker.waiting.takes)
        await bee.breaks()
        await etl.publish("jobs", "a")
        assert await etl.take("jobs", 1, 0) == (["a"], "")
        waiting.cancel()

    async def test_any_body_that_is_taken_is_as_it_went_in(self, sides, connected):
        one, other = sides
        etl, bee = await connected(one, "etl"), await connected(other, "bee")
        sent = await send_each_body(etl)
        for name in sent:
            assert await bee.take("jobs", 1, TIMEOUT) == ([name], "")
        assert bee.bodies == sent


class ConditionContract:
    """What holds where a request can have a condition. STOMP has none but the lock, which is a connection's; HornetQ's is the number in a link."""

    async def test_of_two_changes_at_once_under_one_condition_one_is_made(
        self, sides, connected, rivals
    ):
        clients = [await connected(side, "etl") for side in sides]
        for number in range(10):
            assert sorted(map(bool, await rivals(clients, number))) == [False, True]


class WaitContract:
    """What holds where clients that ask for items are users who log in with each request."""

    async def test_a_user_that_is_gone_gets_nothing_for_which_it_waits(self, sides, connected):
        one, _ = sides
        etl, bee = await connected(one, "etl"), await connected(one, "bee")
        waiting = asyncio.create_task(bee.take("jobs", 1, 60))
        await until(lambda: any(side.broker.waiting.takes for side in sides))
        for side in sides:
            users = side.face.accounts.users
            side.face.accounts.adopt([user for user in users if user.name != "bee"])
        items, why = await waiting
        assert (items, bool(why)) == ([], True)
        assert await etl.publish("jobs", "a") == ""
        assert await etl.take("jobs", 1, 5) == (["a"], "")

    async def test_an_item_that_comes_as_the_login_ends_is_released(self, sides, connected):
        one, _ = sides
        etl, bee = await connected(one, "etl"), await connected(one, "bee")
        waiting = asyncio.create_task(bee.take("jobs", 1, 60))
        await until(lambda: any(side.broker.waiting.takes for side in sides))
        answers = iter([True])
        for accounts in {side.face.accounts for side in sides}:
            accounts.holds = partial(_holds_for_bee, answers, accounts.holds)
        assert await etl.publish("jobs", "a") == ""
        items, why = await waiting
        assert (items, bool(why)) == ([], True)
        assert await etl.take("jobs", 1, 5) == (["a"], "")


def _holds_for_bee(answers, holds, proven):
    """Return the next of these answers for `bee`, then False; for all others the true one."""
    return next(answers, False) if proven.name == "bee" else holds(proven)
