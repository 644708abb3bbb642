"""What the service says that it does is what its parser has a request for."""

import re

import pytest
from harness.batches.facts import plain, queue
from harness.servers.stub_server import parse as tree
from harness.stanzas.schema import validate

from pubqueue.faces.xmpp.render import disco
from pubqueue.faces.xmpp.requests import VERBS
from pubqueue.model.entities import AccessModel, Affiliation
from pubqueue.model.replies import Described
from pubqueue.rules.access import OF_ROSTERS
from pubqueue.rules.nodeconfig import SETTINGS
from pubqueue_xeps.wire import ns

P, O = f"{ns.PUBSUB} pubsub", f"{ns.OWNER} pubsub"  # noqa: E741 - as the table of the parser calls them
# fmt: off
NEEDS = {
    "config-node":          ("set", O, f"{ns.OWNER} configure"),
    "create-nodes":         ("set", P, f"{ns.PUBSUB} create"),
    "create-and-configure": ("set", P, f"{ns.PUBSUB} create"),
    "instant-nodes":        ("set", P, f"{ns.PUBSUB} create"),
    "delete-nodes":         ("set", O, f"{ns.OWNER} delete"),
    "purge-nodes":          ("set", O, f"{ns.OWNER} purge"),
    "delete-items":         ("set", P, f"{ns.PUBSUB} retract"),
    "retract-items":        ("set", P, f"{ns.PUBSUB} retract"),
    "retrieve-items":       ("get", P, f"{ns.PUBSUB} items"),
    "publish":              ("set", P, f"{ns.PUBSUB} publish"),
    "item-ids":             ("set", P, f"{ns.PUBSUB} publish"),
    "multi-items":          ("set", P, f"{ns.PUBSUB} publish"),
    "subscribe":            ("set", P, f"{ns.PUBSUB} subscribe"),
    "subscription-options": ("set", P, f"{ns.PUBSUB} options"),
    "modify-affiliations":  ("set", O, f"{ns.OWNER} affiliations"),
    "manage-subscriptions": ("set", O, f"{ns.OWNER} subscriptions"),
    "retrieve-default":     ("get", O, f"{ns.OWNER} default"),
    "retrieve-default-sub": ("get", P, f"{ns.PUBSUB} default"),
    "retrieve-subscriptions": ("get", P, f"{ns.PUBSUB} subscriptions"),
    "retrieve-affiliations":  ("get", P, f"{ns.PUBSUB} affiliations"),
}


# fmt: on


def offered(key):
    """Say whether the parser does more with this request than to refuse the feature's name."""
    return not VERBS[key].read.__qualname__.startswith("_unsupported")


def test_a_feature_is_offered_exactly_if_its_request_is_understood():
    understood = {feature for feature, key in NEEDS.items() if offered(key)}
    assert understood == NEEDS.keys() & set(disco.PUBSUB_FEATURES)


@pytest.mark.parametrize("affiliation", set(Affiliation) - {Affiliation.OWNER, Affiliation.NONE})
def test_every_affiliation_is_offered(affiliation):
    assert f"{affiliation.value}-affiliation" in disco.PUBSUB_FEATURES


def info(**settings):
    usual = {"auto_creates": False, "rosters": False, "carries": False}
    return disco.service_info(disco.features_for(**usual | settings))


@pytest.mark.parametrize("word", ["open", "presence", "roster", "authorize", "whitelist"])
def test_the_access_models_offered_are_those_of_the_configuration(word):
    granted, usual = info(rosters=True), info()
    assert f"#access-{word}" in granted
    assert (f"#access-{word}" in usual) == (AccessModel(word) not in OF_ROSTERS)


def test_features_are_sorted_single_and_valid():
    assert list(disco.PUBSUB_FEATURES) == sorted(set(disco.PUBSUB_FEATURES))
    said = info()
    validate(tree(f"<iq type='result' id='1' from='queue.localhost' to='b@c'>{said}</iq>"))
    assert re.findall('feature var="([^"]+)"', said) == list(disco.FEATURES)


@pytest.mark.parametrize("kept", [True, False])
def test_a_node_that_keeps_a_log_announces_it(kept):
    info = disco.node_info(Described(queue(event_log=kept)), "").decode()
    assert ('<feature var="urn:x-pubqueue:0#events"/>' in info) == kept


def test_several_subscriptions_are_offered_because_a_node_can_be_configured_so():
    assert "multi_subscribe" in SETTINGS
    assert disco.MULTI_SUBSCRIBE in disco.FEATURES


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (plain(), False),
        (plain(multi_subscribe=True), True),
        (queue(), False),
        (queue(multi_subscribe=True), False),  # as stored before it became one
    ],
)
def test_a_node_that_allows_several_subscriptions_announces_it(node, said):
    info = disco.node_info(Described(node), "").decode()
    assert (disco.MULTI_SUBSCRIBE in info) == said


def test_auto_create_is_announced_if_it_is_on():
    """XEP-0060 7.1.4: it MUST be listed."""
    said = [disco.AUTO_CREATE in info(auto_creates=it) for it in (True, False)]
    assert said == [True, False]
