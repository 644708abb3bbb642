"""What a client of STOMP sends and receives once it has logged in, and what extends its locks."""

import pytest
from faces.contract import stored
from faces.stomp.serving import BOSS, ended, put
from harness.batches.facts import JOBS, NOW
from harness.servers.users import SERVICE

from pubqueue.faces.stomp.codec import Frame
from pubqueue.model.entities import ItemId
from pubqueue.rules.settle import Settle, Verb

# --- sending and receiving -----------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_a_message_is_sent_received_and_acknowledged(served, version):  # N01, S19
    etl, bee = await served.log_in("etl", version), await served.works("bee", version)
    assert (await etl.do("SEND", b"text", destination="/queue/jobs", kind="x")).headers[
        "receipt-id"
    ] == "r1"
    message = await bee.hear()
    assert (message.command, message.body) == ("MESSAGE", b"text")
    assert (message.headers["subscription"], message.headers["destination"]) == ("s", "/queue/jobs")
    assert (message.headers["kind"], message.headers["publisher"]) == ("x", f"etl@{SERVICE}")
    names = {
        "1.2": {"id": "ack"},
        "1.1": {"message-id": "message-id"},
        "1.0": {"message-id": "message-id"},
    }
    headers = {name: message.headers[of] for name, of in names[version].items()}
    if version == "1.1":
        headers["subscription"] = "s"
    bee.say_frame(Frame("ACK", {**headers, "receipt": "done"}))
    assert (await bee.answer()).headers == {"receipt-id": "done"}
    assert await stored(served.side, message.headers["item-id"]) is None


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_an_ack_may_have_all_headers_of_its_message(served, version):  # S09
    etl, bee = await served.log_in(), await served.works("bee", version)
    await etl.do("SEND", b"text", destination="/queue/jobs", item_id="a", url="http://x/y:1")
    given = (await bee.hear()).headers
    assert (given["content-length"], given["url"]) == ("4", "http://x/y:1")
    named = {"id": given["ack"]} if version == "1.2" else {}
    lines = [f"{name}:{value}\n" for name, value in ({"receipt": "done"} | given | named).items()]
    bee.write(f"ACK\n{''.join(lines)}\n\0".encode())  # not escaped, and with its content-length
    assert (await bee.answer()).headers == {"receipt-id": "done"}
    assert await stored(served.side, "a") is None


async def test_ids_of_one_millisecond_have_an_order(served, monkeypatch):
    """In which an account's subscriptions are listed, as over XMPP."""
    face = served.side.face
    monkeypatch.setattr(served.side.broker, "now", lambda: NOW)
    made = [face.new_id() for _ in range(300)]
    assert made == sorted(made)
    assert len(set(made)) == 300


async def test_an_id_that_is_known_is_a_duplicate_and_another_body_under_it_is_refused(served):
    etl = await served.log_in()
    await put(etl, "a")
    again = await etl.do("SEND", b"text", destination="/queue/jobs", item_id="a")
    assert again.headers["duplicate"] == "true"


async def test_a_send_that_fails_closes_after_what_came_before_is_answered(served):  # S20, S21
    etl = await served.log_in()
    etl.say("SEND", b"1", destination="/queue/jobs", receipt="1")
    etl.say("SEND", b"2", destination="/queue/nowhere", receipt="2")
    etl.say("SEND", b"3", destination="/queue/jobs", receipt="3")
    assert (await etl.hear()).headers["receipt-id"] == "1"
    assert (await ended(etl, "not found")).headers["receipt-id"] == "2"


@pytest.mark.parametrize(
    ("destination", "message"),
    [
        ("/queue/nowhere", "not found"),
        ("/queue/news", "not found"),
        ("/topic/jobs", "not found"),
        ("/temp-queue/a", "no such kind of destination"),
    ],
)
@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
async def test_destinations_that_do_not_fit(served, command, destination, message):  # N07
    etl = await served.log_in()
    etl.say(command, destination=destination, id="s", receipt="r")
    await ended(etl, message)


@pytest.mark.parametrize("destination", ["jobs", "./jobs", "/amq/queue/jobs", "/queue/jobs"])
async def test_a_queue_has_several_names(served, destination):  # N07, C28
    bee = await served.works(destination=destination)
    etl = await served.log_in()
    await put(etl, "a", destination=destination)
    assert (await bee.hear()).headers["destination"] == destination


def _retract():
    return Settle(BOSS, JOBS, (ItemId("a"),), Verb.RETRACT)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_a_touch_extends_a_lock_and_its_receipt_has_the_deadline(served, version):
    bee, etl = await served.works(version=version, ack="client"), await served.log_in()
    await put(etl, "a", "b")
    first, _ = [(await bee.hear()).headers for _ in "ab"]
    before = {name: (await stored(served.side, name)).deadline for name in "ab"}
    names = {
        "1.0": {"message_id": "jobs/a"},
        "1.1": {"message_id": "jobs/a", "subscription": "s"},
        "1.2": {"id": first.get("ack")},
    }
    answer = await bee.do("TOUCH", **names[version])
    after = {name: (await stored(served.side, name)).deadline for name in "ab"}
    assert answer.headers["deadline"] == f"{after['a']}"
    assert after["a"] >= before["a"]
    assert after["b"] == before["b"], "only the message that is named"
    near = await bee.do("TOUCH", seconds="0.001", **names[version])
    assert near.headers["deadline"] == f"{after['a']}", "a deadline does not come nearer"


async def test_a_touch_of_what_is_not_held(served):
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    ack = (await bee.hear()).headers["ack"]
    await served.broker.handle(_retract())
    for _ in "twice":
        assert (await bee.do("TOUCH", id=ack)).headers["outcome"] == "lost"
    assert (await bee.do("ACK", id=ack)).headers["outcome"] == "lost"
    bee.say("TOUCH", id=ack)
    await ended(bee, "no such message")


@pytest.mark.parametrize(
    ("headers", "message"),
    [({"seconds": "soon"}, "bad header"), ({"transaction": "t"}, "not supported")],
)
async def test_what_a_touch_cannot_have(served, headers, message):
    bee, etl = await served.works(), await served.log_in()
    await put(etl, "a")
    bee.say("TOUCH", id=(await bee.hear()).headers["ack"], **headers)
    await ended(bee, message)


async def test_of_a_topic_there_is_nothing_to_touch(served):
    bee, etl = await served.works(destination="/topic/news"), await served.log_in()
    await put(etl, "a", destination="/topic/news")
    ack = (await bee.hear()).headers["ack"]
    assert (await bee.do("TOUCH", id=ack)).headers == {"receipt-id": "r2"}


@pytest.mark.parametrize(
    ("command", "headers", "message"),
    [
        ("SUBSCRIBE", {"destination": "/queue/jobs", "id": "s"}, "already subscribed"),
        ("SUBSCRIBE", {"destination": "/queue/jobs"}, "header missing"),
        ("SUBSCRIBE", {"id": "t"}, "header missing"),
        ("SUBSCRIBE", {"destination": "/queue/jobs", "id": "t", "ack": "mine"}, "bad header"),
        (
            "SUBSCRIBE",
            {"destination": "/queue/jobs", "id": "t", "selector": "a = 1"},
            "not supported",
        ),
        ("UNSUBSCRIBE", {"id": "t"}, "no such subscription"),
        ("ACK", {"id": "t"}, "no such message"),
        ("NACK", {"id": "n1"}, "no such message"),
        ("COMMIT", {"transaction": "t"}, "no such transaction"),
        ("ABORT", {"transaction": "t"}, "no such transaction"),
        ("SEND", {"destination": "/queue/jobs", "transaction": "t"}, "no such transaction"),
        ("SEND", {"destination": "/queue/jobs", "priority": "high"}, "bad header"),
        ("BEGIN", {"transaction": ""}, "header missing"),
    ],
)
async def test_what_is_refused(served, command, headers, message):  # S13, S17, N15
    bee = await served.works()
    bee.say_frame(Frame(command, {**headers, "receipt": "r"}))
    assert (await ended(bee, message)).headers["receipt-id"] == "r"
