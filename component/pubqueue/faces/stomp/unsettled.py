"""The messages that a client has to acknowledge, and its transactions."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.faces.stomp.client import OVERHEAD, Owed
from pubqueue.faces.stomp.codec import V10, V12
from pubqueue.faces.stomp.frames import OPTIONS, beginning_of, key_of, sent, settle_of
from pubqueue.faces.stomp.refusals import LOST, Message, Problem, problem_of, unexpected
from pubqueue.model.decision import DoneTogether, Refused, SettledEach
from pubqueue.model.entities import NodeName
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle, Verb
from pubqueue.rules.settle_each import LockName, SettleEach
from pubqueue.rules.together import Together
from pubqueue.rules.validity import MAX_NAMED
from pubqueue.rules.waits import Hold

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pubqueue.faces.stomp.client import Client, Handed, Subscription
    from pubqueue.faces.stomp.codec import Frame
    from pubqueue.faces.stomp.frames import Key
    from pubqueue.faces.stomp.subscriptions import Subscriptions
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import ItemId, Jid
    from pubqueue.rules.together import Part


# The messages that one client has to acknowledge: ACK and NACK end their locks, and so does the broker.

MAX_LOST: Final = 10_000
"""Messages whose locks are over that a connection may still acknowledge, without effect."""

LOST_ONE: Final = 200
"""Bytes of memory that each of them costs in addition to its name."""

_NEWS: Final = re.compile(r"n([0-9]{1,15})", re.ASCII)
"""The header `ack` of messages of a topic."""

_NUMBER: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
"""The `message-id` of a notice of a topic without an item."""

RECENT: Final = 512
"""Tokens of the last messages, which may be settled: as many as a batch has requests, since it may repeat one and settle it."""

NONE_SUCH: Final = Problem(
    Message.NO_SUCH_MESSAGE, "no message of this id waits to be acknowledged on this connection"
)
OVER: Final = Problem(Message.NO_SUCH_MESSAGE, "the lock of the message is over")


class Unsettled:
    """Those of one client."""

    def __init__(self, client: Client, subscriptions: Subscriptions) -> None:
        self._client, self._subscriptions = client, subscriptions
        self._acks: dict[Key, Handed] = {}
        self._lost: dict[Key, None] = {}
        self.size = 0
        """Bytes of memory of the names in `_lost`."""
        self._recent: deque[int] = deque(maxlen=RECENT)
        self.news = 0
        """The number of messages of topics so far."""

    def next_news(self) -> str:
        """Return the name of one more message of a topic for an ACK."""
        self.news += 1
        return f"n{self.news}"

    def was_sent(self, one: Subscription, item: ItemId, token: int) -> bool:
        """Return whether the message was sent under this token.

        After another instance has died, deliveries are repeated that it may not have sent, and all that were made since.
        What was sent on a connection that lives needs no repetition: the client would work it twice.
        """
        if token > one.newest:
            return False
        handed = one.handed.get(item)
        return (handed is not None and handed.token == token) or token in self._recent

    def add(self, handed: Handed, *, is_auto: bool) -> None:
        """Note a message that was sent; an earlier lock of the connection on the item is over."""
        one = handed.subscription
        one.newest = max(one.newest, handed.token)
        self._recent.append(handed.token)
        if handed.item in one.handed:
            self.lose(one, (handed.item,))
        one.handed[handed.item] = handed
        if not is_auto:
            if (
                before := self._acks.get(handed.key)
            ) is not None:  # under a subscription that has ended
                self.lose(before.subscription, (before.item,))
            self._acks[handed.key] = handed
            self._forget_lost(handed.key)

    def lose(self, one: Subscription, ids: Iterable[ItemId]) -> None:
        """Note that the locks of these messages are over."""
        for item in ids:
            handed = one.handed.pop(item, None)
            if handed is None:
                continue
            if self._acks.get(handed.key) is handed:
                del self._acks[handed.key]
                self._lost[handed.key] = None
                self.size += _size_of(handed.key)
                if len(self._lost) > MAX_LOST:
                    self._forget_lost(next(iter(self._lost)))
            self._subscriptions.drop_if_over(one)

    def clear(self) -> None:
        """Forget them: the client has left."""
        self._acks.clear()
        self._lost.clear()
        self.size = 0

    def _forget_lost(self, key: Key) -> bool:
        """Forget that the lock of a message is over; return whether it was known."""
        if key not in self._lost:
            return False
        del self._lost[key]
        self.size -= _size_of(key)
        return True

    def settle(self, frame: Frame, owed: Owed) -> Problem | None:
        """Do an ACK or a NACK."""
        key = key_of(frame.headers, self._client.version)
        if key not in self._acks:
            return self._settle_nothing(key, owed)
        meant = self.meant_by(frame, key)
        if isinstance(meant, Problem):
            return meant
        template, handed = meant
        settling = _Settling(owed, self._settled)
        if isinstance(template, Hold):
            if len(handed) > 1:
                return Problem(
                    Message.NOT_SUPPORTED,
                    f"a hold is of one message, and this NACK of {len(handed)}",
                )
            request = replace(template, id=handed[0].item, token=handed[0].token)
            self._client.ask(template.by, request, owed, settling.answer)
        else:
            self._settle_all(template, handed, settling)
        self.forget(handed)
        return None

    def meant_by(
        self, frame: Frame, key: Key, before: Collection[Handed] = ()
    ) -> tuple[Settle | Hold, list[Handed]] | Problem:
        """Return the actions for the messages, of which `key` names the last; except those that were settled `before`, in a transaction."""
        handed = self._acks.get(key)
        if handed is None or handed in before:
            return OVER if key in self._lost else NONE_SUCH
        one = handed.subscription
        by = self._client.backend.by(one.address)
        template = settle_of(frame, by, one.node, handed.copied)
        if isinstance(template, Problem):
            return template
        meant = one.up_to(handed)
        return template, [each for each in meant if each not in before] if before else meant

    def touched_by(self, frame: Frame, owed: Owed) -> Handed | Problem | None:
        """Return the message that a TOUCH names; None if it is answered: its lock is over, or it is from a topic."""
        key = key_of(frame.headers, self._client.version)
        if (handed := self._acks.get(key)) is not None:
            return handed
        if key in self._lost:
            return self.late(owed)
        if self.is_news(key):
            self._client.answers.done(owed)
            return None
        return NONE_SUCH

    def _settle_nothing(self, key: Key, owed: Owed) -> Problem | None:
        """Answer an ACK or NACK that has nothing to settle: the lock is over, or it is from a topic."""
        if self._forget_lost(key):
            return self.late(owed)
        if self.is_news(key):
            self._client.answers.done(owed)
            return None
        return NONE_SUCH

    def late(self, owed: Owed) -> Problem | None:
        """Answer a late ACK or NACK: it has no effect, or is an error."""
        if self._client.backend.stomp.late_is_error:
            return OVER
        self._client.answers.done(owed, {"outcome": "lost"})
        return None

    def is_news(self, key: Key) -> bool:
        """Return whether that names a message of a topic, which has no lock.

        The id of a subscription may be used again, so a message of a queue may have a name that begins in the same way.
        """
        name, message = key
        if key in self._acks or key in self._lost:
            return False
        if self._client.version is V12:
            found = _NEWS.fullmatch(message)
            return found is not None and int(found[1]) <= self.news
        is_any = self._client.version is V10
        topics = [one for one in self._subscriptions.topics if is_any or one.id == name]
        found = _NUMBER.fullmatch(message)
        if found is not None:
            return bool(topics) and int(found[0]) <= self.news
        return message.startswith(tuple(beginning_of(one.node) for one in topics))

    def _settle_all(self, template: Settle, meant: Sequence[Handed], settling: _Settling) -> None:
        """Settle each by itself: a lock that is over does not prevent the others from being settled."""
        ask, by, owed = self._client.ask, template.by, settling.owed
        if len(meant) == 1:
            one = replace(template, ids=(meant[0].item,), token=meant[0].token)
            return ask(by, one, owed, settling.answer)
        slices = [meant[at : at + MAX_NAMED] for at in range(0, len(meant), MAX_NAMED)]
        settling.left = len(slices)
        for some in slices:
            locks = tuple([LockName(each.item, each.token) for each in some])
            ask(by, SettleEach(template, locks), owed, settling.answer)
        return None

    def _settled(self, settling: _Settling) -> None:
        answers, problem = self._client.answers, settling.problem
        if problem is None and settling.is_late:
            problem = self.late(settling.owed)
        elif problem is None:
            answers.done(settling.owed)
        if problem is not None:
            answers.refuse(settling.owed, problem)

    def forget(self, meant: Iterable[Handed]) -> None:
        """Note that these are settled."""
        for handed in meant:
            one = handed.subscription
            if self._acks.get(handed.key) is handed:
                del self._acks[handed.key]
            if one.handed.get(handed.item) is handed:
                del one.handed[handed.item]
                self._subscriptions.drop_if_over(one)

    def retract(self, taken: Iterable[Handed]) -> None:
        """Retract messages that need no ACK, because they have been sent."""
        by_address: dict[Jid, list[Handed]] = {}
        for handed in taken:
            one = handed.subscription
            if one.handed.get(handed.item) is handed:
                by_address.setdefault(one.address, []).append(handed)
        for address, some in by_address.items():
            by, node = self._client.backend.by(address), some[0].subscription.node
            template = Settle(by, node, (), Verb.RETRACT, quiet=True)
            self._settle_all(template, some, _Settling(Owed(None, 0), _ignore))
            self.forget(some)


def _size_of(key: Key) -> int:
    """Return how many bytes of memory it costs to remember a name; that of the subscription is kept anyway."""
    return LOST_ONE + len(key[1])


class _Settling(Struct, gc=False):
    """An ACK or NACK in progress, perhaps in several requests."""

    owed: Owed
    call: Callable[[_Settling], None]
    left: int = 1
    is_late: bool = False
    problem: Problem | None = None

    def answer(self, reply: Reply) -> None:
        """Note an answer, and call with the last."""
        for one in reply.answers if isinstance(reply, SettledEach) else (reply,):
            if not isinstance(one, Refused):
                continue
            if one.refusal in LOST:
                self.is_late = True
            else:
                self.problem = self.problem or problem_of(one)
        self.left -= 1
        if not self.left:
            self.call(self)


def _ignore(_settling: _Settling) -> None:
    """Its result does not matter: a message that could not be retracted is delivered again."""


# Transactions of one client: frames that are kept in memory, and done together by COMMIT, all or none.
#
# A transaction ends with its connection, and then nothing of it has happened. Messages that are acknowledged in it are held
# until COMMIT.

MAX_OPEN: Final = 16
"""Open transactions of a connection."""

MAX_PARTS: Final = 1_000
"""Messages that are sent or settled in one."""

MAX_BYTES: Final = 4 << 20
"""Bytes of memory of all open transactions of a connection, so that many of them take no more than one."""

NAMELESS: Final = Problem(Message.HEADER_MISSING, "the transaction has to have a name")
TOO_LARGE: Final = Problem(
    Message.TRANSACTION_TOO_LARGE,
    f"a transaction has at most {MAX_PARTS} messages, and those of a connection have {MAX_BYTES} bytes",
)


class _Transaction(Struct, gc=False):
    """The frames of one."""

    parts: list[Part]
    settled: set[Handed]
    size: int


class Transactions:
    """Those of one client."""

    def __init__(self, client: Client, unsettled: Unsettled) -> None:
        self._client, self._unsettled = client, unsettled
        self._open: dict[str, _Transaction] = {}
        self.size = 0
        """Bytes of memory of those that are open."""

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
        self._open[name] = _Transaction([], set(), owed.size)
        self.size += owed.size
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
        size = owed.size - len(frame.body) + len(item.draft.payload)
        return self._keep(found, owed, (part,), size)

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
        if isinstance(template, Hold):
            return Problem(Message.NOT_SUPPORTED, "a hold is not part of a transaction")
        parts = [replace(template, ids=(one.item,), token=one.token) for one in handed]
        problem = self._keep(found, owed, parts, owed.size + OVERHEAD * len(parts))
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
        owed.size += found.size
        client.answers.size += found.size
        request = Together(client.backend.by(client.address), tuple(found.parts))

        def answer(reply: Reply) -> None:
            if isinstance(reply, DoneTogether):
                client.answers.done(owed)
            else:
                client.answers.refuse(owed, _refused(reply, found.parts))

        client.ask(request.by, request, owed, answer)
        self._unsettled.forget(
            found.settled
        )  # not before: with its last message a subscription that has ended leaves
        return None

    def clear(self) -> None:
        """Drop open transactions: nothing of them has happened."""
        self._open.clear()
        self.size = 0

    def _named(self, headers: Mapping[str, str]) -> _Transaction | Problem:
        found = self._open.get(headers["transaction"])
        return found or Problem(Message.NO_SUCH_TRANSACTION, "no transaction of this name is open")

    def _ended(self, headers: Mapping[str, str]) -> _Transaction | Problem:
        found = self._named(headers)
        if isinstance(found, _Transaction):
            del self._open[headers["transaction"]]
            self.size -= found.size
        return found

    def _keep(
        self, found: _Transaction, owed: Owed, parts: Sequence[Part], size: int
    ) -> Problem | None:
        found.size += size
        self.size += size
        if len(found.parts) + len(parts) > MAX_PARTS or self.size > MAX_BYTES:
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
