"""Requests in IQs: each is submitted to the broker and answered exactly once, whatever is wrong with it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
from msgspec.structs import replace

from pubqueue.engine.table import READS
from pubqueue.faces.faults import fault
from pubqueue.faces.flow.intake import notified_node
from pubqueue.faces.flow.reads import Reads
from pubqueue.faces.xmpp.answers import is_request
from pubqueue.faces.xmpp.commands.command_handler import CommandHandler
from pubqueue.faces.xmpp.parse.carrying import is_carried
from pubqueue.faces.xmpp.parse.iq import Asked, Iq
from pubqueue.faces.xmpp.parse.publishing import answer_wanted
from pubqueue.faces.xmpp.refusals import (
    INTERNAL_FAULT,
    SERVICE_UNAVAILABLE,
    StanzaError,
    bad_request,
    behind,
    busy,
    excessive,
    words,
)
from pubqueue.faces.xmpp.render import answer_sizes, disco
from pubqueue.faces.xmpp.stream.reader import REFUSED
from pubqueue.faces.xmpp.stream.single import Single, SingleMessage
from pubqueue.faces.xmpp.verbs import PUBLISH, RETRACT, STRICT, VERBS, find
from pubqueue.faces.xmpp.xml.ids import new_id
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import Jid
from pubqueue.model.replies import RostersWanted, Subscribed
from pubqueue.rules.retrieve import Retrieve
from pubqueue.rules.subscribe import SetOptions, Subscribe

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.table import Request
    from pubqueue.faces.flow.intake import Load
    from pubqueue.faces.xmpp.link import Link
    from pubqueue.faces.xmpp.qos.receiver import Receiver
    from pubqueue.faces.xmpp.qos_deliveries.deliveries import Deliveries
    from pubqueue.faces.xmpp.rosters import Rosters
    from pubqueue.faces.xmpp.stream.pace import Pace
    from pubqueue.faces.xmpp.terms import Terms
    from pubqueue.faces.xmpp.verbs import Handler, Renderer
    from pubqueue.faces.xmpp.xml.stanza import Stanza
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Contact, Principal

log = structlog.get_logger(__name__)

AT_THE_END: Final = Refused(Refusal.STORE_FAILED, "the service is stopping")

ROSTERS_BUSY: Final = Refused(
    Refusal.TOO_MUCH_STAGED, "too many roster requests are open; try again later"
)


class Requests:
    """Handles requests, and counts each against the budget of its sender."""

    def __init__(
        self,
        link: Link,
        terms: Terms,
        *,
        pace: Pace,
        messages: Receiver,
        rosters: Rosters,
        deliveries: Deliveries,
        silent: set[Jid],
    ) -> None:
        self.terms = terms
        self._jid, self._broker, self._intake = link.jid, link.broker, link.intake
        self._principal = link.principal
        self._write_answer, self._write_refusal = link.answers.answer, link.answers.refuse
        self._pace, self._messages = pace, messages
        self._rosters, self._deliveries, self._silent = rosters, deliveries, silent
        self.reads = Reads(lambda: pace.may_read)
        self._command_handler = CommandHandler()

    def features(self, by: Principal) -> tuple[str, ...]:
        """Return the features of the service for an account."""
        terms = self.terms
        return disco.features_for(
            auto_creates=terms.auto_creates, rosters=by.rosters, carries=terms.qos.enabled
        )

    def take_single(self, asked: Single) -> None:
        """Handle a request that was read by the short way (`stream.single`)."""
        sender = asked.sender
        if sender.to != self._jid:
            self._refuse(asked, SERVICE_UNAVAILABLE)
            return
        if sender.jid in self._silent:
            self._silent.discard(sender.jid)
        by = self._principal(sender.jid)
        if why := self._intake.beyond(by):
            self._refuse(asked, busy(why), b"")
            return
        if type(asked) is SingleMessage:
            self._take_carried(asked, by)
            return
        verb = RETRACT if asked.payload is None else PUBLISH
        write = verb.briefly.get(asked.answer, verb.write) if asked.answer else verb.write
        request = asked.request(by, new_id)
        outbox = self._broker.outbox
        if outbox.behind and outbox.is_behind(asked.node):
            self._refuse(asked, behind())
            return
        load = self._intake.take(by, asked.length)
        self._broker.submit(request, partial(self._reply, load, asked, write, None))

    def take(self, stanza: Stanza) -> None:
        """Handle an IQ that is not an answer to a request of ours."""
        top = stanza.top
        if not is_request(stanza):
            self._charge(stanza)  # an answer to no request of ours, or without a sender
            return
        why = self._intake.beyond(self._principal(Jid(top.attributes["from"])))
        if why or stanza.excess == REFUSED:
            self._refuse(stanza, busy(why), b"")
        elif top.get("to") != self._jid:
            self._refuse(stanza, SERVICE_UNAVAILABLE)
        elif stanza.excess:
            self._refuse(stanza, excessive(stanza.excess), b"")
        elif len(top.children) != 1:
            self._refuse(stanza, bad_request(text="an IQ request has exactly one child"))
        elif is_carried(top.children[0]):
            self._take_carried(stanza, self._principal(Jid(top.attributes["from"])))
        else:
            verbs = VERBS if self.terms.settle_by_get else STRICT
            self._ask(stanza, find(verbs, top.attributes["type"], top.children[0]))

    def _take_carried(self, asked: Stanza | SingleMessage, by: Principal) -> None:
        """Take a message that the IQ carries (urn:xmpp:qos)."""
        if self.terms.qos.enabled:
            self._messages.take(asked, by)
        else:
            self._refuse(asked, SERVICE_UNAVAILABLE)

    def _ask(self, stanza: Stanza, verb: Handler) -> None:
        by = self._principal(Jid(stanza.top.attributes["from"]))
        iq = Iq(stanza, by, new_id, self.features, self._command_handler)
        request = verb.read(iq)
        if isinstance(request, StanzaError):
            self._refuse(stanza, request)
        elif isinstance(request, bytes):
            self._write_answer(stanza, request)
        elif isinstance(request, Asked):
            self._submit(stanza, request.request, request.write, request.refused)
        elif (node := notified_node(request)) is not None and self._broker.outbox.is_behind(node):
            self._refuse(stanza, behind())
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
        if isinstance(request, Subscribe | SetOptions):
            answer = partial(self._after_subscribing, answer)
        if reads:
            self._read(by, request, answer)
        else:
            self._broker.submit(request, answer)

    def _read(self, by: Principal, request: Request, answer: Callable[[Reply], None]) -> None:
        """Submit a read request when it is the account's turn."""

        def over(reply: Reply) -> None:
            try:
                answer(reply)
            finally:
                self.reads.done()

        begin = partial(self._broker.submit, request, over)
        self.reads.ask(by.account, begin, lambda: answer(AT_THE_END))

    def _after_subscribing(self, answer: Callable[[Reply], None], reply: Reply) -> None:
        """Answer; if the level of deliveries depends on the client, ask what it can do."""
        answer(reply)
        if isinstance(reply, Subscribed) and reply.wants_features:
            self._deliveries.ask_features(reply.subscription.jid)

    def _after_rosters(
        self, request: Subscribe | Retrieve, answer: Callable[[Reply], None], reply: Reply
    ) -> None:
        """Answer; if owners' rosters are needed, request these first and submit the request again."""
        if not isinstance(reply, RostersWanted):
            answer(reply)
            return

        def again(contact: tuple[Contact, ...]) -> None:
            known = replace(request, by=replace(request.by, contact=contact))
            if isinstance(request, Retrieve):
                self._read(request.by, known, answer)
            else:
                self._broker.submit(known, answer)

        if not self._rosters.ask(request.by, reply.owners, again, asyncio.get_running_loop()):
            answer(ROSTERS_BUSY)

    def _reply(
        self,
        load: Load,
        asked: Stanza | Single,
        write: Renderer,
        instead: Callable[[Refused], bytes | None] | None,
        reply: Reply,
    ) -> None:
        """Answer the request of this load; for a refusal, `instead` returns what it shows in place of the request's child."""
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
        ) as problem:  # the request is done: the requester gets an error about the answer
            log.error("answer.failed", reply=type(reply).__name__, **fault(problem))  # noqa: TRY400  # no payload
            self._write_refusal(asked, INTERNAL_FAULT, b"")

    def _refuse(
        self, asked: Stanza | Single, error: StanzaError, echo: bytes | None = None
    ) -> None:
        """Refuse; the cost of reading counts against the sender, unless the error is of type wait."""
        self._write_refusal(asked, error, echo)
        if error.type != "wait":
            self._charge(asked)

    def _charge(self, stanza: Stanza | Single) -> None:
        """Count the cost of reading it against its sender."""
        if isinstance(stanza, Single):
            self._intake.charge(self._principal(stanza.sender.jid), stanza.cost)
        elif (sender := stanza.top.get("from")) is not None:
            self._intake.charge(self._principal(Jid(sender)), stanza.cost)
