"""What clients write is what the judge reads, whenever they are killed."""

import json
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from proof.judge.history import PAGE, History, NotJudgedError, digest, judged, keep

KILLED = """
import os, signal, sys
from pathlib import Path
from proof.judge.history import History, digest
history = History(Path(sys.argv[1]), "etl")
history.begin("publish", "jobs", "a", digest=digest("a")).end("ok")
history.begin("publish", "jobs", "b", digest=digest("b"))
os.kill(os.getpid(), signal.SIGKILL)
"""


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_client_that_is_killed_has_written_what_it_has_begun(tmp_path):
    path = tmp_path / "etl.jsonl"
    words = [sys.executable, "-c", KILLED, path]
    root = Path(__file__).parents[2]
    assert subprocess.run(words, cwd=root, check=False).returncode == -signal.SIGKILL
    results = [(op["id"], op["result"]) for op in lines(path)]
    assert results == [("a", "invoke"), ("a", "ok"), ("b", "invoke")]
    reader = History(tmp_path / "reader.jsonl", "reader")
    reader.read("jobs", [("b", digest("b"), "waiting")])
    judgement = judged(sorted(tmp_path.glob("*.jsonl")))
    assert (judgement.is_right, judgement.summary) == (False, "lost 1")
    assert judgement.lines[0].startswith("lost: jobs/a: published at ")
    reader.read("jobs", [("a", digest("a"), "waiting")])
    assert judged(sorted(tmp_path.glob("*.jsonl"))).is_right


def test_an_operation_has_the_times_of_its_client_and_what_was_said_last(tmp_path):
    times = count(10)
    bee = History(tmp_path / "bee.jsonl", "bee", lambda: float(next(times)))
    bee.deliver("jobs", "a", digest="d", token=1)
    retract = bee.begin("retract", "jobs", "a", token=1)
    bee.deliver("jobs", "a", since=12.5, digest="d", token=2)
    retract.end("ok", token=2)
    given, begun, again, ended = lines(tmp_path / "bee.jsonl")
    assert [op["t"] for op in (given, begun, again, ended)] == [
        *([10, 11], [12, 12], [12.5, 13], [12, 14])
    ]
    assert (begun["n"], begun["token"], ended["token"]) == (ended["n"], 1, 2)


def test_a_long_read_is_several_lines_and_an_empty_one_is_a_line(tmp_path):
    reader = History(tmp_path / "reader.jsonl", "reader")
    reader.read("jobs", [(f"{n}", "d", "waiting") for n in range(PAGE + 1)])
    reader.read("other", [])
    reads = lines(tmp_path / "reader.jsonl")
    assert [(op["queue"], len(op["items"])) for op in reads] == [
        *(("jobs", PAGE), ("jobs", 1), ("other", 0))
    ]


def test_histories_that_are_kept_are_judged_as_before(tmp_path):
    path, kept = tmp_path / "one" / "etl.jsonl", tmp_path / "kept" / "here"
    path.parent.mkdir()
    History(path, "etl").begin("publish", "jobs", "a", digest="d").end("ok")
    keep([path], tmp_path, kept)
    assert [one.name for one in kept.iterdir()] == ["one-etl.jsonl.gz"]
    assert judged(list(kept.iterdir())) == judged([path])
    path.write_text("")
    with pytest.raises(NotJudgedError, match="there is no operation"):
        judged([path])
