"""Names of topics and subscriptions: total in both directions, and one for each node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.faces.grpc.wire import (
    MAX_BRIDGED,
    BadNameError,
    ResourceKind,
    is_bridged,
    name_of,
    node_of,
    of_tech,
    project_of,
    to_tech,
)

NODES = st.text(st.characters(exclude_categories=("C",)), min_size=1, max_size=60)
OWN = st.from_regex(
    r"projects/[a-z0-9][a-z0-9.:-]{0,9}/(topics|subscriptions)/[A-Za-z%~+._-]{1,9}\Z"
)


@given(NODES | OWN, st.sampled_from(ResourceKind))
def test_a_node_has_one_name_of_each_kind_and_the_name_leads_back(node, kind):  # G44
    name = name_of(node, kind)
    if len(name.split("/", 3)[3]) <= MAX_BRIDGED:
        assert node_of(name, kind) == node
    assert of_tech(to_tech(name, kind), kind) == name


@pytest.mark.parametrize("kind", ResourceKind)
def test_names_at_their_bounds(kind):  # G2
    for project in ("p", "0", "a" * 63, "p-1.x:y"):
        for own in ("abc", "a" * 255, "Ab0-_.~+%"):
            name = f"projects/{project}/{kind}/{own}"
            assert node_of(name, kind) == name
            assert name_of(name, kind) == name
            assert not is_bridged(name)
            assert project_of(name) == project


@pytest.mark.parametrize("kind", ResourceKind)
@pytest.mark.parametrize(
    "own", ["ab", "a" * 256, "1abc", "googabc", "a/bc", "a bc", "abc\n", "äbc", "", "a#c"]
)
def test_what_is_no_name(kind, own):  # G2
    with pytest.raises(BadNameError):
        node_of(f"projects/shop/{kind}/{own}", kind)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "orders",
        "projects/shop",
        "projects/Shop/topics/orders",
        "projects/-shop/topics/orders",
        f"projects/{'a' * 64}/topics/orders",
        "projects/shop/subscriptions/orders",
        "/topics/shop/orders",
        "projects/xmpp/topics/",
        "projects/xmpp/topics/a b",
        "projects/xmpp/topics/%61",
        "projects/xmpp/topics/%2f",
        "projects/xmpp/topics/%FF",
        f"projects/xmpp/topics/{'a' * 256}",
        "projects/xmpp/topics/projects%2Fshop%2Ftopics%2Forders",
    ],
)
def test_what_is_no_name_of_a_topic(name):  # G2
    with pytest.raises(BadNameError):
        node_of(name, ResourceKind.TOPIC)


def test_the_bridge_has_the_nodes_without_a_name_of_their_own():  # G44
    assert node_of("projects/xmpp/topics/jobs", ResourceKind.TOPIC) == "jobs"
    assert (
        node_of("projects/xmpp/subscriptions/replies%2Fa%40b", ResourceKind.SUBSCRIPTION)
        == "replies/a@b"
    )
    own = "projects/xmpp/topics/a"
    assert name_of(own, ResourceKind.TOPIC) == "projects/xmpp/topics/projects%2Fxmpp%2Ftopics%2Fa"


def test_forms_of_tech():
    assert of_tech("/topics/shop/orders", ResourceKind.TOPIC) == "projects/shop/topics/orders"
    assert of_tech("shop/bill", ResourceKind.SUBSCRIPTION) == "projects/shop/subscriptions/bill"
    assert (
        of_tech("/subscriptions/shop/bill", ResourceKind.SUBSCRIPTION)
        == "projects/shop/subscriptions/bill"
    )
    assert (
        of_tech("projects/shop/topics/orders", ResourceKind.TOPIC) == "projects/shop/topics/orders"
    )
    assert of_tech("shop/orders", ResourceKind.TOPIC) == "shop/orders", "of subscriptions alone"
    assert of_tech("/topics/shop/orders", ResourceKind.SUBSCRIPTION) == "/topics/shop/orders"
