"""Who may set the source of a queue, to which nodes, and what ends feeding."""

from itertools import product

import pytest
from harness.batches.facts import BOSS, EVE, JOBS, plain, queue, who
from msgspec.structs import replace

from pubqueue.model.changes import ConfigureNode
from pubqueue.model.decision import Refusal
from pubqueue.model.entities import AccessModel, Affiliation, Feed, Jid, NodeConfig, NodeName
from pubqueue.rules.access import Other, Others
from pubqueue.rules.feed import (
    MAX_FED,
    Feeder,
    attached,
    detached,
    forbidden,
    may_feed,
    reconsidered,
    unfit,
)

NEWS = NodeName("news")
FED = NodeConfig(queueing=True, source=NEWS)
UNFED = NodeConfig(queueing=True)
MINE = Feed(JOBS, Jid("boss@x"))


def topic(*feeds, name=NEWS, **config):
    return replace(plain(feeds=feeds, **config), name=name)


def others(*nodes, affiliation=Affiliation.NONE, subscribed=False):
    return Others({node.name: Other(node, affiliation, subscribed) for node in nodes})


# the access model of the plain node -> what an account has to be to have a queue fed, if it does not subscribe; if it does
MEMBERS = {Affiliation.OWNER, Affiliation.PUBLISHER, Affiliation.MEMBER}
MAY = {
    AccessModel.OPEN: (MEMBERS | {Affiliation.NONE}, MEMBERS | {Affiliation.NONE}),
    AccessModel.AUTHORIZE: (MEMBERS, MEMBERS | {Affiliation.NONE}),
    AccessModel.PRESENCE: (MEMBERS, MEMBERS),
    AccessModel.ROSTER: (MEMBERS, MEMBERS),
    AccessModel.WHITELIST: (MEMBERS, MEMBERS),
}


def test_accounts_that_may_set_a_source():
    answers, expected = {}, {}
    for cell in product(AccessModel, Affiliation):
        model, affiliation = cell
        node = topic(access_model=model)
        asked = [(who(EVE), False), (who(EVE), True), (who(EVE, admin=True), False)]
        answers[cell] = [may_feed(by, affiliation, node, subscribed=it) for by, it in asked]
        expected[cell] = [*(affiliation in known for known in MAY[model]), True]
    assert answers == expected


@pytest.mark.parametrize(
    ("after", "there", "said"),
    [
        (NodeConfig(source=NEWS), topic(), "only a queue has a source"),
        (FED, None, "there is no node 'news'"),
        (FED, queue(name=NEWS), "'news' is a queue, and only a plain node feeds queues"),
        (FED, topic(*[MINE] * MAX_FED), "'news' feeds 100 queues already, and no more"),
        (FED, topic(*[MINE] * (MAX_FED - 1)), None),
        (UNFED, None, None),
    ],
)
def test_nodes_that_can_be_a_source(after, there, said):
    no = unfit(JOBS, UNFED, after, others(*filter(None, [there])))
    assert (None if no is None else no.reason) == (None if said is None else f"source: {said}")
    assert no is None or (no.refusal, no.setting) == (Refusal.INVALID_CONFIG, "source")


def test_a_node_is_not_its_own_source():
    assert unfit(JOBS, NodeConfig(), replace(FED, source=JOBS), others(plain())) is not None


def test_a_source_that_stays_is_not_judged_again():
    assert unfit(JOBS, FED, replace(FED, title="x"), others()) is None
    assert forbidden(who(EVE), FED, FED, others()) is None


def test_an_account_that_may_not_subscribe_to_the_source_is_refused():
    closed = topic(access_model=AccessModel.WHITELIST)
    no = forbidden(who(EVE), UNFED, FED, others(closed))
    assert (no.refusal, no.reason) == (
        Refusal.FORBIDDEN,
        "source: you may not subscribe to 'news'",
    )
    assert forbidden(who(EVE), UNFED, FED, others(closed, affiliation=Affiliation.MEMBER)) is None


def test_plain_nodes_keep_the_queues_they_feed_and_the_accounts_that_set_it():
    other = Feed(NodeName("other"), Jid("eve@x"))
    old, new = topic(other, MINE), topic(other, name=NodeName("new"))
    assert attached(who(BOSS), JOBS, FED, FED, others()) == ()
    assert attached(who(BOSS), JOBS, UNFED, FED, others(topic())) == (
        ConfigureNode(NEWS, topic(MINE).config),
    )
    assert attached(who(BOSS), JOBS, FED, UNFED, others(old)) == (
        ConfigureNode(NEWS, topic(other).config),
    )
    moved = attached(who(BOSS), JOBS, FED, replace(FED, source="new"), others(old, new))
    assert moved == (
        ConfigureNode(NEWS, topic(other).config),
        ConfigureNode(NodeName("new"), topic(other, MINE).config),
    )


def test_a_deleted_node_feeds_none_and_is_fed_by_none():
    fed = replace(queue(), config=FED)
    assert detached(fed, others(topic(MINE))) == (ConfigureNode(NEWS, topic().config),)
    assert detached(topic(MINE), others(fed)) == (ConfigureNode(JOBS, UNFED),)
    assert detached(topic(), others()) == detached(queue(), others()) == ()


def test_feeding_ends_when_the_right_to_subscribe_is_lost():
    eves = Feed(NodeName("hers"), Jid("eve@x"))
    hers = replace(queue(name="hers"), config=FED)
    feeders = [
        Feeder(replace(queue(), config=FED), MINE, who("boss@x"), Affiliation.OWNER),
        Feeder(hers, eves, who("eve@x"), Affiliation.MEMBER),
    ]
    node = topic(MINE, eves, access_model=AccessModel.WHITELIST)
    ended = (
        ConfigureNode(NodeName("hers"), UNFED),
        ConfigureNode(NEWS, replace(node.config, feeds=(MINE,))),
    )
    assert reconsidered(node, feeders, {}) == ()
    assert reconsidered(node, feeders, {Jid("eve@x"): Affiliation.NONE}) == ended
    assert reconsidered(node, feeders, {Jid("eve@x"): Affiliation.PUBLISH_ONLY}) == ended
    strangers = [feeders[0], Feeder(hers, eves, who("eve@x"), Affiliation.NONE)]
    assert reconsidered(node, strangers, {}) == ended
