"""Transactions of one client: frames that are kept in memory, and done together by COMMIT, all or none.

A transaction ends with its connection, and then nothing of it has happened. Messages that are acknowledged in it are held
until COMMIT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.faces.stomp.destinations import OPTIONS
from pubqueue.faces.stomp.problems import Message, Problem
from pubqueue.faces.stomp.refusals import problem_of, unexpected
from pubqueue.faces.stomp.sending import sent
from pubqueue.faces.stomp.settling import key_of
from pubqueue.model.decision import DoneTogether, Refused
from pubqueue.model.entities import NodeName
from pubqueue.rules.publication import Publish
from pubqueue.rules.together import Together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pubqueue.faces.stomp.codec import Frame
    from pubqueue.faces.stomp.session.answers import Owed
    from pubqueue.faces.stomp.session.client import Client
    from pubqueue.faces.stomp.session.subscription import Handed
    from pubqueue.faces.stomp.session.unsettled import Unsettled
    from pubqueue.model.decision import Reply
    from pubqueue.rules.together import Part

MAX_OPEN: Final = 16
"""Open transactions of a connection."""

MAX_PARTS: Final = 1_000
"""Messages that are sent or settled in one."""

MAX_BYTES: Final = 4 << 20
"""Bytes of payloads in all open transactions of a connection, so that many of them take no more memory than one."""

NAMELESS: Final = Problem(Message.HEADER_MISSING, "the transaction has to have a name")
TOO_LARGE: Final = Problem(
    Message.TRANSACTION_TOO_LARGE,
    f"a transaction has at most {MAX_PARTS} messages, and those of a connection have {MAX_BYTES} bytes",
)


class _Transaction(Struct, gc=False):
    """The frames of one."""

    parts: list[Part]
    settled: set[Handed]
    size: int = 0


class Transactions:
    """Those of one client."""

    def __init__(self, client: Client, unsettled: Unsettled) -> None:
        self._client, self._unsettled = client, unsettled
        self._open: dict[str, _Transaction] = {}

    def begin(self, frame: Frame, owed: Owed) -> Problem | None:
        """Do a BEGIN."""
        name = frame.headers["transaction"]
        if not name:
            return NAMELESS
        if name in self._open:
            return Problem(Message.TRANSACTION_EXISTS, "there is a transaction of this name")
        if len(self._open) >= MAX_OPEN:
            words = f"a connection has at most {MAX_OPEN} transactions open"
            return Problem(Message.TRANSACTION_TOO_LARGE, words)
        self._open[name] = _Transaction([], set())
        self._client.answers.done(owed)
        return None

    def abort(self, frame: Frame, owed: Owed) -> Problem | None:
        """Do an ABORT: the acknowledged messages are still held, and can be acknowledged again."""
        found = self._ended(frame.headers)
        if isinstance(found, Problem):
            return found
        self._client.answers.done(owed)
        return None

    def send(self, frame: Frame, owed: Owed) -> Problem | None:
        """Keep a SEND; the RECEIPT confirms that it was received, not that it is durable."""
        client, found = self._client, self._named(frame.headers)
        if isinstance(found, Problem):
            return found
        item = sent(frame, client.backend.new_id, client.backend.now())
        if isinstance(item, Problem):
            return item
        by = client.backend.by(client.address)
        part = Publish(by, NodeName(item.node), (item.draft,), OPTIONS[item.kind])
        return self._keep(found, owed, (part,), len(item.draft.payload))

    def settle(self, frame: Frame, owed: Owed) -> Problem | None:
        """Keep an ACK or a NACK. If the lock of its message is over, COMMIT refuses it, or this does if that is known."""
        found = self._named(frame.headers)
        if isinstance(found, Problem):
            return found
        key = key_of(frame.headers, self._client.version)
        if self._unsettled.is_news(key):
            self._client.answers.done(owed)
            return None
        meant = self._unsettled.meant_by(frame, key, found.settled)
        if isinstance(meant, Problem):
            return meant
        template, handed = meant
        parts = [replace(template, ids=(one.item,), token=one.token) for one in handed]
        problem = self._keep(found, owed, parts, 0)
        if problem is None:
            found.settled.update(handed)
        return problem

    def commit(self, frame: Frame, owed: Owed) -> Problem | None:
        """Do a COMMIT."""
        found, client = self._ended(frame.headers), self._client
        if isinstance(found, Problem):
            return found
        if not found.parts:
            client.answers.done(owed)
            return None
        self._unsettled.forget(found.settled)
        owed.size += found.size
        client.answers.size += found.size
        request = Together(client.backend.by(client.address), tuple(found.parts))

        def answer(reply: Reply) -> None:
            if isinstance(reply, DoneTogether):
                client.answers.done(owed)
            else:
                client.answers.refuse(owed, _refused(reply, found.parts))

        client.ask(client.address, request, owed, answer)
        return None

    def clear(self) -> None:
        """Drop open transactions: nothing of them has happened."""
        self._open.clear()

    def _named(self, headers: Mapping[str, str]) -> _Transaction | Problem:
        found = self._open.get(headers["transaction"])
        return found or Problem(Message.NO_SUCH_TRANSACTION, "no transaction of this name is open")

    def _ended(self, headers: Mapping[str, str]) -> _Transaction | Problem:
        found = self._named(headers)
        self._open.pop(headers["transaction"], None)
        return found

    def _keep(
        self, found: _Transaction, owed: Owed, parts: Sequence[Part], size: int
    ) -> Problem | None:
        found.size += size
        kept = sum(one.size for one in self._open.values())
        if len(found.parts) + len(parts) > MAX_PARTS or kept > MAX_BYTES:
            return TOO_LARGE
        found.parts += parts
        self._client.answers.done(owed)
        return None


def _refused(reply: Reply, parts: list[Part]) -> Problem:
    """Return the problem with a transaction: that of the first refused part."""
    if not isinstance(reply, Refused) or reply.part is None:
        return unexpected(reply)
    problem, part = problem_of(reply), parts[reply.part]
    words = f"message {reply.part + 1} of the transaction, of {part.node!r}: {problem.sentence}"
    return Problem(problem.message, words)
