"""Reads retract and unlock (XEP-0060 7.2, XEP-0254 2.3 and 2.4), and our extensions touch and redrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.faces.xmpp.parse.iq import Iq, ids_of, node_of, span_of
from pubqueue.faces.xmpp.refusals import ITEM_REQUIRED, StanzaError, bad_request
from pubqueue.model.entities import NodeName
from pubqueue.rules.dead_letters import Redrive
from pubqueue.rules.settle import Outcome, Settle, Verb
from pubqueue.rules.unlock import Touch
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.engine.table import Request

MAX_REASON_LENGTH: Final = 1023
"""Maximum characters of a worker's reason; the rest is cut off."""


def _settle(iq: Iq, verb: Verb, *item_tags: str) -> Settle | StanzaError:
    node = node_of(iq.verb)
    if isinstance(node, StanzaError):
        return node
    ids = ids_of(iq.verb, *item_tags)
    if not ids:
        return ITEM_REQUIRED
    request = Settle(iq.by, node, ids, verb, iq.verb.get("notify") in {"1", "true"})
    return _with_extensions(iq, request) if len(iq.child.children) > 1 else request


def _with_extensions(iq: Iq, request: Settle) -> Settle | StanzaError:
    """Read our extensions beside a retract or unlock: lock token and outcome."""
    for beside in iq.child.children[1:]:
        try:
            if beside.tag == ns.tag(ns.PUBQUEUE, "lock"):
                request = replace(request, token=int(beside.get("token") or ""))
            elif beside.tag == ns.tag(ns.PUBQUEUE, "outcome") and request.verb is Verb.UNLOCK:
                request = replace(
                    request,
                    outcome=Outcome(beside.get("type") or Outcome.RELEASE.value),
                    delay=span_of(beside.get("delay")),
                    reason=(beside.get("reason") or "")[:MAX_REASON_LENGTH],
                )
            else:
                return bad_request(text="the request contains an unknown element")
        except ValueError as problem:
            return bad_request(text=str(problem))
    return request


def retract(iq: Iq) -> Request | StanzaError:
    """Read a retract (XEP-0060 7.2, XEP-0254 2.3)."""
    return _settle(iq, Verb.RETRACT, ns.tag(ns.PUBSUB, "item"))


def retract_from_queue(iq: Iq) -> Request | StanzaError:
    """Read a retract in an IQ of type get (XEP-0254 example 6), which is a change only for queues (row 1)."""
    request = retract(iq)
    return replace(request, queue_only=True) if isinstance(request, Settle) else request


def unlock(iq: Iq) -> Request | StanzaError:
    """Read an unlock (XEP-0254 2.4); the item may be in either namespace (row 6)."""
    return _settle(iq, Verb.UNLOCK, ns.tag(ns.QUEUEING, "item"), ns.tag(ns.PUBSUB, "item"))


def touch(iq: Iq) -> Request | StanzaError:
    """Read a touch, which extends locks; an extension of ours."""
    node = node_of(iq.child)
    ids = ids_of(iq.child, ns.tag(ns.PUBQUEUE, "item"))
    if isinstance(node, StanzaError):
        return node
    if not ids:
        return ITEM_REQUIRED
    try:
        span = span_of(iq.child.get("seconds"))
    except ValueError as problem:
        return bad_request(text=str(problem))
    return Touch(iq.by, node, ids, span)


def redrive(iq: Iq) -> Request | StanzaError:
    """Read a redrive of dead items; an extension of ours."""
    node = node_of(iq.child)
    if isinstance(node, StanzaError):
        return node
    ids = ids_of(iq.child, ns.tag(ns.PUBQUEUE, "item")) if iq.child.children else None
    if ids == ():
        return ITEM_REQUIRED
    given = iq.child.get("to")
    return Redrive(iq.by, node, ids, None if given is None else NodeName(given))
