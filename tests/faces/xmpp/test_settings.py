"""What a reload can change of XMPP, as it is configured."""

from types import SimpleNamespace

from pubqueue.faces.xmpp.settings import QosSettings, XmppTerms
from pubqueue.rules.deliveries import Repeating


def of(qos):
    return XmppTerms.of(
        SimpleNamespace(
            settle_by_get=False,
            auto_creates=False,
            ping_after=7.0,
            qos=qos,
            administrators=lambda: ("boss@x",),
        )
    )


def test_they_are_as_configured():
    terms = of(QosSettings(enabled=True, attempts=3, retry_after=2.0, retry_longest=9.0))
    assert (terms.settle_by_get, terms.auto_creates, terms.ping_after) == (False, False, 7.0)
    assert terms.repeating == Repeating(3, 2.0, 9.0)


def test_without_levels_nothing_is_repeated():
    assert of(QosSettings(enabled=False)).repeating is None


def test_events_go_to_administrators_unless_others_are_named():
    assert of(QosSettings()).qos.events_to == ("boss@x",)
    assert of(QosSettings(events_to=("eve@x",))).qos.events_to == ("eve@x",)
