"""A server that reads slowly what an account sends is told, with the setting to raise."""

import asyncio
import json
import logging
from xml.etree.ElementTree import Element, fromstring

import pytest
from harness import virtual_time
from harness.patience import TIMEOUT, turns
from harness.servers.ejabberd import Ejabberd

from pubqueue import Publisher, Timings
from pubqueue_demo.prosody import Prosody
from pubqueue_xeps.client.pace import OFTEN, BytesInFlight, NoRoom, Pace
from pubqueue_xeps.sentences import SENTENCES

LIMIT = 'limits = { c2s = { rate = "8kb/s", burst = "1s" } }'
JID = "etl@x/1"


def answer(ping):
    return Element("iq", {"id": fromstring(ping).get("id"), "type": "error"})


def reported(caplog):
    return [it.pubqueue for it in caplog.records if it.pubqueue["event"] == "server.slow"]


def test_a_slow_answer_is_logged_but_not_each_time(caplog):
    async def hour():
        pace = Pace(Timings(stall=2, refresh=60))
        for pause in (1, 3, 3, 100, 1.9):
            ping = pace.sent(OFTEN, "x")
            assert pace.sent(OFTEN, "x") == b""  # one at a time
            await asyncio.sleep(pause)
            assert pace.read(answer(ping), JID)
            assert not pace.read(answer(ping), JID)

    virtual_time.run(hour())
    assert [(it["jid"], it["seconds"]) for it in reported(caplog)] == [(JID, 3), (JID, 100)]
    assert reported(caplog)[0]["octets"] == 2 * OFTEN


def test_a_client_that_sends_little_is_not_paced():
    async def little():
        pace = Pace(Timings())
        assert pace.sent(OFTEN - 1, "x") == b""
        assert b"<ping" in pace.sent(1, "x")

    virtual_time.run(little())


def test_a_connection_that_is_lost_is_no_slow_server(caplog):
    async def lost():
        pace = Pace(Timings(stall=1))
        ping = pace.sent(OFTEN, "x")
        await asyncio.sleep(5)
        pace.cut()
        assert not pace.read(answer(ping), JID)
        assert pace.sent(OFTEN, "x") != b""  # and the next is measured anew
        pace.cut()

    virtual_time.run(lost())
    assert reported(caplog) == []


def test_the_sentence_names_the_setting_to_raise():
    sentence = SENTENCES["server.slow"]
    assert "limits.c2s.rate" in sentence
    assert "shaper_rules.c2s_shaper" in sentence


class SlowProsody(Prosody):
    """With the limits of Debian's file, and lower ones."""

    def _config(self):
        return super()._config().replace("\nVirtualHost", f"\n{LIMIT}\nVirtualHost", 1)


class SlowEjabberd(Ejabberd):
    """With a shaper for clients, as in Debian's file."""

    def _configure(self):
        super()._configure()
        file = self.folder / "ejabberd.yml"
        config = json.loads(file.read_text())
        config["shaper"] = {"normal": {"rate": 8000, "burst_size": 8000}}
        config["shaper_rules"] = {"c2s_shaper": "normal"}
        config["listen"][0]["shaper"] = "c2s_shaper"
        file.write_text(json.dumps(config))


class Heard(logging.Handler):
    def __init__(self):
        super().__init__()
        self.slow = asyncio.Event()

    def emit(self, record):
        if record.pubqueue["event"] == "server.slow":
            self.slow.set()


@pytest.mark.e2e
@pytest.mark.parametrize("server", [SlowProsody(modules=("limits",)), SlowEjabberd()])
async def test_a_server_that_limits_an_account_is_reported(server, caplog):
    heard, logger = Heard(), logging.getLogger("pubqueue_xeps")
    logger.addHandler(heard)
    async with server:
        await server.account("etl", "secret")
        publisher = Publisher(
            "etl@localhost",
            "secret",
            service="nowhere.localhost",
            host=server.host,
            port=server.c2s_port,
            tls="off",
            timings=Timings(stall=0.2),
        )
        async with publisher, asyncio.timeout(TIMEOUT):
            publishing = asyncio.create_task(publisher.publish("jobs", 48 * 1024 * "x"))
            await heard.slow.wait()
            publishing.cancel()
            await asyncio.gather(publishing, return_exceptions=True)
    logger.removeHandler(heard)
    assert reported(caplog)[0]["seconds"] > 0.2


# A publisher has so many bytes under way, whatever its tasks do.


class Crowd:
    """Tasks that keep their room until they are let go; `inside` are those that have it, in their order."""

    def __init__(self, most):
        self.room, self.inside, self.ends = BytesInFlight(most), [], {}

    def enter(self, name, byte_count):
        self.ends[name] = asyncio.Event()
        return asyncio.create_task(self._stay(name, byte_count))

    async def _stay(self, name, byte_count):
        async with self.room.of(byte_count, None):
            self.inside.append(name)
            await self.ends[name].wait()
            self.inside.remove(name)


async def test_room_is_given_in_order_up_to_its_bytes():
    crowd = Crowd(100)
    tasks = [
        crowd.enter(name, byte_count) for name, byte_count in (("a", 60), ("b", 60), ("c", 40))
    ]
    await turns(5)
    assert crowd.inside == ["a"], "nobody goes past who came before"
    crowd.ends["a"].set()
    await turns(5)
    assert crowd.inside == ["b", "c"]
    for end in crowd.ends.values():
        end.set()
    await asyncio.gather(*tasks)


async def test_what_is_larger_than_all_of_it_goes_alone():
    crowd = Crowd(100)
    tasks = [
        crowd.enter(name, byte_count) for name, byte_count in (("a", 10), ("b", 500), ("c", 10))
    ]
    await turns(5)
    assert crowd.inside == ["a"]
    crowd.ends["a"].set()
    await turns(5)
    assert crowd.inside == ["b"]
    crowd.ends["b"].set()
    crowd.ends["c"].set()
    await asyncio.gather(*tasks)


async def test_a_request_that_gives_up_frees_its_place():
    crowd = Crowd(100)
    first, second, third = (crowd.enter(name, 100) for name in "abc")
    await turns(5)
    second.cancel()
    await turns(5)
    crowd.ends["a"].set()
    await turns(5)
    assert crowd.inside == ["c"]
    crowd.ends["c"].set()
    await asyncio.gather(first, third)
    async with crowd.room.of(100, 1):
        with pytest.raises(NoRoom):
            async with crowd.room.of(1, 0):
                raise AssertionError("there was no room")
    async with crowd.room.of(100, 0):
        pass


async def test_room_that_comes_with_the_cancellation_is_given_back():
    crowd = Crowd(100)
    first, second = crowd.enter("a", 100), crowd.enter("b", 100)
    await turns(5)
    crowd.ends["a"].set()
    await first
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    async with crowd.room.of(100, 0):
        pass
