"""Sends messages at their levels, and resumes pending ones, over one stream.

It is independent of slixmpp: the caller provides the stream and incoming stanzas, and reports the start and end of
sessions.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final, Protocol

from pubqueue_xeps.client.ask import Denied
from pubqueue_xeps.errors import (
    DeliveryUnknown,
    NotConfirmed,
    PendingFailed,
    PubqueueError,
    Refused,
)
from pubqueue_xeps.log import log
from pubqueue_xeps.wire import refusals
from pubqueue_xeps.wire.ns import CLIENT, COMPONENT, QOS
from pubqueue_xeps.wire.refusals import Refusal
from pubqueue_xeps.wire.requests import pages, qos
from pubqueue_xeps.wire.xml_text import quote
from pubqueue_xeps.xep_qos.levels import Level, Sent, Step
from pubqueue_xeps.xep_qos.pending_file import Outgoing, PendingFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.wire.requests import IqRequest
    from pubqueue_xeps.xep_qos.levels import Retry

IQS: Final = frozenset(f"{{{space}}}iq" for space in (CLIENT, COMPONENT))
TOGETHER: Final = 100
"""How many pending messages to one peer are resumed at a time when a session starts: one that is away holds up no other."""

Key = tuple[str, str]
FIRST_STEP: Final = {Level.ACKNOWLEDGED: Step.ACKNOWLEDGED, Level.ASSURED: Step.ASSURED}


class Stream(Protocol):
    """The stream that messages are sent over."""

    @property
    def jid(self) -> str:
        """The full JID that the server has bound."""

    def send_text(self, text: str, /) -> object:
        """Send a stanza, in order."""


class _Moved(Exception):  # noqa: N818 - it names what happened
    """The full JID of the stream is not the one that sent the message."""


class _Delivery:
    """A message that a task sends, and how many tasks wait for it; `own`: it is sent in the background."""

    __slots__ = ("own", "row", "sendings", "task", "waiting")

    def __init__(self, row: Outgoing, *, own: bool) -> None:
        self.row, self.own = row, own
        self.sendings = self.waiting = 0
        self.task: asyncio.Task[Sent]


class Sender:
    """The sending side of one client.

    `sent` and `failed` are called for messages that no task waits for, `silent` when an answer does not come in time.
    `check`: ask a peer for the feature before the first message in a session.
    """

    def __init__(
        self, stream: Stream, file: PendingFile, retry: Retry, *, check: bool = True
    ) -> None:
        self._stream, self._file, self._retry, self._check = stream, file, retry, check
        self._online = asyncio.Event()
        self._answers: dict[str, tuple[str, asyncio.Queue[Element | None]]] = {}
        self._deliveries: dict[Key, _Delivery] = {}
        self._peers: dict[str, asyncio.Future[bool]] = {}
        self._room: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(TOGETHER)
        )
        self.silent: Callable[[], None] = lambda: None
        self.sent: Callable[[Sent], None] = lambda _sent: None
        self.failed: Callable[[Outgoing, Denied | PubqueueError], None] = lambda _row, _error: None

    def session_started(self) -> None:
        """Note that stanzas can be sent."""
        self._peers.clear()
        self._online.set()

    def session_lost(self) -> None:
        """Note that nothing can be sent, and that answers may be lost."""
        self._online.clear()
        for _, answers in self._answers.values():
            answers.put_nowait(None)

    def expects(self, iq: Element) -> bool:
        """Return whether this answers a request of ours, from the address that it was sent to."""
        if iq.tag not in IQS or iq.get("type") not in ("result", "error"):
            return False
        asked = self._answers.get(iq.get("id", ""))
        if asked is None:
            return False
        # a server that answers for the account itself may leave out the address
        origin = iq.get("from") or self._stream.jid.partition("/")[0]
        return origin == asked[0]

    def read(self, stanza: Element) -> bool:
        """Read an answer; return False for any other stanza."""
        if not self.expects(stanza):
            return False
        self._answers[stanza.get("id", "")][1].put_nowait(stanza)
        return True

    async def send_once(self, to: str, message: str, name: str) -> Sent:
        """Send a message as a plain one, once there is a session; `message` is what `qos.embedded` returns."""
        await self._online.wait()
        start = f'<message xmlns="{CLIENT}"'
        assert message.startswith(start), "as it was written"
        self._stream.send_text(f"<message to={quote(to)}{message.removeprefix(start)}")
        return Sent(to, name, Level.UNACKNOWLEDGED, 1)

    async def send(self, to: str, message: str, level: Level, msg_id: str) -> Sent:
        """Send a message until its last step is answered; `message` is what `qos.embedded` returns.

        If the same message is already pending under this id, it continues from its step. Raises Denied,
        NotConfirmed, DeliveryUnknown, PendingFailed; ValueError for another message under the id of a pending one.
        """
        delivery = self._deliveries.get((to, msg_id))
        if delivery is None:
            row = self._file.outgoing.get((to, msg_id))
            row = row or self._new(to, message, level, msg_id)
            delivery = self._begin(row, own=False) if row.message == message else None
        if delivery is None or delivery.row.message != message or delivery.row.level != level:
            raise ValueError(f"Another message to {to} is pending under the id {msg_id!r}.")
        delivery.waiting += 1
        try:
            return await asyncio.shield(delivery.task)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise NotConfirmed(f"The message {msg_id!r} to {to} was given up.") from None
        finally:
            delivery.waiting -= 1
            if not delivery.waiting and not delivery.own and not delivery.task.done():
                self._give_up(delivery)

    def resume(self) -> None:
        """Resume the pending messages that no task is sending, oldest first."""
        rows = sorted(self._file.outgoing.items(), key=lambda entry: entry[1].number)
        for key, row in rows:
            if key not in self._deliveries:
                self._begin(row, own=True)

    def forget(self, row: Outgoing) -> None:
        """Give up a message: it is not sent again."""
        if (delivery := self._deliveries.get((row.peer, row.msg_id))) is not None:
            self._give_up(delivery)
        self._file.drop(row)

    def stop(self) -> None:
        """End all tasks; pending messages stay in the file."""
        for delivery in list(self._deliveries.values()):
            delivery.task.cancel()
        for asked in self._peers.values():
            asked.cancel()

    def _new(self, to: str, message: str, level: Level, msg_id: str) -> Outgoing:
        ids = secrets.token_hex(8), secrets.token_hex(8)
        number, since = self._file.next_number(), time.time()
        return Outgoing(number, "", to, msg_id, *ids, level, FIRST_STEP[level], since, message)

    def _begin(self, row: Outgoing, *, own: bool) -> _Delivery:
        delivery = _Delivery(row, own=own)
        work = self._carry_in_turn(delivery) if own else self._carry(delivery)
        delivery.task = asyncio.create_task(work, name=f"pubqueue message {row.msg_id}")
        self._deliveries[row.peer, row.msg_id] = delivery
        delivery.task.add_done_callback(lambda task: self._end(delivery, task))
        return delivery

    def _give_up(self, delivery: _Delivery) -> None:
        """End the task of a message that is no longer awaited, so that the next one can begin."""
        delivery.task.cancel()
        self._leave(delivery)

    def _leave(self, delivery: _Delivery) -> None:
        key = delivery.row.peer, delivery.row.msg_id
        if self._deliveries.get(key) is delivery:
            del self._deliveries[key]
            if (
                not self._file.is_lasting
            ):  # without a file no later process could resume it, so it is dropped
                self._file.outgoing.pop(key, None)

    def _end(self, delivery: _Delivery, task: asyncio.Task[Sent]) -> None:
        row = delivery.row
        self._leave(delivery)
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or delivery.waiting:
            return
        if error is None:
            self.sent(task.result())
        elif isinstance(error, Denied | PubqueueError):
            self.failed(row, error)
        else:
            log.error(
                "message.failed", peer=row.peer, msg_id=row.msg_id, why="an error", exc_info=error
            )

    async def _carry_in_turn(self, delivery: _Delivery) -> Sent:
        async with self._room[delivery.row.peer]:
            return await self._carry(delivery)

    async def _carry(self, delivery: _Delivery) -> Sent:
        """Take a message through its steps; drop its row when the last one is answered, even with an error."""
        row = delivery.row
        await self._keep_new(row)
        try:
            while True:
                try:
                    if self._check:
                        await self._check_peer(row.peer)
                    await self._steps(delivery)
                except _Moved:
                    await self._move(row)
                else:
                    break
        except (Denied, DeliveryUnknown):
            self._file.drop(row)
            raise
        self._file.drop(row)
        return Sent(row.peer, row.msg_id, row.level, delivery.sendings)

    async def _keep_new(self, row: Outgoing) -> None:
        """Write a message to the file before it is first sent, with or without a session."""
        key = row.peer, row.msg_id
        if self._file.outgoing.get(key) is row:
            return
        if self._online.is_set():
            row.sender = self._stream.jid
        try:
            await self._file.keep(row)
        except PendingFailed:
            self._file.outgoing.pop(key, None)
            raise

    async def _move(self, row: Outgoing) -> None:
        """Send a message as new, under the current full JID, if the receiver cannot have delivered it."""
        if row.step is Step.RECEIVED:
            raise DeliveryUnknown(
                f"The message {row.msg_id!r} was sent as {row.sender}, and the client is {self._stream.jid} now:"
                f" whether {row.peer} has delivered it is not known."
            ) from None
        if row.sender:  # else it was never sent
            row.iq_id, row.deliver_id = secrets.token_hex(8), secrets.token_hex(8)
        row.sender = self._stream.jid
        await self._file.keep(row)

    async def _steps(self, delivery: _Delivery) -> None:
        row = delivery.row
        if row.level is Level.ACKNOWLEDGED:
            await self._step(delivery, row.iq_id, qos.acknowledged(row.message))
            return
        if row.step is Step.ASSURED:
            wanted = qos.assured(row.message, row.msg_id)
            await self._step(delivery, row.iq_id, wanted, row.msg_id)
            row.step = Step.RECEIVED
            await self._file.keep(row)
        try:
            await self._step(delivery, row.deliver_id, qos.deliver(row.msg_id))
        except Denied as no:
            if no.refusal.detail != qos.UNKNOWN_MESSAGE:
                raise
            raise DeliveryUnknown(
                f"{row.peer} does not know the message {row.msg_id!r} any more: whether it was delivered is not known.",
                condition=no.refusal.condition,
            ) from None

    async def _step(
        self, delivery: _Delivery, iq_id: str, wanted: IqRequest, received: str | None = None
    ) -> None:
        """Send a step until it is answered; with `received`, only a result that names that message counts."""

        def before() -> None:
            if self._stream.jid != delivery.row.sender:
                raise _Moved
            delivery.sendings += 1

        def counts(answer: Element) -> bool:
            return received is None or qos.is_received(answer, received)

        await self._answered(delivery.row.peer, iq_id, wanted, before, counts)

    async def _check_peer(self, peer: str) -> None:
        """Raise Denied unless the peer has the feature; the peer is asked once in a session, for all waiting messages."""
        known = self._peers.get(peer)
        if known is None or (known.done() and known.cancelled()):
            known = asyncio.ensure_future(self._ask_peer(peer))
            self._peers[peer] = known
            known.add_done_callback(lambda asked: self._forget_failed(peer, asked))
        if not await asyncio.shield(known):
            text = f"{peer} does not offer {QOS}"
            raise Denied(Refusal("cancel", "feature-not-implemented", text=text))

    def _forget_failed(self, peer: str, asked: asyncio.Future[bool]) -> None:
        failed = asked.cancelled() or asked.exception() is not None
        if failed and self._peers.get(peer) is asked:
            del self._peers[peer]

    async def _ask_peer(self, peer: str) -> bool:
        try:
            answer = await self._answered(peer, secrets.token_hex(8), pages.request(peer))
        except Denied:
            return False
        return QOS in pages.features(answer)

    async def _answered(
        self,
        peer: str,
        iq_id: str,
        wanted: IqRequest,
        before: Callable[[], None] = lambda: None,
        counts: Callable[[Element], bool] = lambda _answer: True,
    ) -> Element:
        """Send a request until it is answered, with the same bytes each time; return the answer."""
        answers: asyncio.Queue[Element | None] = asyncio.Queue()
        self._answers[iq_id] = peer, answers
        stanza = f"<iq type='{wanted.kind}' id='{iq_id}' to={quote(peer)}>{wanted.body.decode()}"
        why, silent = f"{peer} does not answer", 0
        try:
            while silent < self._retry.attempts:
                await self._online.wait()
                before()
                self._stream.send_text(stanza)
                limit = asyncio.timeout(self._retry.pause(silent + 1))
                try:
                    async with limit:
                        while (answer := await answers.get()) is not None:
                            if answer.get("type") == "result" and counts(answer):
                                return answer
                            why = _excuse(peer, answer)
                except TimeoutError:
                    if not limit.expired():
                        raise
                    silent += 1
                    self.silent()
        finally:
            if (
                self._answers[iq_id][1] is answers
            ):  # else another task that sends the message has it
                del self._answers[iq_id]
        raise NotConfirmed(f"{wanted} was not confirmed after {silent} sendings: {why}.")


def _excuse(peer: str, answer: Element) -> str:
    """Return why an answer does not count; raise Denied if it does."""
    if answer.get("type") != "error":
        return f"{peer} answers something else"
    refusal = refusals.read(answer)
    if not passing(refusal):
        raise Denied(refusal)
    return f"{peer} answers {refusal.summary}"


def passing(refusal: Refusal) -> bool:
    """Whether an error counts as silence: a server answers in place of the peer, or the peer cannot take the message now."""
    return (
        refusal.is_transient
        or refusal.type == "wait"
        or refusal.condition == "internal-server-error"
    )


def failure(error: Denied | PubqueueError, peer: str) -> PubqueueError:
    """Make the exception for a failed message to a peer."""
    if isinstance(error, PubqueueError):
        return error
    refusal = error.refusal
    return Refused(
        f"{peer} refused the message: {refusal.summary}.",
        condition=refusal.detail or refusal.condition,
    )
