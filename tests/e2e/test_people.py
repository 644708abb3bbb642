"""People who answer questions of a queue in their clients, behind Prosody and ejabberd (`pubqueue people`)."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from harness.clients.person import at_a_client
from harness.documents.documented import blocks
from harness.operators.at_a_terminal import Operator
from harness.patience import TIMEOUT, until
from harness.servers.behind import SERVICE, address_of, logged_in, serving
from harness.servers.ejabberd import Ejabberd
from harness.servers.relay import Relay

from pubqueue_demo.prosody import Prosody
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.errors import QuestionDied, Refused
from pubqueue_xeps.people.bot import People
from pubqueue_xeps.publisher.publisher import Publisher
from pubqueue_xeps.reading import Reader
from pubqueue_xeps.wire.waits import Hold
from pubqueue_xeps.worker.worker import Worker

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

NODES = """
[[node]]
name = "approvals"
queueing = true
publishers = ["etl@localhost", "bot@localhost", "shop@localhost"]

[[node]]
name = "orders"
queueing = true
publishers = ["etl@localhost", "bot@localhost"]
members = ["shop@localhost"]

[[node]]
name = "board"
queueing = true
publishers = ["etl@localhost", "bot@localhost", "chief@localhost"]
"""
ANNA, BOB = "anna@localhost", "bob@localhost"
SHIP = {"ask": "Ship order 17?", "details": {"customer": "ACME"}}
ROOMS = "rooms.localhost"


def a_prosody():
    """Without `offline`: only the archive has what comes while an account is offline."""
    return Prosody(modules=("mam",), without=("offline",), rooms=ROOMS)


def an_ejabberd():
    return Ejabberd(archive=True, rooms=ROOMS)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[a_prosody, an_ejabberd])
async def server(request):
    async with request.param() as started:
        for name in ("etl", "bot", "chief", "shop", "anna", "bob", "eve"):
            await started.account(name, "secret")
        yield started


program = serving(NODES)


def bot_of(server, **settings):
    fixed = {"service": SERVICE, "ask": (ANNA, BOB), "timings": Timings(backoff_min=0.05)}
    given = fixed | address_of(server) | settings
    return People(("approvals",), "bot@localhost", "secret", **given)


@asynccontextmanager
async def asking(server, **settings):
    """Run the bot for the block."""
    bot = bot_of(server, **settings)
    task = asyncio.create_task(bot.run())
    try:
        yield bot
    finally:
        if not task.done():
            bot.stop()
        async with asyncio.timeout(TIMEOUT):
            await task


@asynccontextmanager
async def publisher(server):
    async with Publisher("etl@localhost", "secret", service=SERVICE, **address_of(server)) as etl:
        yield etl


async def items(server, state=None, node="approvals"):
    """Return the items of a node, as a publisher reads them."""
    async with logged_in(server) as client:
        return [one async for one in Reader(client, SERVICE).items(node, state=state)]


async def dead(server, node="approvals"):
    return await until(lambda: items(server, "dead", node), every=0.05)


async def test_a_question_is_answered_in_every_form(server, program):
    async with (
        asking(server, ask=(ANNA,)),
        at_a_client(server, f"{ANNA}/desk", shows_forms=True) as anna,
        publisher(server) as etl,
    ):
        forms = {
            "action": lambda asked: anna.press(asked, "approve"),
            "number": lambda asked: anna.type(f"{asked.code} 1"),
            "reply": lambda asked: anna.reply(asked, "approve"),
            "thumb": lambda asked: anna.react(asked, "\U0001f44d"),
            "form": lambda asked: anna.submit(asked, 0),
        }
        for name, answer in forms.items():
            waiting = asyncio.create_task(etl.ask("approvals", SHIP, id=name, timeout=TIMEOUT))
            asked = await anna.question()
            assert "Ship order 17?\ncustomer: ACME\n1) approve\n2) refuse" in asked.text
            answer(asked)
            reply = (await waiting).data
            assert (reply["choice"], reply["by"], reply["reason"]) == ("approve", ANNA, "")
            assert asked.code in await anna.hears("Done: approve")
            assert asked.thread is not None
        assert await until(lambda: _none(server), every=0.05)


async def _none(server, node="approvals"):
    return not await items(server, node=node)


async def test_a_refusal_is_the_reason_of_the_dead_item(server, program):
    async with (
        asking(server),
        at_a_client(server, f"{ANNA}/desk") as anna,
        publisher(server) as etl,
    ):
        await etl.publish("approvals", SHIP, id="r1")
        asked = await anna.question()
        assert asked.form is None  # this client shows none
        anna.reply(asked, "refuse: too early")
        (item,) = await dead(server)
        assert item.dead_letter.reason == f"refuse ({ANNA}): too early"
        await etl.publish("approvals", {"ask": "?", "choices": ["yes"]}, id="r2")
        found = await until(lambda: _two_dead(server), every=0.05)
        reasons = {one.id: one.dead_letter.reason for one in found}
        assert reasons["r2"] == "a question has 2 to 9 choices, and this has 1"


async def _two_dead(server):
    found = await items(server, "dead")
    return found if len(found) == 2 else None


async def test_an_answer_wakes_the_item_that_waits_for_it(server, program):
    order = asyncio.get_running_loop().create_future()

    async def work(item):
        if item.woken is None:
            target = {"node": "orders", "id": item.id}
            await etl.publish("approvals", SHIP | {"signal": target}, id=f"of-{item.id}")
            return Hold(("approve", "refuse"))
        order.set_result([(one.name, one.data, one.by) for one in item.signals])
        return None

    shop = Worker(
        "shop@localhost", "secret", service=SERVICE, node="orders", signals=(), **address_of(server)
    )
    async with (
        asking(server, signals=("orders",)),
        at_a_client(server, f"{ANNA}/desk") as anna,
        publisher(server) as etl,
    ):
        working = asyncio.create_task(shop.run(work))
        await etl.publish("orders", {"order": 17}, id="o17")
        anna.press(await anna.question(), "refuse")
        async with asyncio.timeout(TIMEOUT):
            ((name, data, by),) = await order
        assert (name, data["by"], by) == ("refuse", ANNA, "bot@localhost")
        shop.stop()
        await working


async def test_nothing_is_taken_while_nobody_can_be_asked(server, program):
    async with (
        asking(server, ask=(ANNA,)) as bot,
        at_a_client(server, f"{ANNA}/desk") as anna,
        publisher(server) as etl,
    ):
        await etl.publish("approvals", SHIP, id="n0")
        anna.press(await anna.question(), "approve")
        await anna.hears("Done")
        for show in ("dnd", "away", "xa"):
            anna.be(show)
            await until(lambda: not bot.free)
        for name in ("n1", "n2"):
            await etl.publish("approvals", SHIP, id=name)
        assert anna.asked.empty()
        anna.be("chat")
        first = await anna.question()
        assert [one.state for one in await items(server)].count("held") <= 2
        assert anna.asked.empty()  # one at a time
        anna.press(first, "approve")
        anna.press(await anna.question(), "approve")
        await anna.hears("Done")


async def test_what_is_not_understood_is_asked_back_once_and_nothing_is_guessed(server, program):
    async with (
        asking(server, ask=(ANNA,), window=2),
        at_a_client(server, f"{ANNA}/desk") as anna,
        publisher(server) as etl,
    ):
        await etl.publish("approvals", SHIP, id="u1")
        first = await anna.question()
        anna.type("1 moment")
        assert first.code in await anna.hears("which answer")
        await etl.publish("approvals", SHIP | {"ask": "Pay invoice 9?"}, id="u2")
        second = await anna.question()
        anna.type("1")
        told = await anna.hears("which question is that for")
        assert first.code in told
        assert second.code in told
        anna.type("2")  # it is not said twice
        anna.type(f"{second.code} 1")
        assert second.code in await anna.hears("")
        anna.reply(second, "1")
        assert second.code in await anna.hears("is not open any more")
        anna.react(first, "\U0001f44e")
        await anna.hears("Done: refuse")
        (item,) = await dead(server)
        assert item.id == "u1"


async def test_neither_a_stranger_nor_the_author_of_a_question_answers_it(server, program):
    async with (
        asking(server),
        at_a_client(server, f"{ANNA}/desk") as anna,
        at_a_client(server, "eve@localhost/desk") as eve,
        at_a_client(server, "etl@localhost/desk") as author,
        publisher(server) as etl,
    ):
        waiting = asyncio.create_task(etl.ask("approvals", SHIP, id="s1", timeout=TIMEOUT))
        asked = await anna.question()
        for other in (eve, author):
            other.client.write("<presence to='bot@localhost' type='subscribe'/>")
            other.press(asked, "approve")
            other.reply(asked, "1")
            other.type("1")
            other.react(asked, "\U0001f44d")
        about = asked.id.partition(".")[0]
        data = {"question": about, "choice": 0, "by": ANNA, "at": 1.0}
        for name in ("people.answered", "people.sent", "people.bounced", "people.look"):
            await etl.signal("approvals", "s1", name, data | {"to": ANNA})
        anna.press(asked, "refuse")
        reply = (await waiting).data
        assert (reply["choice"], reply["by"]) == ("refuse", ANNA)
        await anna.hears("Done: refuse")
        assert eve.told.empty()
        assert author.told.empty()


async def test_who_does_not_answer_is_reminded_and_then_others_are_asked(server, program):
    async with (
        asking(server, within=3, remind=1, escalate="board"),
        at_a_client(server, f"{ANNA}/desk") as anna,
        at_a_client(server, f"{BOB}/desk") as bob,
        publisher(server) as etl,
    ):
        waiting = asyncio.create_task(etl.ask("approvals", SHIP, id="e1", timeout=TIMEOUT))
        both = [asyncio.create_task(anna.question()), asyncio.create_task(bob.question())]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        first, second = (anna, bob) if both[0].done() else (bob, anna)
        await first.hears("is still open: Ship order 17?")
        await first.hears("is no longer yours")
        await second.hears("is no longer yours")
        for task in both:
            task.cancel()
        (passed,) = await until(lambda: items(server, None, "board"), every=0.05)
        assert passed.headers["correlation-id"]
        chief = Worker(
            "chief@localhost",
            "secret",
            service=SERVICE,
            node="board",
            signals=(),
            **address_of(server),
        )

        async def decide(item):
            chief.stop()
            return [one["asked"] for one in item.decode(dict)["history"]]

        await chief.run(decide)
        history = (await waiting).data
        assert sorted(history) == [[ANNA], [BOB]]
        assert anna.asked.empty()
        assert bob.asked.empty()


async def test_of_several_who_are_asked_the_first_answers_and_the_others_are_told(server, program):
    async with (
        asking(server, at_once=2) as bot,
        at_a_client(server, f"{ANNA}/desk") as anna,
        at_a_client(server, f"{BOB}/desk") as bob,
        publisher(server) as etl,
    ):
        await until(lambda: bot.free == 2)
        waiting = asyncio.create_task(etl.ask("approvals", SHIP, id="t1", timeout=TIMEOUT))
        first, second = await anna.question(), await bob.question()
        bob.press(second, "approve")
        assert (await waiting).data["by"] == BOB
        await anna.hears(f"is answered by {BOB}: approve")
        anna.press(first, "refuse")
        await anna.hears("is not open any more")


async def test_what_is_said_while_the_connection_of_the_bot_is_lost_counts(server, program):
    async with (
        Relay(server.host, server.c2s_port) as line,
        asking(server, ask=(ANNA,), port=line.port),
        at_a_client(server, f"{ANNA}/desk") as anna,
        publisher(server) as etl,
    ):
        waiting = asyncio.create_task(etl.ask("approvals", SHIP, id="c1", timeout=TIMEOUT))
        await anna.question()
        async with line.down():
            anna.type("1")
            anna.client.write("<iq type='get' id='read'><ping xmlns='urn:xmpp:ping'/></iq>")
            await anna.answered("read")
        assert (await waiting).data["choice"] == "approve"
        assert "Done: approve" in await anna.hears("")


ROOM = f"team@{ROOMS}"
OWNED = """<iq type='set' id='cfg' to='{room}'><query xmlns='http://jabber.org/protocol/muc#owner'>
<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#roomconfig</value></field>
<field var='muc#roomconfig_whois'><value>{whois}</value></field></x></query></iq>"""


@asynccontextmanager
async def a_room(server, name, whois):
    """Have Anna own a room, in which real JIDs are shown to anyone, or to moderators."""
    async with at_a_client(server, f"{ANNA}/room") as anna:
        anna.enter(name, "anna")
        async with asyncio.timeout(TIMEOUT):
            await anna.entered.wait()
        anna.client.write(OWNED.format(room=name, whois=whois))
        await anna.answered("cfg")
        yield anna


async def test_members_of_a_room_answer_and_guests_do_not(server, program):
    async with (
        a_room(server, ROOM, "anyone") as anna,
        asking(server, ask=(), rooms=(ROOM,)),
        at_a_client(server, "eve@localhost/room") as eve,
        publisher(server) as etl,
    ):
        eve.enter(ROOM, "eve")
        async with asyncio.timeout(TIMEOUT):
            await eve.entered.wait()
        room = {"to": ROOM, "kind": "groupchat"}
        waiting = asyncio.create_task(etl.ask("approvals", SHIP, id="m1", timeout=TIMEOUT))
        asked = await anna.question()
        shown = await eve.question()
        eve.press(shown, "refuse", **room)
        eve.type("2", **room)
        anna.type("is 1 the right one?", **room)
        anna.press(asked, "approve", **room)
        reply = (await waiting).data
        assert (reply["choice"], reply["by"]) == ("approve", ANNA)
        await anna.hears(f"is answered by {ANNA}: approve")


async def test_a_room_that_hides_who_is_in_it_is_refused(server, program):
    name = f"secret@{ROOMS}"
    async with a_room(server, name, "moderators"):
        with pytest.raises(Refused, match=f"The room {name} does not show who is in it"):
            await bot_of(server, ask=(), rooms=(name,)).run()


async def test_a_bot_that_may_not_read_the_queue_says_so(server, program):
    bot = People(
        ("orders",), "shop@localhost", "secret", service=SERVICE, ask=(ANNA,), **address_of(server)
    )
    with pytest.raises(Refused, match="shop@localhost has to be a publisher of 'orders'"):
        await bot.run()


async def test_a_question_that_is_withdrawn_is_closed(server, program, monkeypatch):
    monkeypatch.setattr("pubqueue_xeps.people.bot.PRUNING", 0.2)
    async with (
        asking(server, ask=(ANNA,)),
        at_a_client(server, f"{ANNA}/desk") as anna,
        publisher(server) as etl,
    ):
        waiting = asyncio.create_task(etl.ask("approvals", SHIP, id="w1", timeout=TIMEOUT))
        await anna.question()
        await etl.retract("approvals", "w1")
        with pytest.raises(QuestionDied):
            await waiting
        await anna.hears("was withdrawn")
        await etl.publish("approvals", SHIP, id="w2")
        anna.press(await anna.question(), "approve")
        await anna.hears("Done")


async def test_the_programs_of_the_page_work(server, program, monkeypatch):
    """The one that asks, and the worker whose item waits for a person."""
    own = {}
    for block in blocks("python"):
        if block.page == "docs/how-to/ask-people.md":
            exec(compile(block.text, block.page, "exec"), own)
    monkeypatch.setenv("PUBQUEUE_URL", Operator(server, "etl").url)
    monkeypatch.setenv("PUBQUEUE_PASSWORD", "secret")
    shop = Worker(
        "shop@localhost", "secret", service=SERVICE, node="orders", signals=(), **address_of(server)
    )
    async with (
        asking(server, signals=("orders",)),
        at_a_client(server, f"{ANNA}/desk") as anna,
        publisher(server) as etl,
    ):
        for label, outcome in (("approve", True), ("refuse", False)):
            asking_for_it = asyncio.create_task(own["may_ship"](f"17-{label}"))
            anna.press(await anna.question(), label)
            assert await asking_for_it is outcome
        working = asyncio.create_task(shop.run(own["order"]))
        await etl.publish("orders", {}, id="o18")
        asked = await anna.question()
        assert "Ship o18?" in asked.text
        anna.press(asked, "approve")
        await until(lambda: _none(server, "orders"), every=0.05)
        shop.stop()
        await working
