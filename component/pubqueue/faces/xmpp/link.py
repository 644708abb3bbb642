"""What the parts of the face share, and the answers and refusals that they send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.xmpp.stream.single import Single
from pubqueue.faces.xmpp.xml.refusals import StanzaError
from pubqueue.faces.xmpp.xml.stanza import MAX_ANSWER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.admission import Admission
    from pubqueue.engine.broker import Broker
    from pubqueue.faces.xmpp.xml.stanza import Stanza
    from pubqueue.model.entities import Jid, Principal


# What the parts of the face share.


class Link(Struct, frozen=True):
    """The name of the service on its stream, who its senders are, and the ways in and out.

    `write` sends bytes on the stream, and returns whether there is one; `admission` counts what is under way.
    """

    jid: str
    broker: Broker
    principal: Callable[[Jid], Principal]
    write: Callable[[bytes], bool]
    admission: Admission
    answers: Answers


# Writes answers and refusals to requests.

TOO_LARGE: Final = StanzaError(
    "modify", "resource-constraint", text="the answer would be larger than servers relay"
)
"""The error type is never `wait`, because a repeated request would get the same answer, and a repeated change would happen twice."""


class Answers:
    """Answers requests on one stream; `write` sends bytes on it."""

    def __init__(self, write: Callable[[bytes, int], bool]) -> None:
        self._write = write

    def answer(self, asked: Stanza | Single, inner: bytes) -> int:
        """Send this answer, and return its number of bytes."""
        rest = b">" + inner + b"</iq>" if inner else b"/>"
        answer = b'<iq type="result"' + asked.address + rest
        byte_count = len(answer)
        if byte_count > MAX_ANSWER_BYTES:
            self.refuse(asked, TOO_LARGE)
        else:
            self._write(answer, byte_count)
        return byte_count

    def refuse(self, asked: Stanza | Single, error: StanzaError, echo: bytes | None = None) -> None:
        """Answer with an error that repeats the request's child (RFC 6120 8.3.1), or has `echo` there."""
        if echo is None:
            echo = asked.echo()
        refusal = b'<iq type="error"%b>%b%b</iq>' % (asked.address, echo, error.render().encode())
        self._write(refusal, len(refusal))


def kind_of(stanza: Stanza | Single) -> str:
    """Return iq, message or presence."""
    return "iq" if isinstance(stanza, Single) else stanza.top.tag.rpartition(" ")[2]


def is_request(stanza: Stanza | Single) -> bool:
    """Return whether the stanza is a request whose sender gets an answer."""
    if isinstance(stanza, Single):
        return True
    asked = stanza.top.get("type") in {"get", "set"} and stanza.top.get("from") is not None
    return asked and kind_of(stanza) == "iq"
