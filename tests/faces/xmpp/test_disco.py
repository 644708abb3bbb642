"""What the service says that it does is what its parser has a request for."""

import re

import pytest
from harness.schema import validate
from harness.server import parse as tree

from pubqueue.core.model import AccessModel, Affiliation
from pubqueue.faces.xmpp import disco, ns
from pubqueue.faces.xmpp.parse import VERBS

P, O = ns.PUBSUB, ns.OWNER  # noqa: E741 - as the table of the parser calls them
# fmt: off
NEEDS = {
    "config-node":          ("set", O, f"{O} configure"),
    "create-nodes":         ("set", P, f"{P} create"),
    "create-and-configure": ("set", P, f"{P} create"),
    "instant-nodes":        ("set", P, f"{P} create"),
    "delete-nodes":         ("set", O, f"{O} delete"),
    "purge-nodes":          ("set", O, f"{O} purge"),
    "delete-items":         ("set", P, f"{P} retract"),
    "retract-items":        ("set", P, f"{P} retract"),
    "retrieve-items":       ("get", P, f"{P} items"),
    "publish":              ("set", P, f"{P} publish"),
    "item-ids":             ("set", P, f"{P} publish"),
    "multi-items":          ("set", P, f"{P} publish"),
    "subscribe":            ("set", P, f"{P} subscribe"),
    "subscription-options": ("set", P, f"{P} options"),
    "modify-affiliations":  ("set", O, f"{O} affiliations"),
    "manage-subscriptions": ("set", O, f"{O} subscriptions"),
    "retrieve-default":     ("get", O, f"{O} default"),
    "retrieve-default-sub": ("get", P, f"{P} default"),
    "retrieve-subscriptions": ("get", P, f"{P} subscriptions"),
    "retrieve-affiliations":  ("get", P, f"{P} affiliations"),
}
# fmt: on


def offered(key):
    """Say whether the parser does more with this request than to refuse the feature's name."""
    return not VERBS[key].__qualname__.startswith("_cannot")


@pytest.mark.parametrize(("feature", "key"), NEEDS.items())
def test_a_feature_is_offered_exactly_if_its_request_is_understood(feature, key):
    assert (feature in disco.PUBSUB_FEATURES) == offered(key)


@pytest.mark.parametrize("affiliation", set(Affiliation) - {Affiliation.OWNER, Affiliation.NONE})
def test_every_affiliation_is_offered(affiliation):
    assert f"{affiliation.value}-affiliation" in disco.PUBSUB_FEATURES


@pytest.mark.parametrize("word", ["open", "presence", "roster", "authorize", "whitelist"])
def test_the_access_models_offered_are_those_of_the_configuration(word):
    models = {model.value for model in AccessModel}
    assert (f"access-{word}" in disco.PUBSUB_FEATURES) == (word in models)


def test_features_are_sorted_single_and_valid():
    assert list(disco.PUBSUB_FEATURES) == sorted(set(disco.PUBSUB_FEATURES))
    info = disco.service_info()
    validate(tree(f"<iq type='result' id='1' from='queue.localhost' to='b@c'>{info}</iq>"))
    assert re.findall('feature var="([^"]+)"', info) == list(disco.FEATURES)
