"""What is read of kept messages: the bytes of one, by the face that has to understand it, and a list of accounts, by administrators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.decision import Decision, Refusal, refuse
from pubqueue.core.qos.keep import known
from pubqueue.core.qos.model import KeptMessages, MessageRead

if TYPE_CHECKING:
    from pubqueue.core.model import Millis, Principal
    from pubqueue.core.qos.model import AccountMessages, KeptMessage, MessageTotal


class ReadMessage(Struct, frozen=True, gc=False):
    """Read the message that is held under this id for the full JID."""

    by: Principal
    msg_id: str


class ReadMessageFacts(Struct, frozen=True, gc=False):
    """The message, if there is one, and its bytes, if it is held."""

    now: Millis
    found: KeptMessage | None
    message: bytes = b""


class ListMessages(Struct, frozen=True, gc=False):
    """List the accounts behind `after` of which messages are held, with their totals."""

    by: Principal
    after: str = ""
    max: int = 100


class ListMessagesFacts(Struct, frozen=True, gc=False):
    """A page of accounts, and the totals of all."""

    accounts: tuple[AccountMessages, ...]
    all: MessageTotal


def read_message(_request: ReadMessage, facts: ReadMessageFacts) -> Decision:
    """Return the bytes; no bytes if nothing is held."""
    found = known(facts.found, facts.now)
    if found is None or not found.held:
        return Decision(MessageRead(b"", b""))
    return Decision(MessageRead(facts.message, found.digest))


def list_messages(request: ListMessages, facts: ListMessagesFacts) -> Decision:
    """Return the page."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN)
    total = facts.all
    return Decision(
        KeptMessages(facts.accounts, total.messages, total.byte_count, total.remembered)
    )
