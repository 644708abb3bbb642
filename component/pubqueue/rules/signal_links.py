"""Links by which anyone who bears one sends a signal to one item, once: for mails and pages, whose readers have no account here.

A link is made with the right to signal, and names the account that made it. Nothing is stored: all that it says is in its text, with a code that only
the service can make. It holds for one wait of the item: for the next one, if the item is not held when the link is made. So a link that is left over
from one question answers no later one.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from pubqueue.model.changes import PutRow
from pubqueue.model.decision import Decision, Refusal, Refused, Request, SignalLinkMade, refuse
from pubqueue.model.entities import ItemId, Jid, Millis, NodeName, Principal, State, later, seconds
from pubqueue.model.sums import DAMAGED
from pubqueue.model.waits import NO_WAIT
from pubqueue.rules import access
from pubqueue.rules.waits import Bearer, Signal, SignalFacts, is_signal, name_refused

if TYPE_CHECKING:
    from pubqueue.model.records import ServiceSecret

SECRET: Final = "signal-links"  # noqa: S105  # its name
"""The name of the secret of the service under which links are made."""

ANSWER: Final = "answer"
"""The first part of the path of a link; its text follows."""

USUAL: Final = seconds(2 * 86_400)
LONGEST: Final = seconds(30 * 86_400)
"""How long a link holds by default, and at most."""

_MAC_BYTES: Final = 16

MAX_TEXT: Final = 8_000
"""Characters of a link; those of an item whose names are as long as names may be have fewer."""


class Link(Struct, frozen=True, gc=False, array_like=True):
    """What a link says. `id` is that of its signal, which counts once; `admin`: who made it had the rights of an administrator."""

    node: NodeName
    item: ItemId
    name: str
    id: str
    account: Jid
    admin: bool
    seq: int
    step: int
    until: Millis

    def signal(self, data: str) -> Signal:
        """Return the signal that its bearer sends. The account that made it has to have the right to this day."""
        by = Principal(self.account, admin=self.admin)
        bearer = Bearer(self.seq, self.step, self.until)
        return Signal(by, self.node, self.item, self.name, data, self.id, bearer)


_LINKS: Final = msgspec.msgpack.Decoder(Link)


def written(link: Link, secret: bytes) -> str:
    """Return a link as a text of letters, digits, hyphens and underscores."""
    content = msgspec.msgpack.encode(link)
    return urlsafe_b64encode(_mac(content, secret) + content).decode().rstrip("=")


def read(text: str, secret: bytes) -> Link | None:
    """Return what a text says that the service has made; None for any other."""
    if len(text) > MAX_TEXT:
        return None
    try:
        found = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (NotBase64, ValueError):
        return None
    mac, content = found[:_MAC_BYTES], found[_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(content, secret)):
        return None
    try:
        return _LINKS.decode(content)
    except msgspec.MsgspecError:  # of a version with other fields
        return None


def _mac(content: bytes, secret: bytes) -> bytes:
    return hmac.digest(secret, b"signal-link\n" + content, "sha256")[:_MAC_BYTES]


class MakeSignalLink(Request, frozen=True, gc=False):
    """Make a link that sends the item this signal once, under the id `link`, for up to `within`. `proposed` is kept if there is no secret yet."""

    by: Principal
    node: NodeName
    id: ItemId
    name: str
    link: str
    proposed: ServiceSecret
    within: Millis = USUAL


class MakeSignalLinkFacts(Struct, frozen=True, gc=False):
    """The facts as for a signal, and the secret, None if there is none yet."""

    signal: SignalFacts
    secret: ServiceSecret | None


def make_signal_link(request: MakeSignalLink, facts: MakeSignalLinkFacts) -> Decision:
    """Decide whether the account may make a link, and make it."""
    no = access.no_way_to_item(
        request.by, facts.signal.node, facts.signal.affiliation, facts.signal.item
    )
    if no is not None:
        return refuse(no)
    item = facts.signal.item
    if item is None:
        return refuse(Refusal.ITEM_NOT_FOUND)
    wait = item.wait or NO_WAIT
    if wait.damaged:
        return refuse(Refusal.STORE_FAILED, DAMAGED)
    secret = facts.secret or request.proposed
    until = later(facts.signal.now, request.within)
    link = Link(
        request.node,
        request.id,
        request.name,
        request.link,
        request.by.account,
        request.by.admin,
        item.seq,
        wait.holds if item.state is State.HELD else wait.holds + 1,
        until,
    )
    path = f"/{ANSWER}/{written(link, secret.value)}"
    reply = SignalLinkMade(request.node, request.id, path, until)
    return Decision(reply, () if facts.secret is not None else (PutRow(secret),))


def fault_of_link(request: MakeSignalLink) -> Refused | None:
    """Refuse a name, or a time, beyond its bounds."""
    if not is_signal(request.name):
        return name_refused("signal")
    if not 0 < request.within <= LONGEST:
        reason = f"within: a link holds for up to {LONGEST // 1000} seconds"
        return Refused(Refusal.BAD_REQUEST, reason, setting="within")
    return None
