"""Reads the request in a message: a publish (XEP-0060 7.1), an owner's answer (8.6), or none. A message of type error is a bounce."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.faces.xmpp import bounces
from pubqueue.faces.xmpp.parse import approving, publishing
from pubqueue.faces.xmpp.parse.iq import Iq
from pubqueue.faces.xmpp.refusals import StanzaError, excessive
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.xmpp.xml.stanza import Element, Stanza
    from pubqueue.model.entities import Principal
    from pubqueue.rules.presence import Bounce
    from pubqueue.rules.publication import Publish
    from pubqueue.rules.staging import StagePublish
    from pubqueue.rules.subscribers import Answer

    Asked = Publish | StagePublish | Answer | Bounce

_PUBSUB, _PUBLISH = ns.tag(ns.PUBSUB, "pubsub"), ns.tag(ns.PUBSUB, "publish")


def publish_in(top: Element) -> Element | None:
    """Return the `pubsub` child of a message that begins with a `publish`, or None; a message of type error publishes nothing."""
    pubsub = top.find(_PUBSUB)
    if pubsub is None or top.get("type") == "error" or not pubsub.children:
        return None
    return pubsub if pubsub.children[0].tag == _PUBLISH else None


def asked(stanza: Stanza, by: Principal, new_id: Callable[[], str]) -> Asked | StanzaError | None:
    """Read the request in a message; None if there is none."""
    top = stanza.top
    if top.get("type") == "error":
        return bounces.bounce(top)
    pubsub = publish_in(top)
    if pubsub is None:
        return approving.answer(stanza, by)
    if stanza.excess:
        return excessive(stanza.excess)
    return publishing.publish(Iq(stanza.narrowed(pubsub), by, new_id))
