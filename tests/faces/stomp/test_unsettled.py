"""What a client of STOMP acknowledges, in each mode, and its transactions."""

import socket

import pytest
from faces.contract import stored
from faces.stomp import clients
from faces.stomp.serving import BOSS, INDIVIDUAL, OTHER, ended, put, serving
from harness.batches.facts import JOBS
from harness.batches.queue_requests import a_queue
from harness.patience import turns, until
from harness.servers.users import RIGHT
from structlog.testing import capture_logs

from pubqueue.engine.connections import Reason
from pubqueue.faces.stomp.codec import Frame
from pubqueue.faces.stomp.settings import StompSettings
from pubqueue.model.entities import ItemId, NodeName, State
from pubqueue.rules.settle import Settle, Verb


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_nothing_is_to_be_settled_of_a_topic(served, version):
    bee, etl = await served.works("bee", version, destination="/topic/news"), await served.log_in()
    await put(etl, "a", destination="/topic/news")
    found = (await bee.hear()).headers
    bee.say_frame(
        Frame(
            "ACK",
            {
                "id": found["ack"],
                "subscription": "s",
                "message-id": found["message-id"],
                "receipt": "r",
            },
        )
    )
    assert (await bee.answer()).command == "RECEIPT"


# --- acknowledging -------------------------------------------------------------------------------


async def test_in_mode_client_an_ack_is_for_all_up_to_that_message(served):  # S14
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a", "b", "c")
    acks = [(await bee.hear()).headers["ack"] for _ in range(3)]
    assert (await bee.do("ACK", id=acks[1])).command == "RECEIPT"
    assert [await stored(served.side, name) is None for name in "abc"] == [True, True, False]


async def test_in_mode_client_a_nack_is_for_all_up_to_that_message(served):  # S16
    bee, etl = await served.works(prefetch_count="2"), await served.log_in()
    await put(etl, "a", "b")
    acks = [(await bee.hear()).headers["ack"] for _ in range(2)]
    assert (await bee.do("NACK", id=acks[1], reason="why")).command == "RECEIPT"
    again = [(await bee.hear()).headers for _ in range(2)]
    # each of them pauses for a time of its own
    assert sorted((one["item-id"], one["redelivered"], one["failed"]) for one in again) == [
        ("a", "true", "1"),
        ("b", "true", "1"),
    ]


@pytest.mark.parametrize(
    ("headers", "failed", "state"),
    [
        ({}, 1, State.QUEUED),
        ({"outcome": "release"}, 0, State.QUEUED),
        ({"requeue": "false"}, 1, State.DEAD),
    ],
)
async def test_a_nack_has_the_outcome_of_the_attempt(served, headers, failed, state):  # S25
    bee, etl = await served.works(**INDIVIDUAL), await served.log_in()
    await put(etl, "a")
    ack = (await bee.hear()).headers["ack"]
    bee.say("UNSUBSCRIBE", id="s")
    assert (await bee.do("NACK", id=ack, **headers)).command == "RECEIPT"
    item = await stored(served.side, "a")
    assert (item.failed, item.state) == (failed, state)


async def test_in_mode_auto_a_message_is_done_when_it_has_left(served):  # S14
    bee, etl = await served.works(ack="auto"), await served.log_in()
    await put(etl, *"abc")
    assert ["ack" in (await bee.hear()).headers for _ in range(3)] == [False] * 3
    while any([await stored(served.side, name) for name in "abc"]):  # awaited
        await turns(1)


def _disconnects(_served, bee):
    bee.say("DISCONNECT", receipt="last")
    return "RECEIPT"


def _disconnects_without_a_receipt(_served, bee):
    bee.say("DISCONNECT")


def _errs(_served, bee):
    bee.say("ACK", id="nothing")
    return "ERROR"


def _closes(_served, bee):
    bee.writer.write_eof()


def _breaks(_served, bee):
    bee.writer.transport.abort()


def _is_dismissed(served, _bee):
    (protocol,) = [one for one in served.face.protocols if one.address.startswith("bee@")]
    protocol.connection.dismiss()
    return "ERROR"


def _is_cut(served, _bee):
    (protocol,) = [one for one in served.face.protocols if one.address.startswith("bee@")]
    protocol.connection.cut(Reason.IDLE)
    return "ERROR"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize(
    "leave",
    [
        *(_disconnects, _disconnects_without_a_receipt, _errs),
        *(_closes, _breaks, _is_dismissed, _is_cut),
    ],
)
async def test_in_mode_auto_what_was_received_does_not_come_again_however_the_client_leaves(
    served, leave, version
):  # S14
    etl, names = await served.log_in(), [f"{number}" for number in range(20)]
    bee = await served.works(ack="auto", version=version)
    for name in names:
        etl.say("SEND", b"text", destination="/queue/jobs", item_id=name)
    for _ in names:
        assert (await bee.hear()).command == "MESSAGE"
    if (last := leave(served, bee)) is not None:
        assert (await bee.hear()).command == last
    bee.close()
    await until(lambda: len(served.face.protocols) == 1)
    await served.broker.settled()
    assert [name for name in names if await stored(served.side, name)] == []


async def test_an_ack_of_what_is_not_held_is_refused(served):  # S15
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    ack = (await bee.hear()).headers["ack"]
    assert (await bee.do("ACK", id=ack)).command == "RECEIPT"
    bee.say("ACK", id=ack)
    await ended(bee, "no such message")


async def test_a_late_ack_does_nothing_and_reports_it(served):  # N13
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    ack = (await bee.hear()).headers["ack"]
    await served.broker.handle(_retract())
    assert (await bee.do("ACK", id=ack)).headers == {"receipt-id": "r2", "outcome": "lost"}
    assert (await bee.do("UNSUBSCRIBE", id="s")).command == "RECEIPT", "and the connection stays"


def _retract():
    return Settle(BOSS, JOBS, (ItemId("a"),), Verb.RETRACT)


async def test_a_late_ack_may_be_an_error():
    async with serving(stomp=StompSettings(heart_beat=clients.BEATS, late_ack="error")) as served:
        bee, etl = await served.works(), await served.log_in()
        await put(etl, "a")
        ack = (await bee.hear()).headers["ack"]
        await served.broker.handle(_retract())
        bee.say("ACK", id=ack)
        await ended(bee, "no such message")


async def test_an_ack_after_unsubscribe_counts(served):  # N12, C19
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    ack = (await bee.hear()).headers["ack"]
    assert (await bee.do("UNSUBSCRIBE", id="s")).command == "RECEIPT"
    assert (await stored(served.side, "a")).state is State.LOCKED
    assert (await bee.do("ACK", id=ack)).command == "RECEIPT"
    assert await stored(served.side, "a") is None


# --- transactions --------------------------------------------------------------------------------


async def test_a_transaction_is_done_by_its_commit(served):  # N16, S17
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    ack = (await bee.hear()).headers["ack"]
    assert (await bee.do("BEGIN", transaction="t")).command == "RECEIPT"
    await put(bee, "b", destination="/queue/other", transaction="t")
    assert (await bee.do("ACK", id=ack, transaction="t")).command == "RECEIPT"
    assert await stored(served.side, "b", OTHER) is None
    assert (await stored(served.side, "a")).state is State.LOCKED
    assert (await bee.do("COMMIT", transaction="t")).command == "RECEIPT"
    assert await stored(served.side, "b", OTHER) is not None
    assert await stored(served.side, "a") is None


async def test_of_a_transaction_all_or_nothing_is_done(served):  # N16
    etl = await served.log_in()
    await etl.do("BEGIN", transaction="t")
    await put(etl, "a", transaction="t")
    await put(etl, "b", destination="/queue/nowhere", transaction="t")
    etl.say("COMMIT", transaction="t", receipt="r")
    error = await ended(etl, "not found")
    assert "message 2" in error.body.decode()
    assert await stored(served.side, "a") is None


async def test_what_follows_a_message_is_sent_with_its_ack_or_not_at_all(served):  # N16
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    ack = (await bee.hear()).headers["ack"]
    await bee.do("BEGIN", transaction="t")
    await bee.do("ACK", id=ack, transaction="t")
    await put(bee, "b", destination="/queue/other", transaction="t")
    await served.broker.handle(_retract())
    bee.say("COMMIT", transaction="t", receipt="r")
    assert "message 1" in (await ended(bee, "no such message")).body.decode()
    assert await stored(served.side, "b", OTHER) is None


@pytest.mark.parametrize("how", ["abort", "disconnect", "break"])
async def test_what_is_aborted_has_not_happened(served, how):  # N17
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    ack = (await bee.hear()).headers["ack"]
    await bee.do("BEGIN", transaction="t")
    await put(bee, "b", transaction="t")
    await bee.do("ACK", id=ack, transaction="t")
    if how == "abort":
        await bee.do("ABORT", transaction="t")
        assert (await stored(served.side, "a")).state is State.LOCKED
        assert (await bee.do("ACK", id=ack)).command == "RECEIPT", "it can still be acknowledged"
    elif how == "disconnect":
        await bee.do("DISCONNECT")
        assert (await stored(served.side, "a")).state is State.QUEUED
    else:
        bee.writer.transport.abort()
        await until(lambda: len(served.face.protocols) == 1)
        await served.broker.settled()
        assert (await stored(served.side, "a")).failed == 1
    assert await stored(served.side, "b") is None


async def test_transactions_are_bounded(served):
    etl = await served.log_in()
    for number in range(16):
        await etl.do("BEGIN", transaction=f"{number}")
    etl.say("BEGIN", transaction="more", receipt="r")
    await ended(etl, "transaction too large")


async def test_the_bytes_of_all_open_transactions_are_bounded_together(served):
    etl = await served.log_in()
    body = b"x" * (60 << 10)
    for number in range(14):
        await etl.do("BEGIN", transaction=f"{number}")
        for _ in range(4):
            await etl.do("SEND", body, destination="/queue/jobs", transaction=f"{number}")
    await etl.do("BEGIN", transaction="15")
    for _ in range(20):
        etl.say("SEND", body, destination="/queue/jobs", transaction="15")
    await ended(etl, "transaction too large")


# --- which message an ACK names ------------------------------------------------------------------


EUROPE = NodeName("jobs/eu")


def naming(version, headers, **more):
    """Return an ACK of the message with these headers."""
    return Frame("ACK", {**clients.naming(version, headers), **more})


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_each_message_of_a_connection_has_a_name_of_its_own(served, version):
    await served.broker.handle(a_queue(EUROPE, publish_model="open"))
    etl, bee = await served.log_in(), await served.log_in("bee", version)
    await put(etl, "eu/1")
    await put(etl, "1", destination="/queue/jobs/eu")
    found = []
    for node in (JOBS, EUROPE):  # under one id, which is used again after UNSUBSCRIBE
        subscribed = await bee.do(
            "SUBSCRIBE",
            destination=f"/queue/{node}",
            id="s",
            ack="client-individual" if version != "1.0" else "client",
        )
        assert subscribed.command == "RECEIPT"
        found.append((await bee.hear()).headers)
        assert (await bee.do("UNSUBSCRIBE", id="s")).command == "RECEIPT"
    assert len({one["message-id"] for one in found}) == 2
    bee.say_frame(naming(version, found[0], receipt="r"))
    assert (await bee.answer()).command == "RECEIPT"
    assert await stored(served.side, "eu/1", JOBS) is None, "the work that was done"
    assert (await stored(served.side, "1", EUROPE)).state is State.LOCKED
    bee.say_frame(naming(version, found[1], receipt="r"))
    assert (await bee.answer()).command == "RECEIPT"
    assert await stored(served.side, "1", EUROPE) is None


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_in_a_transaction_a_message_of_a_queue_is_none_of_a_topic(served, version):
    name = NodeName("news/eu")
    await served.broker.handle(a_queue(name, publish_model="open"))
    etl = await served.log_in()
    bee = await served.works(version=version, destination="/queue/news/eu")
    await put(etl, "1", destination="/queue/news/eu")
    found = (await bee.hear()).headers
    await bee.do("UNSUBSCRIBE", id="s")
    await bee.do("SUBSCRIBE", destination="/topic/news", id="s")
    await bee.do("BEGIN", transaction="t")
    bee.say_frame(naming(version, found, receipt="r", transaction="t"))
    assert (await bee.answer()).command == "RECEIPT"
    assert (await bee.do("COMMIT", transaction="t")).command == "RECEIPT"
    assert await stored(served.side, "1", name) is None


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_message_that_comes_again_under_another_subscription_can_be_acknowledged(
    served, version
):
    etl, bee = await served.log_in(), await served.works(version=version)
    await put(etl, "a")
    first = (await bee.hear()).headers
    await bee.do("UNSUBSCRIBE", id="s")
    bee.say_frame(
        Frame("NACK", {**naming(version, first, receipt="r").headers, "outcome": "release"})
        if version == "1.1"
        else naming(version, first, receipt="r")
    )
    assert (await bee.answer()).command == "RECEIPT"
    if version == "1.0":
        await put(etl, "a")
    await bee.do("SUBSCRIBE", destination="/queue/jobs", id="s", ack="client")
    again = (await bee.hear()).headers
    assert again["message-id"] == first["message-id"], "the same item"
    bee.say_frame(naming(version, again, receipt="r"))
    assert (await bee.answer()).command == "RECEIPT"
    assert await stored(served.side, "a") is None


@pytest.mark.parametrize(
    "said",
    [
        b"CONNECT\naccept-version:1.2\nhost:x\nlogin:bee\npasscode:%b\n\n\0DISCONNECT\nreceipt:r\n\n\0",
        b"SEND\ndestination:/queue/jobs\n\nx\0",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["DISCONNECT", "a wrong first frame", "a health check of HTTP"],
)
async def test_nobody_notices_clients_that_end_without_reading(served, said):
    etl = await served.works("etl")
    address = served.face.listener.addresses[0]
    said = said.replace(b"%b", RIGHT.encode())
    with capture_logs() as logs:
        for number in range(300):
            with socket.create_connection(address) as client:
                client.sendall(said)
            if number % 50 == 0:
                await put(etl, f"{number}")
                await until(lambda: len(served.face.listener.connections) == 1)
                assert (await etl.hear()).headers["item-id"] == f"{number}"
    assert {line["event"] for line in logs} <= {"worker.subscribed", "worker.arrived"}
