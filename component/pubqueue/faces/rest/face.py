"""The face of REST: its consumers, its one-off keys, and requests that wait."""

from __future__ import annotations

import asyncio
import hmac
import itertools
import re
import secrets
from collections import Counter
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakValueDictionary

import structlog
from msgspec import Struct

from pubqueue.engine.connections import HttpRequests
from pubqueue.engine.face import kept_secret
from pubqueue.engine.observe import Traffic
from pubqueue.engine.table import READS
from pubqueue.faces.http.host import allow
from pubqueue.faces.http.problems import ProblemError, unavailable
from pubqueue.faces.listener.budget import KEPT, SMALL, Budget, Keeper
from pubqueue.faces.push.worker import Workers
from pubqueue.faces.rest.push import RestPusher
from pubqueue.faces.rest.settings import WORD
from pubqueue.logs import fault
from pubqueue.model.decision import Taken
from pubqueue.model.entities import Jid, Millis, seconds
from pubqueue.model.entities import seconds as span
from pubqueue.model.notices import Deliver, singly
from pubqueue.model.records import Registrations
from pubqueue.rules.nodeconfig import MAX_PAYLOAD_BYTES
from pubqueue.rules.presence import Bounce
from pubqueue.rules.registrations import ListRegistrations, NotePush, Unregister
from pubqueue.rules.settle import ReadHeld, Settle, Verb
from pubqueue.rules.take import Take

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.accounts.credentials import Principals
    from pubqueue.engine.broker import Broker
    from pubqueue.faces.rest.settings import RestSettings, WithRest
    from pubqueue.model.decision import Reply, Request
    from pubqueue.model.entities import Item, NodeName, Principal
    from pubqueue.model.notices import Notice, ToEach
    from pubqueue.model.records import Registration
    from pubqueue.rules.nodeconfig import Settings

    Message = tuple[Item, bytes]
    FormReader = Callable[[Mapping[str, Sequence[str]]], Settings]


log = structlog.get_logger(__name__)

DRAIN: Final = 1.5
"""Seconds to answer the requests that were read, when the service stops; see `Broker.drain`."""

ROOM_TIMEOUT: Final = 10.0
"""Seconds for which a request waits for room before it is refused."""


class RestFace:
    """Answers the requests that the door lets in. `places` are shown to operators; `on_ready` is called when it serves."""

    largest: Final = MAX_PAYLOAD_BYTES

    def __init__(
        self,
        broker: Broker,
        accounts: Accounts,
        settings: RestSettings,
        read_form: FormReader,
        *,
        places: Iterable[str] = (),
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.broker, self.accounts, self.settings = broker, accounts, settings
        self.read_form = read_form
        """Reads the fields of a node's form."""
        self._places, self._on_ready = tuple(places), on_ready
        self.waiting = WaitingRequests(broker, lambda: self.settings)
        self.rendering = asyncio.Lock()
        """Held while a large message is rendered in steps: only one is in memory twice."""
        self.pulling = PullConsumers(broker, accounts.principals, lambda: self.settings)
        """The pull consumers of the profile `hornetq`."""
        self._ids = itertools.count(1)
        self._process = secrets.token_hex(6)
        self.is_serving = False
        self.one_off = OneOffKeys(b"")
        """Makes and verifies one-off keys, once the face serves."""
        self._open: set[asyncio.Future[Reply]] = set()
        self.users_changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done with the next change of the users, which ends the waits of those who are gone."""
        self._unwatch = accounts.watch(self._users_changed)
        self.pusher = RestPusher(broker, accounts, lambda: self.settings.push, self._process)
        self.traffic = Traffic(pushes=self.pusher.outcomes)
        self.pushing = Workers(broker, self.pusher)
        """Works registrations, once the face serves."""
        broker.outbox.attach(self)

    # --- started and stopped by the wiring --------------------------------------------------------

    async def enter(self, _on_waiting: Callable[[], None]) -> None:
        """Return at once: the host listens already."""

    def take_settings(self, settings: WithRest) -> None:
        """Apply the settings from the next request on."""
        self.settings = settings.rest

    async def check(self, _patience: float) -> str:
        """Return the places where it would listen."""
        return f"rest: {', '.join(self._places)}"

    async def run(self) -> None:
        """Serve until cancelled."""
        by = self.accounts.principals.service(self.broker.service)
        secret = await kept_secret(self.broker.handle, by, WORD)
        self.one_off, self.pusher.key = OneOffKeys(secret), secret
        self.go_up()
        self.pushing.start()
        self.pulling.start()
        self._on_ready()
        await asyncio.Event().wait()

    def _users_changed(self) -> None:
        before, self.users_changed = self.users_changed, asyncio.get_running_loop().create_future()
        before.set_result(None)

    async def stop(self) -> None:
        """Take no more requests, answer those that wait, and those that were read."""
        self.waiting.end()
        await self.pulling.stop()
        self.go_down()
        self._unwatch()
        self._unwatch = lambda: None
        await self.pushing.stop()
        await self.pusher.close()
        await self.broker.drain(DRAIN)
        for one in tuple(self._open):  # the broker has ended without an answer
            one.cancel()

    def go_up(self) -> None:
        """Serve."""
        self.is_serving = True
        self.broker.outbox.set_up(self, up=True)

    def go_down(self) -> None:
        """Serve no more."""
        self.is_serving = False
        self.broker.outbox.set_up(self, up=False)

    # --- what exchanges share -----------------------------------------------------------------------

    async def submit(self, by: Principal, request: Request, size: int = 0) -> Reply:
        """Have a request decided, and return the reply after its commit.

        Raises:
            ProblemError: the account has too much in progress, or the service ends before there is an
                answer.

        """
        await self.room(by, reads=type(request) in READS)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def answered(decided: Reply) -> None:
            if not reply.done():
                reply.set_result(decided)

        self._open.add(reply)
        self.broker.submit_for(by, request, answered, size)
        try:
            return await reply
        except asyncio.CancelledError:
            if reply.cancelled() and not self.is_serving:
                raise unavailable(
                    "the service has stopped; the request may have been done"
                ) from None
            raise
        finally:
            self._open.discard(reply)

    async def room(self, by: Principal, *, reads: bool = False) -> None:
        """Wait until the account may come in with one more request.

        Raises:
            ProblemError: it may not for too long.

        """
        admission = self.broker.admission
        if admission.may_enter(by, reads=reads):
            return
        try:
            async with asyncio.timeout(ROOM_TIMEOUT):
                await self.waiting.until(admission.turn(by, reads=reads))
        except TimeoutError:
            why = admission.beyond(by) or admission.beyond_reading(by)
            raise ProblemError(429, "too-many", why or "too many requests wait") from None

    def new_id(self) -> str:
        """Return an id that no other process and no other call has made; later ones are higher."""
        return f"{self.broker.now():012x}-{self._process}-{next(self._ids):08x}"

    def check_serving(self) -> None:
        """Refuse a request while the service starts or stops.

        Raises:
            ProblemError: it does.

        """
        if self.waiting.is_ending:
            raise stopping()
        if not self.is_serving:
            raise unavailable()

    # --- out: nothing is sent to a client without a request --------------------------------------------

    def claims(self, address: Jid) -> bool:
        """Return whether it is an account of the service, or an address of this face."""
        account, slash, resource = address.partition("/")
        if account.partition("@")[2] != self.broker.service:
            return False
        return not slash or resource.startswith(f"{WORD}.")

    def reaches(self, _address: Jid) -> bool:
        """Return False: nothing is delivered to an account except the items it takes."""
        return False

    def send_notices(self, notices: Sequence[Notice | ToEach]) -> Sequence[Notice]:
        """Drop the notices. Deliveries that are repeated after a crash are dropped too: their locks stay with the account."""
        unsent = (one for one in singly(notices) if isinstance(one, Deliver) and not one.again)
        return list(unsent)

    def when_sent(self, _node: NodeName, call: Callable[[], None]) -> None:
        """Call at once: nothing waits to be sent."""
        call()


# Pull consumers: their addresses, what is remembered of them here, and when they are closed.
#
# A consumer is a registration that is pulled, and an address of its account that holds its messages. Both are in the store, and contain no
# instance: so its links mean the same on all instances and over restarts. Only the message that a consumer with `autoAck` got last is
# remembered here, for a request that is repeated.

SOONEST: Final = 0.01
"""Seconds between two looks for idle consumers, at least."""

PAGE: Final = 500


class Sent(Struct, frozen=True):
    """The message that a consumer got last: the number it was asked by, and its token; None if it could not be written."""

    number: int
    token: int
    message: Message | None


class Repetition(Keeper):
    """Keeps what a consumer got last, until all clients together keep too much."""

    def __init__(self, sent: Sent, give_up: Callable[[], object]) -> None:
        self.sent, self._give_up = sent, give_up

    def give_up(self) -> None:
        """Forget it: the same request is refused from now on."""
        self._give_up()


class PullConsumers:
    """What this process remembers of consumers, and the task that closes those that are idle."""

    def __init__(
        self,
        broker: Broker,
        principals: Principals,
        settings: Callable[[], RestSettings],
        budget: Budget = KEPT,
    ) -> None:
        self._budget = budget
        self._broker, self._principals, self._settings = broker, principals, settings
        self._turns: WeakValueDictionary[tuple[Jid, NodeName], asyncio.Lock] = WeakValueDictionary()
        self._sent: dict[tuple[Jid, NodeName], Repetition] = {}
        self._closing: asyncio.Task[None] | None = None

    @property
    def service(self) -> Principal:
        """The principal that records what became of registrations."""
        return self._principals.service(self._broker.service)

    def turn(self, by: Principal, node: NodeName) -> asyncio.Lock:
        """Return the lock under which the requests of a consumer are answered, one at a time."""
        return self._turns.setdefault((by.jid, node), asyncio.Lock())

    def until(self, wait: float) -> tuple[Millis, Millis]:
        """Return until when a consumer that waits so many seconds has to be kept, and until when it is kept if that is stored again."""
        idle, now = self._settings().consumer_idle, self._broker.now()
        return Millis(now + span(wait + idle)), Millis(now + span(wait + idle * 1.5))

    @property
    def latest(self) -> Millis:
        """The latest time until which a consumer can be in use now: a later one is from a clock that was ahead."""
        return self.until(self._settings().longest_wait)[1]

    # --- what is remembered for repetitions -------------------------------------------------------

    def sent(self, by: Principal, node: NodeName) -> Sent | None:
        """Return the message that a consumer got last, if it is remembered here."""
        one = self._sent.get((by.jid, node))
        return None if one is None else one.sent

    def note_sent(self, by: Principal, node: NodeName, sent: Sent) -> None:
        """Remember a message of its account, until that keeps too much."""
        self.forget(by, node)
        key = by.jid, node
        one = self._sent[key] = Repetition(sent, partial(self._sent.pop, key, None))
        size = 0 if sent.message is None else len(sent.message[1])
        self._budget.note(one, by.account, SMALL + 1 + size)

    def forget(self, by: Principal, node: NodeName) -> None:
        """Forget the message that a consumer got last."""
        if (one := self._sent.pop((by.jid, node), None)) is not None:
            self._budget.forget(one)

    # --- what it holds, and its end ---------------------------------------------------------------

    async def held(self, by: Principal, node: NodeName) -> list[Message]:
        """Return the items that are locked to the address of a consumer, in the order of their locks."""
        reply = await self._broker.handle(ReadHeld(by, node))
        return sorted(reply.items, key=_token) if isinstance(reply, Taken) else []

    def release(self, by: Principal, node: NodeName, item: Item) -> None:
        """Release a message without counting a failure."""
        self._broker.submit(_unlock(by, node, item), lambda _reply: None)

    async def close(
        self, row: Registration, submit: Callable[[Request], Awaitable[Reply]], after: int = -1
    ) -> Reply:
        """Release what a consumer holds under tokens `after` this one, and end it. The reply comes after both are committed."""
        by = self._principals.of(address_of(row.account, row.name))
        self.forget(by, row.node)
        for item, _ in await self.held(by, row.node) if row.queueing else ():
            if item.token > after:
                await submit(_unlock(by, row.node, item))
        return await submit(Unregister(self.service, row.node, row.name))

    def start(self) -> None:
        """Close consumers that are idle, from now on."""
        self._closing = asyncio.create_task(self._close_idle(), name="idle consumers")

    async def stop(self) -> None:
        """Close no more consumers: they stay for the next process, but not what is remembered of them."""
        for one in self._sent.values():
            self._budget.forget(one)
        self._sent.clear()
        if self._closing is not None:
            self._closing.cancel()
            await asyncio.gather(self._closing, return_exceptions=True)

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(max(SOONEST, self._settings().consumer_idle / 4))
            try:
                await self.close_idle()
            except Exception as problem:  # the next look may succeed
                log.error("consumers.not_closed", **fault(problem))  # noqa: TRY400  # no trace of contents

    async def close_idle(self) -> None:
        """Close the consumers that are not used any more."""
        after, more = "", True
        while more:
            page = await self._broker.handle(ListRegistrations(self.service, None, after, PAGE))
            if not isinstance(page, Registrations):
                return
            for row in page.entries:
                after = row.name
                if row.is_pulled and row.until <= self._broker.now():
                    await self.close(row, self._broker.handle)
                elif row.is_pulled and row.until > (latest := self.latest):
                    note = NotePush(
                        self.service,
                        row.name,
                        row.runner,
                        following=row.following,
                        latest=latest,
                    )
                    await self._broker.handle(note)
            more = page.more


def address_of(account: Jid, name: str) -> Jid:
    """Return the address of a consumer, which contains no instance."""
    return Jid(f"{account}/{WORD}.c.{name}")


def _unlock(by: Principal, node: NodeName, item: Item) -> Settle:
    return Settle(by, node, (item.id,), Verb.UNLOCK, token=item.token)


def _token(message: Message) -> int:
    return message[0].token


# One-off keys: they cost nothing until they are used, and are valid on every instance and over restarts.
#
# A key is `{stamp}-{random}-{mac}`: seconds, a random number, and an HMAC over both and the purpose, with a secret that the store
# keeps. The broker records its use, in the commit of the publish under it.

MAC_DIGITS: Final = 20
"""Hexadecimal digits of the MAC: 80 bits."""

AHEAD: Final = seconds(300)
"""How far the clock of another instance may be ahead."""

_KEY: Final = re.compile(r"([0-9a-z]{1,12})-([0-9a-f]{24})-([0-9a-f]{20})")
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class OneOffKeys:
    """Makes and verifies keys with a secret. A key is for one purpose of one account at one node."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def make(self, now: Millis, account: Jid, node: NodeName, purpose: str) -> str:
        """Return a new key."""
        begun = f"{_base36(now // 1000)}-{secrets.token_hex(12)}"
        return f"{begun}-{self._mac(begun, account, node, purpose)}"

    def is_valid(  # noqa: PLR0917  # what a key is for, and when
        self, key: str, now: Millis, lifetime: Millis, account: Jid, node: NodeName, purpose: str
    ) -> bool:
        """Return whether the key was made for this, and up to `lifetime` ago."""
        found = _KEY.fullmatch(key)
        if found is None:
            return False
        expected = self._mac(f"{found[1]}-{found[2]}", account, node, purpose)
        if not hmac.compare_digest(expected, found[3]):
            return False
        made = int(found[1], 36) * 1000
        return made - AHEAD <= now < made + lifetime + 1000

    def _mac(self, begun: str, account: Jid, node: NodeName, purpose: str) -> str:
        content = f"{begun}\n{node}\n{purpose}\n{account}"  # names have no control characters
        return hmac.digest(self._secret, content.encode(), "sha256").hex()[:MAC_DIGITS]


def _base36(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text or "0"


# Requests that wait: for a message of a queue, or for a new one of a topic. They are counted, and all end when the service stops.

T = TypeVar("T")

MARGIN = 30.0
"""Seconds for the answer after the wait."""


class WaitingRequests:
    """The waiting requests of a face, by account. `settings` returns the current settings."""

    def __init__(self, broker: Broker, settings: Callable[[], RestSettings]) -> None:
        self._broker, self._settings = broker, settings
        self._of_account: Counter[Jid] = Counter()
        self.counts = HttpRequests()
        self._ending: asyncio.Future[None] | None = None

    @property
    def count(self) -> int:
        """How many wait."""
        return self.counts.waiting

    @contextmanager
    def counted(self, by: Principal, seconds: float) -> Iterator[None]:
        """Count a request that waits in the body; requests that do not wait are not counted.

        Raises:
            ProblemError: too many wait, of the account or in total.

        """
        if not seconds:
            yield
            return
        account, settings = by.account, self._settings()
        if self.count >= settings.max_waiting:
            raise ProblemError(
                429, "too-many", "too many requests wait", limit=settings.max_waiting
            )
        if self._of_account[account] >= settings.max_waiting_of_account:
            limit = settings.max_waiting_of_account
            raise ProblemError(
                429, "too-many", "too many requests of the account wait", limit=limit
            )
        allow(seconds + MARGIN)
        self.counts.waiting += 1
        self._of_account[account] += 1
        try:
            yield
        finally:
            self.counts.waiting -= 1
            self._of_account[account] -= 1
            if not self._of_account[account]:
                del self._of_account[account]

    async def take(
        self, by: Principal, node: NodeName, seconds: float, holds: Callable[[], bool]
    ) -> Reply:
        """Take the next item of a queue, and return what the broker answers, with an item, without, or a refusal.

        If the client hangs up, none is locked, or the lock ends without a failure.

        Raises:
            ProblemError: too many wait, or the service stops.

        """
        with self.counted(by, seconds):
            reply = await self._take(Take(by, node, 1, span(seconds)), holds)
        if isinstance(reply, Taken) and not reply.items and self.is_ending:
            raise stopping()
        return reply

    async def _take(self, request: Take, holds: Callable[[], bool]) -> Reply:
        decided: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        is_gone = False

        def answer(reply: Reply) -> None:
            if is_gone or decided.done():
                self.give_back(request.by, reply)
            else:
                decided.set_result(reply)

        withdraw = self._broker.take(request, answer, holds)
        try:
            await _first(decided, self._end())
            if not decided.done():
                withdraw()
            return await asyncio.shield(decided)
        except asyncio.CancelledError:
            is_gone = True
            withdraw()
            if decided.done():
                self.give_back(request.by, decided.result())
            raise

    def give_back(self, by: Principal, reply: Reply) -> None:
        """Release items of which nothing was sent, without counting a failure."""
        if isinstance(reply, Taken):
            for item, _ in reply.items:
                bounce = Bounce(by.jid, item.seq, item.token, gone=False)
                self._broker.submit(bounce, lambda _reply: None)

    async def until(self, event: Awaitable[T]) -> T:
        """Wait for something else, unless the service stops before.

        Raises:
            ProblemError: it does.

        """
        waiting = asyncio.ensure_future(event)
        try:
            await _first(waiting, self._end())
            if not waiting.done():
                raise stopping()
            return await waiting
        finally:
            waiting.cancel()

    @property
    def is_ending(self) -> bool:
        """Whether the service stops."""
        return self._ending is not None and self._ending.done()

    def _end(self) -> asyncio.Future[None]:
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_future()
        return self._ending

    def end(self) -> None:
        """End all waits: the service stops."""
        if not self._end().done():
            self._end().set_result(None)


async def _first(*futures: asyncio.Future[Any]) -> None:
    """Wait until one of them is done."""
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


def stopping() -> ProblemError:
    """Return the problem of a request that meets the end of the service."""
    problem = unavailable("the service stops")
    problem.close = True
    return problem
