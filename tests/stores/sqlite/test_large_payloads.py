"""A large payload is written once, whatever becomes of its item, comes back whole, and goes with the item."""

from contextlib import closing

import pytest
from click.testing import CliRunner
from harness.batches.facts import ANN, BOSS, JOBS, after, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, touches, unlocks
from harness.batches.shell import Shell
from harness.batches.transactions import MORE, NEWS, commits, in_slices, stages, sweep
from harness.stores.recount import WRONG

from pubqueue.cli import stores
from pubqueue.engine.ports import StoreError
from pubqueue.model.decision import Done, Refused
from pubqueue.model.transactions import OnTaken
from pubqueue.rules.dead_letters import Redrive
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Create, Delete, Purge
from pubqueue.rules.seek import DropDone, Seek
from pubqueue.rules.settle import Outcome
from pubqueue.stores import run_read_only
from pubqueue.stores.sql.session import MOST_IN_ROW
from pubqueue.wiring.checking import see_that_contents_are_sound

SMALL = b"<job/>"
LARGE, OTHER = (
    b"<%s>" % name + b"x" * MOST_IN_ROW + b"</%s>" % name for name in (b"job", b"other")
)
HUGE = b"<job>" + b"x" * (7 << 20) + b"</job>"
FEW = 200_000
"""Bytes of the log for some pages of the table and of its indexes."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "queue.db"


@pytest.fixture
def shell(path):
    shell = Shell(path)
    shell.do(a_queue(keep_done=1, item_expire=1_000, max_payload_size=8 << 20))
    shell.do(Create(who(BOSS, admin=True), NEWS, Settings({"access_model": "open"})))
    yield shell
    assert [row for query in WRONG for row in shell.connection.execute(query)] == []
    shell.close()
    checks(path)


def checks(path):
    run_read_only(f"sqlite:///{path}", see_that_contents_are_sound)


def apart(shell):
    """Return how many payloads are not in the rows of their items."""
    return shell.connection.execute("SELECT count(*) FROM large_payload").fetchone()[0]


def payloads(shell, node=JOBS):
    return shell.look(lambda tx: [payload for _, payload in tx.contents(node)])


def back_in_its_row(shell):
    """Store large payloads as an earlier version did."""
    for table in ("item", "done_item"):
        shell.connection.execute(
            f"UPDATE {table} SET payload = (SELECT payload FROM large_payload l WHERE l.seq = {table}.seq)"
            " WHERE length(payload) = 0"
        )
    shell.connection.execute("DELETE FROM large_payload")


def test_no_change_of_state_writes_a_large_payload_again(shell, path):
    def written(request):
        shell.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert not isinstance(reply := shell.do(request), Refused), reply
        return path.with_name(f"{path.name}-wal").stat().st_size

    shell.connection.execute("PRAGMA wal_autocheckpoint = 0")
    assert written(publishes("a", payload=HUGE)) > len(HUGE)
    changes = {
        "lock": joins(ANN),
        "touch": touches(ANN, "a"),
        "release": unlocks(ANN, "a"),
        "lock again": Expire(),
        "keep as done": retracts(ANN, "a"),
        "bring back, and lock": Seek(who(BOSS), JOBS, after(-1)),
        "fail": unlocks(ANN, "a", outcome=Outcome.FAILED),
        "lock once more": Expire(),
        "die": unlocks(ANN, "a", outcome=Outcome.REJECT),
    }
    found = {}
    for name, request in changes.items():
        shell.wait(5)
        found[name] = written(request)
    assert {name: 0 < count < FEW for name, count in found.items()} == dict.fromkeys(changes, True)
    assert payloads(shell) == [HUGE]


def test_each_payload_comes_as_it_was_published(shell):
    shell.do(publishes("a", payload=LARGE))
    shell.do(publishes("b", payload=SMALL))
    came = [one.payload for one in shell.batch(joins(ANN, 9)).deliveries]
    assert (came, apart(shell)) == ([LARGE, SMALL], 1)


@pytest.mark.parametrize("in_row", [False, True], ids=["apart", "of an earlier version"])
def test_it_is_kept_and_comes_back(shell, in_row):
    shell.do(publishes("a", payload=LARGE))
    shell.batch(joins(ANN, 9))
    if in_row:
        back_in_its_row(shell)
    shell.do(retracts(ANN, "a"))
    assert (payloads(shell), apart(shell)) == ([], 0 if in_row else 1)
    shell.do(Seek(who(BOSS), JOBS, after(-1)))
    assert payloads(shell) == [LARGE]
    shell.do(retracts(ANN, "a"))
    shell.now = after(2_000)
    shell.do(DropDone())
    sweep(shell)
    assert apart(shell) == 0


@pytest.mark.parametrize("first", [SMALL, LARGE])
@pytest.mark.parametrize("then", [SMALL, LARGE, OTHER])
@pytest.mark.parametrize("way", ["publish", "commit"])
def test_another_publish_replaces_it(shell, way, first, then):
    shell.do(publishes("a", payload=first))
    if way == "publish":
        shell.do(publishes("a", payload=then))
    else:
        shell.do(stages("a", payload=then))
        shell.do(commits((0, 0, 1)))
    assert (payloads(shell), apart(shell)) == ([then], int(then != SMALL))


@pytest.mark.parametrize("then", [SMALL, OTHER])
def test_what_is_replaced_and_done_in_one_batch_is_kept_with_its_new_payload(shell, then):
    shell.do(publishes("a", payload=LARGE))
    shell.batch(publishes("a", payload=then), joins(ANN, 9))
    shell.do(retracts(ANN, "a"))
    assert apart(shell) == int(then == OTHER)
    shell.do(Seek(who(BOSS), JOBS, after(-1)))
    assert payloads(shell) == [then]


def overwrites(shell):
    shell.do(publishes("a", node=NEWS, by=BOSS, payload=LARGE))
    shell.do(publishes("a", node=NEWS, by=BOSS, payload=SMALL))


def purges(shell):
    shell.do(Purge(who(BOSS), JOBS))
    sweep(shell)


def deletes(shell):
    shell.do(Delete(who(BOSS), JOBS))
    sweep(shell)


def cancels(shell):
    shell.do(retracts(BOSS, "a"))
    shell.do(Seek(who(BOSS), JOBS, after(1_000)))
    shell.now = after(9_000)
    shell.do(DropDone())


@pytest.mark.parametrize("end", [overwrites, purges, deletes, cancels])
def test_it_goes_with_its_item(shell, end):
    if end is not overwrites:
        shell.do(publishes("a", payload=LARGE))
        assert apart(shell) == 1
    end(shell)
    sweep(shell)
    assert apart(shell) == 0


def test_payloads_of_items_that_are_gone_are_dropped_by_slices_of_bytes(shell):
    for at in range(5):
        shell.do(publishes(f"{at}", payload=HUGE))
    shell.do(Purge(who(BOSS), JOBS))
    left = []
    while not left or left[-1]:
        assert shell.look(lambda tx: tx.next_due()) == 0
        assert shell.do(Expire()) == Done()
        left.append(apart(shell))
    assert left == [2, 0], "three of 7 MB are more than 16"
    assert shell.look(lambda tx: tx.next_due()) is None


def test_what_came_back_before_the_sweep_stays(shell):
    shell.do(publishes("a", payload=LARGE))
    shell.connection.execute("INSERT INTO large_payload_gone SELECT seq FROM large_payload")
    sweep(shell)
    assert (payloads(shell), apart(shell)) == ([LARGE], 1)


def test_a_dead_item_has_it_in_every_queue_to_which_it_goes(shell):
    shell.do(a_queue(MORE))
    shell.do(Configure(who(BOSS), JOBS, Settings({"max_failures": 1, "dead_letter_node": MORE})))
    shell.do(publishes("a", payload=LARGE))
    shell.batch(joins(ANN))
    shell.do(unlocks(ANN, "a", outcome=Outcome.FAILED))
    assert (payloads(shell), payloads(shell, MORE), apart(shell)) == ([], [LARGE], 1)
    assert shell.do(Redrive(who(BOSS, admin=True), MORE)).count == 1
    assert (payloads(shell) + payloads(shell, MORE), apart(shell)) == ([LARGE], 1)


@pytest.mark.parametrize("slices", [False, True])
def test_winners_have_it_wherever_they_are_published(shell, monkeypatch, slices):
    if slices:
        in_slices(monkeypatch)
    shell.do(a_queue(MORE))
    shell.do(publishes("dead", "same", payload=LARGE))
    shell.batch(joins(ANN, 1))
    for part, payload in enumerate((LARGE, OTHER)):  # the later part counts
        shell.do(stages("a", part=part, payload=payload))
    shell.do(stages("small", part=1))
    shell.do(stages("dead", part=1, payload=OTHER))
    shell.do(stages("same", part=1, payload=LARGE))
    asked = {"on_taken": OnTaken.DEAD_LETTER, "dead_letter_node": MORE}
    shell.do(commits((0, 0, 1), (1, 0, 4), **asked))
    assert sorted(payloads(shell)) == sorted([LARGE, LARGE, OTHER, SMALL])
    assert (payloads(shell, MORE), apart(shell)) == ([OTHER], 4)


@pytest.mark.parametrize("in_row", [False, True], ids=["apart", "of an earlier version"])
def test_a_copy_has_it_apart(path, tmp_path, in_row):
    with closing(Shell(path)) as shell:
        shell.do(a_queue())
        shell.do(publishes("a", payload=LARGE))
        if in_row:
            back_in_its_row(shell)
    result = CliRunner().invoke(
        stores.migrate, [f"sqlite:///{path}", f"sqlite:///{tmp_path}/other.db"]
    )
    assert result.exit_code == 0, result.output
    checks(tmp_path / "other.db")
    with closing(Shell(tmp_path / "other.db")) as shell:
        assert (payloads(shell), apart(shell)) == ([LARGE], 1)


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("DELETE FROM large_payload", "the stored content of 1 items is damaged: a of jobs"),
        ("UPDATE large_payload SET seq = 77", "is damaged: 1 large payloads belong to no item"),
        ("INSERT INTO large_payload VALUES (77, x'00')", "1 large payloads belong to no item"),
    ],
)
def test_the_check_finds_what_belongs_to_nothing(path, damage, found):
    with closing(Shell(path)) as shell:
        shell.do(a_queue())
        shell.do(publishes("a", payload=LARGE))
        shell.connection.execute(damage)
    with pytest.raises(StoreError, match=found):
        checks(path)


def test_an_item_that_lost_it_is_not_delivered(path):
    with closing(Shell(path)) as shell:
        shell.do(a_queue())
        shell.do(publishes("a", "b", payload=LARGE))
        shell.connection.execute("DELETE FROM large_payload WHERE seq = 1")
        given = [one.item.id for one in shell.batch(joins(ANN, 9)).deliveries]
        assert (given, set(shell.damaged)) == (["b"], {1})


def test_a_batch_with_large_payloads_gives_back_the_pages_that_they_have_filled(shell):
    """SQLite would keep up to 64 MiB of them, in which nothing else is left. Whatever reads, writes or drops them."""

    def shrinks(*requests):
        said = []
        shell.connection.set_trace_callback(said.append)
        shell.batch(*requests)
        shell.connection.set_trace_callback(None)
        return "PRAGMA shrink_memory" in said

    assert not shrinks(publishes("a", payload=LARGE))
    assert shrinks(publishes("b", payload=HUGE))
    assert payloads(shell) == [LARGE, HUGE]
    assert shrinks(joins(ANN, 9)), "it is delivered"
    assert not shrinks(retracts(ANN, "a", "b"))
    shell.do(Purge(who(BOSS), JOBS))
    shell.do(Configure(who(BOSS), JOBS, Settings({"keep_done": False})))
    shell.do(DropDone())
    assert shrinks(Expire()), "it is dropped"
    assert apart(shell) == 0
