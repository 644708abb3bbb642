"""Data forms (XEP-0004), read and written, and result sets (XEP-0059)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lxml import etree
from msgspec.structs import replace

from pubqueue.faces.xmpp.xml.fields import (
    DELIVER_FIELD,
    EXPIRE_FIELD,
    FIELDS,
    FIXED,
    LABELS,
    LEVEL_FIELD,
    LOCK_FIELD,
    TEMPORARY,
    VALUES,
    WINDOW_FIELDS,
    shown,
    values_of,
)
from pubqueue.faces.xmpp.xml.payload import tree
from pubqueue.faces.xmpp.xml.refusals import StanzaError, bad_request
from pubqueue.faces.xmpp.xml.stanza import attribute, escape, fitting, stamp
from pubqueue.model.entities import Level
from pubqueue.model.replies import Page
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.entities import Millis, NodeConfig
    from pubqueue.model.notices import ApprovalWanted
    from pubqueue.model.replies import DefaultOptions, Described, Part, Subscribed


# Reads submitted data forms (XEP-0004), and writes forms and results.

_FIELD: Final = f"{{{ns.DATA}}}field"
_VALUE: Final = f"{{{ns.DATA}}}value"


class FormError(ValueError):
    """The element is not a valid form."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form, as sent: its type, its FORM_TYPE, and the values of each field."""

    type: str
    form_type: str | None
    fields: dict[str, list[str]]


def read(document: bytes) -> Form:
    """Read a form. A repeated field has the values of all occurrences.

    Raises:
        FormError: it is not well-formed, or a field has no name.

    """
    try:
        x = tree(document)
    except etree.XMLSyntaxError as problem:
        raise FormError(str(problem)) from problem
    fields: dict[str, list[str]] = {}
    for field in x.iterchildren(_FIELD):
        var = field.get("var")
        if var is None:
            raise FormError("a field has no name")
        fields.setdefault(var, []).extend(v.text or "" for v in field.iterchildren(_VALUE))
    form_type = fields.pop("FORM_TYPE", None)
    if form_type is not None and len(form_type) > 1:
        raise FormError("a form has one FORM_TYPE")
    return Form(x.get("type", ""), form_type[0] if form_type else None, fields)


def _option(value: str) -> str:
    label = f' label="{attribute(VALUES[value])}"' if value in VALUES else ""
    return f"<option{label}><value>{escape(value)}</value></option>"


def _field(
    var: str,
    value: str | list[str],
    kind: str = "",
    *,
    label: str = "",
    options: Iterable[str] = (),
) -> str:
    words = f' type="{kind}"' if kind else ""
    words += f' label="{attribute(label)}"' if label else ""
    values = [value] if isinstance(value, str) else value
    inner = "".join(f"<value>{escape(one)}</value>" for one in values)
    inner += "".join(map(_option, options))
    return f'<field var="{attribute(var)}"{words}>{inner}</field>'


def _form(kind: str, form_type: str, fields: Iterable[str], words: str = "") -> str:
    head = _field("FORM_TYPE", form_type, "hidden")
    return f'<x xmlns="{ns.DATA}" type="{kind}">{words}{head}{"".join(fields)}</x>'


def node_config(config: NodeConfig, kind: str = "form") -> str:
    """Return the configuration form with the current values (XEP-0060 8.2.2), or only these as a result."""
    now = shown(config)
    if kind == "result":
        return _form(
            kind, ns.NODE_CONFIG, [_field(f.var, values_of(f, now[f.var])) for f in FIELDS]
        )
    fields = [
        _field(f.var, values_of(f, now[f.var]), f.type, label=f.label, options=f.options)
        for f in FIELDS
    ]
    fields += [
        _field(
            var,
            only,
            kind,
            label=LABELS.get(var, ""),
            options=[only] if kind == "list-single" else (),
        )
        for var, (kind, only) in FIXED.items()
    ]
    return _form(kind, ns.NODE_CONFIG, fields)


def options_wanted(limit: int | None) -> str:
    """Return the form that asks for a window (XEP-0254 example 1)."""
    return _form("form", ns.SUBSCRIBE_OPTIONS, [_window_wanted(limit)])


def _window_wanted(limit: int | None) -> str:
    label = f"Number of parallel requests, from 1 to {limit}"
    return (
        f'<field type="text-single" var="{WINDOW_FIELDS[0]}" label="{attribute(label)}">'
        "<required/></field>"
    )


def options_now(reply: Subscribed, *, kind: str) -> str:
    """Return the current options as a result (XEP-0254 example 3), or as a form to change them.

    A result contains the window of a queue, and other options only if they were requested or differ from the default.
    """
    one = reply.subscription
    fields = []
    if reply.queueing:
        words = "text-single" if kind == "form" else ""
        fields.append(_field(WINDOW_FIELDS[0], str(one.queue_requests), words))
        if one.lock_timeout is not None or kind == "form":
            fields.append(_lock_timeout(one.lock_timeout, kind))
        if one.qos is not None or kind == "form":
            fields.append(_level(one.qos, kind))
    unusual = not one.deliver or one.expire is not None or one.temporary
    if kind == "form" or reply.configured or unusual:
        fields += _standing_options(
            deliver=one.deliver, expire=one.expire, temporary=one.temporary, kind=kind
        )
    return _form(kind, ns.SUBSCRIBE_OPTIONS, fields)


def _lock_timeout(seconds: int | None, kind: str) -> str:
    """Return the lock timeout of the subscriber; empty for that of the queue."""
    value = "" if seconds is None else str(seconds)
    if kind != "form":
        return _field(LOCK_FIELD, value)
    label = "Seconds until a lock of the subscriber expires, empty for the setting of the queue"
    return _field(LOCK_FIELD, value, "text-single", label=label)


def _level(level: Level | None, kind: str) -> str:
    """Return the level of the deliveries; empty for that of the queue."""
    value = "" if level is None else level.value
    if kind != "form":
        return _field(LEVEL_FIELD, value)
    label = "How items are delivered to the subscriber, empty for the setting of the queue"
    return _field(LEVEL_FIELD, value, "list-single", label=label, options=("", *Level))


def _standing_options(
    *, deliver: bool, expire: Millis | None, temporary: bool, kind: str
) -> list[str]:
    """Return the options of every subscription: delivery of notifications, and its end."""
    end = TEMPORARY if temporary and expire is None else "" if expire is None else stamp(expire)
    asks = kind == "form"
    return [
        _field(
            DELIVER_FIELD,
            "1" if deliver else "0",
            "boolean" if asks else "",
            label="Deliver notifications to the subscriber" if asks else "",
        ),
        _field(
            EXPIRE_FIELD,
            end,
            "text-single" if asks else "",
            label="When the subscription ends: a date and time, presence, or empty for never"
            if asks
            else "",
        ),
    ]


def options_by_default(default: DefaultOptions) -> str:
    """Return the options of a new subscription (XEP-0060 6.4.2); a queue requires a window."""
    window = []
    if default.limit is not None:
        window = [_window_wanted(default.limit), _lock_timeout(None, "form"), _level(None, "form")]
    others = _standing_options(deliver=True, expire=None, temporary=default.temporary, kind="form")
    return _form("form", ns.SUBSCRIBE_OPTIONS, [*window, *others])


def authorization(wanted: ApprovalWanted) -> str:
    """Return the form with which an owner allows or denies a subscription (XEP-0060 8.6)."""
    head = (
        f"<instructions>{escape(wanted.jid)} wants to subscribe to {escape(wanted.node)}. "
        "Answer 1 to allow it and 0 to deny it; a cancelled form leaves it waiting.</instructions>"
        "<title>Subscription request</title>"
    )
    fields = (
        _field("pubsub#subid", wanted.subid, "hidden"),
        _field("pubsub#node", wanted.node, "text-single", label="Node"),
        _field(
            "pubsub#subscriber_jid",
            wanted.jid,
            "jid-single",
            label="Account that wants to subscribe",
        ),
        _field("pubsub#allow", "0", "boolean", label="Allow this subscription?"),
    )
    return _form("form", ns.SUBSCRIBE_AUTHORIZATION, fields, head)


SHOWN_FIELDS: Final = (
    "pubsub#title",
    "pubsub#description",
    "pubsub#type",
    "pubsub#language",
    "pubsub#contact",
)
"""The settings in a node's metadata, if they have a value."""

# fmt: off
META: Final = {field.var: field.label for field in FIELDS} | {
    "pubsub#creation_date":   "Creation date",
    "pubsub#creator":         "Creator",
    "pubsub#num_subscribers": "Number of subscribers",
    "pubsub#owner":           "Owners",
    "pubsub#publisher":       "Publishers",
    "x-queueing#depth":       "Number of items",
    "x-queueing#feeds":       "Queues that the node feeds",
    "x-queueing#left_out":    "Items of the source that the queue could not take",
}
"""Labels of the fields in a node's metadata."""
# fmt: on


def meta_data(described: Described) -> str:
    """Return the public metadata of a node (XEP-0060 5.4), and its depth if given (XEP-0128)."""
    node = described.node
    now = shown(node.config)
    fields = [
        _meta(f.var, values_of(f, now[f.var]))
        for f in FIELDS
        if f.var in SHOWN_FIELDS and now[f.var]
    ]
    fields += [
        _meta(var, now[var])
        for var in ("pubsub#access_model", "pubsub#publish_model", "pubsub#max_items")
    ]
    if node.config.max_bytes is not None:
        fields.append(_meta("x-queueing#max_bytes", now["x-queueing#max_bytes"]))
    fields.append(_meta("pubsub#creation_date", stamp(node.created), "text-single"))
    fields.append(_meta("pubsub#creator", node.creator, "jid-single"))
    fields.append(_meta("pubsub#num_subscribers", str(node.subscriptions), "text-single"))
    fields.append(_meta("pubsub#owner", list(described.owners), "jid-multi"))
    if described.publishers:
        fields.append(_meta("pubsub#publisher", list(described.publishers), "jid-multi"))
    fields.append(_meta("x-queueing#enabled", now["x-queueing#enabled"], "boolean"))
    if described.depth is not None:
        fields.append(_meta("x-queueing#depth", str(described.depth), "text-single"))
        fields += _feeding(node.config)
    return _form("result", ns.META_DATA, fields)


def _feeding(config: NodeConfig) -> list[str]:
    """Return the source of the node, or the queues that it feeds; only some accounts may see these."""
    fed = [_meta("x-queueing#source", config.source, "text-single")] if config.source else []
    if config.left_out is not None:
        fed.append(_meta("x-queueing#left_out", str(config.left_out.items), "text-single"))
    queues: list[str] = [feed.queue for feed in config.feeds]
    return [*fed, _meta("x-queueing#feeds", queues, "text-multi")] if queues else fed


def _meta(var: str, value: str | list[str], kind: str = "") -> str:
    return _field(var, value, kind, label=META[var])


# Result sets (XEP-0059): reads the requested page of a list, and describes the returned page.
#
# Pages go forward and backward, without numbers. A list that does not fit into an answer always has a set, so that clients can continue.

SET: Final = ns.tag(ns.RSM, "set")
_AFTER: Final = ns.tag(ns.RSM, "after")
_BEFORE: Final = ns.tag(ns.RSM, "before")

_DIGITS: Final = 10
_NO_NUMBERS: Final = StanzaError(
    "cancel",
    "feature-not-implemented",
    text="a page is requested with before or after",
)


def page_beside(elements: Sequence[Element]) -> Page | StanzaError | None:
    """Read the page beside a request; refuse other elements."""
    if any(element.tag != SET for element in elements):
        return bad_request(text="the request contains an unknown element")
    return page_among(elements)


def page_among(elements: Sequence[Element]) -> Page | StanzaError | None:
    """Read the requested page, if there is one (XEP-0059 2.1 to 2.3, 2.5)."""
    after: str | None = None
    before: str | None = None
    most: int | None = None
    asked = [element for element in elements if element.tag == SET]
    given = [word for one in asked for word in one.children]
    if {_AFTER, _BEFORE} <= {word.tag for word in given}:
        return bad_request(text="a page is after an item or before one, not both")
    for word in given:
        if word.tag == _AFTER:
            after = word.text or None
        elif word.tag == _BEFORE:
            before = word.text
        elif word.tag != ns.tag(ns.RSM, "max"):
            return _NO_NUMBERS
        elif not (word.text.isascii() and word.text.isdigit()):
            return bad_request(text="max must be a whole number")
        else:
            most = int(word.text[:_DIGITS])
    return Page(after, most, before) if asked else None


def cut(entries: Sequence[bytes], names: Sequence[str], part: Part) -> tuple[slice, str]:
    """Return the entries that fit, and the set that describes them, if one is needed."""
    shown, count = slice(None), fitting(entries[::-1] if part.backward else entries)
    if count < len(entries):
        part = replace(part, more=True, begins=part.begins and not part.backward)
        shown = slice(-count, None) if part.backward else slice(count)
    return shown, _set(names[shown], part)


def _set(names: Sequence[str], part: Part) -> str:
    if not (part.asked or part.more):
        return ""
    inner = ""
    if names:
        index = ' index="0"' if part.begins else ""
        inner = f"<first{index}>{escape(names[0])}</first><last>{escape(names[-1])}</last>"
    if part.total is not None:
        inner += f"<count>{part.total}</count>"
    return f'<set xmlns="{ns.RSM}">{inner}</set>'
