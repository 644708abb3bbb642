"""IQ requests in flight on one stream, each until its answer or the end of the stream."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import TYPE_CHECKING, Final

from pubqueue_xeps.wire import refusals
from pubqueue_xeps.wire.ns import CLIENT
from pubqueue_xeps.wire.xml_escape import quote

if TYPE_CHECKING:
    from collections.abc import Callable
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.wire.refusals import Refusal
    from pubqueue_xeps.wire.requests.iq import IqRequest

IQ: Final = f"{{{CLIENT}}}iq"


class Unanswered(Exception):  # noqa: N818 - it names what happened
    """No answer came. Unless the request was never `sent`, it is unknown whether the service received it."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__("There was no answer.")
        self.sent = sent


class Denied(Exception):  # noqa: N818 - as above
    """The answer is an error."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.summary)
        self.refusal = refusal


class PendingIqs:
    """Sends requests by `send`, which returns whether there was a stream, and reads incoming stanzas."""

    def __init__(self, send: Callable[[bytes], bool]) -> None:
        self._send = send
        self._ids = (f"{secrets.token_hex(4)}-{n}" for n in itertools.count(1))
        self._asked: dict[str, tuple[str, asyncio.Future[Element]]] = {}

    async def ask(self, service: str, question: IqRequest, timeout: float) -> Element:  # noqa: ASYNC109 - raises an error of its own
        """Return the answer. Raise Denied for an error, Unanswered if no answer can or does come."""
        name = next(self._ids)
        answer: asyncio.Future[Element] = asyncio.get_running_loop().create_future()
        start = f"<iq type='{question.kind}' id='{name}' to={quote(service)}>"
        if not self._send(start.encode() + question.body):
            raise Unanswered(sent=False)
        self._asked[name] = service, answer
        try:
            done, _ = await asyncio.wait({answer}, timeout=timeout)
        finally:
            del self._asked[name]
        if not done or answer.cancelled():
            raise Unanswered(sent=True)
        iq = answer.result()
        if iq.get("type") == "error":
            raise Denied(refusals.read(iq))
        return iq

    def read(self, stanza: Element) -> bool:
        """Read the answer to one of our requests; return False for any other stanza."""
        if stanza.tag != IQ or stanza.get("type") not in ("result", "error"):
            return False
        service, answer = self._asked.get(stanza.get("id", ""), ("", None))
        if answer is None or stanza.get("from") != service:
            return False
        if not answer.done():
            answer.set_result(stanza)
        return True

    def cut(self) -> None:
        """Stop waiting for answers: the stream is lost."""
        for _, answer in self._asked.values():
            answer.cancel()
