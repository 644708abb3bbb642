"""What an error for a delivery means, and pings (XEP-0199) to workers that may be gone."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.xml.stanza import attribute
from pubqueue.model.entities import NUMBER, Jid
from pubqueue.rules.presence import Bounce
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.silent_workers import SilentWorkers
    from pubqueue.faces.xmpp.xml.stanza import Element


# Decides what an error for a delivery means: the address no longer exists, or the problem is temporary.
#
# By XEP-0060 12.4 every error of type cancel would end the subscription. But servers use that type
# for temporary problems too: a server that cannot be found now, a component that is not connected. So
# the condition and the type decide together.

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

_DELIVERY_ID: Final = re.compile(f"pq-{NUMBER}-{NUMBER}" + r"(?:-([0-9a-f]{8}))?(?:-.*)?")


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


# Pings workers (XEP-0199), and interprets the answers.
#
# The id of a ping names the instance that sent it, because a server may route the answer to another one. A
# client without XEP-0199 may answer `service-unavailable`, which servers send for a JID that is gone. Then
# `disco#info` is requested instead (XEP-0030), and only the same answer to that means that the JID is gone. So the
# id also names what was asked for: an instance does not know what another one has asked.

MAX_OPEN: Final = 50_000
"""Maximum number of open pings; beyond it the oldest counts as unanswered."""

MAX_WITHOUT: Final = 10_000
"""Maximum number of remembered JIDs without XEP-0199."""

_ID: Final = re.compile(f"pq-(ping|disco)-{NUMBER}-{NUMBER}")

PING: Final = f'<ping xmlns="{ns.PING}"/>'
DISCO: Final = f'<query xmlns="{ns.DISCO_INFO}"/>'


class Meaning(enum.Enum):
    """What an answer to a ping shows about the JID."""

    HERE = enum.auto()
    GONE = enum.auto()
    UNCLEAR = enum.auto()
    """It is online without XEP-0199, or gone."""
    NOTHING = enum.auto()
    """Its server cannot be reached now."""


_ERRORS: Final = {
    "gone": Meaning.GONE,
    "item-not-found": Meaning.GONE,
    "recipient-unavailable": Meaning.GONE,
    "service-unavailable": Meaning.UNCLEAR,
    "remote-server-not-found": Meaning.NOTHING,
    "remote-server-timeout": Meaning.NOTHING,
    "internal-server-error": Meaning.NOTHING,
    "resource-constraint": Meaning.NOTHING,
    "": Meaning.NOTHING,
}
"""What conditions of errors mean (RFC 6120 8.3.3). All others come from a client, or from a server that does not report it as gone."""


def meaning(iq: Element) -> Meaning:
    """Return what an answer means."""
    if iq.get("type") == "result":
        return Meaning.HERE
    return _ERRORS.get(condition_of(iq), Meaning.HERE)


class Pings:
    """The pings that this instance has sent, and the answers to its pings and to those of other instances."""

    def __init__(
        self,
        service: str,
        write: Callable[[bytes], bool],
        workers: SilentWorkers,
        instance: Callable[[], int],
    ) -> None:
        self._service, self._write, self._instance = service, write, instance
        self._workers = workers
        self._open: dict[int, Jid] = {}
        self._of: dict[Jid, int] = {}
        self._without: dict[Jid, None] = {}
        self._count = 0

    def ping(self, jid: Jid) -> bool:
        """Send a ping in place of an earlier one to the JID, and return whether it was sent."""
        self._close(jid)
        self._count += 1
        self._open[self._count], self._of[jid] = jid, self._count
        if len(self._open) > MAX_OPEN:
            self._close(next(iter(self._of)))
        what, child = ("disco", DISCO) if jid in self._without else ("ping", PING)
        return self._write(
            f'<iq type="get" id="pq-{what}-{self._instance()}-{self._count}" from="{attribute(self._service)}"'
            f' to="{attribute(jid)}">{child}</iq>'.encode()
        )

    def forget(self) -> None:
        """Drop all open pings, because the stream is lost."""
        self._open.clear()
        self._of.clear()

    def take_answer(self, iq: Element) -> bool:
        """Handle the stanza if it answers a ping, and return whether it does. Forged answers are ignored."""
        found = _ID.fullmatch(iq.get("id") or "")
        sender = iq.get("from")
        if found is None or sender is None or iq.get("to") != self._service:
            return False
        jid, instance, number = Jid(sender), int(found[2]), int(found[3])
        is_last = found[1] == "disco"
        if instance != self._instance():
            if (means := meaning(iq)) is Meaning.HERE:
                self._workers.answered_elsewhere(jid)
            elif self._workers.doubts(jid):
                self._judge(jid, means, is_last=is_last)
        elif self._open.get(number) == jid:
            self._close(jid)
            self._judge(jid, meaning(iq), is_last=is_last)
        return True

    def _judge(self, jid: Jid, means: Meaning, *, is_last: bool) -> None:
        if means is Meaning.HERE:
            self._workers.answered(jid)
        elif means is Meaning.GONE or (means is Meaning.UNCLEAR and is_last):
            self._workers.is_gone(jid)
        elif means is Meaning.UNCLEAR:
            self._without[jid] = None
            if len(self._without) > MAX_WITHOUT:
                del self._without[next(iter(self._without))]
            self.ping(jid)

    def _close(self, jid: Jid) -> None:
        number = self._of.pop(jid, None)
        if number is not None:
            self._open.pop(number, None)
