"""Who is here: the last resource that leaves is the one that counts."""

from pubqueue.core.expire import Leave
from pubqueue.faces.xmpp.presence import Resources


def test_the_last_of_the_resources_that_were_seen_is_the_last():
    seen = Resources()
    assert seen.available("a@b/1")
    assert not seen.available("a@b/1")
    assert seen.available("a@b/2")
    assert seen.unavailable("a@b/1") == Leave("a@b/1", last=False)
    assert seen.unavailable("a@b/2") == Leave("a@b/2", last=True)
    assert seen.available("a@b/2")


def test_who_was_never_seen_is_not_the_last():
    seen = Resources()
    assert seen.unavailable("a@b/1") == Leave("a@b/1", last=False)
    seen.available("a@b/1")
    assert seen.unavailable("a@b/2") == Leave("a@b/2", last=False)
    assert seen.unavailable("a@b/1") == Leave("a@b/1", last=True)


def test_accounts_are_apart():
    seen = Resources()
    seen.available("a@b/1")
    seen.available("c@b/1")
    assert seen.unavailable("c@b/1").last
    assert seen.unavailable("a@b/1").last


def test_those_who_left_are_forgotten():
    seen = Resources()
    for n in range(1000):
        seen.available(f"a{n}@b/1")
        seen.unavailable(f"a{n}@b/1")
    assert seen._seen == {}
