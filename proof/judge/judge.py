#!/usr/bin/env python3
"""Judge what clients of a work queue saw: is anything lost, back, changed, twice, half or out of order?

    python judge.py HISTORY.jsonl... [--parts 64] [--most 100]

The format of a history is in README.md beside this file. A history is judged id by id, then by group, by commit and by key. It is cut into
parts by the hash of these: memory is bounded by the largest part. Exit codes: 0 nothing found, 1 violations, 2 not a history.
"""

from __future__ import annotations

import argparse
import fileinput
import json
import sys
import tempfile
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OPS: Final = {
    "publish": ("queue", "id", "digest", "result"),
    "commit": ("commit", "result"),
    "deliver": ("queue", "id", "digest", "token"),
    "retract": ("queue", "id", "token", "result"),
    "reject": ("queue", "id", "token", "result"),
    "release": ("queue", "id", "token", "result"),
    "touch": ("queue", "id", "token", "result"),
    "hold": ("queue", "id", "token", "wake", "result"),
    "sweep": ("queue", "result"),
    "read": ("queue", "items"),
}
"""The fields that each operation has to have."""
RESULTS: Final = ("ok", "unknown", "fail", "invoke")
"""The surest first."""
FINAL: Final = ("retract", "reject")
"""The operations that end the life of an item."""

Op = dict[str, Any]


class NotAHistoryError(Exception): ...


@dataclass(frozen=True, order=True)
class Violation:
    """What must not be: its kind, where, and the operations that show it, in words."""

    kind: str
    where: str
    why: str


def operation(line: str, number: int) -> Op:
    """Return the operation of a line; raise NotAHistoryError with its number."""
    try:
        op = json.loads(line)
        start, end = op["t"]
        op["start"], op["end"], _ = float(start), float(end), op["who"]
        lacks = [name for name in OPS[op["op"]] if name not in op]
    except (ValueError, KeyError, TypeError) as error:
        raise NotAHistoryError(f"line {number} is no operation: {error!r}") from None
    if lacks or not start <= end or op.get("result", "ok") not in RESULTS:
        why = f"without {', '.join(lacks)}" if lacks else "with a wrong time or result"
        raise NotAHistoryError(f"line {number} is an operation {why}")
    return op


# --- one id ---------------------------------------------------------------------------------------


@dataclass
class Known:
    """What concerns many ids: the surest result of each commit, and when it began; when each queue was swept."""

    commits: dict[str, str] = field(default_factory=dict)
    began: dict[str, float] = field(default_factory=dict)
    sweeps: dict[str, dict[object, tuple[float, float]]] = field(default_factory=dict)

    def is_sure(self, op: Op) -> bool:
        """Whether a publish was confirmed, and the commit that makes it visible."""
        return op["result"] == "ok" and self.commits.get(op.get("commit", ""), "ok") == "ok"

    def is_swept(self, queue: str, after: float, before: float = inf) -> bool:
        """Whether the queue may have been swept between these moments."""
        swept = self.sweeps.get(queue, {}).values()
        return any(start <= before and until >= after for start, until in swept)


@dataclass
class Life:
    """What is known of one id in one queue, in the order of time, without what was refused."""

    queue: str
    id: str
    publishes: list[Op] = field(default_factory=list)
    deliveries: list[Op] = field(default_factory=list)
    ends: list[Op] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    """What the last read found: a digest and a state each."""

    @property
    def name(self) -> str:
        return f"{self.queue}/{self.id}"


def lives(ops: Iterable[Op], commits: dict[str, str]) -> Iterator[Life]:
    """Yield what is known of each id; `commits` has the result of each commit."""
    found: dict[tuple[str, str], Life] = {}
    ordered = sorted(ops, key=lambda op: (op["end"], op["start"]))
    ended = {(op["who"], op.get("n")) for op in ordered if op.get("result") != "invoke"}
    for op in ordered:
        if op.get("result") == "invoke" and (op["who"], op["n"]) in ended:
            continue
        name = op["items"][0][0] if op["op"] == "read" else op["id"]
        one = found.setdefault((op["queue"], name), Life(op["queue"], name))
        if op["op"] == "read":
            one.left.append(tuple(op["items"][0][1:]))
        elif "fail" not in (op.get("result"), commits.get(op.get("commit", ""))):
            kept = {"publish": one.publishes, "deliver": one.deliveries}
            kept.get(op["op"], one.ends).append(op)
    yield from found.values()


def latest(op: Op) -> float:
    """Return the last moment at which an operation may have happened, or at which one of the `copies` may be new."""
    return inf if op["result"] != "ok" or "copies" in op else float(op["end"])


def judge_life(one: Life, known: Known) -> Iterator[Violation]:
    """Yield what is wrong with one id."""
    yield from _origin(one)
    yield from _holders(one)
    yield from _returns(one, known)
    yield from _loss(one, known)
    yield from _wakes(one)


def _origin(one: Life) -> Iterator[Violation]:
    """Whatever is seen was published before, and is what was published."""
    seen = [(op["digest"], op["end"]) for op in one.deliveries]
    for digest, at in [*seen, *((digest, inf) for digest, _ in one.left)]:
        before = {op["digest"] for op in one.publishes if op["start"] <= at}
        when = "left at the end" if at == inf else f"delivered at {at}"
        if not before:
            yield Violation("invented", one.name, f"{when}, and published by nobody before")
        elif digest not in before:
            yield Violation("changed", one.name, f"{when} with another payload: {digest}")
    if len(one.left) > max(1, sum("copies" in op for op in one.publishes)):
        yield Violation("twice", one.name, f"{len(one.left)} times there at the end")


def _holders(one: Life) -> Iterator[Violation]:
    """An item has one holder at a time: who ends it holds it, and nobody else has got it since."""
    first: dict[str, Op] = {}
    for op in one.deliveries:
        if first.setdefault(op["token"], op)["who"] != op["who"]:
            yield Violation("shared", one.name, f"the token {op['token']} was given to two")
    for end in [op for op in one.ends if op["token"] is not None]:
        mine = first.get(end["token"])
        if mine is None or mine["start"] > end["end"]:
            why = f"{end['op']} at {end['end']} for a token that nobody had"
            yield Violation("unheld", one.name, why)
        elif end["result"] == "ok":
            # what is given back may be with the next before the answer comes
            until = end["end"] if end["op"] in FINAL else end["start"]
            others = [op for op in first.values() if op["end"] < until and _follows(op, mine)]
            if any(not _is_new(one, mine, op) for op in others):
                why = f"{end['op']} of {end['who']} confirmed at {end['end']}, when others had it"
                yield Violation("stale", one.name, why)


def _follows(other: Op, mine: Op) -> bool:
    """Whether a delivery came after another: by their attempts where both have one, otherwise by the clock."""
    if other["token"] == mine["token"]:
        return False
    if "attempt" in other and "attempt" in mine:
        return bool(other["attempt"] > mine["attempt"])
    return bool(other["start"] > mine["end"])


def _is_new(one: Life, mine: Op, other: Op) -> bool:
    """Whether a second publish may stand between two deliveries, so that they are of two items."""
    may = [it for it in one.publishes if it["start"] < other["end"] and latest(it) > mine["start"]]
    return len(one.publishes) > 1 and bool(may)


def _returns(one: Life, known: Known) -> Iterator[Violation]:
    """Nothing comes back after its confirmed end: each life needs a publish of its own, or a sweep."""
    confirmed = [op for op in one.ends if op["op"] == "retract" and op["result"] == "ok"]
    again = {op["token"]: op for op in reversed(confirmed) if op["token"] is not None}
    done = [op for op in confirmed if again.get(op["token"], op) is op]  # one end may be told twice
    unused, after = sorted(one.publishes, key=latest), -inf
    for number, until in enumerate([*done, None]):
        before = done[number - 1]["end"] if number else -inf
        seen = [op["end"] for op in one.deliveries if op["start"] > before]
        if until is not None and (not number or until["token"] is not None):
            seen.append(until["end"])
        elif until is None and number and any(state == "waiting" for _, state in one.left):
            seen.append(inf)
        if not seen:
            continue
        at = min(seen)
        maker = next((op for op in unused if op["start"] <= at and _makes(one, op, after)), None)
        if maker is not None:
            unused.remove(maker)
        elif number and not known.is_swept(one.queue, after, at):
            there = "waiting at the end" if at == inf else f"there at {at}"
            yield Violation("back", one.name, f"{there}, after it was done at {before}")
        after = until["start"] if until is not None else inf


def _makes(one: Life, op: Op, after: float) -> bool:
    """Whether a publish may have made an item after that moment: it was under way, and no window forbids it."""
    if latest(op) < after:
        return False
    known = [it["end"] for it in one.publishes if it["result"] == "ok" and it["end"] < op["start"]]
    return not ("window" in op and known and op["end"] - max(known) < op["window"])


def _loss(one: Life, known: Known) -> Iterator[Violation]:
    """Nothing that was confirmed is lost: it is there at the end, or was done, or swept."""
    final = [op for op in one.ends if op["op"] in FINAL]
    if one.left or any(op["result"] != "ok" for op in final):
        return
    ended = final[-1]["end"] if final else -inf
    if known.is_swept(one.queue, min((op["start"] for op in one.publishes), default=inf)):
        return
    for op in one.publishes:
        if known.is_sure(op) and op["start"] > ended and _makes(one, op, ended):
            why = f"published at {op['end']}, neither done nor there at the end"
            yield Violation("lost", one.name, why)
            return
    if final and final[-1]["op"] == "reject":
        why = f"rejected at {ended}, and not among the dead at the end"
        yield Violation("lost", one.name, why)


def _wakes(one: Life) -> Iterator[Violation]:
    """A held item is woken once, for one cause, and not again after a hold that followed."""
    holds = {op["wake"]: op for op in one.ends if op["op"] == "hold"}
    causes: dict[str, str] = {}
    for op in one.deliveries:
        if (wake := op.get("wake")) is None:
            continue
        if wake not in holds or holds[wake]["start"] > op["end"]:
            yield Violation("woken", one.name, f"woken from {wake} before anybody held it")
            continue
        if causes.setdefault(wake, op.get("cause", "")) != op.get("cause", ""):
            yield Violation("woken", one.name, f"woken from {wake} for two causes")
        following = [it for it in holds.values() if it["start"] > holds[wake]["end"]]
        if any(it["result"] == "ok" and op["start"] > it["end"] for it in following):
            yield Violation("woken", one.name, f"woken from {wake} after a hold that followed")


# --- groups, commits and keys ---------------------------------------------------------------------


def facts_of(one: Life, known: Known) -> Iterator[tuple[str, str, list[Any]]]:
    """Yield what of an id the other judgements need: a kind, what it is about, and the fact."""
    is_seen = bool(one.deliveries or one.left)
    first = min((op["end"] for op in one.deliveries), default=inf)
    for op in one.publishes:
        is_sure = known.is_sure(op)
        if "commit" in op and (is_seen or not known.is_swept(one.queue, op["start"])):
            yield "commit", op["commit"], [one.name, is_seen, first]
        if "key" in op and (is_seen or is_sure):
            yield "key", json.dumps([one.queue, op["key"]]), [one.name]
        if "group" in op and is_sure and is_seen and len(one.publishes) == 1:
            group = json.dumps([one.queue, op["group"]])
            yield "group", group, [one.name, op["start"], op["end"], first]


def judge_group(where: str, items: list[list[Any]]) -> Iterator[Violation]:
    """Yield what was first delivered before something that was published before it."""
    oldest, name = inf, ""
    for item, start, end, first in sorted(items, key=lambda one: -one[3]):
        if oldest < start and first < inf:
            yield Violation("order", where, f"{item} was delivered before {name}")
        if end < oldest:
            oldest, name = end, item


def judge_commit(
    where: str, result: str | None, began: float, items: list[list[Any]]
) -> Iterator[Violation]:
    """Yield what of a commit is there while the rest is not, or was there before it."""
    seen = [name for name, is_seen, _ in items if is_seen]
    missing = [name for name, is_seen, _ in items if not is_seen]
    if missing and (seen or result == "ok"):
        there = f"{seen[0]} is there" if seen else "confirmed"
        yield Violation("half", where, f"{there}, and {missing[0]} is not")
    for name, _, first in items:
        if first < began:
            yield Violation("early", where, f"{name} came at {first}, before the commit began")


# --- the whole history ----------------------------------------------------------------------------


class Parts:
    """Lines by the hash of what they are about, in files of a folder."""

    def __init__(self, folder: Path, name: str, count: int) -> None:
        self._files = [(folder / f"{name}-{number}").open("w+") for number in range(count)]

    def add(self, about: str, line: str) -> None:
        """Keep a line."""
        self._files[zlib.crc32(about.encode()) % len(self._files)].write(f"{line}\n")

    def __iter__(self) -> Iterator[Iterable[str]]:
        for file in self._files:
            file.seek(0)
            yield file
            file.close()


def judge(lines: Iterable[str], folder: Path, parts: int = 64) -> Iterator[Violation]:
    """Yield the violations of a history; `folder` has its parts meanwhile. Raises NotAHistoryError."""
    by_id, by_other = Parts(folder, "a", parts), Parts(folder, "b", parts)
    known = _cut(lines, by_id)
    for part in by_id:
        for one in lives((operation(line, 0) for line in part), known.commits):
            yield from judge_life(one, known)
            for kind, about, fact in facts_of(one, known):
                by_other.add(about, json.dumps([kind, about, fact]))
    for part in by_other:
        found: dict[tuple[str, str], list[list[Any]]] = defaultdict(list)
        for line in part:
            kind, about, fact = json.loads(line)
            found[kind, about].append(fact)
        for (kind, about), facts in found.items():
            if kind == "group":
                yield from judge_group(about, facts)
            elif kind == "key":
                names = sorted({name for (name,) in facts})
                if len(names) > 1:
                    yield Violation("twice", about, f"one key, and {', '.join(names[:3])}")
            else:
                result, began = known.commits.get(about), known.began.get(about, inf)
                yield from judge_commit(about, result, began, facts)


def _cut(lines: Iterable[str], by_id: Parts) -> Known:
    """Put each operation into the part of its id; return what concerns many."""
    known, count = Known(), 0
    for count, line in enumerate(lines, 1):
        op = operation(line, count)
        if op["op"] == "commit":
            name, result = op["commit"], op["result"]
            best = min(known.commits.get(name, result), result, key=RESULTS.index)
            known.commits[name] = best
            known.began[name] = min(op["start"], known.began.get(name, inf))
        elif op["op"] == "sweep":
            swept, name = known.sweeps.setdefault(op["queue"], {}), (op["who"], op.get("n", -count))
            if op["result"] != "invoke" or name not in swept:
                swept[name] = op["start"], -inf if op["result"] == "fail" else latest(op)
        elif op["op"] == "read":
            for item in op["items"]:
                by_id.add(json.dumps([op["queue"], item[0]]), json.dumps({**op, "items": [item]}))
        else:
            by_id.add(json.dumps([op["queue"], op["id"]]), line.strip())
    if not count:
        raise NotAHistoryError("there is no operation")
    return known


def main(words: list[str] | None = None) -> int:
    """Judge the files; print what is wrong, and how much of each kind."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("history", type=Path, nargs="+")
    parser.add_argument("--parts", type=int, default=64, help="how many files it is cut into")
    parser.add_argument("--most", type=int, default=100, help="how many violations it prints")
    asked = parser.parse_args(words)
    counts: dict[str, int] = defaultdict(int)
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            fileinput.input(asked.history, openhook=fileinput.hook_compressed) as lines,
        ):
            for one in judge(lines, Path(folder), asked.parts):
                counts[one.kind] += 1
                if sum(counts.values()) <= asked.most:
                    print(f"{one.kind}: {one.where}: {one.why}")
    except (OSError, NotAHistoryError) as error:
        print(f"judge: {error}", file=sys.stderr)
        return 2
    found = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
    print(f"violations: {found or 'none'}")
    return int(bool(counts))


if __name__ == "__main__":
    sys.exit(main())
