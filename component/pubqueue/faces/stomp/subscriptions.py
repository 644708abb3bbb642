"""SUBSCRIBE and UNSUBSCRIBE of one client: each subscription is an address of its own, so two of them are two workers."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING

from pubqueue.faces.flow import leave_together
from pubqueue.faces.stomp.client import Subscription
from pubqueue.faces.stomp.frames import OPTIONS, WAYS, DestinationKind, id_of, wanted
from pubqueue.faces.stomp.refusals import Message, Problem, problem_of, refused_word, unexpected
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import Jid, SubscriptionState
from pubqueue.model.replies import Subscribed
from pubqueue.rules.nodes import Create
from pubqueue.rules.presence import Departure, Leave
from pubqueue.rules.subscribe import WINDOW, Options, Subscribe, Unsubscribe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pubqueue.faces.stomp.client import Client, Owed, Receiver
    from pubqueue.faces.stomp.codec import Frame
    from pubqueue.faces.stomp.frames import Wanted
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import NodeName


class Subscriptions:
    """Those of one client. `begin` is called when the RECEIPT of a SUBSCRIBE was sent."""

    def __init__(
        self, client: Client, receiver: Receiver, begin: Callable[[Subscription], None]
    ) -> None:
        self._client, self._receiver, self._begin = client, receiver, begin
        self.named: dict[str, Subscription] = {}
        """Those that are active, by the client's ids."""
        self.by_address: dict[Jid, Subscription] = {}
        """Also those that have ended, as long as messages of them can be acknowledged."""
        self.size = 0
        """Bytes of memory of their names."""
        self.is_busy = False
        """Whether a SUBSCRIBE is in progress: the next frame waits for it."""
        self._numbers = itertools.count(1)

    @property
    def topics(self) -> Iterator[Subscription]:
        """Those of plain nodes."""
        return (one for one in self.named.values() if not one.is_queue)

    def holding(self) -> tuple[int, int]:
        """Return the numbers of active subscriptions, and of unacknowledged messages. Other threads may call it."""
        each = tuple(self.by_address.values())
        return len(self.named), sum(len(one.handed) for one in each)

    def nodes(self) -> tuple[NodeName, ...]:
        """Return the nodes of the active subscriptions, each once, by name. Other threads may call it."""
        return tuple(sorted({one.node for one in tuple(self.named.values())}))

    def subscribe(self, frame: Frame, owed: Owed) -> Problem | None:
        """Do a SUBSCRIBE."""
        client = self._client
        asked = wanted(frame.headers, client.version)
        if isinstance(asked, Problem):
            return asked
        if asked.id in self.named:
            return Problem(Message.ALREADY_SUBSCRIBED, "there is a subscription of this id")
        most = client.backend.stomp.subscriptions_per_connection
        if len(self.by_address) >= most:
            words = f"a connection has at most {most} subscriptions"
            return Problem(Message.TOO_MANY_SUBSCRIPTIONS, words)
        one = Subscription(asked, Jid(f"{client.address}.{next(self._numbers)}"))
        self.named[asked.id] = self.by_address[one.address] = one
        self.size += one.size
        client.backend.enter_subscription(one, self._receiver)
        self.is_busy = True
        self._try(one, asked, WAYS[asked.destination.kind], owed, is_first=True)
        return None

    def _try(
        self,
        one: Subscription,
        asked: Wanted,
        ways: tuple[bool, ...],
        owed: Owed,
        *,
        is_first: bool,
    ) -> None:
        """Subscribe in the first of these ways, with a window or without; then in the next, if the node is of the other kind."""
        backend = self._client.backend
        by, options = backend.by(one.address), Options(asked.window) if ways[0] else None
        request = Subscribe(by, one.node, one.address, backend.new_id(), options)

        def answer(reply: Reply) -> None:
            is_other = isinstance(reply, Refused) and _is_of_other_kind(reply)
            if self._client.has_left:  # nothing would end what is made after that
                self._subscribed(one, asked, owed, reply)
            elif is_other and len(ways) > 1:
                self._try(one, asked, ways[1:], owed, is_first=False)
            elif is_first and _is_missing(reply) and self._may_create(asked):
                self._create(one, asked, owed)
            else:
                self._subscribed(one, asked, owed, reply)

        self._client.ask(by, request, owed, answer)

    def _may_create(self, asked: Wanted) -> bool:
        return (
            self._client.backend.auto_creates
            and asked.destination.kind is not DestinationKind.EITHER
        )

    def _create(self, one: Subscription, asked: Wanted, owed: Owed) -> None:
        """Create the node, if the account may; otherwise the client gets the error that it does not exist."""
        kind, client = asked.destination.kind, self._client
        settings = OPTIONS[kind]
        assert settings is not None
        by = client.backend.by(client.address)

        def answer(_reply: Reply) -> None:
            self._try(one, asked, WAYS[kind], owed, is_first=False)

        client.ask(by, Create(by, one.node, settings), owed, answer)

    def _subscribed(self, one: Subscription, asked: Wanted, owed: Owed, reply: Reply) -> None:
        self.is_busy = False
        problem = _problem(asked, reply)
        if problem is not None:
            self._client.answers.refuse(owed, problem)
            return
        assert isinstance(reply, Subscribed)
        one.is_queue = reply.queueing
        owed.then = partial(self._begin, one)
        self._client.answers.done(owed)

    def unsubscribe(self, frame: Frame, owed: Owed) -> Problem | None:
        """Do an UNSUBSCRIBE: locks stay, and their messages can still be acknowledged."""
        client = self._client
        name = id_of(frame.headers, client.version)
        one = self.named.get(name) if name is not None else None
        kinds = WAYS[DestinationKind.EITHER] if one is None else (one.is_queue,)
        if (problem := refused_word("UNSUBSCRIBE", frame.headers, kinds)) is not None:
            return problem
        if one is None:
            return Problem(Message.NO_SUCH_SUBSCRIPTION, "there is no subscription of this id")
        del self.named[one.id]
        one.is_ended = True
        by = client.backend.by(one.address)

        def answer(reply: Reply) -> None:
            if isinstance(reply, Refused) and reply.refusal is Refusal.STORE_FAILED:
                client.answers.refuse(owed, problem_of(reply))
                return
            self.drop_if_over(one)
            client.answers.done(owed)

        client.ask(by, Unsubscribe(by, one.node, one.address), owed, answer)
        return None

    def drop_if_over(self, one: Subscription) -> None:
        """Forget a subscription that has ended, once none of its messages can be acknowledged any more."""
        if one.is_ended and not one.handed and self.by_address.pop(one.address, None) is not None:
            backend = self._client.backend
            self.size -= one.size
            backend.forget(one.address)
            leave = Leave(one.address, how=Departure.CLOSED)
            backend.submit(backend.by(one.address), leave, _ignore)

    def leave(self, how: Departure, call: Callable[[], None]) -> None:
        """Release all held items, and call when that is done: those that hold some first, for others wait for them."""
        backend = self._client.backend
        ones = sorted(self.by_address.values(), key=lambda one: not one.handed)
        for one in ones:
            backend.forget(one.address)
        self.named.clear()
        self.by_address.clear()
        self.size = 0
        submit = partial(backend.submit, backend.by(self._client.address))
        leave_together(submit, [one.address for one in ones], how, call)


def _problem(asked: Wanted, reply: Reply) -> Problem | None:
    """Return why there is no subscription."""
    if isinstance(reply, Refused) and _is_of_other_kind(reply):
        words = f"there is no {asked.destination.kind.value} of this name"
        return Problem(Message.NOT_FOUND, words)
    if not isinstance(reply, Subscribed):
        return unexpected(reply)
    if reply.subscription.state is SubscriptionState.PENDING:
        words = "an owner of the node has to approve the subscription first"
        return Problem(Message.FORBIDDEN, words)
    return None


def _is_of_other_kind(refused: Refused) -> bool:
    """Return whether a subscription was refused because of the kind of the node."""
    if refused.refusal is Refusal.CONFIGURATION_REQUIRED:
        return True
    return refused.refusal is Refusal.INVALID_OPTIONS and refused.setting == WINDOW


def _is_missing(reply: Reply) -> bool:
    return isinstance(reply, Refused) and reply.refusal is Refusal.NODE_NOT_FOUND


def _ignore(_reply: Reply) -> None:
    """Its result does not matter."""
