"""The calls of one life of an item over STOMP, in a service that is quiet: they are counted, because times depend on the machine."""

import sys
from contextlib import contextmanager

from faces.stomp.clients import BEATS
from faces.stomp.serving import INDIVIDUAL, serving
from harness.batches.queue_requests import a_queue
from harness.steps import counted_steps

from pubqueue.faces.stomp.settings import StompSettings

HOME = "/component/pubqueue/"
OF_THE_CLIENT = f"{HOME}faces/stomp/codec.py"
"""The client of the tests reads and writes frames with it too."""

LIVES = 8
MOST = 788
"""Two batches: the publish with its delivery, and the ACK. Before decision 153 it was 890 calls."""


@contextmanager
def counting():
    """Count the calls of functions of the service."""
    calls = [0]

    def note(frame, event, _argument):
        file = frame.f_code.co_filename
        calls[0] += event == "call" and HOME in file and OF_THE_CLIENT not in file

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def live(publisher, worker):
    assert (await publisher.do("SEND", b"{}", destination="/queue/jobs")).command == "RECEIPT"
    message = await worker.hear()
    assert (await worker.do("ACK", id=message.headers["ack"])).command == "RECEIPT"


async def test_a_life_in_a_quiet_queue_takes_few_calls():
    async with serving() as served:
        publisher, worker = await served.log_in(), await served.works(**INDIVIDUAL)
        await live(publisher, worker)  # whatever is remembered is remembered
        found = []
        for _ in range(LIVES):
            with counting() as calls:
                await live(publisher, worker)
            found += calls
        assert min(found) <= MOST, found


async def test_a_subscription_takes_as_many_steps_as_the_first_however_many_the_connection_has():
    """Each is to a queue of its own. Of an account a hundred addresses are known: from then on one is forgotten for each that comes."""
    known, many, some = 100, 160, 8
    stomp = StompSettings(heart_beat=BEATS, subscriptions_per_connection=many)
    costs = []
    with counted_steps() as steps:
        async with serving(stomp=stomp) as served:
            for number in range(many):
                await served.broker.handle(a_queue(f"queue{number}", access_model="open"))
            worker = await served.log_in("bee")
            for number in range(many):
                steps.by.clear()
                steps.counts = known < number <= known + some or number >= many - some
                where = f"/queue/queue{number}"
                answer = await worker.do(
                    "SUBSCRIBE", destination=where, id=f"{number}", **INDIVIDUAL
                )
                await served.broker.settled()
                if steps.counts:
                    costs.append(steps.by.total())
                steps.counts = False
                assert answer.command == "RECEIPT"
    early, late = min(costs[:some]), min(costs[some:])
    assert late <= early * 1.02, costs
