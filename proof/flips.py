"""`.venv/bin/python -m proof.flips`: flip bits of a store, one at a time, and see that nothing wrong is given out.

A flip is found, by SQLite, by `pubqueue check` or because the item is dead with that reason, or it is harmless: then everything
comes as it was published. A flip in the settings of a node may hold all of the node back, because the node is closed then.
Flips in the file of SQLite may be anywhere; flips in rows, on both stores, are in what is delivered, and in what decides
who may do what, who is sent what, and what is published when: there nobody may do or get more or anything else than before.
"""

from __future__ import annotations

import logging
import sqlite3
import sys
import tempfile
from collections import Counter
from contextlib import closing, suppress
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import psycopg
import structlog
from harness.batches.facts import ANN, BOSS, JOBS, NOW, draft, who
from harness.batches.queue_requests import a_queue, joins, retracts
from harness.batches.shell import Shell
from harness.batches.transactions import commits
from harness.batches.two_shells import PostgresShell

from pubqueue.engine.batch import run
from pubqueue.engine.listings import FreeSubscriptions
from pubqueue.engine.ports import StoreError
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import AccessModel, Affiliation, ItemId, Jid, NodeName
from pubqueue.model.notices import Deliver
from pubqueue.model.records import Registration
from pubqueue.model.replies import Described
from pubqueue.model.schedules import Definition
from pubqueue.model.transactions import Committed, Mark, key_of
from pubqueue.rules.audience import NextSubscribers
from pubqueue.rules.damage import EndDamaged
from pubqueue.rules.discovery import Describe
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Create, GetAffiliations, SetAffiliations
from pubqueue.rules.publication import Publish
from pubqueue.rules.registrations import ListRegistrations, Register
from pubqueue.rules.retrieve import ReadNewer, Retrieve
from pubqueue.rules.schedules import AddSchedule, ListSchedules
from pubqueue.rules.seek import Seek
from pubqueue.rules.staging import AskLastVersion, ListTransactions, StagePublish
from pubqueue.rules.subscribe import Subscribe
from pubqueue.stores import run_read_only
from pubqueue.stores.sql.columns import COVERED
from pubqueue.stores.sql.session import MOST_IN_ROW, PAYLOAD
from pubqueue.stores.sqlite.connection import DAMAGE
from pubqueue.wiring.checking import see_that_contents_are_sound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.engine.ports import Transaction
    from pubqueue.model.entities import Draft
    from pubqueue.rules.commit import CommitVersion

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


# Rows that are no items. A flip is made and undone again, one after the other, and what each principal may do and gets is compared.

PEOPLE: Final = tuple(Jid(f"{name}@x/1") for name in ("boss", "ann", "bob", "mallory", "zoe"))
ROOT: Final = who(BOSS, admin=True)
Grants = set[tuple[object, ...]]


def furnish_settings(shell: Shell, seed: int) -> None:
    """Fill a store with nodes of all access models, and with affiliations, subscriptions, schedules and registrations."""
    random = Random(seed)  # not for secrets
    roles = (Affiliation.MEMBER, Affiliation.PUBLISHER, Affiliation.OWNER, Affiliation.OUTCAST)
    for number, model in enumerate(AccessModel):
        node = NodeName(f"{model.value}-{random.randrange(1_000)}")
        settings = Settings({"access_model": model.value, "title": "what it is for"})
        is_queue = number % 3 == 2
        shell.do(a_queue(node) if is_queue else Create(ROOT, node, settings))
        people = zip(PEOPLE[1:4], random.sample(roles, 3), strict=True)
        given = tuple((Jid(jid.partition("/")[0]), role) for jid, role in people)
        shell.do(SetAffiliations(ROOT, node, given[: number % 4]))
        outcasts = {jid for jid, role in given[: number % 4] if role is Affiliation.OUTCAST}
        for jid in PEOPLE[:3]:
            if jid.partition("/")[0] in outcasts:
                continue
            shell.do(Subscribe(who(jid, admin=True), node, jid, f"{node}:{jid}"))
        what = Definition(f"at-{node}", "0 3 * * *", "UTC", node, b"<work>pay EUR 1000</work>")
        shell.do(AddSchedule(ROOT, what))
        push = Registration(
            f"push-{node}", Jid("boss@x"), node, is_queue, b'{"href":"https://a.example/"}'
        )
        shell.do(Register(ROOT, push))


def granted(shell: Shell, people: Iterable[str]) -> Grants:
    """Return what each of them may do, what is sent to whom, what is published when, and what is pushed where."""
    grants: Grants = set()
    nodes = [name for (name,) in shell.connection.execute("SELECT name FROM node").fetchall()]
    shell.changes.forget()
    for node in nodes:
        for jid in people:
            by, account = who(jid), jid.partition("/")[0]
            for request in (Retrieve(by, node), GetAffiliations(by, node)):
                if not isinstance(shell.do(request), Refused):
                    grants.add((type(request), account, node))
            may = shell.do(Describe(by, node, manage=False))
            if isinstance(may, Described) and not may.node.damaged:
                grants |= {("publish", account, node)} if may.may_publish else set()
                grants |= {("subscribe", account, node)} if may.may_subscribe else set()
        reply = shell.do(NextSubscribers(ROOT, node))
        grants |= {("sent", jid, node) for jid in getattr(reply, "jids", ())}
        queue = shell.do(Describe(ROOT, node, manage=True))
        free = shell.look_within(lambda tx, node=node: tx.page(FreeSubscriptions(node), None, 99))
        if isinstance(queue, Described) and not queue.node.config.paused:
            grants |= {("given", one.jid, node) for one in free if one.available}
    for one in shell.do(ListSchedules(ROOT)).schedules:
        grants |= {("published", one.definition, one.by, one.due)} if one.runs else set()
    for row in shell.do(ListRegistrations(ROOT)).entries:
        grants |= set() if row.disabled else {("pushed", row)}
    return grants


def flip_settings(shell: Shell, seed: int, share: float = 1.0) -> Counter[Outcome]:
    """Flip one bit in each row, or in a share of them, and see that nobody gains anything, and that `pubqueue check` finds it."""
    furnish_settings(shell, seed)
    random = Random(seed)
    outcomes: Counter[Outcome] = Counter()
    before = granted(shell, PEOPLE)
    for table, (key, rest) in COVERED.items():
        if table in OF_TRANSACTIONS:
            continue
        columns = *key, *rest
        keys = ("id",) if table in {"node", "subscription"} else key
        found = shell.connection.execute(f"SELECT {', '.join((*keys, *columns))} FROM {table}")
        for row in found.fetchall():
            if random.random() > share:
                continue
            where, values = row[: len(keys)], dict(zip(columns, row[len(keys) :], strict=True))
            values = {
                name: one for name, one in values.items() if one and not isinstance(one, bool)
            }
            column = random.choice([*values])
            new = _flipped(random, values[column])
            if not _put(shell, table, column, new, dict(zip(keys, where, strict=True))):
                outcomes[Outcome("refused by the store")] += 1
                continue
            free = values.get("jid", "") if values.get("affiliation") == "outcast" else ""
            outcomes[_settings_judged(shell, before, (table, column, new), free)] += 1
            at = dict(zip(keys, where, strict=True))
            _put(shell, table, column, values[column], at | ({column: new} if column in at else {}))
    return outcomes


def _settings_judged(
    shell: Shell, before: Grants, flip: tuple[str, str, Any], free: str
) -> Outcome:
    """Say what became of a flip. A name that is in no row any more, also that of an outcast, may do what all others may."""
    table, column, new = flip
    also = (Jid(new if "/" in new else f"{new}/1"),) if column == "jid" else ()
    try:
        after = granted(shell, (*PEOPLE, *also))
    except StoreError:
        return Outcome("an error")
    strange = {(grant[0], grant[2]) for grant in after if grant[1] == "zoe@x"}
    others = {jid.partition("/")[0] for jid in also} | {free}
    gained = {
        grant
        for grant in after - before
        if grant[1] not in others or (grant[0], grant[2]) not in strange
    }
    if gained:
        return Outcome("more", f"{column} of {table}, now {new!r}: {sorted(map(str, gained))[:3]}")
    try:
        shell.look_within(see_that_contents_are_sound)
    except StoreError:
        return Outcome("closed" if before - after else "check alone")
    return Outcome("not found", f"{column} of {table} is {new!r}, and check is good")


# Rows of transactions. Each flip is tried with requests that are undone again: what was committed stays committed, once, and what was
# not is committed as it was staged, or not at all.

OF_TRANSACTIONS: Final = ("txn_app", "txn")
WRITERS: Final = {"nightly": "etl@x/1", "hourly": "etl@x/1", "yearly": "boss@x/1"}
LAST: Final = 3
"""Each app has committed this many versions, and has staged the next one."""

Said = dict[tuple[str, str], Any]


class _UndoneError(StoreError):
    """Ends a transaction that is not to be committed."""


def _app(name: str) -> str:
    return key_of(Jid(WRITERS[name].partition("/")[0]), name)


def _stages(name: str, version: int, *, immediate: bool = False) -> StagePublish:
    items = tuple([draft(f"{name}-{version}-{n}") for n in range(2)])
    mark = Mark(_app(name), version, 0, 0, immediate=immediate)
    return StagePublish(Publish(who(WRITERS[name]), NIGHTLY, items), mark)


def _commits(name: str, version: int) -> CommitVersion:
    return commits((0, 0, 2), version=version, by=WRITERS[name], app=_app(name))


def furnish_transactions(shell: Shell) -> None:
    """Fill a store with apps that have committed versions, of which nothing but the marks is left, and with open versions."""
    shell.do(a_queue(NIGHTLY))
    shell.do(joins(ANN, 99, node=NIGHTLY))
    for name in WRITERS:
        for version in range(1, LAST + 1):
            shell.do(_stages(name, version))
            assert isinstance(shell.do(_commits(name, version)), Committed)
            shell.batch(everywhere=True)
            shell.do(retracts(ANN, *[f"{name}-{version}-{n}" for n in range(2)], node=NIGHTLY))
        shell.do(_stages(name, LAST + 1, immediate=name == "hourly"))


def said(shell: Shell) -> Said:
    """Return what is answered about each app, by app and question; nothing of it is kept."""
    answers: Said = {}
    for name, jid in WRITERS.items():
        questions = {
            "the last version": (AskLastVersion(who(jid), _app(name)),),
            "a commit once more": (_commits(name, LAST),),
            "the next commit": (Expire(), _commits(name, LAST + 1)),
        }
        for what, requests in questions.items():
            reply = _undone(shell, *requests)
            if isinstance(reply, Committed) and reply.already:
                reply = "committed"
            answers[name, what] = reply
        again = _undone(shell, _stages(name, LAST), _commits(name, LAST + 1))
        answers[name, "a batch once more"] = again
    for jid in (*dict.fromkeys(WRITERS.values()), PEOPLE[3]):
        for is_open in (True, False):
            found = shell.do(ListTransactions(who(jid), is_open))
            answers[jid, f"list {is_open}"] = frozenset(getattr(found, "records", ()))
    return answers


def _undone(shell: Shell, *requests: Any) -> Any:  # any reply
    """Return the reply to the last request of a batch that is not committed; a refusal of another is one of it."""
    replies = []

    def job(tx: Transaction) -> None:
        shell.rows.begin(tx)
        shell.changes.begin(shell.now, foreign=tx.foreign)
        how: Any = {"dispatching": False, "everywhere": False}
        done = run(shell.context(), shell.changes, tx, requests, **how)
        replies.extend(one.reply for one in done.decisions)
        raise _UndoneError("nothing of it is kept")

    with suppress(_UndoneError):
        shell.transact(job)
    shell.changes.forget()
    return next((one for one in replies if isinstance(one, Refused)), replies[-1])


def flip_transactions(shell: Shell, seed: int, share: float = 1.0) -> Counter[Outcome]:
    """Flip one bit in each column of each row, or in a share of them."""
    furnish_transactions(shell)
    random = Random(seed)
    outcomes: Counter[Outcome] = Counter()
    before = said(shell)
    for table in OF_TRANSACTIONS:
        columns = [name for part in COVERED[table] for name in part]
        found = shell.connection.execute(f"SELECT id, {', '.join(columns)} FROM {table}")
        for number, *values in found.fetchall():
            for column, value in zip(columns, values, strict=True):
                if not value or isinstance(value, bool) or random.random() > share:
                    continue
                new = _flipped(random, value)
                if not _put(shell, table, column, new, {"id": number}):
                    outcomes[Outcome("refused by the store")] += 1
                    continue
                outcomes[_transactions_judged(shell, before, (table, column, new))] += 1
                _put(shell, table, column, value, {"id": number})
    return outcomes


def _transactions_judged(shell: Shell, before: Said, flip: tuple[str, str, Any]) -> Outcome:
    """Say what became of a flip: each answer is as it was, or refuses. A version under another number is not there to be committed."""
    table, column, new = flip
    shell.changes.forget()
    after = said(shell)
    lost = (
        {Refusal.NOT_AS_STAGED}
        if (table, column) in {("txn", "version"), ("txn", "app_id")}
        else set()
    )
    refused = {
        question[0]
        for question, reply in after.items()
        if isinstance(reply, Refused) and reply.refusal in {Refusal.INTERNAL_FAULT, *lost}
    }
    wrong = [
        f"{question}: {reply}"
        for question, reply in after.items()
        if (
            not reply <= before[question]
            if isinstance(reply, frozenset)
            else reply != before[question]
        )
        and not (isinstance(reply, Refused) and reply.refusal in {Refusal.INTERNAL_FAULT, *lost})
    ]
    if len(refused) > 1 and column not in {"app_id", "name"}:
        wrong.append(f"{sorted(refused)} are refused together")
    if wrong:
        return Outcome("more", f"{column} of {table}, now {new!r}: {wrong[:3]}")
    try:
        shell.look_within(see_that_contents_are_sound)
    except StoreError:
        return Outcome("refused" if refused else "check alone")
    return Outcome("not found", f"{column} of {table} is {new!r}, and check is good")


def _put(
    shell: Shell, table: str, column: str, value: Any, where: dict[str, Any]
) -> bool:  # of a column
    """Write a column behind the back of the service; return whether the store keeps it."""
    marks = iter(range(2, 9))
    one = (lambda: "?") if sqlite(shell) else (lambda: f"${next(marks)}")
    condition = " AND ".join(f"{name} = {one()}" for name in where)
    first = "?" if sqlite(shell) else "$1"
    try:
        shell.connection.execute(
            f"UPDATE {table} SET {column} = {first} WHERE {condition}", (value, *where.values())
        )
    except (sqlite3.Error, psycopg.Error):
        return False
    return True


def sqlite(shell: Shell) -> bool:
    """Return whether the store is one of SQLite."""
    return type(shell) is Shell


def _flipped(random: Random, value: Any) -> Any:  # of a column
    """Return the value with another bit, in text one that a column of text can hold."""
    if isinstance(value, int):
        return value ^ 1 << random.randrange(value.bit_length())
    while True:
        content = bytearray(value.encode() if isinstance(value, str) else value)
        bit = random.randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
        if isinstance(value, bytes):
            return bytes(content)
        with suppress(UnicodeDecodeError):
            if (text := content.decode()).isprintable():
                return text


FLIPS: Final = {
    "rows": flip_rows,
    "rows of settings": flip_settings,
    "rows of transactions": flip_transactions,
}


@click.command(context_settings={"show_default": True})
@click.option("--seed", default=1, help="Of the contents and of the flips.")
@click.option(
    "--flips", default=1_000, help="In the file; in rows there are as many, some 21 at a time."
)
@click.option(
    "--postgres", default="", help="The address of an empty database: also flip rows there."
)
def main(*, seed: int, flips: int, postgres: str) -> None:
    """Flip bits of stores, one at a time, and see that nothing wrong is given out and nobody may do more."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reported = {"the file of SQLite": flip_file(seed, flips, folder)}
        stores = ("SQLite", "PostgreSQL") if postgres else ("SQLite",)
        for store, (what, flip) in product(stores, FLIPS.items()):
            sums = reported[f"{what} of {store}"] = Counter()
            while sum(n for one, n in sums.items() if one.word != "not flipped") < flips:
                seed += 1
                place: Any = folder / f"rows-{seed}.db" if store == "SQLite" else postgres
                with closing((Shell if store == "SQLite" else PostgresShell)(place)) as shell:
                    sums.update(flip(shell, seed))
                    if store == "PostgreSQL":
                        shell.connection.execute("DROP SCHEMA pubqueue CASCADE")
    for about, outcomes in reported.items():
        for outcome, count in outcomes.most_common():
            click.echo(f"{about}: {count} {outcome.word} {outcome.broken}".rstrip())
    sys.exit(any(outcome.broken for outcomes in reported.values() for outcome in outcomes))


if __name__ == "__main__":
    main()
