"""Subscribe and unsubscribe as text, and the forms that go with them (XEP-0254 section 2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue_xeps.wire.ns import DATA, PUBSUB, SUBSCRIBE_OPTIONS
from pubqueue_xeps.wire.requests.iq import IqRequest
from pubqueue_xeps.wire.xml_escape import attributes, content, quote

if TYPE_CHECKING:
    from collections.abc import Mapping
    from xml.etree.ElementTree import Element

QUEUE_REQUESTS: Final = "pubsub#queue_requests"
QOS_LEVEL: Final = "x-queueing#qos"
FORM: Final = f"{{{PUBSUB}}}pubsub/{{{PUBSUB}}}options/{{{DATA}}}x"
SUBSCRIPTIONS: Final = f"{{{PUBSUB}}}pubsub/{{{PUBSUB}}}subscriptions/{{{PUBSUB}}}subscription"
SUBSCRIPTION: Final = f"{{{PUBSUB}}}pubsub/{{{PUBSUB}}}subscription"


def subscribe(node: str, jid: str, answers: Mapping[str, str]) -> IqRequest:
    """Ask to subscribe, with these answers to the form of options."""
    inner = f"<subscribe{attributes(node=node, jid=jid)}/>{_options(answers)}"
    return _question(f"the subscription to {node!r}", inner)


def unsubscribe(node: str, jid: str) -> IqRequest:
    """Ask to end a subscription."""
    inner = f"<unsubscribe{attributes(node=node, jid=jid)}/>"
    return _question(f"the end of the subscription to {node!r}", inner)


def own(node: str) -> IqRequest:
    """Ask for our account's subscriptions to a node (XEP-0060 section 5.6)."""
    inner = f"<subscriptions{attributes(node=node)}/>"
    words = f"the subscriptions to {node!r}"
    return IqRequest("get", words, f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>")


def has(answer: Element, jid: str) -> bool:
    """Return whether `jid` is among the subscriptions in an answer to `own`."""
    return any(found.get("jid") == jid for found in answer.iterfind(SUBSCRIPTIONS))


def granted(answer: Element) -> int | None:
    """Return the window in an answer to `subscribe`; None for a plain node, which has none."""
    value = _value(answer.find(FORM), _queue_field(answer) or QUEUE_REQUESTS)
    return None if value is None else int(value)


def fill(refusal: Element, options: Mapping[str, str]) -> dict[str, str]:
    """Fill the form of XEP-0254 example 1: its defaults stay, except for these options; empty if it does not ask for a window."""
    wanted = _queue_field(refusal)
    form = refusal.find(FORM)
    if wanted is None or form is None:
        return {}
    names = [field.get("var", "") for field in form if field.get("type") != "hidden"]
    answers = {name: value for name in names if (value := _value(form, name)) is not None}
    others = {name: value for name, value in options.items() if name != QUEUE_REQUESTS}
    return answers | others | {wanted: options[QUEUE_REQUESTS]}


def _question(words: str, inner: str) -> IqRequest:
    return IqRequest("set", words, f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>")


def _options(answers: Mapping[str, str]) -> str:
    fields = _field("FORM_TYPE", SUBSCRIBE_OPTIONS, " type='hidden'")
    fields += "".join(_field(name, value) for name, value in answers.items())
    # Neither node nor jid on the options: XEP-0060 section 6.3.7
    return f"<options><x xmlns='{DATA}' type='submit'>{fields}</x></options>"


def _field(name: str, value: str, more: str = "") -> str:
    return f"<field var={quote(name)}{more}><value>{content(value)}</value></field>"


def _queue_field(iq: Element) -> str | None:
    """Return the form's name for the window; XEP-0254 has two."""
    form = iq.find(FORM)
    names = () if form is None else (field.get("var", "") for field in form)
    return next((name for name in names if name.endswith("queue_requests")), None)


def _value(form: Element | None, name: str) -> str | None:
    for field in () if form is None else form:
        if field.get("var") == name:
            return field.findtext(f"{{{DATA}}}value")
    return None
