"""The judge finds what is planted in histories, and nothing in those of a queue that is right."""

import ast
import gzip
import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proof.judge import judge

FILE = Path(judge.__file__)


def publish(at, end=None, result="ok", **more):
    return line("publish", at, end, result=result, **{"digest": "d", **more})


def deliver(at, token, **more):
    return line("deliver", at, None, **{"digest": "d", "token": token, **more})


def end(op, at, token, until=None, result="ok", **more):
    return line(op, at, until, token=token, result=result, **more)


def commit(at, result="ok", name="c"):
    return {"op": "commit", "t": [at, at + 1], "who": "p", "commit": name, "result": result}


def sweep(at, result="ok", **more):
    return {"op": "sweep", "t": [at, at + 1], "who": "o", "queue": "q", "result": result, **more}


def read(*items):
    rows = [[name, digest, state] for name, digest, state in items]
    return {"op": "read", "t": [99, 100], "who": "r", "queue": "q", "items": rows}


def line(op, at, until, **more):
    """An operation of the item `a`, of half a second if its end is not given."""
    named = {"who": "w", "queue": "q", "id": "a"}
    return {"op": op, "t": [at, at + 0.5 if until is None else until], **named, **more}


def kinds(*ops, tmp_path, parts=4):
    found = judge.judge((json.dumps(op) for op in ops), tmp_path, parts)
    return {one.kind for one in found}


LEFT = read(("a", "d", "waiting"))
DEAD = read(("a", "d", "dead"))
GONE = read()
GROUPED = {"group": "g"}
MANY = [publish(at, id=f"i{at}", digest=f"{at}", commit="c") for at in range(3)]
SEEN = [("i0", "0", "waiting"), ("i1", "1", "waiting"), ("i2", "2", "waiting")]

COPIES = publish(1, result="unknown", copies=True), publish(2, copies=True)

PLANTED = [
    # what was confirmed is neither done nor there
    ("lost", [publish(1), GONE]),
    ("lost", [publish(1), deliver(2, "x"), GONE]),
    ("lost", [publish(1), deliver(2, "x"), end("release", 3, "x"), GONE]),
    ("lost", [publish(1), deliver(2, "x"), end("retract", 3, "x", result="fail"), GONE]),
    ("lost", [publish(1), deliver(2, "x"), end("touch", 3, "x"), GONE]),
    ("lost", [publish(1), deliver(2, "x"), end("hold", 3, "x", wake="h"), GONE]),
    ("lost", [publish(1), deliver(2, "x"), end("retract", 3, "x"), publish(4), GONE]),
    ("lost", [publish(1, result="unknown"), publish(3), GONE]),
    (
        "lost",  # what was begun was refused
        [
            *(publish(1), deliver(2, "x"), end("retract", 3, "x", result="invoke", n=1)),
            *(end("retract", 3, "x", result="fail", n=1), GONE),
        ],
    ),
    # what is dead is kept
    ("lost", [publish(1), deliver(2, "x"), end("reject", 3, "x"), GONE]),
    # what was done comes back
    ("back", [publish(1), deliver(2, "x"), end("retract", 3, "x"), deliver(4, "y"), GONE]),
    ("back", [publish(1), deliver(2, "x"), end("retract", 3, "x"), LEFT]),
    ("back", [publish(1), publish(2), deliver(3, "x"), end("retract", 4, "x"), LEFT]),
    (
        "back",  # although it is published again, for that is later
        [publish(1), deliver(2, "x"), end("retract", 3, "x"), deliver(4, "y"), publish(6), LEFT],
    ),
    (
        "back",  # two items under one id, and three lives
        [
            *(*COPIES, deliver(3, "x"), end("retract", 4, "x")),
            *(deliver(5, "y"), end("retract", 6, "y"), LEFT),
        ],
    ),
    (
        "back",  # two publishes, and three lives
        [
            *(publish(1), deliver(2, "x"), end("retract", 3, "x")),
            *(publish(4), deliver(5, "y"), end("retract", 6, "y"), LEFT),
        ],
    ),
    (
        "back",  # the window of its id makes the second publish none
        [publish(1), deliver(2, "x"), end("retract", 3, "x"), publish(4, window=60), LEFT],
    ),
    (
        "back",
        [publish(1), deliver(2, "x"), end("retract", 3, "x"), publish(4, result="fail"), LEFT],
    ),
    (
        "back",  # done twice
        [
            *(publish(1), deliver(2, "x"), end("retract", 3, "x")),
            *(deliver(5, "y"), end("retract", 6, "y"), GONE),
        ],
    ),
    # what an owner did to the queue was before, or in another queue, or did not happen
    ("lost", [sweep(1), publish(3), GONE]),
    ("lost", [publish(1), sweep(2, queue="other"), GONE]),
    ("lost", [publish(1), sweep(2, "invoke", n=1), sweep(2, "fail", n=1), GONE]),
    ("back", [sweep(1), publish(3), deliver(4, "x"), end("retract", 5, "x"), LEFT]),
    ("half", [*MANY, commit(4), sweep(2, "fail"), read(*SEEN[:2])]),
    # an end that names no token is one all the same
    ("back", [publish(1), deliver(2, "x"), end("retract", 3, None), LEFT]),
    ("back", [publish(1), deliver(2, "x"), end("retract", 3, None), deliver(5, "y"), GONE]),
    # two hold it, and the one that no longer does is confirmed
    ("stale", [publish(1), deliver(2, "x"), deliver(4, "y"), end("retract", 5, "x"), GONE]),
    ("stale", [publish(1), deliver(2, "x"), deliver(4, "y"), end("release", 5, "x"), LEFT]),
    ("stale", [publish(1), deliver(2, "x"), deliver(4, "y"), end("touch", 5, "x"), LEFT]),
    ("stale", [publish(1), deliver(2, "x"), deliver(4, "y"), end("reject", 5, "x"), DEAD]),
    ("stale", [publish(1), deliver(2, "x"), deliver(4, "y"), end("retract", 3, "x", 6), GONE]),
    (
        "stale",  # by the attempts, although the clocks say otherwise
        [
            *(publish(1), deliver(4, "x", attempt=1), deliver(2, "y", attempt=2)),
            *(end("retract", 5, "x"), GONE),
        ],
    ),
    ("shared", [publish(1), deliver(2, "x"), deliver(3, "x", who="other"), LEFT]),
    ("unheld", [publish(1), end("retract", 3, "x"), GONE]),
    ("unheld", [publish(1), end("retract", 1.6, "x"), deliver(4, "x"), GONE]),
    # nobody published it, or not so
    ("invented", [deliver(2, "x"), LEFT]),
    ("invented", [LEFT]),
    ("invented", [publish(3), deliver(1, "x"), LEFT]),
    ("invented", [publish(1, result="fail"), deliver(2, "x"), LEFT]),
    ("invented", [publish(1, commit="c"), commit(2, "fail"), LEFT]),
    ("changed", [publish(1), deliver(2, "x", digest="e"), LEFT]),
    ("changed", [publish(1), read(("a", "e", "waiting"))]),
    ("changed", [publish(1), deliver(2, "x", digest="e"), publish(3, digest="e"), LEFT]),
    # one id or one key is two items
    ("twice", [publish(1), read(("a", "d", "waiting"), ("a", "d", "dead"))]),
    (
        "twice",
        [
            *(publish(1, key="k"), publish(2, id="b", key="k")),
            read(("a", "d", "waiting"), ("b", "d", "waiting")),
        ],
    ),
    (
        "twice",  # the first had no answer, but was there
        [
            *(publish(1, key="k", result="unknown"), publish(2, id="b", key="k")),
            *(deliver(3, "x"), end("retract", 4, "x"), read(("b", "d", "waiting"))),
        ],
    ),
    # a commit is whole, or is not
    ("half", [*MANY, commit(4), read(*SEEN[:2])]),
    ("half", [*MANY, commit(4, "unknown"), read(*SEEN[1:])]),
    ("half", [*MANY, commit(4), GONE]),
    ("half", [*MANY, commit(4, "unknown"), deliver(5, "x", id="i1", digest="1"), GONE]),
    ("early", [*MANY, commit(9), deliver(5, "x", id="i1", digest="1"), read(*SEEN)]),
    ("early", [*MANY, read(*SEEN), deliver(5, "x", id="i1", digest="1")]),
    # order in a group
    (
        "order",
        [
            *(publish(1, **GROUPED), publish(3, id="b", **GROUPED)),
            *(deliver(5, "x", id="b"), deliver(7, "y")),
            read(("a", "d", "waiting"), ("b", "d", "waiting")),
        ],
    ),
    (
        "order",  # the older one was never delivered
        [
            *(publish(1, **GROUPED), publish(3, id="b", **GROUPED), deliver(5, "x", id="b")),
            read(("a", "d", "waiting"), ("b", "d", "waiting")),
        ],
    ),
    # a held item is woken once
    ("woken", [publish(1), deliver(2, "x", wake="h"), LEFT]),
    ("woken", [publish(1), deliver(2, "x"), deliver(4, "y", wake="h"), end("hold", 6, "y", wake="h"), LEFT]),
    (
        "woken",
        [
            *(publish(1), deliver(2, "x"), end("hold", 3, "x", wake="h")),
            *(deliver(5, "y", wake="h", cause="signal"), deliver(9, "z", wake="h", cause="time"), LEFT),
        ],
    ),
    (
        "woken",
        [
            *(publish(1), deliver(2, "x"), end("hold", 3, "x", wake="h")),
            *(deliver(5, "y", wake="h"), end("hold", 6, "y", wake="i"), deliver(9, "z", wake="h"), LEFT),
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "ops"), PLANTED)
def test_what_is_planted_is_found(kind, ops, tmp_path):
    assert kind in kinds(*ops, tmp_path=tmp_path)


def test_forty_are_planted_and_each_kind_is():
    assert len(PLANTED) >= 40
    named = {
        node.args[0].value
        for node in ast.walk(ast.parse(FILE.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Violation"
    }
    assert {kind for kind, _ in PLANTED} == named


RIGHT = [
    [publish(1), LEFT],
    [publish(1), DEAD],
    [publish(1), deliver(2, "x"), end("retract", 3, "x"), GONE],
    [publish(1, result="unknown"), GONE],
    [publish(1, result="unknown"), deliver(7, "x"), LEFT],
    [publish(1), publish(2), deliver(3, "x"), end("retract", 4, "x"), GONE],
    [*COPIES, deliver(3, "x"), end("retract", 4, "x"), deliver(5, "y"), LEFT],
    [*COPIES, deliver(3, "x"), deliver(4, "y"), end("retract", 5, "x"), LEFT],
    # without an answer it may have been done
    [publish(1), deliver(2, "x"), end("retract", 3, "x", result="unknown"), GONE],
    [publish(1), deliver(2, "x"), end("retract", 3, "x", result="unknown"), deliver(5, "y"), LEFT],
    # the next has it before the answer comes
    [publish(1), deliver(2, "x"), end("release", 3, "x", 9), deliver(4, "y"), LEFT],
    # the one that no longer holds it is refused
    [publish(1), deliver(2, "x"), deliver(4, "y"), end("retract", 5, "x", result="fail"), LEFT],
    # the notice of an earlier attempt is late
    [publish(1), deliver(4, "x", attempt=2), deliver(6, "y", attempt=1), end("retract", 7, "x"), GONE],
    # the client was killed before an answer
    [publish(1), deliver(2, "x"), end("retract", 3, "x", result="invoke", n=1), GONE],
    [publish(1, result="invoke", n=1), GONE],
    [*MANY, commit(4, "invoke"), GONE],
    [*MANY, commit(4, "invoke"), commit(4, "fail"), GONE],
    # published again: two lives
    [
        *(publish(1), deliver(2, "x"), end("retract", 3, "x")),
        *(publish(4), deliver(5, "y"), end("retract", 6, "y"), GONE),
    ],
    # a publish without an answer may take effect late
    [publish(1, result="unknown"), publish(2), deliver(3, "x"), end("retract", 4, "x"), deliver(8, "y"), LEFT],
    # within its window it is no new item
    [publish(1), deliver(2, "x"), end("retract", 3, "x"), publish(4, window=60), GONE],
    [publish(1), deliver(2, "x"), end("retract", 3, "x"), publish(70, window=60), LEFT],
    [*MANY, commit(4), read(*SEEN)],
    [*MANY, commit(4, "unknown"), GONE],
    [*MANY, commit(4, "fail"), GONE],
    [*MANY, commit(4, "unknown"), commit(6), read(*SEEN)],
    [publish(1, key="k"), publish(2, key="k"), LEFT],
    # an owner empties the queue, or leads it back
    [publish(1), sweep(2), GONE],
    [publish(1), sweep(2, "unknown"), GONE],
    [publish(1), sweep(2, "invoke", n=1), GONE],
    [publish(1), deliver(2, "x"), end("retract", 3, "x"), sweep(5), deliver(7, "y"), LEFT],
    [*MANY, commit(4), sweep(6), read(*SEEN[:1])],
    # whichever holder it was
    [publish(1), deliver(2, "x"), deliver(4, "y"), end("retract", 5, None), GONE],
    [publish(1), deliver(2, "x"), deliver(4, "y"), end("retract", 5, "y"), end("retract", 6, None), GONE],
    # one end that was told twice
    [publish(1), deliver(2, "x"), end("retract", 3, "x"), end("retract", 4, "x"), GONE],
    # published side by side, they have no order
    [
        *(publish(1, 5, **GROUPED), publish(3, id="b", **GROUPED), deliver(6, "x", id="b"), deliver(7, "y")),
        read(("a", "d", "waiting"), ("b", "d", "waiting")),
    ],
    [
        *(publish(1), deliver(2, "x"), end("hold", 3, "x", wake="h"), deliver(5, "y", wake="h")),
        *(deliver(8, "z", wake="h"), end("hold", 9, "z", wake="i"), deliver(11, "v", wake="i"), LEFT),
    ],
]  # fmt: skip


@pytest.mark.parametrize("ops", RIGHT)
def test_nothing_is_found_where_nothing_is_wrong(ops, tmp_path):
    assert kinds(*ops, tmp_path=tmp_path) == set()


def test_the_page_has_each_kind():
    page = FILE.parents[2] / "docs" / "explanation" / "proof.md"
    assert set(re.findall(r"^\| `(\w+)` \|", page.read_text(), re.MULTILINE)) == {
        kind for kind, _ in PLANTED
    }


class Queue:
    """A queue that is right, with clients that lose answers: it writes their history."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.now, self.history = 0.0, []
        self.items, self.held, self.digests = {}, {}, {}

    def say(self, op, name, **more):
        """Write an operation that happens now, whose answer may be lost; return whether the request was not."""
        start = self.now - self.random.random()
        lost, unknown = self.random.random() < 0.1, self.random.random() < 0.2
        result = {} if op == "deliver" else {"result": "unknown" if lost or unknown else "ok"}
        until = self.now + self.random.random()
        self.now += 1
        named = {"op": op, "who": more.pop("who", "p"), "queue": "q", "id": name}
        self.history.append({"t": [start, until], **named, **result, **more})
        return not lost

    def step(self):
        name = self.random.choice("abc")
        tokens = [token for token, (of, _) in self.held.items() if of == name]
        self.now += 1
        match self.random.choice(("publish", "deliver", "retract", "release", "reject", "late")):
            case "publish":
                self.digests.setdefault(name, name)
                if self.say("publish", name, digest=self.digests[name]):
                    self.items.setdefault(name, "waiting")
            case "deliver" if self.items.get(name) == "waiting":
                token = f"t{len(self.history)}"
                self.items[name], self.held[token] = token, (name, token)
                self.say("deliver", name, who=token, token=token, digest=self.digests[name])
            case "late" if name in self.items and self.items[name] in tokens:  # its lock ends
                self.items[name] = "waiting"
            case op if tokens:
                token = self.random.choice(tokens)
                after = {"retract": None, "release": "waiting", "reject": "dead"}.get(op, op)
                if after == op:
                    return
                if self.items.get(name) != token:
                    self.say(op, name, who=token, token=token)
                    self.history[-1]["result"] = "fail"
                elif self.say(op, name, who=token, token=token):
                    self.items[name] = after
                    self.items = {one: state for one, state in self.items.items() if state}

    def ended(self):
        state = {
            name: "dead" if found == "dead" else "waiting" for name, found in self.items.items()
        }
        left = [(name, self.digests[name], found) for name, found in state.items()]
        self.history.append(read(*left) | {"t": [self.now + 9, self.now + 10]})
        return self.history


@given(st.integers(0, 10**9), st.integers(1, 60))
def test_a_queue_that_is_right_is_found_to_be(tmp_path_factory, seed, steps):
    queue = Queue(seed)
    for _ in range(steps):
        queue.step()
    history = queue.ended()
    queue.random.shuffle(history)
    assert kinds(*history, tmp_path=tmp_path_factory.mktemp("parts")) == set()


def judged(history, *words):
    line = [sys.executable, "-I", FILE, history, *words]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_the_command_says_what_is_wrong(tmp_path):
    history = tmp_path / "history.jsonl"
    history.write_text("".join(f"{json.dumps(op)}\n" for op in [publish(1), GONE]))
    done = judged(history)
    assert done.returncode == 1
    assert done.stdout == (
        "lost: q/a: published at 1.5, neither done nor there at the end\nviolations: lost 1\n"
    )
    history.write_text(f"{json.dumps(publish(1))}\n{json.dumps(LEFT)}\n")
    done = judged(history, "--parts", "1")
    assert (done.returncode, done.stdout) == (0, "violations: none\n")


def test_a_history_may_be_several_files_some_of_them_compressed(tmp_path):
    one, other = tmp_path / "publisher.jsonl.gz", tmp_path / "reader.jsonl"
    one.write_bytes(gzip.compress(f"{json.dumps(publish(1))}\n".encode()))
    other.write_text(f"{json.dumps(LEFT)}\n")
    assert (judged(one, other).returncode, judged(one).returncode) == (0, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no operation"),
        ("{", "line 1 is no operation"),
        ('{"op": "publish", "t": [1, 2], "who": "p"}', "line 1 is an operation without queue, id, digest, result"),
        (json.dumps(publish(2, 1)), "line 1 is an operation with a wrong time or result"),
        (json.dumps(publish(2, result="yes")), "line 1 is an operation with a wrong time or result"),
        ('{"op": "drop", "t": [1, 2], "who": "p"}', "line 1 is no operation"),
        ("[]", "line 1 is no operation"),
    ],
)  # fmt: skip
def test_what_is_no_history_is_an_error(text, said, tmp_path):
    history = tmp_path / "history.jsonl"
    history.write_text(text)
    done = judged(history)
    assert done.returncode == 2
    assert done.stderr.startswith(f"judge: {said}")
    assert judged(tmp_path / "none").returncode == 2


def test_it_shares_nothing_with_what_it_judges_and_is_short():
    text = FILE.read_text()
    assert len(text.splitlines()) <= 400
    named = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            named |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            named.add((node.module or "").partition(".")[0])
    assert named <= sys.stdlib_module_names
