"""Strategies for IQ requests: right ones, nearly right ones, and ones that no client would send on purpose.

The vocabulary is the parser's own table, so that a new request is tried as soon as it is known there.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st
from lxml import etree

from pubqueue.faces.xmpp.requests import VERBS
from pubqueue.faces.xmpp.xml.fields import FIELDS, FIXED
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

PEOPLE: Final = (
    "boss@localhost/desk",
    "bee@localhost/one",
    "ant@localhost",
    "stranger@example.org/x",
    "component.example.org",
)
NODES: Final = ("jobs", "plain", "new", "none")
ITEMS: Final = ("i1", "i2", "i3")
ODD: Final = (
    *("", " ", "\n", "'\"<>&", "é", "😀", "\u202e", "a" * 1024, "a b", "0", "1", "7", "-1", "true"),
    *("NaN", "inf", "1e400", "1_0", "٣", "9" * 19, "0" * 20 + "9" * 30, "9" * 5000, "0" * 5000),
    *("2147483648", "9223372036854775808", "max", "open", "whitelist", "owner", "none", "jobs"),
    *("@", "/", "a@", "@b", "a@b/c", "a@b@c", "[::1", "a@[::1]", "xn--a", "a..b", "." * 300),
    *("ª" * 1024, "\u0340@localhost", "bee@localhost/" + "r" * 1024, "../..", "pq-1-1", "x-y#z"),
)
PUBSUB: Final = sorted(key for key in VERBS if key[2])
"""The requests that are named by a grandchild."""
TAGS: Final = (
    *{verb for _, _, verb in PUBSUB},
    *(ns.tag(ns.PUBSUB, name) for name in ("item", "options", "configure", "publish-options")),
    *(
        ns.tag(ns.PUBQUEUE, name)
        for name in ("meta", "touch", "redrive", "lock", "txn", "commit", "abort")
    ),
    *(ns.tag(ns.DATA, name) for name in ("x", "field", "value")),
    ns.tag(ns.OWNER, "affiliation"),
    ns.tag(ns.QUEUEING, "item"),
    ns.tag("http://jabber.org/protocol/rsm", "set"),
    *("item", "urn:odd item", "urn:odd junk", f"{ns.CLIENT} iq", f"{ns.COMPONENT} iq"),
)
QUERIES: Final = (
    *(f"{namespace} query" for namespace in (ns.DISCO_INFO, ns.DISCO_ITEMS, ns.VERSION)),
    *(ns.tag(ns.PUBQUEUE, name) for name in ("txn", "commit", "abort", "transactions")),
    *(ns.tag(ns.PUBQUEUE, name) for name in ("events", "items", "nodes")),
    *(f"{ns.PING} ping", f"{ns.TIME} time", "urn:odd query", "query"),
)
SETTINGS: Final = (
    *(field.var for field in FIELDS),
    *FIXED,
    *(
        "pubsub#queue_requests",
        "queue_requests",
        "pubsub#roster_groups_allowed",
        "FORM_TYPE",
        "odd",
    ),
)
USUAL: Final[dict[str, tuple[str, ...]]] = {
    "node": ("jobs", "jobs", "jobs", *NODES),
    "jid": (*PEOPLE, "bee@localhost"),
    "id": ITEMS,
    "affiliation": ("owner", "publisher", "member", "outcast", "none", "publish-only"),
    "subid": ("1",),
    "notify": ("true", "0"),
    "delay": ("0", "3600"),  # nothing becomes due by itself while a test looks
    "priority": ("0", "3"),
    "ttl": ("7200",),
    "group": ("g", "h"),
    "max_items": ("1",),
    "seconds": ("60",),
    "app": ("nightly", "stream"),
    "version": ("1", "2", "3"),
    "part": ("0", "1"),
    "attempt": ("0", "1"),
    "outcome": ("failed", "dead"),
    "after": ("0", "1", "jobs"),
    "until": ("2", "99"),
    "max": ("1", "9"),
    "state": ("queued", "locked", "dead"),
    "payload": ("true", "false"),
    "name": ("trace", "kind"),
    "var": SETTINGS,
}
HOT: Final = tuple(
    key for key in PUBSUB if key[2].endswith((" publish", " retract", " unlock", " subscribe"))
)
FORM_TYPES: Final = (ns.NODE_CONFIG, ns.SUBSCRIBE_OPTIONS, "urn:odd")


def element(tag: str, *children: etree._Element, **attributes: str) -> etree._Element:
    """Return an element, by its tag as the stream parser writes it."""
    namespace, _, name = tag.rpartition(" ")
    made = etree.Element(f"{{{namespace}}}{name}" if namespace else name)
    for key, value in attributes.items():
        made.set(key, value)
    made.extend(children)
    return made


@st.composite
def words(draw, *names: str, more: float = 0.1):
    """Return attributes: these, mostly with a usual value, and now and then another."""
    found = {name: draw(value(name)) for name in names if draw(st.integers(0, 19)) != 7}
    if draw(st.floats(0, 1)) < more:
        name = draw(st.sampled_from(sorted(USUAL)))
        found[name] = draw(value(name))
    return found


def value(name: str):
    """Return a value for an attribute of this name."""
    usual = st.sampled_from(USUAL[name])
    return st.integers(0, 11).flatmap(lambda n: st.sampled_from(ODD) if n == 7 else usual)


@st.composite
def form(draw):
    """Return a data form, as a careless reader of the manual would fill it in."""
    fields = [element(f"{ns.DATA} field", var="FORM_TYPE", type="hidden")]
    fields[0].append(element(f"{ns.DATA} value"))
    fields[0][0].text = draw(st.sampled_from(FORM_TYPES))
    for var in draw(st.lists(st.sampled_from(SETTINGS), max_size=3)):
        fields.append(element(f"{ns.DATA} field", var=var))
        for text in draw(st.lists(st.sampled_from(ODD), max_size=2)):
            fields[-1].append(element(f"{ns.DATA} value"))
            fields[-1][-1].text = text
    kind = draw(st.sampled_from(("submit", "submit", "submit", "cancel", "result", "")))
    return element(f"{ns.DATA} x", *fields, type=kind)


def window(text: str) -> etree._Element:
    """Return the form that asks for this many items at once."""
    one = element(f"{ns.DATA} value")
    one.text = text
    field = element(f"{ns.DATA} field", one, var="pubsub#queue_requests")
    return element(f"{ns.DATA} x", field, type="submit")


@st.composite
def payload(draw):
    """Return properties of a publish."""
    made = element(draw(st.sampled_from(("urn:work job", "job", "jobs order", *TAGS))))
    made.text = draw(st.sampled_from((None, "text", *ODD)))
    inner = made
    for _ in range(draw(st.sampled_from((0, 0, 0, 0, 1, 3, 99, 100, 300)))):
        inner.append(element("urn:work level"))
        inner = inner[0]
    return made


@st.composite
def inside(draw, tag: str):
    """Return the content of a verb: usually the right one."""
    name = tag.rpartition(" ")[2]
    if name in {"publish", "retract", "unlock", "touch", "redrive", "items"}:
        items = []
        for _ in range(draw(st.integers(0, 3))):
            space = draw(st.sampled_from((*[ns.PUBSUB] * 8, ns.QUEUEING, ns.PUBQUEUE)))
            many = draw(st.sampled_from((0, 1, 1, 1, 1, 1, 1, 2))) if name == "publish" else 0
            payloads = [draw(payload()) for _ in range(many)]
            items.append(element(f"{space} item", *payloads, **draw(words("id"))))
        return items
    if name == "affiliations":
        one = words("jid", "affiliation").map(lambda w: element(f"{ns.OWNER} affiliation", **w))
        return draw(st.lists(one, max_size=3))
    return [draw(form())] if name in {"options", "configure"} and draw(st.booleans()) else []


@st.composite
def beside(draw):
    """Return the siblings of a verb."""
    kind = draw(st.sampled_from(("options", "configure", "meta", "txn", "headers", "other")))
    if kind == "headers":
        said = [element(f"{ns.SHIM} header", **draw(words("name"))) for _ in range(2)]
        said[0].text = draw(st.sampled_from(ODD))
        return element(f"{ns.SHIM} headers", *said)
    if kind == "meta":
        return element(f"{ns.PUBQUEUE} meta", **draw(words("delay", "priority", "ttl", "group")))
    if kind == "txn":
        return element(f"{ns.PUBQUEUE} txn", **draw(words("app", "version", "part", "attempt")))
    if kind == "other":
        return element(draw(st.sampled_from(TAGS)), **draw(words()))
    forms = [draw(form())] if draw(st.booleans()) else []
    return element(f"{ns.PUBSUB} {kind}", *forms, **draw(words()))


@st.composite
def child(draw):
    """Return the child of an IQ, and the IQ's type."""
    if draw(st.integers(0, 5)) == 5:
        query = element(draw(st.sampled_from(QUERIES)), **draw(words(more=0.7)))
        return draw(st.sampled_from(("get", "get", "set"))), query
    kind, child, tag = draw(st.sampled_from((*PUBSUB, *HOT * 3)))
    verb = element(tag, *draw(inside(tag)), **draw(words("node", "jid")))
    if tag == f"{ns.OWNER} delete" and verb.get("node") != "none":
        verb.set("node", "new")  # the others are needed by all examples
    rest = [draw(beside())] if draw(st.integers(0, 3)) == 3 else []
    if tag == f"{ns.PUBSUB} subscribe" and draw(st.integers(0, 3)):
        rest = [element(f"{ns.PUBSUB} options", window(draw(st.sampled_from(("1", "7", *ODD)))))]
    return kind, element(child, verb, *rest)


def _drop(draw: Callable[..., object], node: etree._Element) -> None:
    if node.getparent() is not None:
        node.getparent().remove(node)


def _double(draw: Callable[..., object], node: etree._Element) -> None:
    if node.getparent() is not None:
        node.addnext(deepcopy(node))


def _rename(draw: Callable[..., object], node: etree._Element) -> None:
    space, _, name = draw(st.sampled_from((*TAGS, *QUERIES))).rpartition(" ")
    node.tag = f"{{{space}}}{name}" if space else name


def _say(draw: Callable[..., object], node: etree._Element) -> None:
    node.text = draw(st.sampled_from(ODD))


def _stuff(draw: Callable[..., object], node: etree._Element) -> None:
    node.append(draw(payload()))


@st.composite
def request(draw):
    """Return an IQ request without its id: its type, its sender and its child as text."""
    kind, tree = draw(child())
    sender = draw(st.sampled_from(PEOPLE))
    if len(tree) and tree[0].get("jid") in PEOPLE and draw(st.integers(0, 3)):
        tree[0].set("jid", sender)
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 1, 2, 4)))):
        nodes = list(tree.iter())[:8]
        draw(st.sampled_from((_drop, _double, _rename, _say, _stuff)))(
            draw, nodes[draw(st.integers(0, len(nodes) - 1))]
        )
    if draw(st.integers(0, 30)) == 30:
        kind = "get" if kind == "set" else "set"
    body = etree.tostring(tree, encoding="unicode", with_tail=False)
    if draw(st.integers(0, 40)) == 40:
        body = draw(st.sampled_from(("", body + body, "text", "<a/>" + body)))
    return kind, sender, body
