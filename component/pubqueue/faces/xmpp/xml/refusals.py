"""Maps every refusal to a stanza error (error catalogue of XEP-0060 1.5, RFC 6120 8.3.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pubqueue.faces.xmpp.xml.fields import sentence
from pubqueue.faces.xmpp.xml.stanza import attribute, escape
from pubqueue.model.decision import Refusal, Refused
from pubqueue_xeps.wire import ns


@dataclass(frozen=True, slots=True)
class StanzaError:
    """A stanza error: type, condition, and optionally the condition of pubsub, or of another protocol."""

    type: str
    condition: str
    detail: str = ""
    feature: str = ""
    text: str = ""
    namespace: str = ns.ERRORS
    """The namespace of the detail."""
    uri: str = ""
    follow_up: int = 0
    """The number, from 1, of the follow-up that is refused; its condition stands within that of ours, because an error has one."""

    def render(self) -> str:
        """Return the error element; its children are in their own namespaces."""
        inner = f'<{self.condition} xmlns="{ns.STANZAS}"/>'
        if self.uri:
            where = escape(self.uri)
            inner = f'<{self.condition} xmlns="{ns.STANZAS}">{where}</{self.condition}>'
        if self.text:
            inner += f'<text xmlns="{ns.STANZAS}" xml:lang="en">{escape(self.text)}</text>'
        detail = ""
        if self.detail:
            feature = f' feature="{attribute(self.feature)}"' if self.feature else ""
            detail = f'<{self.detail} xmlns="{self.namespace}"{feature}/>'
        if self.follow_up:
            detail = f'<follow-up xmlns="{ns.PUBQUEUE}" n="{self.follow_up}">{detail}</follow-up>'
        inner += detail
        return f'<error type="{self.type}">{inner}</error>'


def bad_request(detail: str = "", text: str = "") -> StanzaError:
    """Return the error for a request that cannot be understood."""
    return StanzaError("modify", "bad-request", detail, text=text)


def excessive(excess: str | Refused) -> StanzaError:
    """Return the error for a request with more elements than are read."""
    if isinstance(excess, Refused):
        return words(excess)
    return StanzaError("modify", "policy-violation", text=excess)


def busy(why: str) -> StanzaError:
    """Return the error for a request that has to wait, because its account has too many requests in progress."""
    return StanzaError("wait", "resource-constraint", text=why or "too much is in progress")


def behind() -> StanzaError:
    """Return the error for a request that has to wait, because its node has too many unsent notifications."""
    return StanzaError(
        "wait",
        "resource-constraint",
        text="earlier notifications of this node are still being sent",
    )


def unsupported(feature: str) -> StanzaError:
    """Return the error for a feature that the service does not support, with its name (XEP-0060)."""
    return StanzaError("cancel", "feature-not-implemented", "unsupported", feature)


NODEID_REQUIRED: Final = bad_request("nodeid-required")
ITEM_REQUIRED: Final = bad_request("item-required")
JID_REQUIRED: Final = bad_request("jid-required")
INVALID_JID: Final = bad_request("invalid-jid")
PAYLOAD_REQUIRED: Final = bad_request("payload-required")
INVALID_PAYLOAD: Final = bad_request("invalid-payload")
NO_SUCH_COMMAND: Final = StanzaError("cancel", "item-not-found")
INTERNAL_FAULT: Final = StanzaError("cancel", "internal-server-error")
SERVICE_UNAVAILABLE: Final = StanzaError("cancel", "service-unavailable")

# fmt: off
WORDS: Final[dict[Refusal, StanzaError]] = {
    Refusal.NODE_NOT_FOUND:           StanzaError("cancel", "item-not-found"),
    Refusal.ITEM_NOT_FOUND:           StanzaError("cancel", "item-not-found"),
    Refusal.FORBIDDEN:                StanzaError("auth",   "forbidden"),
    Refusal.NOT_YOURS:                StanzaError("auth",   "forbidden"),
    Refusal.LOCKED_BY_ANOTHER:        StanzaError("cancel", "conflict"),
    Refusal.LOCK_LOST:                StanzaError("wait",   "unexpected-request"),
    Refusal.ITEM_EXISTS:              StanzaError("cancel", "conflict"),
    Refusal.PUBLISH_PAUSED:           StanzaError("wait",   "service-unavailable"),
    Refusal.NOT_A_QUEUE:              StanzaError("cancel", "feature-not-implemented"),
    Refusal.NODE_EXISTS:              StanzaError("cancel", "conflict"),
    Refusal.NODE_FULL:                StanzaError("cancel", "conflict",                "node-full"),
    Refusal.TOO_MANY_ITEMS:           StanzaError("cancel", "not-allowed",             "max-items-exceeded"),
    Refusal.PAYLOAD_TOO_BIG:          StanzaError("modify", "not-acceptable",          "payload-too-big"),
    Refusal.HEADERS_TOO_BIG:          StanzaError("modify", "not-acceptable"),
    Refusal.ITEM_LOCKED:              StanzaError("cancel", "conflict"),
    Refusal.CLOSED_NODE:              StanzaError("cancel", "not-allowed",             "closed-node"),
    Refusal.CONFIGURATION_REQUIRED:   StanzaError("modify", "not-acceptable",          "configuration-required"),
    Refusal.INVALID_OPTIONS:          StanzaError("modify", "bad-request",             "invalid-options"),
    Refusal.INVALID_CONFIG:           StanzaError("modify", "not-acceptable"),
    Refusal.UNSUPPORTED_ACCESS_MODEL: StanzaError("modify", "not-acceptable",          "unsupported-access-model"),
    Refusal.UNSUPPORTED:              unsupported("collections"),  # or the feature that the refusal names
    Refusal.FOREIGN_JID:              StanzaError("modify", "bad-request",             "invalid-jid"),
    Refusal.NOT_SUBSCRIBED:           StanzaError("modify", "unexpected-request",      "not-subscribed"),
    Refusal.PENDING_SUBSCRIPTION:     StanzaError("auth",   "not-authorized",          "pending-subscription"),
    Refusal.NO_PRESENCE_SUBSCRIPTION: StanzaError("auth",   "not-authorized",          "presence-subscription-required"),
    Refusal.NOT_IN_ROSTER_GROUP:      StanzaError("auth",   "not-authorized",          "not-in-roster-group"),
    Refusal.NOT_APPROVED:             StanzaError("auth",   "not-authorized",          "not-subscribed"),
    Refusal.NOT_ALL_CHANGED:          StanzaError("modify", "not-acceptable"),
    Refusal.TOO_MANY_SUBSCRIPTIONS:   StanzaError("wait",   "policy-violation",        "too-many-subscriptions"),
    Refusal.SUBID_REQUIRED:           bad_request("subid-required"),
    Refusal.INVALID_SUBID:            StanzaError("modify", "not-acceptable",          "invalid-subid"),
    Refusal.LAST_OWNER:               StanzaError("modify", "not-acceptable"),
    Refusal.BAD_REQUEST:              StanzaError("modify", "bad-request"),
    Refusal.TOO_MUCH_KEPT:            StanzaError("wait",   "resource-constraint"),
    Refusal.TOO_MANY_NODES:           StanzaError("wait",   "policy-violation"),
    Refusal.TOO_MUCH_STAGED:          StanzaError("wait",   "resource-constraint"),
    Refusal.TOO_MANY_KEYS:            StanzaError("wait",   "resource-constraint"),
    Refusal.KEY_REUSED:               StanzaError("cancel", "conflict"),
    Refusal.NOT_TRUSTED:              StanzaError("cancel", "not-allowed"),
    Refusal.TOO_MUCH_HELD:            StanzaError("wait",   "resource-constraint"),
    Refusal.UNKNOWN_MESSAGE:          StanzaError("cancel", "item-not-found",          "unknown-message", namespace=ns.PUBQUEUE),
    Refusal.STILL_NOTIFYING:            StanzaError("wait",   "resource-constraint"),
    Refusal.NOT_AS_STAGED:            StanzaError("cancel", "conflict"),
    Refusal.PRECONDITION_NOT_MET:     StanzaError("cancel", "conflict",                "precondition-not-met"),
    Refusal.ITEM_REQUIRED:            ITEM_REQUIRED,
    Refusal.ITEM_FORBIDDEN:           bad_request("item-forbidden"),
    Refusal.PAYLOAD_REQUIRED:         PAYLOAD_REQUIRED,
    Refusal.WINDOW_FULL:              StanzaError("wait",   "resource-constraint"),
    Refusal.TOO_MANY_SIGNALS:         StanzaError("wait",   "resource-constraint",     "too-many-signals", namespace=ns.PUBQUEUE),
    Refusal.TOO_MANY_WAITING:         StanzaError("wait",   "resource-constraint"),
    Refusal.MOVED:                    StanzaError("modify", "gone"),  # with the URI
    Refusal.WRONG_PAYLOAD:            INVALID_PAYLOAD,
    Refusal.STORE_FAILED:             StanzaError("wait",   "internal-server-error"),
    Refusal.INTERNAL_FAULT:           INTERNAL_FAULT,
}
# fmt: on


def words(refused: Refused) -> StanzaError:
    """Return the stanza error for a refusal, with its sentence and limit, if any."""
    error = WORDS[refused.refusal]
    if refused.refusal is Refusal.UNSUPPORTED:
        error = unsupported(refused.setting)
    if refused.part:  # the first part is the end of the item
        error = replace(error, follow_up=refused.part)
    if (
        refused.refusal is Refusal.MOVED
    ):  # RFC 6120 8.3.3.5: the URI is the text of the condition itself
        return replace(error, uri=refused.reason)
    text = sentence(refused)
    if not text and refused.limit is not None and refused.refusal in _BOUNDED:
        text = f"{_BOUNDED[refused.refusal]} {refused.limit}"
    return replace(error, text=text) if text else error


_BOUNDED: Final = {
    Refusal.TOO_MANY_SUBSCRIPTIONS: "the maximum number of subscriptions of an account to a node is",
    Refusal.NODE_FULL: "the maximum number of items in this node is",
    Refusal.TOO_MANY_ITEMS: "the maximum number of items in one request is",
    Refusal.PAYLOAD_TOO_BIG: "the maximum size of a payload in bytes is",
}
