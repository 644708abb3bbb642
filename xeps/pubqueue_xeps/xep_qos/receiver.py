"""Receives messages at their levels: answers each request of a sender, and hands messages on.

The answer about an assured message depends on what is known of (full JID of the sender, msgId); `judged` decides it.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import time
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import fromstring

from pubqueue_xeps.errors import PendingFailed
from pubqueue_xeps.log import log
from pubqueue_xeps.wire.ns import PUBQUEUE, STANZAS
from pubqueue_xeps.wire.requests import qos
from pubqueue_xeps.wire.xml_text import attributes
from pubqueue_xeps.xep_qos.pending_file import Held, PendingFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from xml.etree.ElementTree import Element

KEPT_FOR: Final = 86_400
"""How many seconds a message waits for its `deliver`, and is remembered after its end."""

UNKNOWN: Final = f"<{qos.UNKNOWN_MESSAGE} xmlns='{PUBQUEUE}'/>"
CLOCK: Final = time.time


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is stored for senders: for one account with all its resources, and in total."""

    messages_per_account: int = 100
    bytes_per_account: int = 1 << 20
    messages: int = 1_000
    bytes: int = 16 << 20
    remembered: int = 10_000


class Verdict(Enum):
    """The effect of a request about an assured message."""

    KEEP = auto()
    """A new message: it is stored, if the sender is trusted and there is room."""
    RECEIVED = auto()
    """A repetition: it is answered, and nothing changes."""
    CONFLICT = auto()
    """A different message under the id of a stored one."""
    DELIVER = auto()
    """The message is handed on."""
    DELIVERED = auto()
    """It was already handed on: the request is answered, and nothing changes."""
    UNKNOWN = auto()
    """There is no such message, or it was forgotten."""


def judged(known: Held | None, asked: qos.Carried, iq_id: str, digest: str) -> Verdict:
    """Return the effect of a request; `known` is the row of its message, `digest` is of the message in the request."""
    if asked.verb == "deliver":
        if known is None:
            return Verdict.UNKNOWN
        return Verdict.DELIVERED if known.message is None else Verdict.DELIVER
    if known is None:
        return Verdict.KEEP
    if known.message is not None:
        return Verdict.RECEIVED if known.digest == digest else Verdict.CONFLICT
    # the id is free again after the end; only a late copy of the same request is not a new message
    return Verdict.RECEIVED if (known.iq_id, known.digest) == (iq_id, digest) else Verdict.KEEP


class _Turn:
    """Handles the requests about one message, one after another."""

    __slots__ = ("lock", "waiting")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0


class Receiver:
    """The receiving side of one client.

    `reply` sends a stanza, `hand_on` takes a message with the addresses of its IQ, and `trusts` returns whether
    messages of a full JID may be stored.
    """

    def __init__(
        self,
        file: PendingFile,
        limits: Limits,
        *,
        reply: Callable[[str], None],
        hand_on: Callable[[Element], None],
        trusts: Callable[[str], bool],
    ) -> None:
        self._file, self._limits = file, limits
        self._reply, self._hand_on, self._trusts = reply, hand_on, trusts
        self._turns: dict[tuple[str, str], _Turn] = {}

    def take(self, iq: Element) -> bool:
        """Handle a request that needs no writing; return False if `take_assured` has to handle it."""
        try:
            asked = qos.read(iq)
        except ValueError as error:
            self._refuse(iq, "modify", "bad-request", why=str(error))
            return True
        if asked.verb != "acknowledged":
            return False
        assert asked.message is not None, "as it is read"
        self._answer(iq)
        self._hand_on(_addressed(asked.message, iq))
        return True

    async def take_assured(self, iq: Element) -> None:
        """Handle an `assured` or a `deliver`; it is answered when the resulting change is on disk."""
        asked = qos.read(iq)
        key = iq.get("from", ""), asked.msg_id
        turn = self._turns.setdefault(key, _Turn())
        turn.waiting += 1
        try:
            async with turn.lock:  # the second of two copies finds the result of the first
                await self._judge(iq, asked)
        except PendingFailed as error:
            log.error("message.not_kept", sender=key[0], why=str(error))
            self._refuse(iq, "wait", "internal-server-error")
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                del self._turns[key]

    async def _judge(self, iq: Element, asked: qos.Carried) -> None:
        sender, iq_id = iq.get("from", ""), iq.get("id", "")
        if asked.verb == "assured" and not self._trusts(sender):
            self._refuse(iq, "cancel", "not-allowed")
            return
        self._expire()
        text = "" if asked.message is None else qos.embedded(asked.message)
        byte_count = len(text.encode())
        digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        known = self._known((sender, asked.msg_id))
        match judged(known, asked, iq_id, digest):
            case Verdict.KEEP:
                until = CLOCK() + KEPT_FOR
                await self._keep(
                    iq, Held(sender, asked.msg_id, iq_id, digest, byte_count, text, until)
                )
            case Verdict.RECEIVED:
                self._answer(iq, qos.received(asked.msg_id))
            case Verdict.CONFLICT:
                self._refuse(iq, "cancel", "conflict")
            case Verdict.DELIVER:
                assert known is not None, "it is held"
                await self._deliver(iq, known)
            case Verdict.DELIVERED:
                self._answer(iq)
            case Verdict.UNKNOWN:
                self._refuse(iq, "cancel", "item-not-found", UNKNOWN)

    async def _keep(self, iq: Element, new: Held) -> None:
        if not self._has_room(new):
            self._refuse(iq, "wait", "resource-constraint")
            return
        await self._write(new)
        self._answer(iq, qos.received(new.msg_id))

    async def _deliver(self, iq: Element, known: Held) -> None:
        """Hand a message on, once: its end is written to disk first, then the request is answered, then the message is handed on."""
        text = known.message
        assert text is not None, "it is held"
        await self._write(replace(known, message=None, until=CLOCK() + KEPT_FOR))
        self._answer(iq)
        self._hand_on(_addressed(fromstring(text), iq))  # noqa: S314 - it was parsed before

    async def _write(self, new: Held) -> None:
        """Write a row; if that fails, the earlier row stays."""
        before = self._known((new.sender, new.msg_id))
        try:
            await self._file.keep(new)
        except PendingFailed:
            if before is None:
                self._file.held.pop((new.sender, new.msg_id), None)
            else:
                self._file.remember(before)
            raise

    def _known(self, key: tuple[str, str]) -> Held | None:
        return self._file.held.get(key) or self._file.ended.get(key)

    def _has_room(self, new: Held) -> bool:
        account = new.sender.partition("/")[0]
        held = [(row.sender.partition("/")[0], row.byte_count) for row in self._file.held.values()]
        own = [byte_count for source, byte_count in held if source == account]
        limits = self._limits
        return (
            len(held) < limits.messages
            and len(own) < limits.messages_per_account
            and sum(byte_count for _, byte_count in held) + new.byte_count <= limits.bytes
            and sum(own) + new.byte_count <= limits.bytes_per_account
        )

    def _expire(self) -> None:
        """Drop expired messages, and the oldest remembered ones beyond the limit."""
        now = CLOCK()
        for rows in (self._file.held, self._file.ended):
            over = list(itertools.takewhile(lambda row: row.until <= now, rows.values()))
            if over and over[0].message is not None:
                log.warning("message.expired", count=len(over), sender=over[0].sender)
            self._file.drop(*over)
        beyond = len(self._file.ended) - self._limits.remembered
        self._file.drop(*itertools.islice(list(self._file.ended.values()), max(0, beyond)))

    def _answer(self, iq: Element, inner: str = "") -> None:
        start = f"<iq type='result'{attributes(id=iq.get('id'), to=iq.get('from'))}"
        self._reply(f"{start}>{inner}</iq>" if inner else f"{start}/>")

    def _refuse(
        self, iq: Element, kind: str, condition: str, more: str = "", why: str = ""
    ) -> None:
        log.warning("message.refused", sender=iq.get("from"), condition=condition, why=why)
        error = f"<error type='{kind}'><{condition} xmlns='{STANZAS}'/>{more}</error>"
        self._reply(
            f"<iq type='error'{attributes(id=iq.get('id'), to=iq.get('from'))}>{error}</iq>"
        )


def _addressed(message: Element, iq: Element) -> Element:
    """Return the message with the addresses of its IQ instead of its own."""
    for name in ("from", "to"):
        message.attrib.pop(name, None)
        if (address := iq.get(name)) is not None:
            message.set(name, address)
    return message
