"""Pull consumers: their addresses, the open message of each, and when they are closed.

A consumer is an address of its account, so its locks stay valid over restarts and on all instances. Only the state for repeated
requests is kept here. A consumer that is not known here is created again by the next request for a message.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Final

from pubqueue.faces.rest.http.problems import ProblemError
from pubqueue.faces.rest.terms import WORD
from pubqueue.model.decision import Taken
from pubqueue.model.entities import Jid, account_of
from pubqueue.rules.settle import ReadHeld, Settle, Verb

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.broker import Broker
    from pubqueue.faces.rest.terms import RestTerms
    from pubqueue.model.entities import Item, NodeName, Principal

    Message = tuple[Item, bytes]

MAX_OF_ACCOUNT: Final = 1000
"""Consumers of an account."""

MAX_KEPT: Final = 16 << 20
"""Bytes of payloads of acknowledged messages that are kept for repetitions, of all consumers."""


class PullConsumer:
    """A consumer of a queue. `due` is the number of its next request for a message; with `is_auto` messages are retracted as they are sent."""

    def __init__(self, by: Principal, node: NodeName, due: int, *, is_auto: bool) -> None:
        self.by, self.node, self.due, self.is_auto = by, node, due, is_auto
        self.position: int | None = None
        """The number of the last message that is done, of a subscription of a topic."""
        self.open: Message | None = None
        """The message that is not settled; with `is_auto` the one that was sent last."""
        self.turn = asyncio.Lock()
        """One request at a time is answered."""
        self.closing: asyncio.TimerHandle | None = None
        self.users = 0
        """Requests that are being answered, or wait for their turn."""


class PullConsumers:
    """The consumers that this process knows."""

    def __init__(self, broker: Broker, terms: Callable[[], RestTerms]) -> None:
        self._broker, self._terms = broker, terms
        self._known: dict[tuple[Jid, NodeName], PullConsumer] = {}
        self._of_account: Counter[Jid] = Counter()
        self._kept: OrderedDict[PullConsumer, int] = OrderedDict()
        self._kept_bytes = 0

    def __len__(self) -> int:
        """Return the number of consumers."""
        return len(self._known)

    @property
    def known(self) -> list[PullConsumer]:
        """The consumers."""
        return [*self._known.values()]

    def find(self, by: Principal, node: NodeName) -> PullConsumer | None:
        """Return the consumer of this address, None if it is not known."""
        return self._known.get((by.jid, node))

    def make(self, by: Principal, node: NodeName, due: int, *, is_auto: bool) -> PullConsumer:
        """Make a consumer.

        Raises:
            ProblemError: the account has too many.

        """
        account = account_of(by.jid)
        if self._of_account[account] >= MAX_OF_ACCOUNT:
            raise ProblemError(
                429, "too-many", "the account has too many consumers", limit=MAX_OF_ACCOUNT
            )
        made = self._known[by.jid, node] = PullConsumer(by, node, due, is_auto=is_auto)
        self._of_account[account] += 1
        self.note_use(made)
        return made

    def note_use(self, consumer: PullConsumer) -> None:
        """Note a request of the consumer: it is closed if there is none for long."""
        self._stay(consumer)
        if not consumer.users and self.find(consumer.by, consumer.node) is consumer:
            idle = self._terms().consumer_idle
            consumer.closing = asyncio.get_running_loop().call_later(idle, self.close, consumer)

    def begin(self, consumer: PullConsumer) -> None:
        """Note that a request of the consumer is being answered: waiting is not idle."""
        consumer.users += 1
        self._stay(consumer)

    def end(self, consumer: PullConsumer) -> None:
        """Note that a request was answered."""
        consumer.users -= 1
        self.note_use(consumer)

    def _stay(self, consumer: PullConsumer) -> None:
        if consumer.closing is not None:
            consumer.closing.cancel()
            consumer.closing = None

    def close(self, consumer: PullConsumer) -> None:
        """Forget a consumer, and release the message that it has open."""
        self._stay(consumer)
        if self._known.pop((consumer.by.jid, consumer.node), None) is None:
            return
        account = account_of(consumer.by.jid)
        self._of_account[account] -= 1
        if not self._of_account[account]:
            del self._of_account[account]
        self._drop(consumer)
        is_locked = not consumer.is_auto and consumer.position is None
        if consumer.open is not None and is_locked:
            self.release(consumer, consumer.open[0])
        consumer.open = None

    def stop(self) -> None:
        """Close no more consumers: their locks stay for the next process."""
        for consumer in self._known.values():
            self._stay(consumer)

    def release(self, consumer: PullConsumer, item: Item) -> None:
        """Release a message without counting a failure."""
        ids = (item.id,)
        settle = Settle(consumer.by, consumer.node, ids, Verb.UNLOCK, token=item.token)
        self._broker.submit(settle, lambda _reply: None)

    def sent(self, consumer: PullConsumer, message: Message) -> None:
        """Keep a message that was acknowledged as it was sent, for a repetition; the oldest are dropped if there are too many bytes."""
        self._drop(consumer)
        consumer.open = message
        if self.find(consumer.by, consumer.node) is not consumer:
            return  # it was closed in the meantime
        self._kept[consumer] = len(message[1])
        self._kept_bytes += len(message[1])
        while self._kept_bytes > MAX_KEPT and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            self._drop(oldest)
            oldest.open = None

    def _drop(self, consumer: PullConsumer) -> None:
        self._kept_bytes -= self._kept.pop(consumer, 0)

    async def held(self, by: Principal, node: NodeName) -> tuple[Message, ...]:
        """Return the items that are locked to the address of a consumer, whichever process created it."""
        reply = await self._broker.handle(ReadHeld(by, node))
        return reply.items if isinstance(reply, Taken) else ()


def address_of(account: Jid, name: str) -> Jid:
    """Return the address of a consumer, which contains no instance."""
    return Jid(f"{account}/{WORD}.c.{name}")
