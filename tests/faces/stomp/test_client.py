"""What is written to a client of STOMP: its answers, in their order, and as much as it reads."""

from faces.stomp.serving import INDIVIDUAL


async def test_receipts_come_in_the_order_of_the_frames(served):  # S12
    etl = await served.log_in()
    etl.say("SEND", b"1", destination="/queue/jobs", receipt="1")
    etl.say("SUBSCRIBE", destination="jobs", id="s", ack="client", receipt="2")
    etl.say("SEND", b"2", destination="/queue/jobs", receipt="3")
    etl.say("BEGIN", transaction="t", receipt="4")
    heard = [await etl.hear() for _ in range(6)]
    assert [f.headers["receipt-id"] for f in heard if f.command == "RECEIPT"] == [
        "1",
        "2",
        "3",
        "4",
    ]
    first = next(at for at, frame in enumerate(heard) if frame.command == "MESSAGE")
    assert heard[1].headers.get("receipt-id") == "2", "before the first message"
    assert first > 1


async def test_a_client_that_does_not_read_gets_a_bounded_amount_and_others_get_the_rest(
    served,
):  # L06, N06
    slow = await served.works(prefetch_count="0", **INDIVIDUAL)
    slow.writer.transport.pause_reading()
    etl = await served.log_in()
    body = b"x" * 60_000
    (protocol,) = [one for one in served.face.protocols if one.address.startswith("bee@")]
    count = 0
    while not protocol.connection.is_full:
        count += 1
        await etl.do("SEND", body, destination="/queue/jobs", item_id=f"{count}")
    await served.broker.settled()
    assert protocol.connection.unsent < 1 << 20
    bee = await served.works("ann", **INDIVIDUAL)
    await etl.do("SEND", body, destination="/queue/jobs", item_id="more")
    assert (await bee.hear()).headers["item-id"] == "more"
    slow.writer.transport.resume_reading()
    heard = [(await slow.hear()).headers["item-id"] for _ in range(count)]
    assert heard == [f"{number + 1}" for number in range(count)]
