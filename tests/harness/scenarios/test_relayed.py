import pytest
from harness.scenarios import relayed
from harness.servers.stub_server import parse

JID = "bee@localhost/x"
SENT = (
    "<message from='queue.localhost' to='bee@localhost/x' id='m'><event xmlns='urn:e'/></message>"
)


@pytest.mark.parametrize(
    "raw",
    [
        SENT,
        SENT.replace("<message", "<message xmlns='jabber:client'"),
        SENT.replace("<message", "<message xml:lang='en'"),
    ],
)
def test_namespace_and_language_of_the_stream_are_the_servers(raw):
    tree = relayed.as_sent(raw, JID).tree
    assert tree.tag == "{jabber:component:accept}message"
    assert dict(tree.attrib) == {"from": "queue.localhost", "to": JID, "id": "m"}


def test_what_is_inside_is_the_services():
    raw = SENT.replace("<event", "<event xml:lang='de'")
    assert relayed.as_sent(raw, JID).tree[0].attrib


def test_presence_of_the_own_account_is_the_servers_business():
    assert relayed.as_sent(f"<presence from='bee@localhost/y' to='{JID}'/>", JID) is None
    assert relayed.as_sent(f"<presence from='queue.localhost' to='{JID}'/>", JID)


def test_what_is_for_another_is_not_passed_over():
    with pytest.raises(AssertionError, match="not its own"):
        relayed.as_sent(SENT, "bee@localhost/y")


@pytest.mark.parametrize(
    ("expected", "to"), [("bee@localhost", "bee@localhost"), ("ant@localhost", JID), (JID, JID)]
)
def test_a_message_to_an_account_may_name_the_resource_that_got_it(expected, to):
    actual = parse(SENT)
    relayed.forgive(parse(f"<message to='{expected}'/>"), actual)
    assert actual.get("to") == to
