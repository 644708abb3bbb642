from pubqueue_xeps.wire.requests.pages import EventPage, NodePage, ReadNode, Walk


def node(name):
    return ReadNode(name, 0, 0, 0, 0, 0, 0, None, {})


def test_a_walk_by_number_ends_where_the_listing_ended_when_it_began():
    walk = Walk(3)
    walk.take(EventPage((), oldest=1, newest=10, through=6, more=True))
    assert (walk.after, walk.until, walk.more) == (6, 10, True)
    walk.take(EventPage((), oldest=1, newest=12, through=10, more=False))
    assert (walk.after, walk.until, walk.more) == (10, 10, False)


def test_a_walk_by_name_goes_on_behind_the_last_one():
    walk = Walk[str | None](None)
    page = NodePage((node("a"), node("b")), more=True)
    assert walk.take(page) is page
    assert (walk.after, walk.more) == ("b", True)
    walk.take(NodePage((), more=False))
    assert not walk.more
