"""Pull consumers: each holds one message, repeated requests have the same answer, and links lead on."""

import asyncio
import base64
import socket
import struct
from contextlib import AsyncExitStack
from functools import partial
from urllib.parse import urlsplit

import pytest
from faces.contract import make_store
from faces.rest.clients import Served, a_face, hosted, served
from faces.rest.hornetq.steps import (
    FORM,
    consumer,
    consumers,
    create,
    held_up,
    lead,
    msg,
    no_consumers,
)
from faces.sides import two_sides
from harness.patience import TIMEOUT, until
from harness.servers.users import RIGHT, SERVICE

from pubqueue.faces.http.host import connection
from pubqueue.faces.listener.budget import KEPT, SMALL
from pubqueue.faces.rest.hornetq import pulling
from pubqueue.model.entities import Millis
from pubqueue.rules import registrations
from pubqueue.rules.registrations import ListRegistrations
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.testing.engine import Calendar

__all__ = ["make_store"]

MANUAL = {"autoAck": "false"}


@pytest.fixture
async def etl(rest):
    return await rest.as_("etl", "hornetq")


@pytest.fixture
async def bee(rest):
    return await rest.as_("bee", "hornetq")


async def counts(rest):
    return (await (await rest.as_()).get("/queues/jobs")).json()["counts"]


async def settle(client, where, verdict="true"):
    return await client.post(where, content=f"acknowledge={verdict}", headers=FORM)


async def test_a_consumer_is_made_and_its_first_message_is_retracted_as_it_is_sent(
    rest, etl, bee
):  # H07, H09, H34
    await create(etl, b"one")
    for form in ({}, {"autoAck": "true"}):
        made = await consumer(bee, **form)
        assert made.headers["Location"].startswith(rest.root.replace("/rest", "/hornetq"))
        assert msg(made).keys() == {"consume-next"}
    message = await bee.post(msg(made)["consume-next"])
    assert (message.status_code, message.content) == (200, b"one")
    assert msg(message).keys() == {"consume-next", "consumer"}
    assert msg(message)["consumer"] == made.headers["Location"]
    await until(partial(is_empty, rest))


async def test_a_client_that_goes_before_its_message_is_sent_locks_none(
    rest, etl, bee, monkeypatch
):  # H09
    made = await consumer(bee)
    await create(etl, b"one")
    with monkeypatch.context() as patch:
        waits = held_up(rest, patch)
        asking = asyncio.create_task(bee.post(msg(made)["consume-next"]))
        await waits.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await until(partial(is_free, rest))
    other = await consumer(etl)
    assert (await etl.post(msg(other)["consume-next"])).content == b"one"


async def unread(url, name, monkeypatch):
    """Ask for a message by this link and read nothing; return the socket, and the connection in the service, where some of it waits."""
    whole, found = pulling.send, asyncio.get_running_loop().create_future()

    async def send(exchange, response):
        at = connection()
        at.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        found.set_result(at)
        await whole(exchange, response)

    monkeypatch.setattr(pulling, "send", send)
    at = urlsplit(url)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.connect((at.hostname, at.port))
    who = base64.b64encode(f"{name}:{RIGHT}".encode()).decode()
    client.sendall(
        f"POST {at.path} HTTP/1.1\r\nHost: {at.netloc}\r\nAuthorization: Basic {who}\r\n\r\n".encode()
    )
    await until(lambda: found.done() and found.result().unsent)
    return client, found.result()


@pytest.mark.parametrize("ended_by", ["client", "service"])
@pytest.mark.parametrize("size", [50_000, 150_000])
async def test_a_message_that_the_system_has_not_taken_is_not_done(
    rest, monkeypatch, size, ended_by
):  # H09
    large, bee = "/queues/large", await rest.as_("bee", "hornetq")
    await rest.make("large", max_payload_size=262_144, backoff_min=0)

    async def locked():
        found = (await (await rest.as_()).get(large)).json()["counts"]
        return found["messages"], found["locked"]

    async def is_free():
        return await locked() == (1, 0)

    made = await consumer(bee, large)
    assert (await create(bee, b"x" * size, large)).status_code == 201
    with monkeypatch.context() as patch:
        client, at = await unread(msg(made)["consume-next"], "bee", patch)
        for _ in range(2):  # an acknowledgement would have had its turn
            assert await locked() == (1, 1)
        if ended_by == "service":
            at.abort()
        client.close()
    await until(is_free)
    again = await bee.post(msg(made)["consume-next"], headers={"Accept-Wait": "5"})
    assert len(again.content) == size


async def is_free(rest):
    found = await counts(rest)
    return (found["messages"], found["locked"]) == (1, 0)


async def is_empty(rest):
    return (await counts(rest))["messages"] == 0


async def test_the_same_link_has_the_same_message_and_an_older_one_the_right_link(
    rest, etl, bee
):  # H10, H11
    for body in (b"one", b"two"):
        await create(etl, body)
    first = msg(await consumer(bee))["consume-next"]
    answers = [await bee.post(first) for _ in range(3)]
    assert [one.content for one in answers] == [b"one"] * 3
    second = msg(answers[0])["consume-next"]
    assert (await bee.post(second)).content == b"two"
    old = await bee.post(first)
    assert old.status_code == 412
    third = msg(old)["consume-next"]
    assert (await bee.post(third)).status_code == 503
    assert (await bee.post(second)).content == b"two"
    await until(partial(is_empty, rest))


async def test_nothing_in_time_is_503_and_the_link_goes_on_working(etl, bee):  # H12, H13
    first = msg(await consumer(bee))["consume-next"]
    nothing = await bee.post(first)
    assert (nothing.status_code, nothing.headers["Retry-After"]) == (503, "1")
    assert msg(nothing)["consume-next"] == first
    waiting = asyncio.create_task(bee.post(first, headers={"Accept-Wait": "30"}))
    await create(etl, b"one")
    assert (await waiting).content == b"one"


async def test_a_message_is_open_until_it_is_acknowledged(rest, etl, bee):  # H08, H14, H15
    for body in (b"one", b"two"):
        await create(etl, body)
    following = msg(await consumer(bee, **MANUAL))["acknowledge-next"]
    message = await bee.post(following)
    assert msg(message).keys() == {"acknowledgement", "consumer", "hold", "signal"}
    again = await bee.post(following)
    assert (again.content, msg(again)) == (b"one", msg(message))
    where = msg(message)["acknowledgement"]
    done = await settle(bee, where)
    assert done.status_code == 204
    assert (await settle(bee, where)).status_code == 204, "a repetition"
    other = await settle(bee, where, "false")
    assert (other.status_code, msg(other).keys()) == (412, {"acknowledge-next"})
    second = await bee.post(msg(done)["acknowledge-next"])
    assert second.content == b"two"
    late = await settle(bee, where)
    assert (late.status_code, msg(late).keys()) == (412, {"acknowledge-next"})
    assert (await settle(bee, msg(second)["acknowledgement"], "false")).status_code == 204
    back = await bee.post(following, headers={"Accept-Wait": "30"})
    assert (back.content, back.headers["Message-Attempt"]) == (b"two", "2")
    assert (await counts(rest))["locked"] == 1


@pytest.mark.parametrize("wrong", ["", "acknowledge=perhaps", "acknowledge=true&acknowledge=true"])
async def test_a_verdict_that_is_none_changes_nothing(rest, etl, bee, wrong):  # H15
    await create(etl, b"one")
    message = await bee.post(msg(await consumer(bee, **MANUAL))["acknowledge-next"])
    where = msg(message)["acknowledgement"]
    assert (await bee.post(where, content=wrong, headers=FORM)).status_code == 400
    assert (await counts(rest))["locked"] == 1
    assert (await settle(bee, where.rpartition("/")[0] + "/999999")).status_code == 412


async def test_a_consumer_shows_the_link_that_is_due_and_goes(rest, etl, bee):  # H16, H19
    await create(etl, b"one")
    made = await consumer(bee, **MANUAL)
    place = made.headers["Location"]
    assert msg(await bee.head(place)) == msg(made)
    message = await bee.post(msg(made)["acknowledge-next"])
    shown = await bee.get(place)
    assert shown.status_code == 204
    assert msg(shown)["acknowledgement"] == msg(message)["acknowledgement"]
    assert (await bee.delete(place)).status_code == 204
    assert (await bee.delete(place)).status_code == 404
    assert (await bee.get(place)).status_code == 404
    await rest.broker.settled()
    assert (await counts(rest))["queued"] == 1
    gone = await settle(bee, msg(message)["acknowledgement"])
    assert (gone.status_code, msg(gone).keys()) == (412, {"acknowledge-next"})


async def test_selectors_are_refused_and_no_consumer_is_made(rest, bee):  # H17
    where = await lead(bee, "/queues/jobs", "pull-consumers")
    answer = await bee.post(where, data={"selector": "a = 1"})
    assert (answer.status_code, await consumers(rest)) == (501, 0)
    for form in ({"autoAck": "perhaps"}, {"colour": "red"}, {"durable": "true"}):
        assert (await bee.post(where, data=form)).status_code == 400


async def test_an_idle_consumer_is_closed_and_made_again_by_its_link():  # H13, H17, H18
    calendar = Calendar()
    async with asyncio.timeout(TIMEOUT), served(calendar=calendar, consumer_idle=0.2) as rest:
        await rest.make("jobs", backoff_min=0)
        etl, bee = await rest.as_("etl", "hornetq"), await rest.as_("bee", "hornetq")
        following = msg(await consumer(bee, **MANUAL))["acknowledge-next"]
        waiting = asyncio.create_task(bee.post(following, headers={"Accept-Wait": "30"}))
        await until(lambda: rest.broker.waiting.takes)
        rest.side.advance(20)
        await create(etl, b"one")
        message = await waiting
        assert (message.status_code, await consumers(rest)) == (200, 1), "waiting is not idle"
        rest.side.advance(20)
        await until(partial(no_consumers, rest))
        assert (await counts(rest))["queued"] == 1
        lost = await settle(bee, msg(message)["acknowledgement"])
        assert lost.status_code == 412
        again = await bee.post(msg(lost)["acknowledge-next"], headers={"Accept-Wait": "30"})
        assert (again.status_code, again.content) == (200, b"one")


class Ahead(Calendar):
    """A clock that is a day ahead."""

    def now(self):
        return Millis(super().now() + 86_400_000)


@pytest.mark.parametrize("is_used", [False, True])
async def test_a_consumer_of_a_clock_that_was_ahead_is_idle_as_soon_as_others(tmp_path, is_used):
    async with asyncio.timeout(TIMEOUT):
        async with served(SqliteStore(tmp_path / "q.db"), calendar=Ahead()) as rest:
            await rest.make("jobs", backoff_min=0)
            bee = await rest.as_("bee", "hornetq")
            following = msg(await consumer(bee, **MANUAL))["acknowledge-next"]
            root = rest.root
        calendar = Calendar()
        async with served(
            SqliteStore(tmp_path / "q.db"), calendar=calendar, consumer_idle=0.2
        ) as rest:
            await until(lambda: rest.face.is_serving)
            bee = await rest.as_("bee", "hornetq")
            if is_used:
                here = following.replace(root.rpartition("/")[0], rest.root.rpartition("/")[0])
                assert (await bee.post(here)).status_code == 503
            latest = rest.face.pulling.latest
            await until(partial(is_in_use_until, rest, latest))
            calendar.advance(3600)
            await until(partial(no_consumers, rest))


async def is_in_use_until(rest, latest):
    """Return whether the only consumer is in use no later than that."""
    page = await rest.broker.handle(ListRegistrations(rest.face.pulling.service, None))
    return page.entries[0].until <= latest


async def test_consumers_hold_over_a_restart(tmp_path):  # H11, H17
    async with asyncio.timeout(TIMEOUT):
        async with served(SqliteStore(tmp_path / "q.db")) as rest:
            await rest.make("jobs", backoff_min=0)
            etl, bee = await rest.as_("etl", "hornetq"), await rest.as_("bee", "hornetq")
            for body in (b"one", b"two", b"three"):
                await create(etl, body)
            following = msg(await consumer(bee, **MANUAL))["acknowledge-next"]
            message = await bee.post(following)
            first = msg(await consumer(bee))["consume-next"]
            automatic = await bee.post(first)
            assert (message.content, automatic.content) == (b"one", b"two")
            root = rest.root
        async with served(SqliteStore(tmp_path / "q.db")) as rest:
            bee = await rest.as_("bee", "hornetq")
            await until(lambda: rest.face.is_serving)

            def now(url):
                return url.replace(root.rpartition("/")[0], rest.root.rpartition("/")[0])

            again = await bee.post(now(following))
            assert again.content == b"one"
            assert (await settle(bee, now(msg(message)["acknowledgement"]))).status_code == 204
            second = await bee.post(now(msg(automatic)["consume-next"]))
            assert (second.status_code, second.content) == (200, b"three")
            stale = await bee.post(now(first))
            assert (stale.status_code, msg(stale)["consume-next"]) == (
                412,
                msg(second)["consume-next"],
            )


async def test_consumers_hold_at_another_instance(make_store):  # W22
    async with (
        asyncio.timeout(TIMEOUT),
        two_sides(make_store, a_face) as sides,
        hosted(sides[0].face) as here,
        hosted(sides[1].face) as there,
        AsyncExitStack() as ends,
    ):
        one, other = Served(sides[0], here, ends), Served(sides[1], there, ends)
        await one.make("jobs", backoff_min=0)
        etl, bee = await one.as_("etl", "hornetq"), await one.as_("bee", "hornetq")
        away = await other.as_("bee", "hornetq")
        await create(etl, b"one")
        following = msg(await consumer(bee, **MANUAL))["acknowledge-next"]
        message = await bee.post(following)

        def elsewhere(url):
            return url.replace(here.rpartition("/")[0], there.rpartition("/")[0])

        same = await away.post(elsewhere(following))
        assert same.content == b"one"
        done = await settle(away, elsewhere(msg(message)["acknowledgement"]))
        assert done.status_code == 204
        assert (await settle(bee, msg(message)["acknowledgement"])).status_code == 204


async def test_a_consumer_is_of_its_account_alone(rest, etl, bee):
    await create(etl, b"one")
    made = await consumer(bee, **MANUAL)
    message = await bee.post(msg(made)["acknowledge-next"])
    ann = await rest.as_("ann", "hornetq")
    assert (await ann.get(made.headers["Location"])).status_code == 404
    assert (await ann.delete(made.headers["Location"])).status_code == 404
    stolen = await settle(ann, msg(message)["acknowledgement"])
    assert stolen.status_code == 412
    assert (await counts(rest))["locked"] == 1
    assert (await ann.post(msg(made)["acknowledge-next"])).status_code == 403
    assert (await settle(bee, msg(message)["acknowledgement"])).status_code == 204


@pytest.mark.parametrize(
    "path",
    [
        "attributes-3/0123456789abcdef/consume-next-1",
        "attributes-1/short/consume-next-1",
        "attributes-2/0123456789abcdef/consume-next-1",
        "attributes-1/0123456789abcdef/acknowledge-next-1",
        "attributes-1/0123456789abcdef/consume-next-x",
    ],
)
async def test_a_path_that_is_of_no_consumer_makes_none(rest, bee, path):
    assert (await bee.post(f"/queues/jobs/pull-consumers/{path}")).status_code == 404
    assert await consumers(rest) == 0


async def test_no_consumer_is_made_of_a_queue_that_is_not_there(rest, bee):
    for link in (
        "attributes-1/0123456789abcdef/consume-next-1",
        "attributes-2/0123456789abcdef/acknowledge-next-1",
    ):
        assert (await bee.post(f"/queues/none/pull-consumers/{link}")).status_code == 404
        assert (await bee.post(f"/queues/news/pull-consumers/{link}")).status_code == 404
    assert await consumers(rest) == 0


async def test_an_account_has_so_many_consumers(rest, bee, monkeypatch):
    monkeypatch.setattr(registrations, "MAX_PULLED", 2)
    places = [(await consumer(bee)).headers["Location"] for _ in range(2)]
    where = await lead(bee, "/queues/jobs", "pull-consumers")
    assert (await bee.post(where)).status_code == 429
    assert (await bee.delete(places[0])).status_code == 204
    assert (await bee.post(where)).status_code == 201


async def test_of_messages_for_repetitions_the_oldest_go(rest, etl, bee, monkeypatch):
    monkeypatch.setattr(KEPT, "most", KEPT.size + 2 * SMALL)
    first = []
    for _ in range(2):
        await create(etl, b"x" * 100)
        first.append(msg(await consumer(bee))["consume-next"])
        assert (await bee.post(first[-1])).status_code == 200
    assert [(await bee.post(link)).status_code for link in first] == [412, 200]
    assert SMALL < KEPT.of(f"bee@{SERVICE}") < 2 * SMALL, "one message of one consumer"
    del rest


async def test_a_stranger_makes_no_consumer_of_a_closed_queue(rest):
    await rest.make("closed", access_model="whitelist")
    eve = await rest.as_("eve", "hornetq")
    answer = await eve.post("/queues/closed/pull-consumers")
    assert answer.status_code in {403, 404}
    assert await consumers(rest) == 0


async def test_messages_cross_the_profiles(rest, etl, bee):  # W04
    await create(etl, b"one", Message_Header_Colour="red", Message_Id="a")
    message = await (await rest.as_("ann")).post("/queues/jobs/consumer")
    assert (message.content, message.headers["Message-Header-Colour"]) == (b"one", "red")
    posted = await (await rest.as_()).post("/queues/jobs/messages", content=b"two")
    assert posted.status_code == 201
    assert (await bee.post(msg(await consumer(bee))["consume-next"])).content == b"two"
