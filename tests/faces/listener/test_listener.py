"""Clients are accepted within bounds of number and time; what one of them does, no other notices."""

import asyncio
import resource
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from faces.listener.echoing import FREE, HOST, Client, echoing
from harness.patience import TIMEOUT, turns, until
from structlog.testing import capture_logs

from pubqueue.engine.connections import Reason
from pubqueue.faces.listener import Bounds, CannotListenError, Listener, Place
from pubqueue.faces.listener.budget import SMALL, Budget
from pubqueue.faces.listener.connection import TURN

LARGE = b"x" * 100_000


async def test_a_client_is_served_and_counted_while_it_is_there():
    async with echoing() as it:
        client = await it.client()
        assert await client.ask("a") == "a"
        assert it.counts.open == 1
        await client.close()
        await until(lambda: it.counts.open == 0)
        assert it.made[0].lost.is_set()


async def test_it_listens_at_several_addresses():
    async with echoing(hosts=(HOST, "::1", "localhost")) as it:
        hosts = {host for host, _ in it.listener.addresses}
        assert hosts == {HOST, "::1"}
        for host, port in it.listener.addresses:
            _, writer = await asyncio.open_connection(host, port)
            writer.close()


async def test_an_address_that_is_taken_is_one_sentence_and_nothing_is_left():
    async with echoing() as it:
        _, port = it.listener.addresses[0]
        other = Listener("other", it.make)
        free = Place(HOST, 0)
        with pytest.raises(
            CannotListenError, match=rf"^other: {HOST}:{port} cannot be listened on"
        ):
            await other.open([free, Place(HOST, port)])
        assert other.addresses == []


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        (Bounds(connections=2, login=0, unread=0), "connections"),
        (Bounds(per_peer=2, login=0, unread=0), "peer"),
    ],
)
async def test_one_client_too_many_is_refused_with_a_reason_until_another_leaves(bounds, reason):
    async with echoing(bounds, busy=b"busy\n") as it:
        first, second = await it.client(), await it.client()
        assert await second.ask("a") == "a"
        with capture_logs() as log:
            for _ in range(3):
                refused = await it.client()
                assert await refused.line() == "busy"
                assert await refused.line() == ""
        assert it.ended == {reason: 3}
        assert [line["event"] for line in log] == ["connection.refused"], "once in a minute"
        await first.close()
        await until(lambda: it.counts.open == 1)
        assert await (await it.client()).ask("b") == "b"


async def test_a_user_has_so_many_connections_and_no_more_until_one_ends():
    async with echoing(Bounds(per_user=1, login=0)) as it:
        first, second, other = [await it.client() for _ in range(3)]
        assert await first.ask("user etl") == "hello"
        assert await second.ask("user etl") == "too many"
        assert await other.ask("user bee") == "hello"
        await first.close()
        await until(lambda: it.counts.open == 2)
        assert await second.ask("user etl") == "hello"
        assert it.ended == {"user": 1}


async def test_a_flood_leaves_nothing_behind_and_others_are_served_meanwhile():
    async with echoing(Bounds(per_peer=50, login=0, unread=0)) as it:
        kept = await it.client()
        assert await kept.ask("a") == "a"

        async def come_and_go():
            client = await it.client()
            client.writer.write(b"\0" * 1000)
            await client.close()

        for _ in range(10):
            await asyncio.gather(*(come_and_go() for _ in range(60)))
            assert await kept.ask("b") == "b"
        await until(lambda: it.counts.open == 1)


async def test_a_fault_ends_its_connection_only_and_is_logged_without_the_input():
    async with echoing() as it:
        client, other = await it.client(), await it.client()
        with capture_logs() as log:
            assert await client.ask("fault") == ""
        assert await other.ask("a") == "a"
        assert it.ended == {"fault": 1}
        events = {line["event"]: line for line in log}
        assert events["connection.failed"]["kind"] == "ValueError"
        assert "secret" not in str(log)


async def test_a_face_that_fails_to_begin_ends_that_connection():
    async with echoing() as it:
        it.made = None
        assert await (await it.client()).line() == ""
        it.made = []
        assert await (await it.client()).ask("a") == "a"
        assert it.ended == {"fault": 1}


async def test_a_client_that_does_not_log_in_in_time_is_refused_and_one_that_does_stays():
    async with echoing(Bounds(login=10)) as it:
        silent, user = await it.client(), await it.client()
        assert await user.ask("user etl") == "hello"
        assert await silent.ask("a") == "a"
        it.made[1].connection.last_words = it.made[0].connection.last_words = None
        it.pass_time(9)
        assert it.counts.open == 2
        it.pass_time(2)
        assert await silent.line() == ""
        assert await user.ask("a") == "a"
        assert it.ended == {"login": 1}


async def test_the_end_is_announced_in_the_words_of_the_face():
    async with echoing(Bounds(login=10)) as it:
        client = await it.client()
        assert await client.ask("a") == "a"
        it.made[0].connection.last_words = lambda why: f"ERROR {why}\n".encode()
        it.pass_time(11)
        assert [await client.line(), await client.line()] == ["ERROR login", ""]


async def test_last_words_that_fail_end_the_connection_all_the_same():
    async with echoing(Bounds(login=10)) as it:
        client = await it.client()
        assert await client.ask("a") == "a"
        it.made[0].connection.last_words = lambda why: why.nothing
        it.pass_time(11)
        assert await client.line() == ""


async def test_a_client_that_is_silent_for_too_long_is_closed_and_one_that_is_not_read_is_not_silent():
    async with echoing(Bounds(login=0, idle=30)) as it:
        silent, busy, unread = [await it.client() for _ in range(3)]
        for client in (silent, busy, unread):
            assert await client.ask("a") == "a"
        it.made[2].connection.pause_reading()
        it.pass_time(20)
        assert await busy.ask("a") == "a"
        it.pass_time(20)
        assert await silent.line() == ""
        assert await busy.ask("a") == "a"
        it.made[2].connection.resume_reading()
        it.pass_time(20)
        assert await unread.ask("a") == "a"
        assert it.ended == {"idle": 1}


async def test_a_connection_has_a_time_limit_of_its_own_if_the_face_sets_one():
    async with echoing(Bounds(login=0, idle=30)) as it:
        client = await it.client()
        assert await client.ask("a") == "a"
        it.made[0].connection.idle = 5
        it.pass_time(6)
        assert await client.line() == ""


async def test_a_client_that_does_not_read_has_a_bounded_amount_waiting_and_is_closed():
    async with echoing(Bounds(login=0)) as it:
        client, other = await it.client(), await it.client()
        assert [await client.ask("a"), await other.ask("a")] == ["a", "a"]
        slow = it.made[0]
        waiting = 0
        while slow.connection.write(LARGE):
            waiting = max(waiting, slow.connection.unsent)
            await turns()
        assert 0 < waiting <= Bounds().unsent
        await slow.lost.wait()
        assert await other.ask("a") == "a"
        assert it.ended == {"unread": 1}


async def test_a_client_that_does_not_read_in_time_is_closed_and_one_that_reads_is_not():
    async with echoing(Bounds(login=0, unread=60)) as it:
        for reads in (False, True):
            client = await it.client()
            assert await client.ask("a") == "a"
            slow = it.made[-1]
            while not slow.connection.is_full:
                assert slow.connection.write(LARGE)
                await turns()
            it.pass_time(59)
            if reads:
                reading = asyncio.create_task(client.reader.read(-1))
                await until(lambda slow=slow: not slow.connection.is_full)
            it.pass_time(2)
            assert slow.connection.is_open == reads
            if reads:
                slow.connection.close()
                await reading
            else:
                async with asyncio.timeout(TIMEOUT):
                    await slow.lost.wait()
        assert it.ended == {"unread": 1}


async def test_one_large_message_can_be_sent_when_nothing_waits():
    async with echoing(Bounds(login=0)) as it:
        client = await it.client()
        assert await client.ask("a") == "a"
        large = b"y" * (4 * Bounds().unsent)
        assert it.made[0].connection.write(large)
        assert await client.reader.readexactly(len(large)) == large


async def test_a_client_that_stops_sending_is_closed():
    async with echoing() as it:
        client = await it.client()
        assert await client.ask("a") == "a"
        client.writer.write_eof()
        assert await client.line() == ""
        await until(lambda: it.counts.open == 0)


async def test_a_client_whose_machine_is_gone_is_noticed_by_the_kernel():
    async with echoing() as it:
        client = await it.client()
        assert await client.ask("a") == "a"
        sock = it.made[0].connection.socket
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        found = [
            sock.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        ]
        assert found == [60, 15, 4]
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000


async def test_what_was_sent_is_read_before_the_end():
    async with echoing(FREE) as it:
        client = await it.client()
        assert await client.ask("a") == "a"
        it.made[0].connection.write(LARGE)
        stopping = asyncio.create_task(it.listener.stop(TIMEOUT))
        assert await client.reader.read(-1) == LARGE
        await stopping
        assert it.counts.open == 0
        await it.listener.stop()


async def test_a_client_that_does_not_read_does_not_delay_the_end():
    async with echoing(FREE) as it:
        client = await it.client()
        assert await client.ask("a") == "a"
        while not it.made[0].connection.is_full:
            it.made[0].connection.write(LARGE)
        await it.listener.stop(0.01)
        assert it.made[0].lost.is_set()
        assert it.counts.open == 0


async def test_no_connection_is_accepted_after_the_end():
    async with echoing() as it:
        address = it.listener.addresses[0]
        await it.listener.stop()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)


async def test_it_looks_at_the_times_by_itself():
    async with echoing(Bounds(login=0.001)) as it:
        client = await it.client()
        assert await client.ask("a") == "a"
        it.clock.now += 1
        assert await client.line() == ""
        assert it.counts.ended[Reason.LOGIN] == 1


PROGRAM = Path(__file__).with_name("few_descriptors.py")
LIMIT = 200
RESERVE = 64


@asynccontextmanager
async def listening(loop):
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, PROGRAM, loop), stdin=-1, stdout=-1, stderr=asyncio.subprocess.DEVNULL
    )

    async def tell(word):
        program.stdin.write(word.encode())
        return await program.stdout.readline()

    clients = []

    async def client():
        clients.append(Client(*await asyncio.open_connection(HOST, port)))
        return clients[-1]

    try:
        async with asyncio.timeout(TIMEOUT):
            port = int(await program.stdout.readline())
            yield client, tell
    finally:
        for one in clients:
            one.writer.transport.abort()
        program.stdin.close()
        assert await program.wait() == 0


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_without_free_descriptors_open_connections_are_served_and_accepting_goes_on(loop):
    async with listening(loop) as (client, tell):
        there = await client()
        assert await there.ask("a") == "a"
        assert await tell("take") == b"done\n"
        for _ in range(20):
            assert await (await client()).line() == "", "turned away, and not left waiting"
        assert await there.ask("b") == "b"
        assert await tell("free") == b"done\n"
        assert await (await client()).ask("c") == "c"


async def test_the_last_descriptors_are_not_for_clients():
    async with listening("uvloop") as (client, _):
        clients = [await client() for _ in range(LIMIT)]
        served = [one for one in clients if await one.ask("a") == "a"]
        assert 0 < len(served) <= LIMIT - RESERVE
        assert await served[0].ask("b") == "b"


async def test_the_limit_is_raised_for_the_clients_of_all_listeners_together():
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    one = Listener("one", asyncio.Protocol, Bounds(connections=300))
    other = Listener("other", asyncio.Protocol, Bounds(connections=200), descriptors=3)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))
        for listener in (one, other):
            await listener.open([Place(HOST, 0)])
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 300 + 3 * 200 + RESERVE
    finally:
        for listener in (one, other):
            await listener.stop()
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


async def test_a_client_that_has_too_much_kept_here_is_cut_and_a_client_gone_keeps_nothing():
    budget = Budget(10 * SMALL)
    async with echoing(FREE, budget=budget) as it:
        first, second = await it.client(), await it.client()
        await first.ask("user eve")
        await second.ask("user ann")
        one, other = (made.connection for made in it.made)
        other.keeps(4 * SMALL)
        one.keeps(7 * SMALL)
        assert await first.line() == ""
        assert it.ended == {"memory": 1}
        assert budget.size == budget.of("ann") == 4 * SMALL
        await second.close()
        await until(lambda: budget.size == 0)
        one.keeps(SMALL * 2)  # too late to be forgotten
        assert budget.size == 0


async def test_a_face_says_how_a_connection_that_keeps_too_much_ends():
    async with echoing(FREE, budget=Budget(SMALL)) as it:
        client = await it.client()
        await client.ask("user eve")
        connection = it.made[0].connection
        connection.on_given_up = lambda: connection.write(b"too much\n")
        connection.keeps(2 * SMALL)
        assert await client.line() == "too much"
        connection.on_given_up = lambda: 1 // 0
        connection.keeps(2 * SMALL)
        assert await client.line() == ""
        assert it.ended == {"memory": 2, "fault": 1}


async def test_what_a_client_sends_that_was_given_up_counts_for_nothing():
    """Otherwise it would end another client, although it is dropped."""
    async with echoing(FREE, budget=Budget(6 * SMALL)) as it:
        eve, ann = await it.client(), await it.client()
        await eve.ask("user eve")
        await ann.ask("user ann")
        (one, other), received = it.made, []
        one.data_received = received.append
        one.connection.on_given_up = lambda: None
        one.connection.keeps(4 * SMALL)
        other.connection.keeps(3 * SMALL)
        eve.writer.write(b"x" * 4 * SMALL)
        await eve.close()
        await one.lost.wait()
        assert received == []
        assert it.ended == {"memory": 1}
        assert await ann.ask("still here") == "still here"


async def test_a_client_that_sends_much_takes_turns_with_others():
    """The loop of the service reads a socket up to 32 times before it looks at another one."""
    async with echoing(FREE) as it:
        await (await it.client()).ask("hello")
        connection, heard = it.made[0].connection, []
        it.made[0].data_received = heard.append
        is_reading = it.made[0].transport.is_reading
        connection.data_received(b"x" * (TURN - 1))
        assert is_reading()
        connection.data_received(b"x" * TURN)
        assert not is_reading()
        await turns(1)
        assert is_reading()
        connection.data_received(b"x" * TURN)
        connection.pause_reading()  # by the face, for longer
        await turns(2)
        assert not is_reading()
        connection.data_received(b"x" * TURN)  # what was read already
        await turns(2)
        assert not is_reading()
        connection.resume_reading()
        assert is_reading()
        assert len(heard) == 4


async def test_nothing_is_sent_behind_the_end_of_what_is_sent():
    """A connection may be ended by its face, and then be given up."""
    async with echoing(FREE) as it:
        client = await it.client()
        assert await client.ask("a") == "a"
        connection = it.made[0].connection
        with capture_logs() as log:
            assert connection.write(b"last\n")
            connection.end_sending()
            assert not connection.write(b"more\n")
            connection.end_sending()
        assert await client.rest("") == b"last\n"
        assert log == []
