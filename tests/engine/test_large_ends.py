"""However items end, one step ends only so many bytes of them: a store may free these in the commit, and all requests wait for it."""

import pytest
from harness.batches.facts import ANN, BOSS, JOBS, who
from harness.batches.queue_requests import a_queue, holds, joins, publishes, retracts, unlocks
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell
from harness.stores.store_contents import misweighed, recount

from pubqueue.engine.batch import MAX_FREED
from pubqueue.model.changes import RemoveItem
from pubqueue.model.decision import Cancelled
from pubqueue.model.entities import ItemId, Jid
from pubqueue.model.transactions import SWEPT_BYTES
from pubqueue.model.waits import AtDeadline
from pubqueue.rules.dead_letters import Cancel, Discard
from pubqueue.rules.declare import Declare
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure
from pubqueue.rules.seek import DropDone
from pubqueue.rules.settle import Outcome
from pubqueue.rules.trimming import DropDead

NAMES = "abcde"
SIZE = SWEPT_BYTES * 2 // 5
"""Bytes of each item: two of them are ended in one step."""
IN_STEPS = [2, 2, 1]


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    place = tmp_path / "queue.db"
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").address
    made = {"sqlite": Shell, "postgres": PostgresShell}[request.param](place)
    yield made
    for look in (recount, misweighed):
        assert made.look_within(look) == []
    made.close()


def puts(shell, *names, node=JOBS, **facts):
    for name in names:
        payload = b"<" + b"x" * (SIZE - 3) + b"/>"
        shell.do(publishes(name, node=node, payload=payload, **facts))


def queue(shell, **settings):
    shell.do(a_queue(max_payload_size=SIZE, **settings))


def sets(**settings):
    return Configure(who(BOSS), JOBS, Settings(settings))


def die(shell):
    shell.do(joins(ANN, 9))
    puts(shell, *NAMES)
    for name in NAMES:
        shell.do(unlocks(ANN, name, outcome=Outcome.REJECT, reason="no"))


def expiry(shell):
    queue(shell, expired="drop")
    puts(shell, *NAMES, ttl=1)
    shell.wait(2)
    return Expire()


def waiting(shell):
    queue(shell)
    shell.do(joins(ANN, 9))
    puts(shell, *NAMES)
    for name in NAMES:
        shell.do(holds(ANN, name, "paid", within=1, then=AtDeadline.DISCARD))
    shell.wait(2)
    return Expire()


def discarding(shell):
    queue(shell)
    die(shell)
    return Discard(who(BOSS), JOBS)


def dropping_dead(shell):
    queue(shell, dead_ttl=1)
    die(shell)
    shell.wait(5)
    return DropDead()


def dropping_done(shell):
    queue(shell, keep_done=True, done_ttl=1)
    shell.do(joins(ANN, 9))
    puts(shell, *NAMES)
    for name in NAMES:
        shell.do(retracts(ANN, name))
    shell.wait(5)
    return DropDone()


def cancelling(shell):
    queue(shell)
    puts(shell, *NAMES)
    return Cancel(who(BOSS), JOBS, tuple(map(ItemId, ("nothing", *NAMES))))


def truncating(shell):
    queue(shell, expired="truncate")
    puts(shell, *NAMES, "last")
    return sets(max_items=1)


def trimming_news(shell):
    settings = {"persist_items": True, "max_items": 9, "max_payload_size": SIZE}
    plain = Settings(settings | {"access_model": "open", "publish_model": "open"})
    shell.do(Declare(who(BOSS, admin=True), JOBS, plain, (Jid("boss@x"),)))
    puts(shell, *NAMES, "last")
    return sets(max_items=1)


WAYS = (
    *(expiry, waiting, discarding, dropping_dead, dropping_done),
    *(cancelling, truncating, trimming_news),
)


def removed(decision):
    return [change.item for change in decision.changes if isinstance(change, RemoveItem)]


def ended(shell, request, most=20):
    """Run a request, its steps, and what the clock has left for the next look; return how many items each step has ended."""
    found = []
    for _ in range(most):
        (decision,) = shell.batch(request).decisions
        gone = removed(decision)
        if gone:
            found.append(len(gone))
            assert sum(item.size for item in gone[:-1]) <= SWEPT_BYTES
        if decision.then is None and not (isinstance(request, Expire) and gone):
            return found
        request = decision.then or request
    raise AssertionError(found)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_step_ends_so_many_bytes_and_others_follow(way, shell):
    assert ended(shell, way(shell)) == IN_STEPS


def test_what_was_cancelled_in_steps_is_answered_as_a_whole(shell):
    queue(shell)
    shell.do(joins(ANN, 9))
    puts(shell, *NAMES)
    ids = tuple(map(ItemId, ("nothing", *NAMES)))
    reply = shell.do(Cancel(who(BOSS), JOBS, ids))
    assert reply == Cancelled(JOBS, len(NAMES), len(NAMES), (ItemId("nothing"),))


def test_a_batch_takes_no_further_request_once_it_has_ended_so_many_bytes(shell):
    queue(shell)
    shell.do(joins(ANN, 9))
    puts(shell, *NAMES)
    left, counts = [retracts(ANN, name) for name in NAMES], []
    while left:
        done = shell.batch(*left).decisions
        counts.append(len(done))
        left = left[len(done) :]
        assert sum(item.size for one in done[:-1] for item in removed(one)) <= MAX_FREED
    assert counts == [3, 2]
