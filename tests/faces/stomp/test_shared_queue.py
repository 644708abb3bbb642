"""A queue that several clients of STOMP share."""

from faces.stomp.test_behaviour import INDIVIDUAL, put, serving

CONSUMERS, EACH = ("bee", "ann", "eva", "slow"), 50


async def test_each_message_is_for_one_and_all_get_as_many():  # N09
    async with serving() as served:
        consumers = [await served.works(name, **INDIVIDUAL) for name in CONSUMERS]
        etl = await served.log_in()
        counts, seen = dict.fromkeys(consumers, 0), []
        for turn in range(EACH):
            names = {f"{turn}-{name}" for name in CONSUMERS}
            await put(etl, *names)
            for consumer in consumers:
                frame = await consumer.hear()
                seen.append(frame.headers["item-id"])
                counts[consumer] += 1
                await consumer.do("ACK", id=frame.headers["ack"])
            assert names == set(seen[-len(consumers) :])
        assert len(seen) == len(set(seen))
        assert jain(counts.values()) > 0.9


def jain(counts):
    """Return how evenly it is shared: 1 if all have as many (Jain's index)."""
    return sum(counts) ** 2 / (len(counts) * sum(count * count for count in counts))


async def test_one_consumer_gets_them_in_their_order():  # N09
    async with serving() as served:
        etl = await served.log_in()
        names = [f"{number}" for number in range(EACH)]
        await put(etl, *names)
        bee = await served.works(**INDIVIDUAL)
        for name in names:
            frame = await bee.hear()
            assert frame.headers["item-id"] == name
            await bee.do("ACK", id=frame.headers["ack"])


async def test_the_receipt_of_a_subscribe_comes_before_the_first_message():  # N14
    async with serving() as served:
        await put(await served.log_in(), *(f"{number}" for number in range(EACH)))
        bee = await served.log_in("bee")
        bee.say("SUBSCRIBE", destination="/queue/jobs", id="s", receipt="r", ack="client")
        assert (await bee.hear()).headers == {"receipt-id": "r"}
        heard = [(await bee.hear()).headers["item-id"] for _ in range(EACH)]
        assert heard == [f"{number}" for number in range(EACH)]
