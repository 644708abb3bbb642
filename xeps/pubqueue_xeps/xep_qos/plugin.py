"""Quality of Service (urn:xmpp:qos), a plugin for slixmpp: sends and receives messages that are carried in IQs.

Events of the client, for messages that were resumed in the background: `qos_sent` with a `Sent`, and `qos_failed` with
a pair of `Pending` and the error.
"""

from __future__ import annotations

import asyncio
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast
from xml.etree.ElementTree import Element

from slixmpp.jid import JID
from slixmpp.plugins import BasePlugin
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher.base import MatcherBase

from pubqueue_xeps.client.ask import Denied
from pubqueue_xeps.errors import NotConfirmed, PubqueueError
from pubqueue_xeps.log import log
from pubqueue_xeps.wire.ns import QOS
from pubqueue_xeps.wire.requests import qos as words
from pubqueue_xeps.wire.times import span
from pubqueue_xeps.xep_qos.levels import Level, Pending, Retry, Sent, level_of
from pubqueue_xeps.xep_qos.pending_file import PendingFile
from pubqueue_xeps.xep_qos.receiver import Limits, Receiver
from pubqueue_xeps.xep_qos.sender import Sender, failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from slixmpp.xmlstream import StanzaBase

    from pubqueue_xeps.wire.times import Span
    from pubqueue_xeps.xep_qos.pending_file import Outgoing

HANDLER: Final = "Quality of Service"


class _Ours(MatcherBase):
    """Matches the stanzas that the plugin reads."""

    def match(self, xml: StanzaBase) -> bool:
        """Return whether the plugin reads a stanza."""
        plugin: XEP_QOS = self._criteria
        return plugin.is_ours(xml.xml)


class XEP_QOS(BasePlugin):  # noqa: N801 - the name by which slixmpp's plugins go
    """Quality of Service: `client.register_plugin("xep_qos", {...}, module="pubqueue_xeps.xep_qos")`.

    Configuration, all of it optional:

    - `pending`: a file (SQLite) that stores messages until they have a final answer, across restarts. Without it they
      are in memory. Only one process can have the file open; PendingFailed is raised otherwise.
    - `retry`: a `Retry`: when an unanswered step is sent again, and how often.
    - `check`: whether a peer is asked for the feature before its first message in a session; default True.
    - `resume`: whether pending messages are resumed when a session starts; default True.
    - `trust`: a function that takes the full JID of a sender and returns whether its assured messages are stored. By
      default those of the own account, of the roster, and of `services`, a collection of addresses, are.
    - `limits`: `Limits` of what is stored for senders.
    """

    name = "xep_qos"
    description = "Quality of Service"
    dependencies: ClassVar[set[str]] = {"xep_0030"}
    default_config: ClassVar[dict[str, Any]] = {
        "pending": None,
        "retry": Retry(),
        "check": True,
        "resume": True,
        "trust": None,
        "services": (),
        "limits": Limits(),
    }

    def plugin_init(self) -> None:
        """Open the file, and start listening."""
        pending = self.config["pending"]
        self._file = pending if isinstance(pending, PendingFile) else PendingFile(pending)
        self.send_text: Callable[[str], object] = self._xmpp.send
        """Sends a stanza as text, in order with the client's others. A client may replace it."""
        trusts: Callable[[str], bool] = self.config["trust"] or self._trusts
        self._sender = Sender(
            self, self._file, self.config["retry"], check=bool(self.config["check"])
        )
        self._sender.sent, self._sender.failed = self._report_sent, self._report_failed
        self._receiver = Receiver(
            self._file,
            self.config["limits"],
            reply=self._reply,
            hand_on=self._hand_on,
            trusts=trusts,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        if self.xmpp.session_bind_event.is_set():  # registered in the middle of a session
            self._sender.session_started()
        self.xmpp.add_event_handler("session_start", self._session_started)
        self.xmpp.add_event_handler("session_resumed", self._session_resumed)
        self.xmpp.add_event_handler("disconnected", self._session_lost)
        self.xmpp.register_handler(Callback(HANDLER, _Ours(self), self._read_stanza))

    def session_bind(self, _jid: JID) -> None:
        """Offer the feature (section 3)."""
        self._xmpp.plugin["xep_0030"].add_feature(QOS)

    def plugin_end(self) -> None:
        """Stop listening, and close the file; pending messages stay in it."""
        self.xmpp.del_event_handler("session_start", self._session_started)
        self.xmpp.del_event_handler("session_resumed", self._session_resumed)
        self.xmpp.del_event_handler("disconnected", self._session_lost)
        self.xmpp.remove_handler(HANDLER)
        self._xmpp.plugin["xep_0030"].del_feature(feature=QOS)
        self._sender.stop()
        for task in self._tasks:
            task.cancel()
        self._file.close()

    async def send(
        self,
        to: str | JID,
        message: StanzaBase | Element,
        level: Level | str = Level.ASSURED,
        *,
        msg_id: str | None = None,
        timeout: Span | None = None,  # noqa: ASYNC109 - a promise
    ) -> Sent:
        """Send a message to a full JID or a service; return when the last step of its level is answered.

        `message` is slixmpp's Message or an Element `{jabber:client}message`; its `from` and `to` are ignored. Without
        a session this waits for one. `timeout`, in seconds or a timedelta, limits the whole call; None sets no limit.
        If the same message with this `msg_id` is already pending, it continues from its last step. An unanswered
        message is sent again as `Retry` defines.

        Raises Refused if the peer refuses it or does not offer the feature (`condition` is the peer's); NotConfirmed if
        attempts or `timeout` are used up: with a file, the message stays pending and is resumed in the next session;
        DeliveryUnknown if the peer no longer knows it; PendingFailed if the file cannot be written and nothing was
        sent; ValueError if `message` is not a message, or another message is pending under this id.
        """
        element = message if isinstance(message, Element) else message.xml
        peer, text = str(JID(to)), words.embedded(element)
        seconds = None if timeout is None else span("timeout", timeout)
        try:
            return await self.carry(peer, text, level_of(level), msg_id, seconds)
        except Denied as no:
            raise failure(no, peer) from None

    async def carry(
        self,
        peer: str,
        message: str,
        level: Level,
        msg_id: str | None,
        timeout: float | None,  # noqa: ASYNC109 - as above
    ) -> Sent:
        """Send the text of a message, as `wire.requests.qos.embedded` returns it; raise Denied instead of Refused."""
        name = secrets.token_hex(16) if msg_id is None else words.identified(msg_id)
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                if level is Level.UNACKNOWLEDGED:
                    return await self._sender.send_once(peer, message, name)
                return await self._sender.send(peer, message, level, name)
        except TimeoutError:
            if not limit.expired():
                raise
            raise NotConfirmed(
                f"{peer} did not confirm the message {name!r} within {timeout:g} seconds."
            ) from None

    @property
    def when_silent(self) -> Callable[[], None]:
        """Called when an answer does not come in time: the connection may be dead."""
        return self._sender.silent

    @when_silent.setter
    def when_silent(self, call: Callable[[], None]) -> None:
        self._sender.silent = call

    def resume(self) -> None:
        """Resume pending messages; a new session does so itself, unless `resume` is off."""
        self._sender.resume()

    def pending(self) -> list[Pending]:
        """Return the messages that have no final answer yet, oldest first."""
        rows = sorted(self._file.outgoing.values(), key=lambda row: row.number)
        return [_pending(row) for row in rows]

    def forget(self, msg_id: str) -> bool:
        """Give up pending messages with this id; return whether there were any."""
        rows = [row for row in self._file.outgoing.values() if row.msg_id == msg_id]
        for row in rows:
            self._sender.forget(row)
        return bool(rows)

    def is_ours(self, stanza: Element) -> bool:
        """Return whether `read` handles a stanza."""
        return _asks(stanza) or self._sender.expects(stanza)

    def read(self, stanza: Element) -> bool:
        """Handle a stanza of the extension, as a bare element; return False for any other."""
        if self._sender.read(stanza):
            return True
        if not _asks(stanza):
            return False
        if not self._receiver.take(stanza):
            task = asyncio.ensure_future(self._receiver.take_assured(stanza))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return True

    @property
    def jid(self) -> str:
        """The full JID that the server has bound."""
        return str(self.xmpp.boundjid.full)

    @property
    def _xmpp(self) -> Any:  # noqa: ANN401 - slixmpp's, whose stanzas mypy cannot follow
        return self.xmpp

    def _reply(self, text: str) -> None:
        self.send_text(text)  # looked up at each call, because a client may replace it

    def _read_stanza(self, stanza: StanzaBase) -> None:
        self.read(stanza.xml)

    def _session_started(self, _: object) -> None:
        self._sender.session_started()
        if self.config["resume"]:
            self._sender.resume()

    def _session_resumed(self, _: object) -> None:
        self._sender.session_started()

    def _session_lost(self, _: object) -> None:
        self._sender.session_lost()

    def _report_sent(self, sent: Sent) -> None:
        self.xmpp.event("qos_sent", sent)

    def _report_failed(self, row: Outgoing, error: Denied | PubqueueError) -> None:
        reported = failure(error, row.peer)
        log.warning("message.failed", peer=row.peer, msg_id=row.msg_id, why=str(reported))
        self.xmpp.event("qos_failed", (_pending(row), reported))

    def _trusts(self, sender: str) -> bool:
        jid = JID(sender)
        if jid.bare == self.xmpp.boundjid.bare or sender in self.config["services"]:
            return True
        roster = self._xmpp.client_roster
        known = jid.bare in roster and roster[jid.bare]["subscription"] != "none"
        return known or jid.bare in self.config["services"]

    def _hand_on(self, message: Element) -> None:
        """Feed a message into the client's stream, as if it had arrived directly; exceptions of its handlers are only logged."""
        acks = self._xmpp.plugin.get("xep_0198", None)
        handled = getattr(acks, "handled", None)
        try:
            self._xmpp._spawn_event(message)  # noqa: SLF001 - there is no other way in
        except Exception:  # of a handler
            log.exception("message.handler_failed", sender=message.get("from"))
        if handled is not None:
            acks.handled = (
                handled  # it is not a stanza of the stream: the server has not counted it
            )


def _asks(stanza: Element) -> bool:
    return stanza.tag.endswith("}iq") and words.concerns(stanza)


def _pending(row: Outgoing) -> Pending:
    since = datetime.fromtimestamp(row.since, UTC)
    return Pending(row.peer, row.msg_id, row.level, row.step, since, row.message)


def qos(xmpp: Any) -> XEP_QOS:  # noqa: ANN401 - slixmpp's classes do not know our plugin
    """Return the plugin of this client, registering it if needed."""
    xmpp.register_plugin(XEP_QOS.name, module="pubqueue_xeps.xep_qos")
    return cast("XEP_QOS", xmpp.plugin[XEP_QOS.name])
