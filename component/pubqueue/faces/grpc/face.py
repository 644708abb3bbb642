"""The face of gRPC: topics and subscriptions over `tech.pubsub` and `google.pubsub.v1`, on one port.

Items that are pulled are locked to `NAME@SERVICE/grpc.INSTANCE-LIFE-N`. This is not the address of a connection (`model.entities`): such a
lock belongs to its ack id, so it ends by an acknowledgement or at its deadline, whatever happens to the client or to this process.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import grpc
import structlog
from msgspec.structs import replace

from pubqueue.engine.connections import GrpcCalls
from pubqueue.engine.observe import Traffic
from pubqueue.faces.grpc import tech, v1
from pubqueue.faces.grpc.callers import RESOURCE, Who, credentials_of
from pubqueue.faces.grpc.calls import Call, OpenStream, OpenStreams, Origin, Outstanding
from pubqueue.faces.grpc.front import TOO_MANY_CONNECTIONS, Front
from pubqueue.faces.grpc.health import Health
from pubqueue.faces.grpc.push import GrpcPusher
from pubqueue.faces.grpc.server import (
    OPTIONS,
    Answering,
    Rpcs,
    UntilStop,
    handlers,
)
from pubqueue.faces.grpc.settings import WORD
from pubqueue.faces.grpc.statuses import STOPPING
from pubqueue.faces.push.worker import Workers
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import ItemId, Jid, NodeName
from pubqueue.model.notices import Deliver, Unlocked, singly
from pubqueue.rules.discovery import Describe
from pubqueue.rules.nodeconfig import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pubqueue.accounts.accounts import Accounts, Proven
    from pubqueue.accounts.credentials import Credentials
    from pubqueue.engine.broker import Broker
    from pubqueue.faces.checks import Networks
    from pubqueue.faces.grpc.front import Stream
    from pubqueue.faces.grpc.settings import GrpcSettings
    from pubqueue.faces.listener.tls import Place
    from pubqueue.model.entities import Node, Principal
    from pubqueue.model.notices import Notice, ToEach

    Context = grpc.aio.ServicerContext[Any, Any]

log = structlog.get_logger(__name__)

DRAIN: Final = 1.5
"""Seconds to answer the calls that were read, when the service stops; see `Broker.drain`."""

FAREWELL: Final = 1.0
"""Seconds at the end for the last answers to leave."""

LOOK: Final = 2.0
"""Seconds between two looks whether the store can be read."""

READ_TIMEOUT: Final = 5.0
"""Seconds for such a look."""

NOWHERE: Final = NodeName("grpc/health")
"""A node to ask for, which need not exist."""

MICROS: Final = 1_000
_NUMBERS: Final = 10_000


class GrpcFace:
    """Serves gRPC at these places, with TLS or without, and answers what comes in JSON by another door.

    `json` are the addresses of that door, as they are shown to operators. `on_ready` is called when it serves.
    `proxies` may name the client of a call.
    """

    largest: Final = MAX_PAYLOAD_BYTES

    def __init__(
        self,
        broker: Broker,
        accounts: Accounts,
        places: Sequence[Place],
        settings: GrpcSettings,
        *,
        json: Iterable[str] = (),
        on_ready: Callable[[], None] = lambda: None,
        proxies: Networks = (),
    ) -> None:
        self.broker, self.accounts, self.grpc = broker, accounts, settings
        self._places, self._on_ready = places, on_ready
        self._shown = [*(place.shown for place in places), *(f"{one} (JSON)" for one in json)]
        self._who = Who(accounts, broker.service, settings.anonymous)
        self.calls, self.front = GrpcCalls(), Front(WORD, proxies=proxies)
        self.answering = Answering(self.calls, self._call)
        self.traffic = Traffic(connections=self.front.listener.counts, calls=self.calls)
        self.service = accounts.principals.service(broker.service)
        self._services = tuple(one.name for one in (*tech.SERVICES, *v1.SERVICES))
        self.health = Health(self._services, self._stream)
        self._server: grpc.aio.Server | None = None
        self._pulls = itertools.count(1)
        self.streams = OpenStreams(WORD)
        self.outstanding = Outstanding(broker.now)
        self.calls.outstanding = self.outstanding.__len__
        own_puller = partial(self.puller, self.service)
        self._pusher = GrpcPusher(broker, self.service, settings.push_to, own_puller)
        self.pushers = Workers(broker, self._pusher)
        """Push, once the face serves, if anything may be pushed at all."""
        self.known: dict[tuple[Principal, NodeName], Node] = {}
        broker.node_changes.watch(self._nodes_changed)
        self.until_stop = UntilStop()
        """What is answered in JSON."""
        self._last, self._process = 0, secrets.randbelow(_NUMBERS)
        self.is_up = self.is_stopping = False
        self._unwatch = accounts.watch(lambda: self.streams.end_unknown(self._who.holds))
        broker.outbox.attach(self)
        broker.clients.attach(self.streams)

    # --- started and stopped by the wiring --------------------------------------------------------

    async def enter(self, _on_waiting: Callable[[], None]) -> None:
        """Listen: each process has a place.

        Raises:
            CannotListenError: an address is taken, or none of this machine.

        """
        if self._server is not None:
            return
        address = await self.front.open(self._places)
        server, answering = grpc.aio.server(options=OPTIONS), self.answering
        for one in (*tech.SERVICES, *v1.SERVICES):
            rows, more = one.unary.items(), one.streaming.items()
            unary = {
                name: answering.unary(
                    (one.name, name),
                    handle,
                    waits=name in one.waits,
                    publishes=name in one.publishes,
                )
                for name, handle in rows
            }
            streams = {name: answering.streaming((one.name, name), handle) for name, handle in more}
            server.add_generic_rpc_handlers((handlers(Rpcs(one.name, unary, streams)),))
        self.health.add_to(server)
        server.add_insecure_port(address)
        self._server = server
        for host, port in self.addresses:
            log.info("grpc.listening", host=host, port=port)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The places where it listens."""
        return self.front.listener.addresses

    async def check(self, _patience: float) -> str:
        """Return the places where it would listen."""
        return f"grpc: {', '.join(self._shown)}"

    async def run(self) -> None:
        """Serve until cancelled."""
        await self.enter(lambda: None)
        assert self._server is not None
        await self._server.start()
        self.front.listener.accept()
        self.go_up()
        self._on_ready()
        if self.grpc.push_to:
            self.pushers.start()
        while True:
            self.health.set(serves=await self._can_read())
            await asyncio.sleep(LOOK)

    async def _can_read(self) -> bool:
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                reply = await self.broker.handle(Describe(self.service, NOWHERE, manage=False))
        except TimeoutError:
            return False
        return not (isinstance(reply, Refused) and reply.refusal is Refusal.STORE_FAILED)

    async def reload(self) -> None:
        """Read certificates again."""
        await self.front.listener.reload()

    async def stop(self) -> None:
        """Take no more calls, answer those that were read, and close."""
        self.is_stopping = True
        self.go_down()
        server, self._server = self._server, None
        if server is None:
            return
        self.front.listener.close()
        await self.pushers.stop()
        await self._pusher.close()
        self.health.set(serves=False)
        closing = asyncio.create_task(server.stop(DRAIN + FAREWELL), name="closing")
        await self.broker.drain(DRAIN)
        self.until_stop.end()
        with suppress(asyncio.CancelledError):
            await closing
        await self.front.stop(FAREWELL)
        self._unwatch()
        self._unwatch = lambda: None

    def go_up(self) -> None:
        """Deliver."""
        self.is_up = True
        self.broker.outbox.set_up(self, up=True)

    def go_down(self) -> None:
        """Deliver nothing more."""
        self.is_up = False
        self.broker.outbox.set_up(self, up=False)

    def _nodes_changed(self) -> None:
        self.known = {}
        self.pushers.look_soon()

    # --- in: calls to requests --------------------------------------------------------------------

    def _stream(self, context: Context) -> Stream:
        return self.front.stream_of(context.peer(), context.invocation_metadata() or ())

    async def _call(self, context: Context) -> tuple[Call, Stream]:
        metadata = context.invocation_metadata() or ()
        stream = self.front.stream_of(context.peer(), metadata)
        if self.is_stopping:
            raise STOPPING
        connection = stream.relay.connection
        given = credentials_of(metadata, connection.certificate)
        caller, proven = await self._who.caller(given, stream.peer)
        if not stream.relay.known(caller.account):
            raise TOO_MANY_CONNECTIONS
        stream.belongs(caller.account)
        origin = Origin(stream.peer, connection.is_private, proven)
        return Call(caller, self, context.time_remaining(), origin), stream

    async def json_call(self, given: Credentials | None, peer: str, left: float) -> Call:
        """Return a call that has come in JSON, from an address; the client waits so many seconds at most.

        Raises:
            CallError: the service stops, or the credentials are not those of a user.

        """
        if self.is_stopping or not self.is_up:
            raise STOPPING
        caller, proven = await self._who.caller(given, peer)
        return Call(caller, self, left, Origin(proven=proven))

    # --- what calls need: `calls.Backend` -----------------------------------------------------------

    def holds(self, proven: Proven | None) -> bool:
        """Return whether a caller that was proven so may still call."""
        return self._who.holds(proven)

    def open_stream(self, call: Call) -> OpenStream:
        """Return a stream of the caller, which is counted until it leaves `streams`.

        Raises:
            CallError: there are too many, of all accounts or of this one.

        """
        self.streams.check(call.account, self.grpc)
        stream = OpenStream(self.puller(call.by), call.origin)
        self.streams.enter(stream)
        return stream

    def puller(self, by: Principal) -> Principal:
        """Return the principal under an address of its account that no other pull has."""
        name = self.broker.new_name(next(self._pulls))
        resource = f"{RESOURCE}.{self.broker.instance.number}-{name}"
        return replace(by, jid=Jid(by.account + resource))

    def new_ids(self, count: int) -> list[ItemId]:
        """Return rising ids: microseconds, the number of this instance, and a number of this process."""
        first = self._last = max(self._last + 1, self.broker.now() * MICROS)
        self._last += count - 1
        rest = f"{self.broker.instance.number:04d}{self._process:04d}"
        return [ItemId(f"{number}{rest}") for number in range(first, first + count)]

    # --- out ----------------------------------------------------------------------------------------

    def claims(self, address: Jid) -> bool:
        """Return whether it holds items for callers over gRPC."""
        account, slash, resource = address.partition("/")
        own = slash + resource
        if (account.partition("@")[2] or account) != self.broker.service:
            return False
        return own == RESOURCE or own.startswith(f"{RESOURCE}.")

    def reaches(self, _address: Jid) -> bool:
        """Return whether items can be sent there: calls ask for theirs."""
        return False

    def send_notices(self, notices: Sequence[Notice | ToEach]) -> Sequence[Notice]:
        """Return the deliveries, which no caller waits for; note which locks of streams have ended. Callers request everything else."""
        unsent: list[Notice] = []
        for notice in singly(notices):
            if isinstance(notice, Deliver):
                unsent.append(notice)
            elif isinstance(notice, Unlocked) and (credit := self.streams.credit_of(notice.to)):
                self.outstanding.recalled(credit, frozenset(notice.ids))
        return unsent

    def when_sent(self, _node: NodeName, call: Callable[[], None]) -> None:
        """Call at once: nothing waits to be sent."""
        call()
