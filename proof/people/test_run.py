"""The run in short, behind each server; and that it notices what it is there to notice."""

from collections import Counter

import pytest
from harness.servers.ejabberd import Ejabberd

from proof.people.run import Found, run
from pubqueue_demo.prosody import Prosody

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    "server",
    [lambda: Prosody(modules=("mam",)), lambda: Ejabberd(archive=True)],
    ids=["Prosody", "ejabberd"],
)
async def test_each_question_is_answered_once_while_everything_is_killed(server, tmp_path):
    async with server() as started:
        found = await run(started, tmp_path, questions=120, people=6, window=2, kills=6, seed=3)
    assert found.wrong() == []
    assert sum(found.kills.values()) == 6


def test_what_is_wrong_is_found():
    found = Found({"a", "b", "c"}, Counter({"a": 1, "b": 2}), ["d"], ["a"])
    assert found.wrong() == [
        "c was never answered",
        "b was ended twice",
        "d is dead",
        "a was asked after its answer",
    ]
