"""`.venv/bin/python -m proof.flips`: flip bits of a store, one at a time, and see that nothing wrong is given out.

A flip is found, by SQLite, by `pubqueue check` or because the item is dead with that reason, or it is harmless: then everything
comes as it was published. A flip in the settings of a node may hold all of the node back, because they have no checksum.
Flips in the file of SQLite may be anywhere; flips in rows, on both stores, are in what is delivered.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections import Counter
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import structlog
from harness.batches.facts import ANN, BOSS, JOBS, NOW, draft, who
from harness.batches.queue_requests import a_queue, joins, retracts
from harness.batches.shell import Shell
from harness.batches.transactions import commits
from harness.batches.two_shells import PostgresShell

from pubqueue.engine.ports import StoreError
from pubqueue.model.decision import Refused
from pubqueue.model.entities import ItemId, Jid, NodeName
from pubqueue.model.notices import Deliver
from pubqueue.model.transactions import Mark
from pubqueue.rules.damage import EndDamaged
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Create
from pubqueue.rules.publication import Publish
from pubqueue.rules.retrieve import ReadNewer
from pubqueue.rules.seek import Seek
from pubqueue.rules.staging import StagePublish
from pubqueue.stores import run_read_only
from pubqueue.stores.sql.session import MOST_IN_ROW, PAYLOAD
from pubqueue.stores.sqlite.connection import DAMAGE
from pubqueue.wiring.checking import see_that_contents_are_sound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.model.entities import Draft

KEPT, NIGHTLY, NEWS = NodeName("kept"), NodeName("nightly"), NodeName("news")
ITEMS: Final = 16
TABLES: Final = ("item", "done_item", "staged")
COLUMNS: Final = ("payload", "id", "headers", "group_name")
"""What is delivered of an item."""

Contents = dict[tuple[NodeName, ItemId], tuple[Any, ...]]


class Outcome(NamedTuple):
    """What became of a flip, and how it broke the promise, if it did."""

    word: str
    broken: str = ""


def _drafts(random: Random, node: NodeName) -> tuple[Draft, ...]:
    drafts = []
    for n in range(ITEMS):
        text = "".join(
            random.choices("abcdefghijklmnop ", k=random.choice((20, 250, 250, 6_000, 17_000)))
        )
        more: dict[str, Any] = {}
        if n % 3 == 0:
            more["headers"] = (("kind", text[:9]), ("number", str(n)))
        if node == JOBS and n % 2:
            more["group"] = f"group {n}"
        drafts.append(draft(f"{node}-{n}", f"<work>{text}</work>".encode(), **more))
    return tuple(drafts)


def furnish(shell: Shell, seed: int) -> Contents:
    """Fill a store with queued, grouped, done, staged and plain items; return what was published."""
    random = Random(seed)  # not for secrets
    published: Contents = {}
    shell.do(a_queue())
    shell.do(a_queue(KEPT, keep_done=1, item_expire=1_000_000))
    shell.do(a_queue(NIGHTLY))
    shell.do(Create(who(BOSS, admin=True), NEWS, Settings({"access_model": "open"})))
    for node in (JOBS, KEPT, NIGHTLY, NEWS):
        drafts = _drafts(random, node)
        publish = Publish(who(BOSS), node, drafts)
        if node == NIGHTLY:
            shell.do(StagePublish(Publish(who("etl@x/1"), node, drafts), Mark("nightly", 1, 0, 0)))
        else:
            assert not isinstance(reply := shell.do(publish), Refused), reply
        for one in drafts:
            published[node, one.id] = one.payload, one.headers, one.group
    shell.batch(joins(ANN, 999, node=KEPT))
    names = [name for node, name in published if node == KEPT]
    shell.do(retracts(ANN, *names, node=KEPT))
    return published


def given_out(shell: Shell) -> tuple[Contents, set[tuple[NodeName, ItemId]]]:
    """Deliver and read everything; return what came, and which items were found damaged."""
    came: Contents = {}
    damaged: set[tuple[NodeName, ItemId]] = set()

    def keep(pairs: Iterable[tuple[Any, bytes]]) -> None:
        came.update(((i.node, i.id), (payload, i.headers, i.group)) for i, payload in pairs)

    def run(*requests: Any, **how: Any) -> None:
        done = shell.batch(*requests, **how)
        keep((one.item, one.payload) for one in done.deliveries if isinstance(one, Deliver))
        for decision in done.decisions:
            then = decision.then
            while then is not None:
                again = shell.batch(then)
                keep(
                    (one.item, one.payload) for one in again.deliveries if isinstance(one, Deliver)
                )
                then = again.decisions[0].then
            damaged.update(getattr(decision.reply, "items", ()) if requests else ())

    for node in (JOBS, KEPT, NIGHTLY):
        run(joins(Jid("bob@x/1"), 999, node=node))
    run(commits((0, 0, ITEMS)))
    run(Seek(who(BOSS), KEPT, NOW))
    for _ in range(4):
        run(everywhere=True)
        if seqs := tuple(dict.fromkeys(shell.damaged)):
            shell.damaged.clear()
            run(EndDamaged(seqs))
    reply = shell.do(ReadNewer(who(BOSS), NEWS, 0))
    keep(getattr(reply, "items", ()))
    if seqs := tuple(dict.fromkeys(shell.damaged)):
        run(EndDamaged(seqs))
    return came, damaged


def judged(
    published: Contents, open_shell: Callable[[], Shell], check: Callable[[], object]
) -> Outcome:
    """Serve from the flipped store, and say what became of it."""
    try:
        check()
        is_good = True
    except StoreError:
        is_good = False
    try:
        with closing(open_shell()) as shell:
            came, damaged = given_out(shell)
    except (StoreError, *DAMAGE):
        return Outcome("an error" if is_good else "check and an error")
    for name, content in came.items():
        if published.get(name) != content:
            return Outcome("given out", f"{name} came otherwise than it was published")
    missing = published.keys() - came.keys()
    if not missing:
        return Outcome("harmless" if is_good else "check, and all came")
    if damaged:
        return Outcome("the item is dead" if is_good else "check, and the item is dead")
    if not is_good:
        return Outcome("check")
    if not {node for node, _ in missing} & {node for node, _ in came}:
        return Outcome("held back")
    return Outcome("missing", f"{sorted(missing)[:3]} did not come, and check is good")


def flip_file(seed: int, count: int, folder: Path) -> Counter[Outcome]:
    """Flip one bit at a time, anywhere in a file of SQLite."""
    whole = folder / "whole.db"
    with closing(Shell(whole)) as shell:
        published = furnish(shell, seed)
    content = whole.read_bytes()
    outcomes: Counter[Outcome] = Counter()
    random = Random(seed)
    for number in range(count):
        bit = random.randrange(8 * len(content))
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path = folder / "flipped.db"
        path.write_bytes(flipped)
        outcome = judged(published, partial(Shell, path), partial(check_file, path))
        if outcome.broken:
            outcome = outcome._replace(broken=f"flip {number}, bit {bit}: {outcome.broken}")
        outcomes[outcome] += 1
        for each in folder.glob("flipped.db*"):
            each.unlink()
    return outcomes


def check_file(path: Path) -> None:
    """Raise StoreError if `pubqueue check` would report the file."""
    run_read_only(f"sqlite:///{path}", see_that_contents_are_sound)


def flip_rows(shell: Shell, seed: int) -> Counter[Outcome]:
    """Flip one bit in a third of all rows, in something that is delivered, and give everything out."""
    random = Random(seed)
    published = furnish(shell, seed)
    flipped: set[ItemId] = set()
    for table in TABLES:
        key = "id, node" if table == "staged" else "seq, node_id"
        in_row = table == "staged" or not sqlite(shell)
        whole = "payload" if in_row else PAYLOAD
        rows = shell.connection.execute(
            f"SELECT {key}, id, {whole}, {', '.join(COLUMNS[1:])} FROM {table} i"
        )  # ours
        for row in rows.fetchall():
            if random.random() < 1 / 3:
                values = dict(zip(COLUMNS, row[3:], strict=True))
                column = random.choice([name for name, value in values.items() if value])
                value = _flipped(random, values[column])
                if value in {name for _, name in published}:
                    continue  # the store would not keep a second item of that id
                where = (
                    "id = {0} AND node = {1}"
                    if table == "staged"
                    else "seq = {0} AND node_id = {1}"
                )
                one, two, three = ("?", "?", "?") if sqlite(shell) else ("$2", "$3", "$1")
                statement = f"UPDATE {table} SET {column} = {three} WHERE {where.format(one, two)}"
                if column == "payload" and not in_row and len(value) > MOST_IN_ROW:
                    statement = "UPDATE large_payload SET payload = ?1 WHERE seq = ?2 AND ?3"
                shell.connection.execute(statement, (value, *row[:2]))
                flipped.add(row[2])
    came, _ = given_out(shell)
    outcomes: Counter[Outcome] = Counter()
    for (node, name), content in published.items():
        got = came.get((node, name))
        if name not in flipped:
            fits = got == content
            outcomes[Outcome("not flipped", "" if fits else f"{name} of {node} did not come")] += 1
        elif got is None:
            outcomes[Outcome("the item is dead")] += 1
        else:
            outcomes[Outcome("given out", f"{name} of {node} came")] += 1
    for node, name in came.keys() - published.keys():
        outcomes[Outcome("given out", f"{name} of {node} came, which was not published")] += 1
    return outcomes


def sqlite(shell: Shell) -> bool:
    """Return whether the store is one of SQLite."""
    return type(shell) is Shell


def _flipped(random: Random, value: bytes | str) -> bytes | str:
    """Return the value with another bit, in text one that a column of text can hold."""
    while True:
        content = bytearray(value.encode() if isinstance(value, str) else value)
        bit = random.randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
        if isinstance(value, bytes):
            return bytes(content)
        with suppress(UnicodeDecodeError):
            if (text := content.decode()).isprintable():
                return text


@click.command(context_settings={"show_default": True})
@click.option("--seed", default=1, help="Of the contents and of the flips.")
@click.option(
    "--flips", default=1_000, help="In the file; in rows there are as many, some 21 at a time."
)
@click.option(
    "--postgres", default="", help="The address of an empty database: also flip rows there."
)
def main(*, seed: int, flips: int, postgres: str) -> None:
    """Flip bits of stores, one at a time, and see that nothing wrong is given out."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reported = {"the file of SQLite": flip_file(seed, flips, folder)}
        for store in ("SQLite", "PostgreSQL") if postgres else ("SQLite",):
            sums = reported[f"rows of {store}"] = Counter()
            while sum(n for one, n in sums.items() if one.word != "not flipped") < flips:
                seed += 1
                place: Any = folder / f"rows-{seed}.db" if store == "SQLite" else postgres
                with closing((Shell if store == "SQLite" else PostgresShell)(place)) as shell:
                    sums.update(flip_rows(shell, seed))
                    if store == "PostgreSQL":
                        shell.connection.execute("DROP SCHEMA pubqueue CASCADE")
    for about, outcomes in reported.items():
        for outcome, count in outcomes.most_common():
            click.echo(f"{about}: {count} {outcome.word} {outcome.broken}".rstrip())
    sys.exit(any(outcome.broken for outcomes in reported.values() for outcome in outcomes))


if __name__ == "__main__":
    main()
