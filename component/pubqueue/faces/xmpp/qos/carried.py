"""Reads what carried messages ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.qos.asking import asked
from pubqueue.faces.xmpp.stream.reader import StreamParser
from pubqueue.faces.xmpp.stream.single import SingleMessage
from pubqueue.faces.xmpp.xml.ids import new_id
from pubqueue.faces.xmpp.xml.stanza import Stanza
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.parse.carrying import Carried
    from pubqueue.faces.xmpp.qos.asking import Asked
    from pubqueue.faces.xmpp.refusals import StanzaError
    from pubqueue.model.entities import Jid, Principal

HEADER: Final = (
    f"<stream:stream xmlns='{ns.COMPONENT}' xmlns:stream='http://etherx.jabber.org/streams'>"
).encode()


class MessageReader:
    """Reads carried messages as stanzas; one parser serves them all, because making one takes longer than reading a message."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._parser: StreamParser | None = None

    def asked(
        self, found: Carried | SingleMessage, by: Principal
    ) -> tuple[Asked | StanzaError | None, str]:
        """Return what a message asks, or None, and the id of the message."""
        if isinstance(found, SingleMessage):
            return found.publish(by, new_id), found.message_id
        stanza = self.read(found.message, by.jid)
        return asked(stanza, by, new_id), stanza.top.get("id") or ""

    def read(self, message: bytes, sender: Jid) -> Stanza:
        """Return a message as a stanza from its sender to the service, whatever addresses it has itself."""
        parser, self._parser = self._parser or _parser(), None  # after a fault it is not used again
        (stanza,) = parser.feed(message)
        self._parser = parser
        assert isinstance(stanza, Stanza)  # it was cut out of a stanza
        top = stanza.top
        top.attributes = top.attributes | {"from": sender, "to": self._service}
        return stanza


def _parser() -> StreamParser:
    parser = StreamParser()
    parser.feed(HEADER)
    return parser
