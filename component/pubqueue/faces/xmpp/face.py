"""The face: stanzas in, requests to the broker, replies and notices out.

Each IQ get or set is answered exactly once, whatever is wrong with it. Presence is never answered with
an error, for a server would then stop telling us who leaves.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
from msgspec.structs import replace

from pubqueue.app.rules import READS
from pubqueue.core.addresses import account_of
from pubqueue.core.decision import Refusal, Refused, RostersWanted
from pubqueue.core.model import Jid
from pubqueue.core.nodes.subscriptions.subscribe import Subscribe
from pubqueue.core.notices import Retracted, ToEach, Unlocked
from pubqueue.core.queue.expire import Arrive, Bounce, Leave
from pubqueue.core.reading.retrieve import Retrieve
from pubqueue.faces.xmpp import bounces
from pubqueue.faces.xmpp.answers import Answers, is_request, kind_of
from pubqueue.faces.xmpp.commands.command_handler import CommandHandler
from pubqueue.faces.xmpp.parse import approving
from pubqueue.faces.xmpp.parse.iq import Asked, Iq
from pubqueue.faces.xmpp.parse.publishing import answer_wanted
from pubqueue.faces.xmpp.refusals import (
    INTERNAL_FAULT,
    SERVICE_UNAVAILABLE,
    StanzaError,
    bad_request,
    busy,
    excessive,
    words,
)
from pubqueue.faces.xmpp.render import answer_sizes, notices
from pubqueue.faces.xmpp.rosters import Rosters
from pubqueue.faces.xmpp.stream.component import ENTERING, Component
from pubqueue.faces.xmpp.stream.faults import fault
from pubqueue.faces.xmpp.stream.intake import Intake, notified_node
from pubqueue.faces.xmpp.stream.pace import Pace
from pubqueue.faces.xmpp.stream.reader import REFUSED
from pubqueue.faces.xmpp.stream.reads import Reads
from pubqueue.faces.xmpp.stream.single import Single
from pubqueue.faces.xmpp.stream.to_many import ToMany
from pubqueue.faces.xmpp.verbs import PUBLISH, RETRACT, STRICT, VERBS, find
from pubqueue.faces.xmpp.xml.ids import new_id
from pubqueue.faces.xmpp.xml.size_limits import MAX_STANZA_BYTES
from pubqueue.faces.xmpp.xml.text import attribute
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pubqueue.app.broker import Broker
    from pubqueue.app.principals import Principals
    from pubqueue.app.rules import Request
    from pubqueue.app.watch.watching import Traffic
    from pubqueue.core.decision import Reply
    from pubqueue.core.model import Contact, NodeName, Principal
    from pubqueue.core.nodes.subscriptions.pending import Answer
    from pubqueue.core.notices import Notice
    from pubqueue.faces.xmpp.stream.intake import Load
    from pubqueue.faces.xmpp.verbs import Handler, Renderer
    from pubqueue.faces.xmpp.xml.stanza import Element, Stanza

log = structlog.get_logger(__name__)

DRAIN: Final = 1.5
"""Seconds for answering what was asked before the end; what has not begun by then is refused."""

ENDING: Final = 4.0
"""Seconds for all of that, until the server has read the answers."""

_BEHIND: Final = StanzaError(
    "wait", "resource-constraint", text="earlier notifications of this node are still being sent"
)

AT_THE_END: Final = Refused(Refusal.STORE_FAILED, "the service is stopping")
ROSTERS_BUSY: Final = Refused(
    Refusal.TOO_MUCH_STAGED, "too many roster requests are open; try again later"
)

_PRESENCE: Final = f"{ns.COMPONENT} presence"

SINGLE_COST: Final = 20e-6
"""Seconds that a refused request for a single item counts; it takes about as much, and to measure each would, too."""

FULL: Final = "full"
"""Why nothing is read: enough is waiting for its answer."""


class XmppFace:
    """Serves the queue on one component stream."""

    def __init__(
        self,
        broker: Broker,
        *,
        jid: str,
        secret: str,
        server: tuple[str, int],
        principals: Principals,
        settle_by_get: bool = True,
        auto_creates: bool = True,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._broker, self._jid = broker, jid
        self._server = "{}:{}".format(*server)
        self._home = f"@{jid}/"
        self._is_up = False
        self._verbs = VERBS if settle_by_get else STRICT
        self._auto_creates = auto_creates
        self._on_ready = on_ready
        self._principals, self._principal = principals, principals.of
        self.component = Component(
            jid,
            secret,
            server,
            on_stanza=self._take,
            on_up=self._up,
            on_down=self._down,
            on_room=self._go_on,
        )
        self.component.admits = self._admits
        self._intake = Intake(
            partial(self.component.pause_reading, FULL),
            partial(self.component.resume_reading, FULL),
        )
        answers = Answers(self.component.write)
        self._write_answer, self._write_refusal = answers.answer, answers.refuse
        self._pace = Pace(jid, self.component, self._go_on)
        self._reads = Reads(self._may_read)
        self._many = ToMany(jid, self.component, self._pace, broker.outbox)
        self._rosters = Rosters(jid, self.component.write, principals)
        self._command_handler = CommandHandler()
        self._outside = False
        self._kinds: dict[str, Callable[[Stanza], None]] = {
            f"{ns.COMPONENT} iq": self._take_iq,
            f"{ns.COMPONENT} message": self._take_message,
            f"{ns.COMPONENT} presence": self._take_presence,
        }
        broker.outbox.attach(self)

    @property
    def traffic(self) -> Traffic:
        """What has come and gone on the stream."""
        return self.component.traffic

    def adopt(
        self,
        *,
        admins: Iterable[Jid],
        anonymous: Iterable[str],
        settle_by_get: bool,
        auto_creates: bool,
    ) -> None:
        """Serve by these settings from the next stanza on."""
        self._principals.appoint(admins)
        self._principals.bar(anonymous)
        self._auto_creates = auto_creates
        self._verbs = VERBS if settle_by_get else STRICT

    async def enter(self, on_waiting: Callable[[], None]) -> None:
        """Connect when no other component has this one's name; what comes is taken from `run` on."""
        self._outside = True
        await self.component.enter(on_waiting)

    async def check(self, patience: float) -> str:
        """Return a sentence that the server accepts us.

        Raises:
            RefusedByServerError: it does not.
            TimeoutError: it could not be reached, or did not answer, in so many seconds.

        """
        self._outside = True
        try:
            if not await self.component.attempt(patience=patience):
                raise TimeoutError(self.component.last_error)
        finally:
            await self.component.leave()
        return f"server: {self._server} accepts {self._jid}"

    async def run(self) -> None:
        """Serve until cancelled; the stream is kept up."""
        self._outside = False
        if self.component.ready:
            self._up()
        self.component.resume_reading(ENTERING)
        await self.component.run()

    async def stop(self) -> None:
        """Take nothing more and hand out nothing more, answer what was asked, and close the stream.

        What the server sends from now on is not taken, so it is never done without an answer that arrives.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + ENDING
        self.component.stop_taking()
        self._set_up(up=False)
        loop.call_later(DRAIN, self._reads.end)
        await self._broker.drain(DRAIN)
        await self.component.leave(patience=max(1.0, end - loop.time()))

    def _up(self) -> None:
        if self._outside:
            return
        self._set_up(up=True)
        self._on_ready()

    def _down(self) -> None:
        """Hand out nothing more; news for many are lost if the stream is."""
        if self._outside:
            return
        if not self.component.ready:
            self._many.clear()
            self._pace.clear()
            self._reads.go_on()
            self._rosters.forget()
            if not self.component.is_leaving:
                self._broker.undelivered.stream_broke()
        self._set_up(up=False)

    def _set_up(self, *, up: bool) -> None:
        self._is_up = up
        self._broker.outbox.set_up(self, up=up)

    def _go_on(self) -> None:
        """Tell more of what waits, for there is room."""
        self._many.go_on()
        self._reads.go_on()

    # --- in ---

    def _may_read(self) -> bool:
        """Whether a large answer may follow; of what nobody is there to hear as much as there is."""
        return self._pace.has_room or not self.component.ready

    def _admits(self, head: Element) -> bool:
        """Say by the head of a stanza whether its children are worth a look. Of presence they never are."""
        sender = head.get("from")
        if sender is None or head.tag == _PRESENCE:
            return False
        if sender == self._jid or self._rosters.awaits(head):
            return True  # what we have asked for
        return not self._intake.beyond(self._principal(Jid(sender)))

    def _submit_presence(self, word: Arrive | Leave | Bounce | Answer, stanza: Stanza) -> None:
        """Say what nobody waits for an answer to."""
        by = self._principal(Jid(stanza.top.attributes["from"]))
        load = self._intake.take(by, len(stanza.raw))
        self._broker.submit(word, lambda _reply: self._intake.done(load))

    def _take(self, stanza: Stanza | Single) -> None:
        """Take a stanza; a fault of ours in reading or answering it is this stanza's, and nobody else's."""
        try:
            if type(stanza) is Single:
                self._take_single(stanza)
            else:
                self._kinds[stanza.top.tag](stanza)
        except Exception as problem:  # the boundary between stanzas
            log.error("stanza.failed", stanza=kind_of(stanza), **fault(problem))  # noqa: TRY400  # no payload
            if is_request(stanza):
                self._write_refusal(stanza, INTERNAL_FAULT, b"")

    def _take_single(self, asked: Single) -> None:
        sender = asked.sender
        if sender.to != self._jid:
            self._refuse(asked, SERVICE_UNAVAILABLE)
            return
        by = self._principal(sender.jid)
        if why := self._intake.beyond(by):
            self._refuse(asked, busy(why), b"")
            return
        verb = RETRACT if asked.payload is None else PUBLISH
        write = verb.briefly.get(asked.answer, verb.write) if asked.answer else verb.write
        request = asked.request(by, new_id)
        if self._broker.outbox.is_behind(asked.node):
            self._refuse(asked, _BEHIND)
            return
        load = self._intake.take(by, len(asked.raw))
        self._broker.submit(request, partial(self._reply, load, asked, write, None))

    def _take_iq(self, stanza: Stanza) -> None:
        top = stanza.top
        kind = top.get("type")
        if kind == "result" and top.get("from") == top.get("to") == self._jid:
            self._pace.hear(top.get("id") or "")
        if kind in {"result", "error"} and self._rosters.hear_answer(top):
            return
        if not is_request(stanza):
            self._charge(stanza)
            return  # an answer to nothing we asked, or from nobody
        why = self._intake.beyond(self._principal(Jid(top.attributes["from"])))
        if why or stanza.excess == REFUSED:
            self._refuse(stanza, busy(why), b"")
        elif top.get("to") != self._jid:
            self._refuse(stanza, SERVICE_UNAVAILABLE)
        elif stanza.excess:
            self._refuse(stanza, excessive(stanza.excess), b"")
        elif len(top.children) != 1:
            self._refuse(stanza, bad_request(text="an IQ request has exactly one child"))
        else:
            self._ask(stanza, find(self._verbs, top.attributes["type"], top.children[0]))

    def _ask(self, stanza: Stanza, verb: Handler) -> None:
        by = self._principal(Jid(stanza.top.attributes["from"]))
        iq = Iq(stanza, by, new_id, self._auto_creates, self._command_handler)
        request = verb.read(iq)
        if isinstance(request, StanzaError):
            self._refuse(stanza, request)
        elif isinstance(request, bytes):
            self._write_answer(stanza, request)
        elif isinstance(request, Asked):
            self._submit(stanza, request.request, request.write, request.refused)
        elif (node := notified_node(request)) is not None and self._broker.outbox.is_behind(node):
            self._refuse(stanza, _BEHIND)
        else:
            wanted = answer_wanted(iq) if verb.briefly else ""
            if (no := answer_sizes.beyond(request, wanted)) is not None:
                self._refuse(stanza, words(no))
                return
            write = verb.briefly.get(wanted, verb.write)
            instead = None if verb.refuse is None else partial(verb.refuse, asked=iq.verb)
            self._submit(stanza, request, write, instead)

    def _submit(
        self,
        stanza: Stanza,
        request: Request,
        write: Renderer,
        instead: Callable[[Refused], bytes | None] | None,
    ) -> None:
        by = self._principal(Jid(stanza.top.attributes["from"]))
        reads = type(request) in READS
        if reads and (why := self._intake.beyond_reading(by)):
            self._refuse(stanza, busy(why), b"")
            return
        load = self._intake.take(by, len(stanza.raw), request)
        answer = partial(self._reply, load, stanza, write, instead)
        if isinstance(request, Subscribe | Retrieve):
            answer = partial(self._after_rosters, request, answer)
        if reads:
            self._read(by, request, answer)
        else:
            self._broker.submit(request, answer)

    def _read(self, by: Principal, request: Request, answer: Callable[[Reply], None]) -> None:
        """Have it read when it is the account's turn."""

        def over(reply: Reply) -> None:
            try:
                answer(reply)
            finally:
                self._reads.done()

        begin = partial(self._broker.submit, request, over)
        self._reads.ask(by.account, begin, lambda: answer(AT_THE_END))

    def _after_rosters(
        self, request: Subscribe | Retrieve, answer: Callable[[Reply], None], reply: Reply
    ) -> None:
        """Answer; but where owners' rosters have to be known, ask for these, and then again."""
        if not isinstance(reply, RostersWanted):
            answer(reply)
            return

        def again(contact: tuple[Contact, ...]) -> None:
            known = replace(request, by=replace(request.by, contact=contact))
            if isinstance(request, Retrieve):
                self._read(request.by, known, answer)
            else:
                self._broker.submit(known, answer)

        if not self._rosters.ask(request.by, reply.owners, again, self.component.loop):
            answer(ROSTERS_BUSY)

    def _take_message(self, stanza: Stanza) -> None:
        """Take a bounce of a delivery (XEP-0060 12.4) and an owner's answer (8.6); other messages are not for us."""
        top = stanza.top
        sender = top.get("from")
        if sender is None:
            return
        self._charge(stanza)
        if top.get("type") != "error":
            self._take_answer(stanza, Jid(sender))
            return
        if (back := bounces.bounce(top)) is None:
            return
        log.info("delivery.bounced", to=sender, gone=back.gone)
        self._submit_presence(back, stanza)

    def _take_answer(self, stanza: Stanza, sender: Jid) -> None:
        """Take an owner's answer to who wants to subscribe. It is not answered: a message asks for nothing."""
        if stanza.top.get("to") != self._jid:
            return
        if self._rosters.hear_grant(stanza.top.get("from"), stanza.top):
            return
        answer = approving.answer(stanza, self._principal(sender))
        if answer is not None:
            self._submit_presence(answer, stanza)

    def _take_presence(self, stanza: Stanza) -> None:
        """Say who comes and goes; answer a subscription request and a probe with our own presence."""
        kind, sender = stanza.top.get("type"), stanza.top.get("from")
        if sender is None or stanza.top.get("to") != self._jid:
            return
        jid = Jid(sender)
        match kind:
            case None:
                self._submit_presence(Arrive(jid), stanza)
            case "unavailable":
                self._submit_presence(Leave(jid), stanza)
            case "subscribe":
                self._send_presence(account_of(jid), "subscribed")
                self._send_presence(account_of(jid))
            case "probe":
                self._send_presence(jid)
            case _:
                pass

    def _send_presence(self, to: Jid, kind: str = "") -> None:
        words = f' type="{kind}"' if kind else ""
        self.component.write(
            f'<presence from="{attribute(self._jid)}" to="{attribute(to)}"{words}/>'.encode()
        )

    # --- out ---

    def claims(self, address: Jid) -> bool:
        """Return whether it is anybody's but the service's own accounts, which are connected to other faces."""
        # the first test is cheap and nearly always enough; a resource may look like an account of ours
        return self._home not in f"{address}/" or not account_of(address).endswith(self._home[:-1])

    def reaches(self, address: Jid) -> bool:
        """Return whether there is a stream, and the address is beyond it."""
        return self._is_up and (self._home not in f"{address}/" or self.claims(address))

    def speak(self, notices: Sequence[Notice | ToEach]) -> Sequence[Notice]:
        """Send the notices, in order, and return those for which there is no stream.

        Those to many follow as the server takes them, and are lost with the stream.
        """
        unsent: list[Notice] = []
        for what in notices:
            try:
                if type(what) is ToEach:
                    self._many.notify(self._beyond(what))
                elif not self._say(what):
                    unsent.append(what)
            except (
                Exception
            ) as problem:  # as if it had been lost on its way: a lock on it times out
                kind = type(what.what if isinstance(what, ToEach) else what).__name__
                log.error("notice.failed", notice=kind, **fault(problem))  # noqa: TRY400  # no payload
        return unsent

    def _beyond(self, many: ToEach) -> ToEach:
        """Return the notices to those who are not the service's own accounts: no server has these."""
        home = self._home
        if not any(home in f"{jid}/" for jid in many.to):
            return many
        return replace(many, to=tuple(jid for jid in many.to if self.claims(jid)))

    def when_sent(self, node: NodeName, call: Callable[[], None]) -> None:
        """Call when the server has taken what is told to many of the node by now, or the stream is lost."""
        self._many.when_sent(node, call)

    def _say(self, what: Notice) -> bool:
        if self._home in f"{what.to}/" and not self.claims(what.to):
            return False
        message = notices.notice(what, self._jid, new_id)
        if (
            len(message) > MAX_STANZA_BYTES
            and isinstance(what, Retracted | Unlocked)
            and len(what.ids) > 1
        ):
            half = len(what.ids) // 2
            ids = what.ids[:half], what.ids[half:]
            return all(self._say(replace(what, ids=part)) for part in ids)
        return self.component.write(message)

    def _reply(
        self,
        load: Load,
        asked: Stanza | Single,
        write: Renderer,
        instead: Callable[[Refused], bytes | None] | None,
        reply: Reply,
    ) -> None:
        """Answer what counted so much; of a refusal, `instead` says what it shows in place of the request's child."""
        self._intake.done(load)
        try:
            if type(reply) is Refused:
                self._refuse(asked, words(reply), instead(reply) if instead else None)
            else:
                byte_count = self._write_answer(asked, write(reply, self._jid))
                if load.reads:
                    self._pace.wrote(byte_count)
        except (
            Exception
        ) as problem:  # what is done is done: who asked learns that the answer failed
            log.error("answer.failed", reply=type(reply).__name__, **fault(problem))  # noqa: TRY400  # no payload
            self._write_refusal(asked, INTERNAL_FAULT, b"")

    def _refuse(
        self, asked: Stanza | Single, error: StanzaError, echo: bytes | None = None
    ) -> None:
        """Refuse; what it took to read counts against whoever asked, unless it was only too early."""
        self._write_refusal(asked, error, echo)
        if error.type != "wait":
            self._charge(asked)

    def _charge(self, stanza: Stanza | Single) -> None:
        """Count what reading it took against its sender."""
        if isinstance(stanza, Single):
            self._intake.charge(self._principal(stanza.sender.jid), SINGLE_COST)
        elif (sender := stanza.top.get("from")) is not None:
            self._intake.charge(self._principal(Jid(sender)), stanza.cost)
