"""Nodes delete their dead items by age and by number: those that died there or were moved there, but none that a worker holds."""

from harness.batches.facts import ANN, BOB, BOSS, JOBS, after, who
from harness.batches.queue_requests import a_queue, joins, publishes, unlocks

from pubqueue.engine import listings
from pubqueue.engine.facts import reading
from pubqueue.model.entities import ItemId, NodeName, State
from pubqueue.rules.inspect import ReadHistory
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure
from pubqueue.rules.read import ReadItems
from pubqueue.rules.settle import Outcome
from pubqueue.rules.trimming import DropDead

OWNER = who(BOSS)
GRAVES = NodeName("graves")


def dies(shell, *names, node=JOBS):
    """Publish these to a worker that rejects them, a second after the other."""
    for name in names:
        shell.now = after((shell.now - after(0)) / 1000 + 1)
        shell.do(publishes(name, node=node))
        shell.do(unlocks(ANN, name, node=node, outcome=Outcome.REJECT, reason="no"))


def dead(shell, node=JOBS):
    page = shell.do(ReadItems(OWNER, node, state=State.DEAD, payloads=False))
    return [entry.item.id for entry in page.entries]


def sets(shell, node=JOBS, **settings):
    shell.do(Configure(OWNER, node, Settings(settings)))


def test_the_oldest_deaths_go_by_their_age_and_by_their_number(shell, monkeypatch):
    monkeypatch.setattr(reading, "DEAD_SLICE", 2)
    shell.do(a_queue(event_log=True))
    shell.do(joins(ANN, 9))
    dies(shell, "a", "b", "c", "d", "e")
    shell.do(DropDead())
    assert dead(shell) == ["a", "b", "c", "d", "e"]
    sets(shell, dead_max=4)
    shell.do(DropDead())
    assert dead(shell) == ["b", "c", "d", "e"]
    sets(shell, dead_ttl=10)
    shell.now = after(13.5)
    shell.do(DropDead())
    assert dead(shell) == ["d", "e"]  # they died after 4 and 5 seconds
    sets(shell, dead_ttl="", dead_max=1)
    shell.do(DropDead())
    assert dead(shell) == ["e"]
    last = shell.do(ReadHistory(OWNER, JOBS, ItemId("a"))).steps[-1].event
    assert (last.kind.value, last.detail) == (
        "retracted",
        "dead for longer than it is kept, or too many dead items",
    )


def test_dead_letters_go_where_they_are_but_not_from_a_worker(shell):
    shell.do(a_queue(GRAVES, dead_ttl=10))
    shell.do(a_queue(dead_letter_node="graves"))
    shell.batch(joins(ANN, 9), joins(BOB, 1, node=GRAVES))
    dies(shell, "a", "b")
    shell.now = after(60)
    shell.do(publishes("lives", node=GRAVES))
    shell.do(DropDead())
    assert dead(shell, GRAVES) == ["a"]  # Bob holds it
    live = shell.do(ReadItems(OWNER, GRAVES, payloads=False)).entries
    assert [entry.item.id for entry in live] == ["a", "lives"]


def test_only_nodes_with_a_limit_are_looked_at(shell):
    shell.do(a_queue(title='"dead_ttl":9'))
    for name in ("b", "a", "c"):
        shell.do(a_queue(NodeName(name), **({"dead_max": 1} if name < "c" else {"dead_ttl": 9})))
    sets(shell, NodeName("b"), dead_max="")

    def look(tx):
        return tx.page(listings.DroppingDead(), None, 9), tx.page(listings.DroppingDead(), "a", 9)

    assert shell.transact(look) == (["a", "c"], ["c"])
