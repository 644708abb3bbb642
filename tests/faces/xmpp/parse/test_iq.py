"""JIDs as they are read."""

import pytest

from pubqueue.faces.xmpp.parse.iq import jid_of


@pytest.mark.parametrize(
    ("text", "jid"),
    [
        ("Bee@LocalHost/One", "bee@localhost/One"),
        ("localhost", "localhost"),
        ("bee@localhost/a/b@c", "bee@localhost/a/b@c"),
        ("", None),
        ("@localhost", None),
        ("bee@", None),
        ("bee@localhost/", None),
        ("be e@localhost", None),
        ("b" * 1024 + "@localhost", None),
        ("bee@" + "h" * 1024, None),
        ("bee@localhost/" + "r" * 1024, None),
        ("x" * 200_000, None),
    ],
)
def test_a_jid_is_normalised_or_none(text, jid):
    assert jid_of(text) == jid
