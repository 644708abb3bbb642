"""Requests in IQs: what each needs, that it comes alone, and that nothing in it is ignored."""

from pathlib import Path

import pytest
from faces.xmpp.parse.reading_of import request, says
from lxml import etree

from pubqueue.faces.xmpp.parse.iq import OF_GET, WORDS, full, is_listed
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
        inside = "" if kind == "get" and tag in OF_GET else inside
        jid = "jid='bee@localhost'" if "jid" in WORDS[tag].attributes else ""
        inner = f"<{name} xmlns='{space}' {jid} {node}>{inside}</{name}>"
        said[kind, child, tag] = says(request(kind, namespace, inner))
    detail = (
        "a node name has 1 to 1023 bytes and no control characters" if node else "nodeid-required"
    )
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


# Nothing is accepted and ignored (decision 146).

SCHEMAS = Path(__file__).parents[3] / "xeps" / "schemas"
CANNOT_MATTER = {f"{ns.PING} ping", f"{ns.VERSION} query", f"{ns.TIME} time"}
"""Requests that have one answer, whatever is said in them."""


def attributes_of(schema):
    """Return the attributes of each element that a schema declares, and that is an element of a request."""
    xs = "{http://www.w3.org/2001/XMLSchema}"
    root = etree.parse(SCHEMAS / schema).getroot()
    for element in root.iter(f"{xs}element"):
        tag = f"{root.get('targetNamespace')} {element.get('name')}"
        own = element.iterfind(f"{xs}complexType/{xs}attribute")
        content = element.iterfind(f"{xs}complexType/{xs}simpleContent/{xs}extension/{xs}attribute")
        names = {one.get("name") for one in (*own, *content)} - {None}
        if tag in WORDS and names:
            yield tag, names


ONLY_IN_ANSWERS = {  # or, of a txn, in an IQ that asks
    "deadline": {"x:item"},
    "count": {"x:redrive"},
    "more": {"x:transactions", "x:events", "x:items", "x:nodes"},
    "oldest": {"x:events"},
    "newest": {"x:events", "x:items"},
    "through": {"x:events", "x:items"},
    "account": {"x:txn"},
    "at": {"x:txn"},
    "node": {"x:item"},
    "state": {"x:item"},
}


@pytest.mark.parametrize(
    "schema",
    [
        *("pubsub.xsd", "pubsub-owner.xsd", "pubsub-queueing.xsd", "x-pubqueue.xsd"),
        *("disco-info.xsd", "disco-items.xsd", "commands.xsd"),
    ],
)
def test_each_attribute_of_the_schemas_is_a_word_or_of_answers(schema):
    found = dict(attributes_of(schema))
    assert found
    unlisted = {
        (tag, name)
        for tag, names in found.items()
        for name in names - WORDS[tag].attributes
        if tag not in {full(word) for word in ONLY_IN_ANSWERS.get(name, ())}
    }
    assert unlisted == set()


def test_each_request_has_its_words_or_nothing_in_it_can_matter():
    tags = {tag for _, child, verb in VERBS for tag in (child, verb) if tag}
    assert tags - set(WORDS) == CANNOT_MATTER
    assert set(OF_GET) <= set(WORDS)


def no_attribute(element, name):
    return ("bad-request", f"{element} has no attribute {name}")


@pytest.mark.parametrize("key", sorted(PUBSUB))
def test_an_unknown_word_is_refused_in_each_request(key):
    kind, child, tag = key
    namespace, name = child.partition(" ")[0], tag.rpartition(" ")[2]
    verb = f"<{name} xmlns='{tag.rpartition(' ')[0]}' node='jobs' " + "{}/>"
    said = {
        word: says(request(kind, namespace, verb.format(word)))
        for word in ("odd='1'", f"xmlns:p='{ns.PUBSUB}' p:odd='1'")
    }
    if "node" not in WORDS[tag].attributes:  # the default configuration is that of the service
        assert says(request(kind, namespace, verb.format(""))) == no_attribute(name, "node")
        verb = verb.replace("node='jobs'", "")
        said = {word: says(request(kind, namespace, verb.format(word))) for word in said}
    assert said == dict.fromkeys(said, no_attribute(name, "odd"))


def test_words_of_other_namespaces_are_about_something_else():
    words = WORDS[full("p:publish")]
    said = {
        name: is_listed(words, name)
        for name in (
            f"{ns.XML} lang",
            "urn:odd x",
            f"{ns.PUBQUEUE} answer",
            f"{ns.PUBQUEUE} odd",
            "answer",
        )
    }
    assert list(said.values()) == [True, True, True, False, False]


FORM = f"<x xmlns='{ns.DATA}' type='submit'/>"
PAGE = f"<set xmlns='{ns.RSM}'>{{}}</set>"
COLLECTIONS = ("feature-not-implemented", "unsupported")


@pytest.mark.parametrize(
    ("kind", "space", "inner", "said"),
    [
        # XEP-0060 1.8 and XEP-0248
        ("set", "p", "<create node='n' type='collection'/>", COLLECTIONS),
        ("set", "p", "<create node='n'/><configure type='collection'/>", COLLECTIONS),
        ("get", "o", "<default type='collection'/>", COLLECTIONS),
        ("set", "p", "<create node='n' type='pile'/>", "type of create is leaf"),
        ("set", "p", "<create node='n' access='whitelist'/>", "create has no attribute access"),
        ("set", "p", "<create node='n'><x/></create>", "create contains an unknown element, x"),
        ("set", "p", f"<create node='n'/><configure>{FORM}{FORM}</configure>", "configure contains x twice"),
        ("set", "p", "<create node='n'/><configure/><configure/>", "pubsub contains configure twice"),
        ("set", "p", f"<subscribe node='n' jid='bee@localhost'/><options subid='1'>{FORM}</options>",
         "a new subscription has no subid yet"),
        ("set", "p", f"<unsubscribe node='n' jid='bee@localhost'>{FORM}</unsubscribe>",
         "unsubscribe contains an unknown element, x"),
        ("get", "p", f"<options node='n' jid='bee@localhost'>{FORM}</options>",
         "options contains x only in an IQ of type set"),
        ("get", "o", f"<configure node='n'>{FORM}</configure>", "configure contains x only in an IQ of type set"),
        ("set", "p", "<retract node='n' notify='yes'><item id='i'/></retract>",
         "notify of retract is 0 or 1 or false or true"),
        ("set", "p", (f"<retract node='n'><item id='i'/></retract><lock xmlns='{ns.PUBQUEUE}' token='1'/>"
         f"<lock xmlns='{ns.PUBQUEUE}' token='2'/>"), "pubsub contains lock twice"),
        ("set", "p", f"<publish node='n'><item id='i'/></publish><meta xmlns='{ns.PUBQUEUE}' expires='1'/>",
         "meta has no attribute expires"),
        ("set", "p", f"<publish node='n'><item id='i'/></publish><txn xmlns='{ns.PUBQUEUE}' app='a' version='1' account='b@c'/>",
         "txn has no attribute account"),
        # pages
        ("get", "p", "<items node='n' since='1'/>", "items has no attribute since"),
        ("get", "p", "<items node='n'/>" + PAGE.format("<after>a</after><before>b</before>"),
         "a page is after an item or before one, not both"),
        ("get", "p", "<items node='n'/>" + PAGE.format("<max>1</max><max>2</max>"), "set contains max twice"),
        ("get", "p", "<items node='n'/>" + PAGE.format("") * 2, "pubsub contains set twice"),
        ("get", "p", f"<items node='n'/><order xmlns='{ns.ORDER_BY}' by='creation' desc='yes'/>",
         "desc of order is 0 or 1 or false or true"),
    ],
)  # fmt: skip
def test_what_would_be_ignored_is_refused(kind, space, inner, said):
    answer = says(request(kind, {"p": ns.PUBSUB, "o": ns.OWNER}[space], inner))
    assert answer == (said if isinstance(said, tuple) else ("bad-request", said))


@pytest.mark.parametrize(
    ("kind", "space", "inner"),
    [
        ("set", ns.PUBSUB, "<create node='n' type='leaf'/><configure type='leaf'/>"),
        ("set", ns.PUBSUB, f"<publish node='n' xml:lang='de'><item id='i' publisher='x@y'>{JOB}</item></publish>"),
        ("set", ns.OWNER, ("<affiliations node='n'>"
         "<affiliation jid='a@b' affiliation='owner'/><affiliation jid='c@d' affiliation='none'/></affiliations>")),
        ("get", ns.PUBSUB, (f"<items node='n'/><order xmlns='{ns.ORDER_BY}' by='creation' desc='true'/>"
         f"<order xmlns='{ns.ORDER_BY}' by='modification'/>")),
    ],
)  # fmt: skip
def test_what_is_honoured_or_cannot_matter_is_taken(kind, space, inner):
    assert not isinstance(request(kind, space, inner), StanzaError)
