"""A queue's requests as text (XEP-0254): subscribe and unsubscribe with their forms, retract, unlock and touch.

A service that supports `urn:x-pubqueue:0` also gets the token of the lock, and the outcome of an unlock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue_xeps.wire import joins, waits
from pubqueue_xeps.wire.names import checked
from pubqueue_xeps.wire.ns import DATA, PUBQUEUE, PUBSUB, QUEUEING, SUBSCRIBE_OPTIONS
from pubqueue_xeps.wire.requests import IqRequest, publishing
from pubqueue_xeps.wire.then import Ending
from pubqueue_xeps.wire.times import read_time
from pubqueue_xeps.wire.xml_text import attributes, content, quote

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.wire.refusals import Outcome


NODE: Final = "The node's name"
TOUCHED: Final = f"{{{PUBQUEUE}}}touch/{{{PUBQUEUE}}}item"


class ItemRequests:
    """The requests about single items of one node, each the child of an IQ of type set.

    Never of type get, as in examples 6 and 10: a get must not change anything (RFC 6120 8.2.3).
    """

    def __init__(self, node: str) -> None:
        named = f"node={quote(checked(node, NODE))}"
        self._retract = f"<pubsub xmlns='{PUBSUB}'><retract {named}><item id="
        self._unlock = f"<pubsub xmlns='{PUBSUB}'><unlock xmlns='{QUEUEING}' {named}><item id="
        self._touch = f"<touch xmlns='{PUBQUEUE}' {named}"

    def retract(self, item: str, lock: str = "") -> str:
        """Delete an item that is done."""
        return f"{self._retract}{quote(item)}/></retract>{lock}</pubsub>"

    def unlock(self, item: str, beside: str = "") -> str:
        """Release an item."""
        return f"{self._unlock}{quote(item)}/></unlock>{beside}</pubsub>"

    def touch(self, item: str, seconds: float | None = None) -> str:
        """Extend the lock on an item."""
        span = "" if seconds is None else f" seconds='{seconds:.3f}'"
        return f"{self._touch}{span}><item id={quote(item)}/></touch>"


def lock(token: int | None) -> str:
    """Return the element of a retract or unlock that names its lock."""
    return "" if token is None else f"<lock xmlns='{PUBQUEUE}' token='{token}'/>"


def fault(outcome: Outcome | None) -> str:
    """Return the element of an unlock that has the outcome, or what ends an item with follow-ups."""
    if outcome is None:
        return ""
    if isinstance(outcome, Ending):
        return outcome.beside
    if isinstance(outcome, waits.Hold):
        return joins.hold(outcome)
    return f"<outcome xmlns='{PUBQUEUE}'{attributes(**outcome.attributes())}/>"


def deadline(answer: Element) -> datetime:
    """Return the new deadline in an answer to a touch; raise ValueError if there is none."""
    touched = answer.find(TOUCHED)
    return read_time("" if touched is None else touched.get("deadline", ""))


# Cancelling a published item: a retract (XEP-0060 7.2) by its publisher, or by an owner of the node.

RETRACTED: Final = f".//{{{PUBQUEUE}}}retracted"
LOCKED: Final = f"{{{PUBQUEUE}}}locked"


def request(node: str, item: str) -> IqRequest:
    """Ask to delete an item, and to report whether a worker had it; raise ValueError for an invalid id."""
    if publishing.identified(item) is None:
        raise ValueError("id is None; a retract needs the id of an item")
    of = quote(checked(node, NODE))
    inner = f"<retract node={of}{publishing.KNOWN}><item id={quote(item)}/></retract>"
    return IqRequest(
        "set", f"the retract of {item!r}", f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>"
    )


def locked(answer: Element) -> bool | None:
    """Return whether the item was locked to a worker; None if the service does not report it."""
    retracted = answer.find(RETRACTED)
    return None if retracted is None else retracted.find(LOCKED) is not None


# Subscribe and unsubscribe, and the forms that go with them (XEP-0254 section 2.1).

QUEUE_REQUESTS: Final = "pubsub#queue_requests"
QOS_LEVEL: Final = "x-queueing#qos"
FORM: Final = f"{{{PUBSUB}}}pubsub/{{{PUBSUB}}}options/{{{DATA}}}x"
SUBSCRIPTIONS: Final = f"{{{PUBSUB}}}pubsub/{{{PUBSUB}}}subscriptions/{{{PUBSUB}}}subscription"
SUBSCRIPTION: Final = f"{{{PUBSUB}}}pubsub/{{{PUBSUB}}}subscription"


def subscribe(node: str, jid: str, answers: Mapping[str, str]) -> IqRequest:
    """Ask to subscribe, with these answers to the form of options."""
    inner = f"<subscribe{attributes(node=checked(node, NODE), jid=jid)}/>{_options(answers)}"
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
