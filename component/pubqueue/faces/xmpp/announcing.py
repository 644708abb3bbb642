"""Sends texts to people, and to rooms (XEP-0045), which it enters for one message and leaves.

Between two messages the service is in no room, so it receives no conversations, and has nothing to restore when a stream is lost. Entering,
the message and leaving are sent together: with several instances the answers may reach another one, so nothing is sent that
depends on an answer. All instances enter a room as the same occupant, `SERVICE/alerts`.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.bounces import condition_of
from pubqueue.faces.xmpp.xml.stanza import attribute, escape
from pubqueue.model.entities import NUMBER, account_of
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.entities import Jid

MUC: Final = "http://jabber.org/protocol/muc"
MUC_USER: Final = "http://jabber.org/protocol/muc#user"

RESOURCE: Final = "alerts"
"""The resource of the service in rooms."""

CREATED: Final = "201"
"""The status of a room that did not exist: who enters it has created it, and it is closed to others."""

PATIENCE: Final = 5.0
"""Seconds to wait for the answer of a room. Later it may have reached another instance, which notes it."""

NO_STREAM: Final = "the XMPP server is not connected"
NO_ROOM: Final = "there is no such room: create it first"

_ID: Final = re.compile(f"pq-alert-{NUMBER}-{NUMBER}")


class Announcer:
    """Sends texts on the component stream; `write` returns whether there is one.

    `on_outcome` is called with a target and why it refused a text, or an empty word if it took it; also for texts of other instances.
    """

    def __init__(
        self, service: str, write: Callable[[bytes], bool], instance: Callable[[], int]
    ) -> None:
        self._service, self._write, self._instance = service, write, instance
        self.address = f"{service}/{RESOURCE}"
        self.is_on = False
        """Whether there is any target; otherwise no stanza is looked at."""
        self.rooms: frozenset[str] = frozenset()
        """The rooms that may answer: stanzas of all others are handled as any."""
        self.on_outcome: Callable[[str, str], None] = lambda _target, _why: None
        self._count = 0
        self._open: dict[str, asyncio.Future[str]] = {}
        """The rooms that a text is on its way to, and its future outcome."""

    # --- out ---

    def send(self, jid: str, text: str) -> str:
        """Send a message, and return why it was not sent, or an empty word."""
        sent = self._write(self._message(self._service, jid, "chat", text))
        return "" if sent else NO_STREAM

    async def send_to_room(self, room: str, nick: str, text: str) -> str | None:
        """Enter a room, send a message and leave; return why it was refused, an empty word if it was not, or None without an answer."""
        stanzas = b"".join(
            (
                self._presence(room, nick, f'<x xmlns="{MUC}"><history maxstanzas="0"/></x>'),
                self._message(self.address, room, "groupchat", text),
                self._presence(room, nick, "", ' type="unavailable"'),
            )
        )
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._open[room] = outcome
        try:
            if not self._write(stanzas):
                return NO_STREAM
            await asyncio.wait([outcome], timeout=PATIENCE)
            return outcome.result() if outcome.done() else None
        finally:
            self._open.pop(room, None)

    def _message(self, sender: str, to: str, kind: str, text: str) -> bytes:
        return (
            f'<message id="{self._mark()}" type="{kind}" from="{attribute(sender)}" to="{attribute(to)}">'
            f"<body>{escape(text)}</body></message>"
        ).encode()

    def _presence(self, room: str, nick: str, child: str, kind: str = "") -> bytes:
        to = attribute(f"{room}/{nick}")
        start = f'<presence id="{self._mark()}" from="{attribute(self.address)}" to="{to}"{kind}'
        return (f"{start}>{child}</presence>" if child else f"{start}/>").encode()

    def _mark(self) -> str:
        self._count += 1
        return f"pq-alert-{self._instance()}-{self._count}"

    # --- in ---

    def awaits(self, head: Element) -> bool:
        """Return whether the stanza is from a room that texts go to, so that its children are read."""
        return (
            self.is_on
            and head.get("to") == self.address
            and account_of(_sender(head)) in self.rooms
        )

    def take(self, top: Element) -> bool:
        """Handle an answer to a text, or what a room sends to those in it, and return whether it is one."""
        if self.awaits(top):
            self._take_of_room(top)
            return True
        is_bounce = top.get("type") == "error" and top.get("to") == self._service
        if not is_bounce or _ID.fullmatch(top.get("id") or "") is None:
            return False
        self.on_outcome(account_of(_sender(top)), condition_of(top) or "an error")
        return True

    def _take_of_room(self, top: Element) -> None:
        found = _ID.fullmatch(top.get("id") or "")
        if top.get("type") == "error":
            why = f"the room refuses: {condition_of(top) or 'an error'}"
        elif CREATED in statuses(top):
            why = NO_ROOM
        elif found is not None and top.get("type") == "groupchat":
            why = ""
        else:
            return  # who is in the room, and what others say there
        room = account_of(_sender(top))
        if (outcome := self._open.get(room)) is not None:
            if not outcome.done():  # a refusal to enter is followed by one of the message
                outcome.set_result(why)
        elif found is not None and int(found[1]) != self._instance():
            self.on_outcome(room, why)


def statuses(presence: Element) -> set[str]:
    """Return the status codes of a room's presence (XEP-0045 15.6)."""
    about = presence.find(ns.tag(MUC_USER, "x"))
    children = () if about is None else about.children
    return {one.get("code") or "" for one in children if one.tag == ns.tag(MUC_USER, "status")}


def _sender(top: Element) -> Jid:
    return top.get("from") or ""  # type: ignore[return-value]  # it is compared only
