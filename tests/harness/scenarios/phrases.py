"""Short lines for the usual first steps of scenarios, written in the language of scenarios itself.

Each phrase is proven in full by scenarios that spell its stanzas out (`create-*`, `subscribe-*`,
`publish-*`, `retract-*`, `unlock-*`); the others use it so that a reader sees their subject.
"""

from __future__ import annotations

import re
from typing import Final

PUBSUB: Final = "http://jabber.org/protocol/pubsub"
FORM_TYPE: Final = "<field var='FORM_TYPE' type='hidden'><value>{}</value></field>"

CREATE: Final = """
{who} sends:
    <iq type='set'>
      <pubsub xmlns='http://jabber.org/protocol/pubsub'>
        <create node='{node}'/>
        <configure>{form}</configure>
      </pubsub>
    </iq>
{who} receives: <iq type='result'><?more?></iq>
"""

SUBSCRIBE: Final = """
{who} sends:
    <iq type='set'>
      <pubsub xmlns='http://jabber.org/protocol/pubsub'>
        <subscribe jid='{jid}' node='{node}'/>
        <options>{form}</options>
      </pubsub>
    </iq>
{who} receives:
    <iq type='result'>
      <pubsub xmlns='http://jabber.org/protocol/pubsub'>
        <subscription jid='{jid}' node='{node}' subid='{{any?}}' subscription='subscribed'/>
        <options>{result}</options>
      </pubsub>
    </iq>
"""

UNSUBSCRIBE: Final = """
{who} sends:
    <iq type='set'>
      <pubsub xmlns='http://jabber.org/protocol/pubsub'>
        <unsubscribe jid='{jid}' node='{node}'/>
      </pubsub>
    </iq>
{who} receives:
    <iq type='result'>
      <pubsub xmlns='http://jabber.org/protocol/pubsub'>
        <subscription jid='{jid}' node='{node}' subid='{{any}}' subscription='none'/>
      </pubsub>
    </iq>
"""

PUBLISH: Final = """
{who} sends:
    <iq type='set'>
      <pubsub xmlns='http://jabber.org/protocol/pubsub'>
        <publish node='{node}'>{items}</publish>
      </pubsub>
    </iq>
{who} receives:
    <iq type='result'>
      <pubsub xmlns='http://jabber.org/protocol/pubsub'>
        <publish node='{node}'>{ids}</publish>
      </pubsub>
    </iq>
"""

EVENT: Final = """
{receives}:
    <message to='{{any}}' type='{{any?}}'>
      <event xmlns='http://jabber.org/protocol/pubsub#event'>
        <items node='{node}'>{child}</items>
      </event>
    </message>
"""

ASK: Final = {
    "retract": """
{who} sends:
    <iq type='set'>
      <pubsub xmlns='http://jabber.org/protocol/pubsub'>
        <retract node='{node}'>{items}</retract>
      </pubsub>
    </iq>
""",
    "unlock": """
{who} sends:
    <iq type='set'>
      <pubsub xmlns='http://jabber.org/protocol/pubsub'>
        <unlock xmlns='urn:xmpp:pubsub:queueing:0' node='{node}'>{items}</unlock>
      </pubsub>
    </iq>
""",
}

NOTIFICATIONS: Final = {
    "retract": "<retract id='{}'/>",
    "unlock": "<unlock xmlns='urn:xmpp:pubsub:queueing:0' id='{}'/>",
}


def expand(line: str) -> str | None:
    """Return the steps that `line` is short for, or None if it is not a phrase."""
    for pattern, steps in PHRASES.items():
        if found := re.fullmatch(pattern, line):
            return steps(**found.groupdict())
    return None


def _create(who: str, kind: str, node: str, settings: str | None) -> str:
    fields = {"pubsub#access_model": "open", "pubsub#publish_model": "open"}
    if kind == "queue":
        fields["x-queueing#enabled"] = "1"
    for setting in (settings or "").split(", "):
        name, equals, value = setting.partition("=")
        if equals:
            fields[name] = value
    return CREATE.format(who=who, node=node, form=_form("submit", "node_config", fields))


def _subscribe(who: str, bare: str | None, node: str, requests: str) -> str:
    fields = {"pubsub#queue_requests": requests}
    return SUBSCRIBE.format(
        who=who,
        jid=f"{{{who}.bare}}" if bare else f"{{{who}}}",
        node=node,
        form=_form("submit", "subscribe_options", fields),
        result=_form("result", "subscribe_options", fields, "<?more?>"),
    )


def _unsubscribe(who: str, bare: str | None, node: str) -> str:
    jid = f"{{{who}.bare}}" if bare else f"{{{who}}}"
    return UNSUBSCRIBE.format(who=who, jid=jid, node=node)


def _publish(who: str, ids: str, node: str) -> str:
    return PUBLISH.format(
        who=who,
        node=node,
        items="".join(f"<item id='{it}'>{_payload(it)}</item>" for it in ids.split()),
        ids="".join(f"<item id='{it}'/>" for it in ids.split()),
    )


def _delivered(receives: str, item: str, node: str, after: str | None) -> str:
    child = f"<item id='{item}' publisher='{{any?}}'>{_payload(item)}</item>"
    return EVENT.format(receives=_receives(receives, after), node=node, child=child)


def _ask(who: str, what: str, ids: str, node: str) -> str:
    items = "".join(f"<item id='{it}'/>" for it in ids.split())
    return ASK[what].format(who=who, node=node, items=items)


def _notified(who: str, item: str, node: str, what: str, after: str | None) -> str:
    child = NOTIFICATIONS[what.removesuffix("ed")].format(item)
    return EVENT.format(receives=_receives(who, after), node=node, child=child)


def _receives(who: str, after: str | None) -> str:
    return f"{who} receives after {after}" if after else f"{who} receives"


def _settled(who: str, what: str, item: str, node: str) -> str:
    what = what.removesuffix("s")
    asked = _ask(who, what, item, node)
    return f"{asked}{who} gets a result\n" + _notified(who, item, node, what, None)


def _presence(who: str, kind: str) -> str:
    given = " type='unavailable'" if kind == "unavailable" else ""
    return f"{who} sends:\n    <presence{given}/>\nthe service has taken it in"


def _form(kind: str, name: str, fields: dict[str, str], rule: str = "") -> str:
    inside = "".join(f"<field var='{k}'><value>{v}</value></field>" for k, v in fields.items())
    form_type = FORM_TYPE.format(f"{PUBSUB}#{name}")
    return f"<x xmlns='jabber:x:data' type='{kind}'>{rule}{form_type}{inside}</x>"


def _payload(item: str) -> str:
    return f"<work xmlns='urn:example:work'>{item}</work>"


WHO: Final = r"(?P<who>[a-z]\w*)"
ITEM: Final = r"(?P<item>\S+)"
NODE: Final = r"(?P<node>[^\s,]+)"
AFTER: Final = r"(?:, after (?P<after>[\d.]+ s or more))?"
PHRASES: Final = {
    rf"{WHO} creates the (?P<kind>queue|plain node) {NODE}(?: with (?P<settings>.+))?": _create,
    rf"{WHO} subscribes (?P<bare>its account )?to {NODE} with (?P<requests>\d+) requests?": (
        _subscribe
    ),
    rf"{WHO} unsubscribes (?P<bare>its account )?from {NODE}": _unsubscribe,
    rf"{WHO} publishes (?P<ids>\S+(?: \S+)*) to {NODE}": _publish,
    rf"(?P<receives>\w+|one of .+\)) receives item {ITEM} of {NODE}{AFTER}": _delivered,
    rf"{WHO} asks to (?P<what>retract|unlock) (?P<ids>\S+(?: \S+)*) of {NODE}": _ask,
    rf"{WHO} (?P<what>retracts|unlocks) {ITEM} of {NODE}": _settled,
    rf"{WHO} is told that {ITEM} of {NODE} is (?P<what>retracted|unlocked){AFTER}": _notified,
    rf"{WHO} becomes (?P<kind>available|unavailable)": _presence,
}
