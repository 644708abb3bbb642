"""Data forms (XEP-0004): read what was submitted, write what is offered or reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lxml import etree

from pubqueue.faces.xmpp import ns
from pubqueue.faces.xmpp.payload import tree
from pubqueue.faces.xmpp.settings import (
    DELIVER_FIELD,
    EXPIRE_FIELD,
    FIELDS,
    FIXED,
    TEMPORARY,
    WINDOW_FIELDS,
    shown,
)
from pubqueue.faces.xmpp.text import attribute, escape, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.core.decision import ApprovalWanted, DefaultOptions, Described, Subscribed
    from pubqueue.core.model import Millis, NodeConfig

_FIELD: Final = f"{{{ns.DATA}}}field"
_VALUE: Final = f"{{{ns.DATA}}}value"


class FormError(ValueError):
    """The element is no form that can be read."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form as it was sent: its type, its FORM_TYPE, and every value under its field."""

    type: str
    form_type: str | None
    fields: dict[str, list[str]]


def read(document: bytes) -> Form:
    """Read a form. A field that comes twice has the values of both.

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
            raise FormError("a field without a name")
        fields.setdefault(var, []).extend(v.text or "" for v in field.iterchildren(_VALUE))
    form_type = fields.pop("FORM_TYPE", None)
    return Form(x.get("type", ""), form_type[0] if form_type else None, fields)


def _field(
    var: str, value: str, kind: str = "", *, label: str = "", options: Iterable[str] = ()
) -> str:
    words = f' type="{kind}"' if kind else ""
    words += f' label="{attribute(label)}"' if label else ""
    values = value.split("\n") if kind == "text-multi" else [value]
    inner = "".join(f"<value>{escape(one)}</value>" for one in values)
    inner += "".join(f"<option><value>{escape(option)}</value></option>" for option in options)
    return f'<field var="{attribute(var)}"{words}>{inner}</field>'


def _form(kind: str, form_type: str, fields: Iterable[str], words: str = "") -> str:
    head = _field("FORM_TYPE", form_type, "hidden")
    return f'<x xmlns="{ns.DATA}" type="{kind}">{words}{head}{"".join(fields)}</x>'


def node_config(config: NodeConfig) -> str:
    """Return the configuration form with the current values (XEP-0060 8.2.2)."""
    now = shown(config)
    fields = [_field(f.var, now[f.var], f.type, label=f.label, options=f.options) for f in FIELDS]
    fields += [
        _field(var, only, kind, options=[only] if kind == "list-single" else ())
        for var, (kind, only) in FIXED.items()
    ]
    return _form("form", ns.NODE_CONFIG, fields)


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
    """Return the options as they are: a result (XEP-0254 example 3), or a form to change them.

    A result shows the window of a queue, and of the others what was asked for, or is not as usual.
    """
    one = reply.subscription
    fields = []
    if reply.queueing:
        words = "text-single" if kind == "form" else ""
        fields.append(_field(WINDOW_FIELDS[0], str(one.queue_requests), words))
    unusual = not one.deliver or one.expire is not None or one.temporary
    if kind == "form" or reply.configured or unusual:
        fields += _standing_options(
            deliver=one.deliver, expire=one.expire, temporary=one.temporary, kind=kind
        )
    return _form(kind, ns.SUBSCRIBE_OPTIONS, fields)


def _standing_options(
    *, deliver: bool, expire: Millis | None, temporary: bool, kind: str
) -> list[str]:
    """Return what every subscription has: whether it is told anything, and when it ends."""
    end = TEMPORARY if temporary and expire is None else "" if expire is None else stamp(expire)
    asks = kind == "form"
    return [
        _field(
            DELIVER_FIELD,
            "1" if deliver else "0",
            "boolean" if asks else "",
            label="Tell the subscriber what happens" if asks else "",
        ),
        _field(
            EXPIRE_FIELD,
            end,
            "text-single" if asks else "",
            label="When the subscription ends: a moment, presence, or nothing" if asks else "",
        ),
    ]


def options_by_default(default: DefaultOptions) -> str:
    """Return the options of a new subscription; a queue's asks for a window (XEP-0060 6.4.2)."""
    window = [] if default.limit is None else [_window_wanted(default.limit)]
    others = _standing_options(deliver=True, expire=None, temporary=default.temporary, kind="form")
    return _form("form", ns.SUBSCRIBE_OPTIONS, [*window, *others])


def authorization(wanted: ApprovalWanted) -> str:
    """Return the form by which an owner allows or denies a subscription (XEP-0060 8.6)."""
    head = (
        f"<instructions>{escape(wanted.jid)} wants to subscribe to {escape(wanted.node)}. "
        "Answer 1 to allow it and 0 to deny it; a cancelled form leaves it waiting.</instructions>"
        "<title>Subscription request</title>"
    )
    fields = (
        _field("pubsub#subid", wanted.subid, "hidden"),
        _field("pubsub#node", wanted.node, "text-single", label="Node"),
        _field("pubsub#subscriber_jid", wanted.jid, "jid-single", label="Who wants to subscribe"),
        _field("pubsub#allow", "0", "boolean", label="Allow this subscription?"),
    )
    return _form("form", ns.SUBSCRIBE_AUTHORIZATION, fields, head)


def meta_data(described: Described) -> str:
    """Return what everybody may know of a node (XEP-0060 5.4)."""
    node = described.node
    now = shown(node.config)
    fields = [
        _field(var, now[var])
        for var in ("pubsub#title", "pubsub#description", "pubsub#type")
        if now[var]
    ]
    fields += [
        _field(var, now[var])
        for var in ("pubsub#access_model", "pubsub#publish_model", "pubsub#max_items")
    ]
    fields.append(_field("pubsub#creation_date", stamp(node.created), "text-single"))
    fields.append(_field("pubsub#creator", node.creator, "jid-single"))
    fields.append(_field("pubsub#num_subscribers", str(node.subscriptions), "text-single"))
    owners = "".join(f"<value>{escape(jid)}</value>" for jid in described.owners)
    fields.append(f'<field var="pubsub#owner" type="jid-multi">{owners}</field>')
    fields.append(_field("x-queueing#enabled", now["x-queueing#enabled"], "boolean"))
    return _form("result", ns.META_DATA, fields)
