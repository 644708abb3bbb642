"""Messages that wait, by links alone: held, signaled, and taken again with what has come."""

import json

import pytest
from faces.rest.clients import links
from faces.rest.hornetq.steps import consumer, msg
from faces.rest.star.steps import post, take

LARGE = "\u00e9" * 2_000


async def came_with(client, message):
    """Return what has come for a message, from its link."""
    found = await client.get(links(message)["waited"])
    assert found.headers["Cache-Control"] == "no-store"
    return found.json()


async def test_a_message_is_held_signaled_and_comes_again(rest):  # W27
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    message = await take(bee)
    found = links(message)
    held = await bee.post(
        found["hold"], data={"signal": ["yes", "no"], "within": "60", "carry": "{}"}
    )
    assert held.status_code == 204
    assert (await take(bee)).status_code == 503
    assert (await etl.get("/queues/jobs")).json()["counts"]["held"] == 1
    said = await etl.post(found["signal"], data={"signal": "yes", "data": "caf\u00e9\n", "id": "1"})
    assert said.json() == {"state": "queued", "wakes": True, "again": False}
    said = await etl.post(found["signal"], data={"signal": "yes", "id": "1"})
    assert said.json() == {"state": "queued", "wakes": False, "again": True}
    again = await take(bee)
    assert again.headers["Message-Woken"] == "signal"
    came = json.loads(again.headers["Message-Waited"])
    (one,) = came["signals"]
    assert (came["carry"], one["data"], one["by"]) == ("{}", "caf\u00e9\n", "etl@queue.localhost")
    assert await came_with(bee, again) == came
    assert (await bee.post(found["hold"], data={"within": "1"})).status_code == 412


async def test_what_is_too_long_for_a_header_is_at_its_link(rest):  # W27
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    message = await take(bee)
    await bee.post(links(message)["hold"], data={"signal": "yes", "carry": LARGE * 2})
    await etl.post(links(message)["signal"], data={"signal": "yes", "data": LARGE})
    again = await take(bee)
    assert again.headers["Message-Woken"] == "signal"
    assert "Message-Waited" not in again.headers
    came = await came_with(bee, again)
    assert (came["carry"], came["signals"][0]["data"]) == (LARGE * 2, LARGE)


async def test_a_consumer_of_hornetq_holds_its_message(rest):  # W27
    etl, bee = await rest.as_("etl", "hornetq"), await rest.as_("bee", "hornetq")
    await post(await rest.as_())
    made = await consumer(bee, autoAck="false")
    message = await bee.post(msg(made)["acknowledge-next"])
    assert "msg-waited" not in message.headers
    held = await bee.post(msg(message)["hold"], data={"signal": "yes", "carry": LARGE * 2})
    assert held.status_code == 204
    assert (await bee.post(msg(message)["hold"], data={"signal": "yes"})).status_code == 412
    said = await etl.post(msg(message)["signal"], data={"signal": "yes", "data": "5"})
    assert said.json()["wakes"]
    again = await bee.post(msg(held)["acknowledge-next"])
    assert again.headers["Message-Woken"] == "signal"
    came = (await bee.get(msg(again)["waited"])).json()
    assert (came["carry"], came["signals"][0]["data"]) == (LARGE * 2, "5")


@pytest.mark.parametrize(
    ("kind", "form", "status"),
    [
        ("hold", {}, 400),
        ("hold", {"signal": ""}, 400),
        ("hold", {"signal": [f"{n}" for n in range(17)]}, 400),
        ("hold", {"within": "soon"}, 400),
        ("hold", {"within": ["1", "2"]}, 400),
        ("hold", {"within": "1", "then": "sleep"}, 400),
        ("hold", {"within": "1", "delay": "1"}, 400),
        ("hold", {"within": "1", "carry": "\0"}, 400),
        ("hold", {"within": "1", "carry": "\x01"}, 400),
        ("hold", {"within": "1", "carry": "x" * 16_385}, 413),
        ("hold", {"within": "1", "carry": "x" * 65_536}, 413),
        ("signal", {}, 400),
        ("signal", {"signal": ["yes", "no"]}, 400),
        ("signal", {"signal": "y" * 256}, 400),
        ("signal", {"signal": "yes", "data": "\ufffe"}, 400),
        ("signal", {"signal": "yes", "data": "x" * 16_385}, 413),
        ("signal", {"signal": "yes", "name": "yes"}, 400),
    ],
)
async def test_what_cannot_be_read_is_refused_and_the_lock_stays(rest, kind, form, status):  # W27
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    message = await take(bee)
    client = bee if kind == "hold" else etl
    refused = await client.post(
        links(message)[kind],
        data=form,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert refused.status_code == status
    done = await bee.post(links(message)["acknowledgement"], data={"acknowledge": "true"})
    assert done.status_code == 204


async def test_a_stranger_learns_nothing_of_messages(rest):  # W27
    etl, ann = await rest.as_(), await rest.as_("ann")
    await post(etl, Message_Id="a")
    said = []
    for name in ("a", "nothing"):
        where = f"{rest.root}/queues/jobs/messages/{name}"
        sent = await ann.post(f"{where}/signals", data={"signal": "yes"})
        read = await ann.get(f"{where}/waited")
        said.append(
            (sent.status_code, sent.json()["title"], read.status_code, read.json()["title"])
        )
    assert said == [(403, "The account may not do this", 404, "Not found")] * 2
