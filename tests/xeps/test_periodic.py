"""A schedule as a handler declares it, and as the service has stored it."""

from datetime import timedelta
from xml.etree.ElementTree import fromstring

import pytest

from pubqueue import Handlers
from pubqueue_xeps.periodic import MAX_PAYLOAD, Periodic

DECLARED = {"cron": "0 3 * * *", "node": "jobs", "id": "nightly"}


def periodic(**other):
    return Periodic(**(DECLARED | other))


def stored(**other):
    """Return how the service shows the schedule above."""
    return {
        "schedule": ("nightly",),
        "state": ("running",),
        "cron": ("0 3 * * *",),
        "zone": ("UTC",),
        "node": ("jobs",),
        "payload": ('<json xmlns="urn:xmpp:json:0">{"type":"nightly"}</json>',),
        "missed": ("once",),
        "priority": ("0",),
        "headers": ("schedule: nightly",),
    } | {name: (value,) for name, value in other.items()}


def test_what_is_stored_as_declared_is_the_same():
    assert periodic().is_as(stored())
    assert periodic(cron=" 0 3  * * * ").is_as(stored())
    assert periodic(ttl=timedelta(minutes=1), priority=5).is_as(stored(ttl="60", priority="5"))
    element = fromstring("<a:job xmlns:a='urn:example'/>")
    assert periodic(payload=element).is_as(stored(payload="<job xmlns='urn:example'></job>"))


@pytest.mark.parametrize(
    "other",
    [
        {"cron": "0 4 * * *"},
        {"zone": "Europe/Berlin"},
        {"node": "others"},
        {"payload": "<job xmlns='urn:example'/>"},
        {"payload": "<job xmlns='urn:exam"},
        {"missed": "skip"},
        {"priority": "1"},
        {"ttl": "60.0"},
        {"headers": "schedule: other"},
        {"group": "reports"},
    ],
    ids="".join,
)
def test_what_is_stored_otherwise_is_another(other):
    assert not periodic().is_as(stored(**other))


@pytest.mark.parametrize(
    ("wrong", "error", "sentence"),
    [
        ({"cron": ""}, ValueError, "The cron of a schedule must not be empty"),
        ({"node": None}, TypeError, "node is None; a schedule takes a text"),
        ({"id": " nightly"}, ValueError, "has spaces around it"),
        ({"id": "a\nb: c"}, ValueError, "or control characters"),
        ({"missed": "never"}, ValueError, "missed is 'never'; it takes one of once, skip, all"),
        ({"priority": 0.5}, ValueError, "priority is 0.5"),
        ({"ttl": -1}, ValueError, "ttl is -1"),
        ({"payload": MAX_PAYLOAD * "x"}, ValueError, "has more than 48,000 characters"),
        ({"payload": object()}, TypeError, "object"),
    ],
)
def test_what_can_be_no_schedule_is_refused(wrong, error, sentence):
    with pytest.raises(error, match=sentence):
        periodic(**wrong)


async def run(item: object) -> None:
    """Do nothing."""


def test_a_schedule_is_declared_once():
    app = Handlers()
    app.periodic("@daily", node="jobs", id="nightly")(run)
    with pytest.raises(ValueError, match="Two handlers declare the schedule 'nightly'"):
        app.periodic("@daily", node="others", id="nightly")(run)
    assert [(one.id, one.node) for one in app.schedules()] == [("nightly", "jobs")]
    assert (len(app), app.nodes) == (1, ("jobs",))
    with pytest.raises(TypeError, match="with a cron line, a node and an id"):
        app.periodic(run, node="jobs", id="other")
