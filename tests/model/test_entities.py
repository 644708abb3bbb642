"""TODO"""

import pytest
from harness.batches.facts import NOW

from pubqueue.model.entities import Jid, Principal, account_of, covers, digest, later, seconds


@pytest.mark.parametrize(
    ("jid", "expected"),
    [("ann@x/1", "ann@x"), ("ann@x", "ann@x"), ("x/1/2", "x"), ("ann@x/a/b@c", "ann@x")],
)
def test_a_bare_jid_ends_at_the_first_slash(jid, expected):
    assert account_of(Jid(jid)) == expected


@pytest.mark.parametrize(
    ("subscribed", "principal", "expected"),
    [
        ("ann@x", "ann@x/1", True),
        ("ann@x", "ann@x", True),
        ("ann@x/1", "ann@x/1", True),
        ("ann@x/1", "ann@x/2", False),  # XEP-0060 6.1.6: two entities
        ("ann@x/1", "ann@x", False),
        ("ann@x", "anna@x/1", False),
        ("ann@x", "bob@x/1", False),
    ],
)
def test_a_bare_subscription_is_managed_by_every_resource_and_a_full_one_by_itself(
    subscribed, principal, expected
):
    assert covers(Jid(subscribed), Jid(principal)) is expected


def test_an_asker_acts_for_an_account():
    assert Principal(Jid("ann@x/1")).account == "ann@x"


def test_spans_are_milliseconds():
    assert later(NOW, seconds(1.5)) == NOW + 1500


def test_a_digest_stands_for_its_payload():
    assert digest(b"<a/>") == digest(b"<a/>") != digest(b"<b/>")
    assert len(digest(b"")) == 16
