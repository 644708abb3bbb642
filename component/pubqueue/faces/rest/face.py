"""The face of REST: requests of users over HTTP, and the broker. Locks are those of accounts, not of connections."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.engine.observe import Traffic
from pubqueue.engine.table import READS
from pubqueue.faces.flow.intake import Intake
from pubqueue.faces.push.worker import Workers
from pubqueue.faces.rest.hornetq.consumers import PullConsumers
from pubqueue.faces.rest.http.problems import ProblemError, unavailable
from pubqueue.faces.rest.one_off import SECRET_BYTES, OneOffKeys
from pubqueue.faces.rest.push.pusher import RestPusher
from pubqueue.faces.rest.terms import WORD
from pubqueue.faces.rest.waiting import WaitingRequests, stopping
from pubqueue.model.decision import SecretKept
from pubqueue.model.notices import Deliver, singly
from pubqueue.model.records import ServiceSecret
from pubqueue.rules.once import KeepSecret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.engine.broker import Broker
    from pubqueue.engine.table import Request
    from pubqueue.faces.rest.terms import RestTerms
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Jid, NodeName, Principal
    from pubqueue.model.notices import Notice, ToEach

log = structlog.get_logger(__name__)

MAX_PAYLOAD_BYTES: Final = 10 << 20
"""Bytes of a payload: the maximum that an owner can allow."""

DRAIN: Final = 1.5
"""Seconds to answer the requests that were read, when the service stops; see `Broker.drain`."""

RETRY: Final = 1.0
"""Seconds until the store is asked again."""

ROOM_TIMEOUT: Final = 10.0
"""Seconds for which a request waits for room before it is refused."""


class RestFace:
    """Answers the requests that the door lets in. `places` are shown to operators; `on_ready` is called when it serves."""

    largest: Final = MAX_PAYLOAD_BYTES

    def __init__(
        self,
        broker: Broker,
        accounts: Accounts,
        terms: RestTerms,
        *,
        places: Iterable[str] = (),
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.broker, self.accounts, self.terms = broker, accounts, terms
        self._places, self._on_ready = tuple(places), on_ready
        self.waiting = WaitingRequests(broker, lambda: self.terms)
        self.pulling = PullConsumers(broker, lambda: self.terms)
        """The pull consumers of the profile `hornetq`."""
        self._intake = Intake(lambda: None, self._on_room)
        self._room, self._read = asyncio.Event(), asyncio.Event()
        self._ids = itertools.count(1)
        self._process = secrets.token_hex(6)
        self.is_serving = False
        self.one_off = OneOffKeys(b"")
        """Makes and verifies one-off keys, once the face serves."""
        self._open: set[asyncio.Future[Reply]] = set()
        self.pusher = RestPusher(lambda: self.terms.push, accounts, broker.service)
        self.traffic = Traffic(pushes=self.pusher.outcomes)
        self.pushing = Workers(*(broker, accounts.principals, self.pusher, self._process, WORD))
        """Works registrations, once the face serves."""
        broker.outbox.attach(self)

    # --- started and stopped by the wiring --------------------------------------------------------

    async def enter(self, _on_waiting: Callable[[], None]) -> None:
        """Return at once: the host listens already."""

    async def check(self, _patience: float) -> str:
        """Return the places where it would listen."""
        return f"rest: {', '.join(self._places)}"

    async def run(self) -> None:
        """Serve until cancelled."""
        secret = await self._secret()
        self.one_off, self.pusher.key = OneOffKeys(secret), secret
        self.go_up()
        self.pushing.start()
        self._on_ready()
        await asyncio.Event().wait()

    async def _secret(self) -> bytes:
        """Return the secret of one-off links, which the store keeps."""
        by = self.accounts.principals.service(self.broker.service)
        proposed = ServiceSecret(WORD, secrets.token_bytes(SECRET_BYTES))
        while True:
            reply = await self.broker.handle(KeepSecret(by, proposed))
            if isinstance(reply, SecretKept):
                return reply.value
            await asyncio.sleep(RETRY)  # the store does not answer: it is asked again

    async def stop(self) -> None:
        """Take no more requests, answer those that wait, and those that were read."""
        self.waiting.end()
        self.pulling.stop()
        self.go_down()
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
        if why := self._intake.beyond(by):
            raise ProblemError(429, "too-many", why)
        if type(request) in READS:
            await self._turn_to_read(by)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        load = self._intake.take(by, size, request)

        def answered(decided: Reply) -> None:
            self._intake.done(load)
            if load.reads:
                self._read.set()
            if not reply.done():
                reply.set_result(decided)

        self._open.add(reply)
        self.broker.submit(request, answered)
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

    async def _turn_to_read(self, by: Principal) -> None:
        """Wait while too many requests of the account read: all readers of a topic are called at once.

        Raises:
            ProblemError: it takes too long.

        """
        if not self._intake.beyond_reading(by):
            return
        try:
            async with asyncio.timeout(ROOM_TIMEOUT):
                while self._intake.beyond_reading(by):
                    self._read.clear()
                    await self._read.wait()
        except TimeoutError:
            raise ProblemError(429, "too-many", "too many read requests are in progress") from None

    async def room(self) -> None:
        """Wait until there is room for another request.

        Raises:
            ProblemError: there is none for too long.

        """
        if not self._intake.is_full:
            return
        self._room.clear()
        try:
            async with asyncio.timeout(ROOM_TIMEOUT):
                await self.waiting.until(self._room.wait())
        except TimeoutError:
            raise unavailable("the service has too much to do") from None

    def _on_room(self) -> None:
        self._room.set()

    def new_id(self) -> str:
        """Return an id that no other process and no other call has made."""
        return f"{self.broker.now():012x}-{self._process}-{next(self._ids):x}"

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
