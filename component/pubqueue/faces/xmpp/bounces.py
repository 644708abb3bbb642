"""Decides what an error for a delivery means: the address no longer exists, or the problem is temporary.

By XEP-0060 12.4 every error of type cancel would end the subscription. But servers use that type
for temporary problems too: a server that cannot be found now, a component that is not connected. So
the condition and the type decide together.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pubqueue.model.entities import Jid
from pubqueue.rules.presence import Bounce
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.xml.stanza import Element

TYPES: Final = ("auth", "cancel", "continue", "modify", "wait")
"""Types of stanza errors (RFC 6120 8.3.2)."""

# fmt: off
_TABLE: Final[dict[str, str]] = {
    #                          auth cancel continue modify wait    G: the resource or the account is gone
    "bad-request":             "-     -       -       -     -",
    "conflict":                "-     -       -       -     -",
    "feature-not-implemented": "-     -       -       -     -",
    "forbidden":               "-     -       -       -     -",
    "gone":                    "G     G       G       G     G",
    "internal-server-error":   "-     -       -       -     -",
    "item-not-found":          "-     G       -       -     -",  # no such account
    "jid-malformed":           "-     -       -       -     -",
    "not-acceptable":          "-     -       -       -     -",
    "not-allowed":             "-     -       -       -     -",
    "not-authorized":          "-     -       -       -     -",
    "payment-required":        "-     -       -       -     -",
    "policy-violation":        "-     -       -       -     -",
    "recipient-unavailable":   "-     G       -       -     -",  # Prosody, for a session that was not resumed
    "redirect":                "-     -       -       -     -",
    "registration-required":   "-     -       -       -     -",
    "remote-server-not-found": "-     -       -       -     -",
    "remote-server-timeout":   "-     -       -       -     -",
    "resource-constraint":     "-     -       -       -     -",
    "service-unavailable":     "-     G       -       -     -",  # the answer of servers for an account that does not exist (RFC 6121 8.5)
    "subscription-required":   "-     -       -       -     -",
    "undefined-condition":     "-     -       -       -     -",
    "unexpected-request":      "-     -       -       -     -",
}
# fmt: on

GONE: Final[dict[tuple[str, str], bool]] = {
    (condition, kind): cell == "G"
    for condition, row in _TABLE.items()
    for kind, cell in zip(TYPES, row.split(), strict=True)
}
"""Whether an error of this condition and type means that the address no longer exists; unknown errors do not."""

_DELIVERY_ID: Final = re.compile(r"pq-(\d{1,18})-(\d{1,18})(?:-([0-9a-f]{8}))?(?:-.*)?")


def bounce(top: Element) -> Bounce | None:
    """Return what a message of type error means for a delivery, or None if it is not about one.

    The id names the lock and the subscription. Ids of earlier versions name no subscription, so none ends.
    """
    found = _DELIVERY_ID.fullmatch(top.get("id") or "")
    sender = top.get("from")
    if found is None or sender is None:
        return None
    error = error_of(top)
    seq, token, mark = int(found[1]), int(found[2]), found[3] or ""
    return Bounce(Jid(sender), seq, token, gone=is_gone(error), bounced=True, mark=mark)


def is_gone(error: Element | None) -> bool:
    """Return whether the error means that the address no longer exists."""
    if error is None:
        return False
    return GONE.get((_condition(error), error.get("type") or ""), False)


def condition_of(stanza: Element) -> str:
    """Return the condition of a stanza of type error (RFC 6120 8.3.3), an empty string if it has none."""
    error = error_of(stanza)
    return "" if error is None else _condition(error)


def error_of(stanza: Element) -> Element | None:
    """Return the error of a stanza of type error."""
    return stanza.find(ns.tag(ns.COMPONENT, "error")) or stanza.find(ns.tag(ns.CLIENT, "error"))


def _condition(error: Element) -> str:
    conditions = (child.tag.partition(" ") for child in error.children)
    return next(
        (name for space, _, name in conditions if space == ns.STANZAS and name != "text"), ""
    )
