"""Caches between batches are limited in bytes, because strangers choose the length of names and addresses."""

from harness.batches.facts import BOSS, EVE, JOBS, who
from harness.batches.queue_requests import a_queue, publishes

from pubqueue.engine import writes
from pubqueue.engine.rows import AFFILIATIONS
from pubqueue.model.entities import NodeName, account_of
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Delete


def remembered(cache):
    """Return the bytes of names of nodes, and of accounts."""
    nodes = sum(map(len, cache.nodes))
    return nodes + sum(len(node) + len(account) for node, account in cache.of[AFFILIATIONS])


def test_missing_nodes_and_their_requesters_are_forgotten_in_time(shell, monkeypatch):
    monkeypatch.setattr(writes, "MAX_BYTES", 40_000)
    most = 0
    for number in range(60):
        name = NodeName(f"{number:0>1000}")
        stranger = who(f"{number:0>900}@{EVE}")
        shell.batch(Configure(stranger, name, Settings({})), Delete(stranger, name))
        most = max(most, remembered(shell.rows.cache))
    assert (
        20_000 < most <= 44_000
    )  # of 174,000 that were named; a batch may go beyond by what it has named itself


def test_the_accounts_of_addresses_that_are_remembered_are_as_many_as_fit():
    longest = 3071 + 2047  # RFC 7622 3.2 to 3.4: a full JID, and its account
    assert account_of.cache_info().maxsize * longest <= 40 << 20


def test_the_items_of_a_node_are_remembered_only_while_it_is_transient(shell):
    transient, persistent = ({"persist_items": value, "max_items": 9} for value in (False, True))
    shell.do(a_queue(queueing=False, **transient))
    shell.batch(publishes("a"))
    assert [one.id for one in shell.rows.cache.whole[JOBS].values()] == ["a"]
    shell.do(Configure(who(BOSS), JOBS, Settings(persistent)))
    shell.batch(*map(publishes, "bcd"))
    assert not shell.rows.cache.whole


class CountedName(str):
    """A name that counts how often its hash is taken, which is once for each look at it."""

    __slots__ = ()
    looks = 0

    def __hash__(self):
        CountedName.looks += 1
        return super().__hash__()


def test_what_a_batch_has_counted_is_compared_with_no_other_node_that_is_remembered():
    cache, counters = writes.RowCache(), writes.Counters()
    cache.nodes.update((CountedName(f"queue{number}"), None) for number in range(1_000))
    counters.item(CountedName("queue3"), 1, 10)
    CountedName.looks = 0
    assert counters.needs(cache) is None
    assert CountedName.looks < 10
    counters.item(CountedName("another"), 1, 10)
    assert counters.needs(cache).nodes == {"another"}
