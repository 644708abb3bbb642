"""Holding a message, and signals, over STOMP."""

import json

import pytest
from faces.contract import stored
from faces.stomp.clients import naming
from faces.stomp.serving import INDIVIDUAL, put

from pubqueue.faces.stomp.codec import Frame
from pubqueue.model.entities import State
from pubqueue.model.waits import AtDeadline

YES = json.dumps(["yes", "a, b"])


async def nacks(bee, message, **headers):
    """Answer a MESSAGE with a NACK that has these headers beside its name, and return the answer."""
    named = naming(bee.version.name, message.headers)
    bee.say_frame(Frame("NACK", {**named, "receipt": "r", **headers}))
    return await bee.answer()


async def signaled(etl, name, data=b"", **headers):
    return await etl.do(
        "SEND", data, destination="/signal/jobs", item_id="a", signal=name, **headers
    )


async def works(served, **headers):
    """Return a worker, a publisher, and the one message that the worker has."""
    bee, etl = await served.works(**{**INDIVIDUAL, **headers}), await served.log_in()
    await put(etl, "a")
    return bee, etl, await bee.hear()


@pytest.mark.parametrize("version", ["1.1", "1.2"])
async def test_a_message_is_held_by_a_nack_signaled_and_comes_again(served, version):  # N30
    bee, etl, message = await works(served, version=version)
    assert not {"woken", "waited"} & message.headers.keys()
    carry = '{"step":1}\n'
    held = await nacks(bee, message, outcome="hold", signals=YES, carry=carry, within="60")
    assert held.command == "RECEIPT"
    item = await stored(served.side, "a")
    assert (item.state, item.wait.signals, item.failed) == (State.HELD, ("yes", "a, b"), 0)
    answer = await signaled(etl, "a, b", "caf\u00e9\n".encode(), signal_id="1")
    assert (answer.headers["state"], answer.headers.get("duplicate")) == ("queued", None)
    again = await bee.hear()
    assert again.headers["woken"] == "signal"
    came = json.loads(again.headers["waited"])
    (one,) = came["signals"]
    assert (came["carry"], one["id"], one["name"], one["data"]) == (
        carry,
        "1",
        "a, b",
        "caf\u00e9\n",
    )
    repeated = await signaled(etl, "a, b", b"2", signal_id="1")
    assert (repeated.headers["state"], repeated.headers["duplicate"]) == ("locked", "true")


async def test_what_comes_is_one_line_in_a_version_without_escapes(served):  # N30
    bee, etl, message = await works(served, version="1.0")
    await signaled(etl, "early", b"C:\\n\nend", signal_id="1")
    bee.close()  # its message comes again, with what came before it was held
    again = await (await served.works("ann", "1.0")).hear()
    assert (again.headers.get("woken"), again.body) == (None, message.body)
    assert json.loads(again.headers["waited"])["signals"][0]["data"] == "C:\\n\nend"


async def test_the_end_of_the_time_can_end_the_item(served):  # N30
    bee, _, message = await works(served)
    held = await nacks(bee, message, outcome="hold", within="0.5", then="dead")
    assert held.command == "RECEIPT"
    item = await stored(served.side, "a")
    assert (item.wait.then, item.wait.signals) == (AtDeadline.DEAD, ())


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"outcome": "hold"}, "bad header: bad request: hold: an item waits for a signal"),
        ({"outcome": "hold", "signals": "yes"}, "bad header: signals has to be a list"),
        ({"outcome": "hold", "signals": '["yes", 1]'}, "bad header: signals has to be a list"),
        ({"outcome": "hold", "signals": '[""]'}, "bad header: bad request: signal: a name of 1 to"),
        (
            {"outcome": "hold", "signals": '["\\n"]'},
            "bad header: bad request: signal: a name of 1 to",
        ),
        ({"outcome": "hold", "within": "soon"}, "bad header: within has to be a number"),
        ({"outcome": "hold", "within": "1", "then": "sleep"}, "bad header: then has to be one of"),
        ({"outcome": "hold", "within": "1", "delay": "1"}, "bad header: delay is not for"),
        ({"outcome": "hold", "within": "1", "requeue": "false"}, "bad header: requeue is not for"),
        ({"signals": YES}, "bad header: signals is for outcome:hold"),
        ({"outcome": "release", "carry": "1"}, "bad header: carry is for outcome:hold"),
    ],
)
async def test_a_hold_that_cannot_be_read_is_refused(served, headers, said):  # N30
    bee, _, message = await works(served)
    refused = await nacks(bee, message, **headers)
    assert refused.command == "ERROR"
    assert f"{refused.headers['message']}: {refused.body.decode()}".startswith(said)


async def test_words_that_the_publisher_has_sent_are_not_those_of_the_worker(served):  # N30
    bee, etl = await served.works(**INDIVIDUAL), await served.log_in()
    words = {"signals": YES, "within": "60", "carry": "1", "then": "dead"}
    await etl.do("SEND", destination="/queue/jobs", item_id="a", **words)
    message = await bee.hear()
    copied = {name: message.headers[name] for name in words}
    assert (await nacks(bee, message, outcome="reject", **copied)).command == "RECEIPT"
    assert (await stored(served.side, "a")).state is State.DEAD


async def test_a_hold_is_of_one_message_and_of_no_transaction(served):  # N30
    bee, etl = await served.works(prefetch_count="2"), await served.log_in()
    await put(etl, "a", "b")
    await bee.hear()
    refused = await nacks(bee, await bee.hear(), outcome="hold", within="60")
    assert refused.headers["message"] == "not supported"
    bee, etl, message = await works(served)
    bee.say("BEGIN", transaction="t")
    refused = await nacks(bee, message, outcome="hold", within="60", transaction="t")
    assert refused.headers["message"] == "not supported"


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"signal": "yes", "item_id": "nothing"}, "forbidden"),
        ({"signal": "yes"}, "header missing"),
        ({"item_id": "a"}, "header missing"),
        ({"item_id": "a", "signal": "yes", "delay": "5"}, "not supported"),
        ({"item_id": "a", "signal": "yes", "x-message-ttl": "5"}, "not supported"),
        ({"item_id": "a", "signal": "yes", "transaction": "t"}, "not supported"),
        ({"item_id": "a", "signal": "y" * 256}, "bad header"),
    ],
)
async def test_a_signal_that_cannot_be_sent_is_refused(served, headers, message):  # N30
    etl = await served.log_in()
    await put(etl, "a")
    refused = await etl.do("SEND", destination="/signal/jobs", **headers)
    assert refused.headers["message"] == message


async def test_data_that_is_no_text_and_too_many_signals_are_refused(served):  # N30
    etl = await served.log_in()
    await put(etl, "a")
    for number in range(64):
        assert (await signaled(etl, f"s{number}")).command == "RECEIPT"
    assert (await signaled(etl, "more")).headers["message"] == "queue full"
    etl = await served.log_in()
    assert (await signaled(etl, "yes", b"\xff")).headers["message"] == "body not accepted"


async def test_a_stranger_learns_nothing_of_items(served):  # N30
    etl = await served.log_in()
    await put(etl, "a")
    said = set()
    for item in ("a", "nothing"):
        ann = await served.log_in("ann")
        answer = await ann.do("SEND", destination="/signal/jobs", item_id=item, signal="yes")
        said.add((answer.headers["message"], answer.body))
    assert len(said) == 1
