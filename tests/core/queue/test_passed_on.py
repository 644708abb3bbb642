"""A dead item that a transient node passes on to all queues that it feeds."""

import pytest
from harness.batches.facts import ETL, JOBS, held, plain, queue, who

from pubqueue.model.entities import Affiliation, Feed, Jid, NodeName
from pubqueue.rules.expire import Heritage, Owner, admitting, passes_on, refusal

BOSS = Jid("boss@x")


def topic(*fed, **config):
    feeds = tuple(Feed(NodeName(name), BOSS) for name in fed)
    return plain(feeds=feeds, **{"persist_items": False} | config)


def test_a_node_that_keeps_no_items_passes_it_on():  # grpc G35
    assert passes_on(topic("dead"))
    assert passes_on(topic())
    assert not passes_on(topic("dead", persist_items=True))
    assert not passes_on(queue(name="dead", persist_items=False))


def test_an_item_goes_to_queues_whose_filters_match():  # grpc G35
    all_, some = queue(name="all"), queue(name="some", filter="headers:k")
    assert admitting((all_, some), held()) == (all_,)
    assert admitting((all_, some), held(headers=(("k", "v"),))) == (all_, some)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, ""),
        ({"filter": "headers:k"}, "filter"),
        ({"publish_paused": True}, "paused"),
        ({"max_payload_size": 1}, "payload too big"),
    ],
)
def test_the_queue_takes_what_it_takes_of_any_publisher(config, why):  # grpc G35
    to = queue(name="dead", source="topic", **config)
    origin = queue(dead_letter_node=JOBS, dead_letter_meant="")
    owner = Owner(who(ETL), Affiliation.OWNER)
    found = refusal(
        Heritage(origin, topic("dead"), (owner,), {BOSS, *map(Jid, (ETL, "boss@x"))}, (to,)),
        held(group="customer-17"),
        10,
        "",
    )
    assert (why in found) if why else found == ""


def test_without_such_a_queue_it_stays():  # grpc G35
    owner = Owner(who(ETL), Affiliation.OWNER)
    origin = queue(dead_letter_node=JOBS)
    place = topic()
    found = refusal(Heritage(origin, place, (owner,), {place.creator}), held(), 10, "")
    assert found == "it does not keep items"


def test_items_beyond_one_commit_stay():  # grpc G35
    owner, origin = Owner(who(ETL), Affiliation.OWNER), queue(dead_letter_node=JOBS)
    place, size = topic(*"abcd", max_payload_size=10 << 20), 10 << 20
    to = tuple(queue(name=name, max_payload_size=size) for name in "abcd")
    for count, fits in ((4, True), (5, False)):
        heritage = Heritage(origin, place, (owner,), {place.creator}, (*to, to[0])[:count])
        assert (refusal(heritage, held(), size, "") == "") is fits
