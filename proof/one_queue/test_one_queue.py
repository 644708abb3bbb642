"""One queue, worked over XMPP, STOMP, HTTP and gRPC at once by four clients as they are published: each item once, groups in order."""

import pytest
from harness.patience import TIMEOUT

from proof.one_queue.__main__ import WORDS, Job, Notes, bring_through

ITEMS = 400


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name in ("PUBQUEUE_URL", "PUBQUEUE_PASSWORD", "PUBSUB_EMULATOR_HOST"):
        monkeypatch.setenv(name, "")  # taken back at the end


@pytest.mark.e2e
async def test_each_item_is_done_once_and_groups_come_in_order(tmp_path):  # G41, W04
    notes = await bring_through(tmp_path, ITEMS, 4 * TIMEOUT)
    assert notes.wrong == []
    assert set(notes.shares()) == set(WORDS)
    assert sum(notes.attempts.values()) > ITEMS, "some were refused"


def test_what_goes_wrong_is_found(tmp_path):
    first, second, lost = (Job("xmpp", "g", place) for place in range(3))
    notes = Notes(3, tmp_path)
    notes.published("xmpp", lost).end("ok")
    for job in (second, first, first):
        notes.is_refused(job)
        notes.note("xmpp", job, None)
    notes.note("stomp", second, 7)
    wrong = " ".join(notes.check({first, second, lost}))
    for word in (
        "done 2 times",
        "never done",
        "came as [1, 0",
        "7 failures",
        "grpc has done",
        "lost: jobs/g/2",
    ):
        assert word in wrong
