"""The face: connects to the server, passes stanzas on to the parts that handle them, and sends notices.

Presence is never answered with an error, because a server would then stop sending us unavailable presence.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
from msgspec.structs import replace

from pubqueue.engine.reaper import end_messages
from pubqueue.engine.silent_workers import SilentWorkers
from pubqueue.faces.xmpp.announcing import Announcer
from pubqueue.faces.xmpp.bounces import Pings
from pubqueue.faces.xmpp.deliveries import Deliveries
from pubqueue.faces.xmpp.link import Answers, Link, is_request, kind_of
from pubqueue.faces.xmpp.receiver import Events, Receiver
from pubqueue.faces.xmpp.render import notices
from pubqueue.faces.xmpp.requests import Requests
from pubqueue.faces.xmpp.settings import DEFAULTS, XmppTerms
from pubqueue.faces.xmpp.signals import Rosters, Signals
from pubqueue.faces.xmpp.stream.component import ENTERING, Component
from pubqueue.faces.xmpp.stream.to_many import Pace, ToMany
from pubqueue.faces.xmpp.xml.refusals import INTERNAL_FAULT, StanzaError
from pubqueue.faces.xmpp.xml.stanza import MAX_PAYLOAD_BYTES, MAX_STANZA_BYTES, new_id
from pubqueue.logs import fault
from pubqueue.model.entities import Jid, Level, account_of, domain_of
from pubqueue.model.notices import Deliver, Retracted, ToEach, Unlocked
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.accounts.credentials import Principals
    from pubqueue.engine.broker import Broker
    from pubqueue.engine.observe import Traffic
    from pubqueue.engine.ports import Store
    from pubqueue.faces.xmpp.settings import ServerPlace, WithXmpp
    from pubqueue.faces.xmpp.stream.single import Single
    from pubqueue.faces.xmpp.xml.stanza import Element, Stanza
    from pubqueue.model.entities import NodeName
    from pubqueue.model.notices import Notice


log = structlog.get_logger(__name__)

DRAIN: Final = 1.5
"""Seconds to answer earlier requests when the service stops; those that have not begun then are refused."""

ENDING: Final = 4.0
"""Seconds for the whole stop, until the server has read the answers."""

FULL: Final = "full"
"""The reason for not reading: too many requests wait for their answers."""

_FORGED: Final = StanzaError(
    "auth", "forbidden", text="nobody else sends in the name of the service or its accounts"
)

_PRESENCE: Final = f"{ns.COMPONENT} presence"


class XmppFace:
    """Serves the queue on one component stream."""

    largest: Final = MAX_PAYLOAD_BYTES
    """The maximum bytes of a payload that servers relay."""

    def __init__(
        self,
        broker: Broker,
        place: ServerPlace,
        principals: Principals,
        terms: XmppTerms = DEFAULTS,
        *,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._place, self._on_ready = place, on_ready
        self._is_up = self._outside = False
        self.component = component = Component(
            *(place.jid, place.secret, place.server),
            on_stanza=self._take,
            on_fault=self._fail,
            on_up=self._up,
            on_down=self._down,
            on_room=self._go_on,
        )
        component.admits = self._admits
        write = component.write
        broker.admission.watch(
            partial(component.pause_reading, FULL), partial(component.resume_reading, FULL)
        )
        self._link = link = Link(
            *(place.jid, broker, principals.of, write, broker.admission, Answers(write))
        )
        self._pace = Pace(place.jid, component, self._go_on)
        self.many = ToMany(place.jid, component, self._pace, broker.outbox)
        self.deliveries = Deliveries(
            link, lambda: component.loop, component.traffic, terms.repeating
        )
        self._stalled = self.deliveries.stalled
        sender = NoticeSender(place.jid, write, self.many, self.deliveries.send)
        self.claims, self.send_notices = sender.claims, sender.send_notices
        self._rosters = Rosters(place.jid, write, principals)
        self._workers = SilentWorkers(terms.ping_after)
        self._pings = Pings(place.jid, write, self._workers, lambda: broker.instance.number)
        self.messages = Receiver(link, Events(place.jid, write, broker.now, new_id, terms.qos))
        self.requests = Requests(
            *(link, terms),
            pace=self._pace,
            messages=self.messages,
            rosters=self._rosters,
            deliveries=self.deliveries,
            silent=self._workers.silent,
        )
        component.on_single = self.requests.take_single
        self.announcer = Announcer(place.jid, write, lambda: broker.instance.number)
        features, doubt = self.requests.features, self._workers.doubt
        signals = Signals(link, self._rosters, self.deliveries, features, doubt)
        self.kinds: dict[str, Callable[[Stanza], None]] = {
            f"{ns.COMPONENT} iq": self._take_iq,
            f"{ns.COMPONENT} message": signals.take_message,
            f"{ns.COMPONENT} presence": signals.take_presence,
        }
        broker.outbox.attach(self, waits=True)

    @property
    def traffic(self) -> Traffic:
        """Counters of what was received and sent on the stream."""
        self.component.traffic.messages = self.messages.counts
        return self.component.traffic

    def take_settings(self, settings: WithXmpp) -> None:
        """Apply the configured settings from the next stanza on."""
        self.adopt(XmppTerms.of(settings))

    def adopt(self, terms: XmppTerms) -> None:
        """Apply these settings from the next stanza on."""
        self.requests.terms = terms
        self._workers.ping_after = terms.ping_after
        self.messages.events.qos = terms.qos
        self.deliveries.repeating = terms.repeating

    async def enter(self, on_waiting: Callable[[], None]) -> None:
        """Connect when no other component has this one's name; stanzas are handled from `run` on."""
        self._outside = True
        await self.component.enter(on_waiting)

    async def check(self, patience: float) -> str:
        """Return a sentence that confirms that the server accepts us.

        Raises:
            RefusedByServerError: it does not accept us.
            TimeoutError: it could not be reached, or did not answer, within `patience` seconds.

        """
        self._outside = True
        try:
            if not await self.component.attempt(patience=patience):
                raise TimeoutError(self.component.last_error)
        finally:
            await self.component.leave()
        host, port = self._place.server
        return f"server: {host}:{port} accepts {self._place.jid}"

    async def run(self) -> None:
        """Serve until cancelled; reconnect when the stream is lost."""
        self._outside = False
        if self.component.ready:
            self._up()
        self.component.resume_reading(ENTERING)
        await self.component.run()

    async def watch_workers(self, store: Store) -> None:
        """Ping workers that hold items and send nothing, until cancelled; those that do not answer count as gone."""
        await self._workers.run(self._link.broker, store, self._pings)

    async def watch_messages(self, store: Store) -> None:
        """End assured messages whose time is over, until cancelled."""
        await end_messages(self._link.broker, store, self.messages.events.expired)

    async def stop(self) -> None:
        """Stop accepting requests and delivering, answer earlier requests, and close the stream.

        Stanzas that the server sends from now on are not handled, so nothing is done without an answer that arrives.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + ENDING
        self.component.stop_taking()
        self.deliveries.stop()
        self._set_up(up=False)
        loop.call_later(DRAIN, self.requests.reads.end)
        await self._link.broker.drain(DRAIN)
        await self.component.leave(patience=max(1.0, end - loop.time()))

    def _up(self) -> None:
        if self._outside:
            return
        self._workers.ask_all()
        self._set_up(up=True)
        self._on_ready()

    def _down(self) -> None:
        """Stop delivering; waiting notices to many addresses are lost if the stream is."""
        if self._outside:
            return
        if not self.component.ready:
            self.many.clear()
            self._pace.clear()
            self._pings.forget()
            self.requests.reads.go_on()
            self._rosters.forget()
            self._link.broker.newcomers.forget()
            if not self.component.is_leaving:
                self._link.broker.undelivered.stream_broke()
        self._set_up(up=False)

    def _set_up(self, *, up: bool) -> None:
        self._is_up = up
        self._link.broker.outbox.set_up(self, up=up)

    def _go_on(self) -> None:
        """Send more of the waiting notices and answers, because there is room."""
        self.many.go_on()
        self.requests.reads.go_on()

    # --- in ---

    def _admits(self, head: Element) -> bool:
        """Return, from the head of a stanza, whether its children are to be read; of presence only those of rooms that texts go to."""
        sender = head.get("from")
        if sender is None:
            return False
        if head.tag == _PRESENCE:
            return self.announcer.awaits(head)
        if self._link.jid in sender and domain_of(Jid(sender)) == self._link.jid:
            return sender == self._link.jid  # answers to our own requests; others are forged
        if self._rosters.awaits(head):
            return True
        return not self._link.admission.beyond(
            self._link.principal(Jid(sender))
        ) or self.deliveries.awaits(head)

    def _take(self, stanza: Stanza) -> None:
        """Handle a stanza, unless it is forged."""
        if self._is_forged(stanza):
            self._refuse_forged(stanza)
        elif not (self.announcer.is_on and self.announcer.take(stanza.top)):
            self._note_sign(stanza.top)
            self.kinds[stanza.top.tag](stanza)

    def _fail(self, stanza: Stanza | Single, problem: Exception) -> None:
        """Log a fault of ours in handling a stanza, and answer a request; no other stanza is affected."""
        log.error("stanza.failed", stanza=kind_of(stanza), **fault(problem))  # no payload
        if is_request(stanza):
            self._link.answers.refuse(stanza, INTERNAL_FAULT, b"")

    def _take_iq(self, stanza: Stanza) -> None:
        """Handle a request, or an answer to a request of ours."""
        top = stanza.top
        kind = top.get("type")
        if kind == "result" and top.get("from") == top.get("to") == self._link.jid:
            self._pace.take_probe(top.get("id") or "")
        if kind in {"result", "error"} and (
            self._rosters.take_answer(top)
            or self._pings.take_answer(top)
            or self._take_delivery_answer(top)
        ):
            return
        self.requests.take(stanza)

    def _take_delivery_answer(self, top: Element) -> bool:
        """Handle an answer to a delivery; one that this instance does not await costs a request, so it counts against its sender."""
        if not self.deliveries.awaits(top):
            sender = top.get("from")
            if sender is None or self._link.admission.beyond(self._link.principal(Jid(sender))):
                return False
        return self.deliveries.take_answer(top)

    def _note_sign(self, top: Element) -> None:
        """Note that a silent worker has sent something itself: errors are sent by servers, too."""
        if top.get("from") in self._workers.silent and top.get("type") != "error":
            self._workers.silent.discard(Jid(top.attributes["from"]))

    def _is_forged(self, stanza: Stanza) -> bool:
        """Return whether the sender claims to be of our own domain, and the stanza is not an answer to our own.

        Accounts of this domain log in to the service itself, so no server may send stanzas in their names.
        """
        sender = stanza.top.get("from") or ""
        if self._link.jid not in sender or domain_of(Jid(sender)) != self._link.jid:
            return False
        return sender != self._link.jid or is_request(stanza)

    def _refuse_forged(self, stanza: Stanza) -> None:
        log.warning("stanza.forged", sender=stanza.top.get("from"), stanza=kind_of(stanza))
        if is_request(stanza):
            self._link.answers.refuse(stanza, _FORGED, b"")

    # --- out ---

    def reaches(self, address: Jid) -> bool:
        """Return whether there is a stream, and the address is reached through it."""
        if self._stalled and address in self._stalled:
            return False  # it does not answer: it is handed nothing more until it does
        return self._is_up and self.claims(address)

    def when_sent(self, node: NodeName, call: Callable[[], None]) -> None:
        """Call `call` when the server has accepted all waiting notices of the node to many addresses, or the stream is lost."""
        self.many.when_sent(node, call)


# Sends notices on the component stream to the addresses that are reached through it.


class NoticeSender:
    """Sends notices on the component stream; `write` returns whether there is one."""

    def __init__(
        self,
        jid: str,
        write: Callable[[bytes, int], bool],
        many: ToMany,
        send_at_level: Callable[[Deliver], bool],
    ) -> None:
        self._jid = jid
        self._send_at_level = send_at_level
        self._home = f"@{jid}/"
        self._write = write
        self._many = many

    def claims(self, address: Jid) -> bool:
        """Return whether the address is not of the service's own accounts, which are connected to other faces."""
        # the first test is cheap and nearly always enough; but a resource may look like an account of ours
        return self._home not in f"{address}/" or not account_of(address).endswith(self._home[:-1])

    def send_notices(self, what: Sequence[Notice | ToEach]) -> Sequence[Notice]:
        """Send the notices, in order, and return those for which there is no stream.

        Notices to many addresses follow as the server accepts them, and are lost with the stream.
        """
        unsent: list[Notice] = []
        for one in what:
            try:
                if type(one) is ToEach:
                    self._many.notify(self._beyond(one))
                elif not self._send(one):
                    unsent.append(one)
            except Exception as problem:  # as if it had been lost in transit: its lock times out
                kind = type(one.what if isinstance(one, ToEach) else one).__name__
                log.error("notice.failed", notice=kind, **fault(problem))  # noqa: TRY400  # no payload
        return unsent

    def _beyond(self, many: ToEach) -> ToEach:
        """Return the notices without the service's own accounts, which are on no server."""
        home = self._home
        if not any(home in f"{jid}/" for jid in many.to):
            return many
        return replace(many, to=tuple(jid for jid in many.to if self.claims(jid)))

    def _send(self, what: Notice) -> bool:
        if self._home in f"{what.to}/" and not self.claims(what.to):
            return False
        if type(what) is Deliver and what.level is not Level.UNACKNOWLEDGED:
            return self._send_at_level(what)
        message = notices.notice(what, self._jid, new_id)
        size = len(message)
        if size > MAX_STANZA_BYTES and isinstance(what, Retracted | Unlocked) and len(what.ids) > 1:
            half = len(what.ids) // 2
            ids = what.ids[:half], what.ids[half:]
            return all(self._send(replace(what, ids=part)) for part in ids)
        return self._write(message, size)
