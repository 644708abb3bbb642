"""Requests in IQs: what each needs, and that it comes alone."""

import pytest
from faces.xmpp.parse.reading_of import request, says

from pubqueue.faces.xmpp.requests import VERBS
from pubqueue.faces.xmpp.xml.refusals import StanzaError
from pubqueue_xeps.wire import ns

JOB = "<job xmlns='urn:work'/>"


def publish(item=f"<item id='i'>{JOB}</item>", beside="", node="node='jobs'"):
    return request("set", ns.PUBSUB, f"<publish {node}>{item}</publish>{beside}")


WITHOUT_A_NODE = {
    "create",
    "subscriptions",
    "affiliations",
    "default",
}  # XEP-0060 8.1.2, 5.6, 5.7, 6.4
PUBSUB = {key: verb for key, verb in VERBS.items() if key[2]}
"""The requests of which the name is that of a grandchild."""
NAMED = {
    key: verb
    for key, verb in PUBSUB.items()
    if not verb.read.__qualname__.startswith(("_unsupported", "_constant"))
    and (key[1] != f"{ns.PUBSUB} pubsub" or key[2].rpartition(" ")[2] not in WITHOUT_A_NODE)
}


@pytest.mark.parametrize("node", ["", "node=''", "node='a&#10;b'", f"node='{'é' * 512}'"])
def test_a_request_needs_a_node(node):
    said = {}
    for kind, child, tag in NAMED:
        namespace = child.partition(" ")[0]
        space, _, name = tag.rpartition(" ")
        item = f"<item id='i'>{JOB if name == 'publish' else ''}</item>"
        inside = {
            **dict.fromkeys(("publish", "retract", "unlock"), item),
            **dict.fromkeys(("configure", "options"), f"<x xmlns='{ns.DATA}' type='submit'/>"),
        }.get(name, "")
        inner = f"<{name} xmlns='{space}' jid='bee@localhost' {node}>{inside}</{name}>"
        said[kind, child, tag] = says(request(kind, namespace, inner))
    detail = "this is not a valid NodeID" if node else "nodeid-required"
    assert said == dict.fromkeys(NAMED, ("bad-request", detail))


@pytest.mark.parametrize("verb", ["subscribe", "unsubscribe", "options"])
@pytest.mark.parametrize(
    ("given", "detail"),
    [
        ("", "jid-required"),
        *((f"jid='{jid}'", "invalid-jid") for jid in ("", "@", "a@", "a b@c", "/x", "a@b" * 1100)),
    ],
)
def test_a_subscription_needs_a_jid(verb, given, detail):
    answer = request("set", ns.PUBSUB, f"<{verb} node='jobs' {given}/>")
    assert says(answer) == ("bad-request", detail)


def test_a_second_request_beside_the_first_is_refused():
    answers = {}
    for kind, child, tag in PUBSUB:
        namespace = child.partition(" ")[0]
        space, _, name = tag.rpartition(" ")
        one = f"<{name} xmlns='{space}' node='jobs' jid='bee@localhost'/>"
        other = f"<delete xmlns='{ns.OWNER}' node='jobs'/>"
        answers[kind, child, tag] = type(request(kind, namespace, one + other))
    assert answers == dict.fromkeys(PUBSUB, StanzaError)
