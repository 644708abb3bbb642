"""The calls of one life of an item over STOMP, in a service that is quiet: they are counted, because times depend on the machine."""

import sys
from contextlib import contextmanager

from faces.stomp.serving import INDIVIDUAL, serving

HOME = "/component/pubqueue/"
OF_THE_CLIENT = f"{HOME}faces/stomp/codec.py"
"""The client of the tests reads and writes frames with it too."""

LIVES = 8
MOST = 780
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
