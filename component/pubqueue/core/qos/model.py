"""A kept message, the totals of an account's, and the bounds of both.

A message is identified by the full JID of its sender and the id that the sender has given it. It is kept until it is delivered or its time
is over; then the answer to its delivery is remembered, for a sender that repeats the request.
"""

from __future__ import annotations

from enum import StrEnum, unique
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.model import seconds

if TYPE_CHECKING:
    from pubqueue.core.model import Jid, Millis

EVERYBODY: Final = ""
"""The account of the totals of all accounts."""

MAX_ID_LENGTH: Final = 1023
"""The maximum bytes of the id of a message, which is at least one."""


MAX_IQ_ID_LENGTH: Final = 64
"""The maximum bytes of the id of a request that is remembered as it is; of a longer one its digest is."""

MAX_REASON_LENGTH: Final = 2_000
"""The maximum characters of the reason in an answer that is remembered: it may repeat what a message has."""


class KeptMessage(Struct, frozen=True, gc=False):
    """A message that was received; `mark` identifies it.

    While it is `held`, its bytes are in the store, and `answer` is empty. When it has ended, `answer` is what its delivery is answered. It is
    forgotten at `until`. `iq_id` (`iq_id_of`) and `digest` distinguish a repetition of its request from a new message under the same id. `message` has its bytes
    only when it is added: they are read by themselves.
    """

    mark: str
    sender: Jid
    account: Jid
    msg_id: str
    iq_id: str
    digest: bytes
    byte_count: int
    held: bool
    answer: str
    until: Millis
    message: bytes = b""


class MessageTotal(Struct, frozen=True, gc=False):
    """How many messages are held of an account, or of all, with their bytes, and how many answers are remembered."""

    account: str
    messages: int = 0
    byte_count: int = 0
    remembered: int = 0


@unique
class AssuredFrom(StrEnum):
    """From whom assured messages are accepted."""

    KNOWN = "known"
    """Administrators, accounts of the component's home domain, and accounts with an affiliation."""
    AFFILIATED = "affiliated"
    """Administrators, and accounts with an affiliation."""
    ANYONE = "anyone"
    """Any account that is not anonymous."""


class MessageLimits(Struct, frozen=True, gc=False):
    """The bounds of kept messages: of one account, and of all."""

    assured_from: AssuredFrom = AssuredFrom.KNOWN
    messages_per_account: int = 1_000
    bytes_per_account: int = 16 << 20
    messages: int = 100_000
    bytes: int = 256 << 20
    kept_for: Millis = seconds(86_400)
    remembered_for: Millis = seconds(86_400)
    remembered_per_account: int = 100_000


DEFAULTS: Final = MessageLimits()


@lru_cache(maxsize=1024)
def mark_of(sender: Jid, msg_id: str) -> str:
    """Return what identifies a message; a JID has no line break, so it is unambiguous. Each step of a message asks for it several times."""
    return blake2b(f"{sender}\n{msg_id}".encode(), digest_size=16).hexdigest()


def iq_id_of(request: str) -> str:
    """Return the id of a request as it is remembered: senders choose it, and no total counts it."""
    written = request.encode()
    if len(written) <= MAX_IQ_ID_LENGTH:
        return request
    return blake2b(written, digest_size=16).hexdigest()


class MessageKept(Struct, frozen=True, gc=False):
    """The message is on disk, under this id; its delivery may be asked for."""

    msg_id: str


class MessageDelivered(Struct, frozen=True, gc=False):
    """The message has had its effect, or has ended with this answer, in the words of the face."""

    words: str = ""


class MessageChanged(Struct, frozen=True, gc=False):
    """Another message is held under the id than was read: read it again."""


class MessageRead(Struct, frozen=True, gc=False):
    """The bytes of a message that is held, and their digest; neither if none is held."""

    message: bytes
    digest: bytes


class MessagesEnded(Struct, frozen=True, gc=False):
    """These messages were held, and have ended undelivered; with `more` there may be further ones. `count` is of all slices."""

    held: tuple[KeptMessage, ...]
    more: bool
    count: int = 0


class AccountMessages(Struct, frozen=True, gc=False):
    """How many messages are held of an account, with their bytes, and until when the first of them is held."""

    account: str
    messages: int
    byte_count: int
    until: Millis


class KeptMessages(Struct, frozen=True, gc=False):
    """Accounts of which messages are held, and the totals of all accounts."""

    accounts: tuple[AccountMessages, ...]
    messages: int
    byte_count: int
    remembered: int


Reply = MessageKept | MessageDelivered | MessageChanged | MessageRead | MessagesEnded | KeptMessages
