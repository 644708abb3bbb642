"""Requests as they are read: what is missing, wrong, twice or absurd is refused in its own words."""

import itertools

import pytest

from pubqueue.engine.table import RULES
from pubqueue.faces.xmpp.parse.iq import Iq, jid_of
from pubqueue.faces.xmpp.requests import VERBS, find
from pubqueue.faces.xmpp.stream.reader import StreamParser
from pubqueue.faces.xmpp.xml.refusals import StanzaError, words
from pubqueue.model.entities import Draft, Principal
from pubqueue.rules.publication import Publish
from pubqueue_xeps.wire import ns

HEADER = b"<stream:stream xmlns='jabber:component:accept' xmlns:stream='s'>"
JOB = "<job xmlns='urn:work'/>"


def request(kind, namespace, inner):
    text = f"<iq type='{kind}'><pubsub xmlns='{namespace}'>{inner}</pubsub></iq>"
    (stanza,) = StreamParser().feed(HEADER + text.encode())
    ids = itertools.count(1)
    principal = Principal("bee@localhost/one")
    verb = find(VERBS, kind, stanza.top.children[0])
    return verb.read(Iq(stanza, principal, lambda: f"new-{next(ids)}"))


def publish(item=f"<item id='i'>{JOB}</item>", beside="", node="node='jobs'"):
    return request("set", ns.PUBSUB, f"<publish {node}>{item}</publish>{beside}")


def says(answer):
    """Return how a request is refused: by its reader, or whatever is stored by the core."""
    if not isinstance(answer, StanzaError):
        answer = words(RULES[type(answer)].fault(answer))
    return (answer.condition, answer.detail or answer.text)


def meta(said):
    return publish(beside=f"<meta xmlns='{ns.PUBQUEUE}' {said}/>")


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


@pytest.mark.parametrize(
    ("item", "detail"),
    [
        ("<item>text</item>", "invalid-payload"),
        (f"<item>text{JOB}</item>", "invalid-payload"),
        (f"<item>{JOB}{JOB}</item>", "invalid-payload"),
        (f"<item id=''>{JOB}</item>", "this is not a valid ItemID"),
        (f"<item id='{'i' * 1024}'>{JOB}</item>", "this is not a valid ItemID"),
        (f"<item xmlns='urn:x' id='i'>{JOB}</item>", "publish may contain only items"),
        (f"<entry id='i'>{JOB}</entry>", "publish may contain only items"),
        (f"<item id='i'>{JOB}</item>" * 2, "an item id occurs twice in one request"),
    ],
)
def test_an_item_has_one_payload_and_one_id(item, detail):
    assert says(publish(item)) == ("bad-request", detail)


@pytest.mark.parametrize(("levels", "good"), [(1, True), (100, True), (101, False), (5000, False)])
def test_a_payload_has_a_hundred_levels(levels, good):
    answer = publish(f"<item>{'<a>' * levels}{'</a>' * levels}</item>")
    assert isinstance(answer, Publish) if good else says(answer)[1] == "invalid-payload"


def test_an_item_without_id_is_given_one():
    answer = publish(f"<item>{JOB}</item><item>{JOB}</item>")
    assert answer.drafts == tuple(Draft(f"new-{n}", JOB.encode(), type="urn:work") for n in (1, 2))


@pytest.mark.parametrize("name", ["delay", "ttl"])
@pytest.mark.parametrize(
    "span", ["NaN", "-NaN", "inf", "-inf", "1e400", "-1", "-0.001", "", "x", "0x1", "3162240001"]
)
def test_a_span_of_time_is_a_number_of_seconds(name, span):
    assert says(meta(f"{name}='{span}'"))[0] == "bad-request"


@pytest.mark.parametrize("number", ["1.5", "x", "NaN", "1000001", "-1000001", "9" * 5000])
def test_a_priority_is_a_whole_number(number):
    condition, text = says(meta(f"priority='{number}'"))
    assert condition == "bad-request"
    assert len(text) < 200


def test_metadata_is_of_every_item():
    (draft,) = meta("delay='1.5' priority='-7' ttl='60'").drafts
    assert (draft.delay, draft.priority, draft.ttl) == (1500, -7, 60_000)


@pytest.mark.parametrize(
    "beside",
    [
        "<publish-options/>",
        "<meta xmlns='urn:other'/>",
        "<publish node='jobs'/>",
        f"<x xmlns='{ns.DATA}'/>",
    ],
)
def test_what_is_not_understood_is_not_passed_over(beside):
    assert isinstance(publish(beside=beside), StanzaError)


def test_a_second_request_beside_the_first_is_refused():
    answers = {}
    for kind, child, tag in PUBSUB:
        namespace = child.partition(" ")[0]
        space, _, name = tag.rpartition(" ")
        one = f"<{name} xmlns='{space}' node='jobs' jid='bee@localhost'/>"
        other = f"<delete xmlns='{ns.OWNER}' node='jobs'/>"
        answers[kind, child, tag] = type(request(kind, namespace, one + other))
    assert answers == dict.fromkeys(PUBSUB, StanzaError)


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
