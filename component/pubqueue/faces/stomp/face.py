"""The face of STOMP: clients that log in, each subscription an address of its own.

A connection is `NAME@SERVICE/stomp.INSTANCE.LIFE-N`, and a subscription of it `NAME@SERVICE/stomp.INSTANCE.LIFE-N.S`.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.engine.observe import Traffic
from pubqueue.faces.listener import Listener
from pubqueue.faces.stomp.protocol import USER_GONE, WORD, StompProtocol
from pubqueue.faces.stomp.refusals import Message, Problem, error
from pubqueue.logs import fault
from pubqueue.model import entities
from pubqueue.model.notices import Deliver, singly
from pubqueue.rules.nodeconfig import MAX_PAYLOAD_BYTES
from pubqueue.rules.presence import Departure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.accounts.accounts import Accounts, Proven
    from pubqueue.engine.broker import Broker
    from pubqueue.faces.checks import Shared
    from pubqueue.faces.listener import Bounds, ClientConnection, Place
    from pubqueue.faces.stomp.client import Receiver, Subscription
    from pubqueue.faces.stomp.settings import StompSettings
    from pubqueue.model.entities import Jid, NodeName, Principal
    from pubqueue.model.notices import Notice, ToEach

log = structlog.get_logger(__name__)

DRAIN: Final = 1.5
"""Seconds to answer the frames that were read, when the service stops; see `Broker.drain`."""

FAREWELL: Final = 0.5
"""Seconds at the end for clients to read the last frame: a socket that is closed over unread bytes discards it."""

BUSY: Final = error(Problem(Message.TOO_MANY_CONNECTIONS, "no more connections are accepted"))
STOPPING: Final = Problem(Message.TRY_LATER, "the service stops")


class StompFace:
    """Serves STOMP at these places. `on_ready` is called when it serves."""

    largest: Final = MAX_PAYLOAD_BYTES

    def __init__(
        self,
        broker: Broker,
        accounts: Accounts,
        places: Sequence[Place],
        stomp: StompSettings,
        *,
        bounds: Bounds | None = None,
        auto_creates: bool = False,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._broker, self.accounts, self.stomp = broker, accounts, stomp
        self._places, self._on_ready = places, on_ready
        self.auto_creates = auto_creates
        self.listener = Listener(WORD, self._begin, bounds or stomp.bounds(), busy=BUSY)
        self.traffic = Traffic(connections=self.listener.counts)
        self.protocols: set[StompProtocol] = set()
        self._receivers: dict[Jid, tuple[Receiver, Subscription]] = {}
        self._admission = broker.admission
        # what sessions and connections share is passed on as it is: each frame needs it
        self.submit, self.now, self.by = broker.submit_for, broker.now, accounts.principals.of
        self.has_to_wait = broker.admission.stops
        self._connections, self._ids = itertools.count(1), itertools.count(1)
        self._process = secrets.token_hex(6)
        self._is_up = self.is_stopping = False
        self._unwatch = accounts.watch(self._end_those_who_are_gone)
        broker.outbox.attach(self)
        broker.clients.attach(self.listener)

    # --- started and stopped by the wiring --------------------------------------------------------

    async def enter(self, _on_waiting: Callable[[], None]) -> None:
        """Listen: there is room for all instances. Nothing is accepted before the face serves.

        Raises:
            CannotListenError: an address is taken, or not on this machine.

        """
        await self.listener.open(self._places, accepts=False)
        for host, port in self.listener.addresses:
            log.info("stomp.listening", host=host, port=port)

    async def check(self, _patience: float) -> str:
        """Return the places where it would listen."""
        return f"stomp: {', '.join(place.shown for place in self._places)}"

    async def run(self) -> None:
        """Serve until cancelled."""
        self.go_up()
        self.listener.accept()
        self._on_ready()
        await asyncio.Event().wait()

    def take_settings(self, shared: Shared) -> None:
        """Apply the settings that can change, from the next frame on."""
        self.auto_creates = shared.auto_creates

    async def reload(self) -> None:
        """Read certificates again."""
        await self.listener.reload()

    async def stop(self) -> None:
        """Stop reading, answer the frames that were read, notify the clients, and close."""
        self.listener.close()
        self.is_stopping = True
        self.go_down()
        await self._broker.drain(DRAIN)
        for protocol in tuple(self.protocols):
            protocol.fail(STOPPING, how=Departure.CLOSED)
        await self._broker.drain(DRAIN)
        await self.listener.ended(FAREWELL)
        await self.listener.stop()
        self._unwatch()
        self._unwatch = lambda: None

    def go_up(self) -> None:
        """Deliver."""
        self._is_up = True
        self._broker.outbox.set_up(self, up=True)

    def go_down(self) -> None:
        """Deliver nothing more."""
        self._is_up = False
        self._broker.outbox.set_up(self, up=False)

    @property
    def is_serving(self) -> bool:
        """Whether clients may connect."""
        return self._is_up

    # --- connections ----------------------------------------------------------------------------

    def _begin(self, connection: ClientConnection) -> StompProtocol:
        protocol = StompProtocol(self, connection)
        self.protocols.add(protocol)
        return protocol

    def gone(self, protocol: StompProtocol) -> None:
        """Forget a connection."""
        self.protocols.discard(protocol)

    def failed(self, problem: Exception) -> None:
        """Log a fault of ours that one connection has met."""
        log.error("connection.failed", face=WORD, **fault(problem))

    def new_address(self, proven: Proven) -> Jid:
        """Return an address for a connection of the user."""
        name, number = (
            self._broker.new_name(next(self._connections)),
            self._broker.instance.number,
        )
        self.traffic.sessions += 1
        return entities.Connection(proven.account, WORD, number, name).address

    def when_admitted(self, by: Principal, call: Callable[[], None]) -> None:
        """Call when the account may have another frame read."""
        self._admission.wait(by, call)

    def charge(self, by: Principal) -> None:
        """Charge a refused frame to its account."""
        self._admission.refused(by)

    def _end_those_who_are_gone(self) -> None:
        """End the connections of users that were removed, or have another password."""
        for protocol in tuple(self.protocols):
            if protocol.proven is not None and not self.accounts.holds(protocol.proven):
                protocol.fail(USER_GONE, how=Departure.CLOSED)

    # --- what sessions share: `session.client.Backend` -----------------------------------------------

    def new_id(self) -> str:
        """Return an id that no other process and no other call has made; later ones are higher."""
        return f"{self._broker.now():012x}-{self._process}-{next(self._ids):08x}"

    def enter_subscription(self, subscription: Subscription, receiver: Receiver) -> None:
        """Deliver the items for the address of this subscription."""
        self._receivers[subscription.address] = receiver, subscription

    def forget(self, address: Jid) -> None:
        """Deliver nothing more to the address."""
        self._receivers.pop(address, None)

    def reach_changed(self, address: Jid) -> None:
        """Check again whether the address can be reached."""
        self._broker.outbox.reach_changed(address)

    # --- out: notices to frames -------------------------------------------------------------------

    def claims(self, address: Jid) -> bool:
        """Return whether it is a connection of STOMP."""
        found = entities.connection(address, self._broker.service)
        return found is not None and found.word == WORD

    def reaches(self, address: Jid) -> bool:
        """Return whether the subscription is here, and its client reads, and nothing waits for the RECEIPT of SUBSCRIBE."""
        found = self._receivers.get(address)
        if found is None or not self._is_up:
            return False
        receiver, one = found
        return not one.is_ended and not one.early and receiver.has_room

    def send_notices(self, notices: Sequence[Notice | ToEach]) -> Sequence[Notice]:
        """Send the notices, and return deliveries that could not be sent."""
        return [notice for notice in singly(notices) if not self._send_notice(notice)]

    def _send_notice(self, notice: Notice) -> bool:
        found = self._receivers.get(notice.to)
        if found is None or not self._is_up:
            return not isinstance(notice, Deliver)
        receiver, subscription = found
        return receiver.send_notice(subscription, notice)

    def when_sent(self, _node: NodeName, call: Callable[[], None]) -> None:
        """Call at once: each connection has its notices already."""
        call()
