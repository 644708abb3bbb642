"""Requests in IQs, by the table of all verbs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog
from msgspec.structs import replace

from pubqueue.engine.table import READS
from pubqueue.faces.flow import Reads, notified_nodes
from pubqueue.faces.xmpp.commands import handler
from pubqueue.faces.xmpp.commands.handler import CommandHandler
from pubqueue.faces.xmpp.link import is_request
from pubqueue.faces.xmpp.parse import nodes, queue, reading
from pubqueue.faces.xmpp.parse.iq import Asked, Iq, beyond_words, is_carried
from pubqueue.faces.xmpp.parse.queue import answer_wanted
from pubqueue.faces.xmpp.render import disco, pages, replies
from pubqueue.faces.xmpp.stream.reader import REFUSED
from pubqueue.faces.xmpp.stream.single import Single, SingleMessage
from pubqueue.faces.xmpp.xml.refusals import (
    INTERNAL_FAULT,
    SERVICE_UNAVAILABLE,
    StanzaError,
    bad_request,
    behind,
    busy,
    excessive,
    words,
)
from pubqueue.faces.xmpp.xml.stanza import new_id
from pubqueue.logs import fault
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import Jid
from pubqueue.model.replies import RostersWanted, Subscribed
from pubqueue.rules.retrieve import Retrieve
from pubqueue.rules.subscribe import SetOptions, Subscribe
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.engine.admission import Load
    from pubqueue.faces.xmpp.deliveries import Deliveries
    from pubqueue.faces.xmpp.link import Link
    from pubqueue.faces.xmpp.receiver import Receiver
    from pubqueue.faces.xmpp.settings import XmppTerms
    from pubqueue.faces.xmpp.signals import Rosters
    from pubqueue.faces.xmpp.stream.to_many import Pace
    from pubqueue.faces.xmpp.xml.stanza import Element, Stanza
    from pubqueue.model.decision import Reply, Request
    from pubqueue.model.entities import Contact, Principal


# Requests in IQs: each is submitted to the broker and answered exactly once, whatever is wrong with it.

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
        terms: XmppTerms,
        *,
        pace: Pace,
        messages: Receiver,
        rosters: Rosters,
        deliveries: Deliveries,
        silent: set[Jid],
    ) -> None:
        self.terms = terms
        self._jid, self._broker, self._admission = link.jid, link.broker, link.admission
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
        if why := self._admission.beyond(by):
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
        load = self._admission.take(by, asked.length)
        self._broker.submit(request, partial(self._reply, load, asked, write, None))

    def take(self, stanza: Stanza) -> None:
        """Handle an IQ that is not an answer to a request of ours."""
        top = stanza.top
        if not is_request(stanza):
            self._charge(stanza)  # an answer to no request of ours, or without a sender
            return
        why = self._admission.beyond(self._principal(Jid(top.attributes["from"])))
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
        iq = Iq(stanza, by, new_id, self.features, self._command_handler, self._broker.now)
        request = verb.ask(iq)
        if isinstance(request, StanzaError):
            self._refuse(stanza, request)
        elif isinstance(request, bytes):
            self._write_answer(stanza, request)
        elif isinstance(request, Asked):
            self._submit(stanza, request.request, request.write, request.refused)
        elif any(map(self._broker.outbox.is_behind, notified_nodes(request))):
            self._refuse(stanza, behind())
        else:
            wanted = answer_wanted(iq) if verb.briefly else ""
            if (no := replies.beyond(request, wanted)) is not None:
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
        if reads and (why := self._admission.beyond_reading(by)):
            self._refuse(stanza, busy(why), b"")
            return
        load = self._admission.take(by, len(stanza.raw), request)
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
        self._admission.done(load)
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
            self._admission.charge(self._principal(stanza.sender.jid), stanza.cost)
        elif (sender := stanza.top.get("from")) is not None:
            self._admission.charge(self._principal(Jid(sender)), stanza.cost)


# The table of all requests, keyed by the type of the IQ, its child, and its grandchild.
#
# A row has a reader for the request and a renderer for its reply. A reader checks only that the request is well-formed and complete; rights
# are checked by the rules. It returns a request to the core, a stanza error if the request is malformed, or the answer itself if the core
# is not needed.

Reader = Callable[["Iq"], "Request | Asked | StanzaError | bytes"]
Key = tuple[str, str, str]
Renderer = Callable[[Any, str], bytes]
"""Renders a reply, of the request's type, to the contents of the IQ result, given the service's name."""


class Instead(Protocol):
    """Returns what an error contains instead of the request, given the refusal and the request; None for the request."""

    def __call__(self, refused: Refused, *, asked: Element) -> bytes | None:
        """Return it."""


@dataclass(frozen=True, slots=True)
class Handler:
    """Reads and answers one kind of request."""

    read: Reader
    write: Renderer = replies.done
    briefly: Mapping[str, Renderer] = field(default_factory=dict)
    """The renderers for requests with an attribute that selects another answer."""
    refuse: Instead | None = None
    """Returns what an error contains instead of the request's child; None: it repeats the child."""
    accompanied: bool = False
    """Whether the IQ may have other children, which its reader checks."""
    lax: bool = False
    """Whether a `get` changes something, which RFC 6120 8.2.3 forbids."""

    def ask(self, iq: Iq) -> Request | Asked | StanzaError | bytes:
        """Read the request, if nothing in it would be ignored."""
        return beyond_words(iq.child, iq.stanza.top.get("type") or "") or self.read(iq)


def _constant(answer: Callable[[], str]) -> Handler:
    """Return the handler of a request that does not need the core. slixmpp would answer any number of them."""
    return Handler(lambda _iq: answer().encode())


def _time(iq: Iq) -> bytes:
    """Return the time by which deadlines are set and judged: workers compare them with it."""
    return replies.entity_time(iq.now()).encode()


PUBLISH: Final = Handler(
    queue.publish,
    replies.published,
    briefly={"short": replies.published_briefly, "known": replies.published_if_known},
    accompanied=True,
)
RETRACT: Final = Handler(queue.retract, briefly={"known": replies.withdrawn}, accompanied=True)

# fmt: off
_P, _O, _Q, _X = f"{ns.PUBSUB} pubsub", f"{ns.OWNER} pubsub", ns.QUEUEING, ns.PUBQUEUE
_p, _o = ns.PUBSUB, ns.OWNER

VERBS: Final[Mapping[Key, Handler]] = {
    ("set", _P, f"{_p} publish"):       PUBLISH,
    ("set", _P, f"{_p} retract"):       RETRACT,
    ("get", _P, f"{_p} retract"):       Handler(queue.retract_from_queue, accompanied=True, lax=True),  # XEP-0254 example 6 (row 1)
    ("set", _P, f"{_Q} unlock"):        Handler(queue.unlock, accompanied=True),
    ("get", _P, f"{_Q} unlock"):        Handler(queue.unlock, accompanied=True, lax=True),  # as in examples 10-15
    ("set", _P, f"{_p} subscribe"):     Handler(nodes.subscribe, replies.subscribed, refuse=replies.wanted, accompanied=True),
    ("set", _P, f"{_p} unsubscribe"):   Handler(nodes.unsubscribe, replies.unsubscribed),
    ("get", _P, f"{_p} options"):       Handler(nodes.get_options, replies.options),
    ("set", _P, f"{_p} options"):       Handler(nodes.set_options, replies.options),
    ("set", _P, f"{_p} create"):        Handler(nodes.create, replies.created, accompanied=True),
    ("get", _P, f"{_p} default"):       Handler(nodes.get_default_options, replies.default_options),
    ("get", _P, f"{_p} items"):         Handler(reading.retrieve_items, replies.retrieved, accompanied=True),
    ("get", _P, f"{_p} subscriptions"): Handler(reading.my_subscriptions, replies.my_subscriptions, accompanied=True),
    ("get", _P, f"{_p} affiliations"):  Handler(reading.my_affiliations, replies.my_affiliations, accompanied=True),
    ("get", _O, f"{_o} configure"):     Handler(nodes.get_configuration, replies.configuration),
    ("set", _O, f"{_o} configure"):     Handler(nodes.set_configuration),
    ("get", _O, f"{_o} default"):       _constant(replies.default_configuration),
    ("set", _O, f"{_o} delete"):        Handler(nodes.delete),
    ("set", _O, f"{_o} purge"):         Handler(nodes.purge),
    ("get", _O, f"{_o} affiliations"):  Handler(nodes.get_affiliations, replies.affiliations, accompanied=True),
    ("set", _O, f"{_o} affiliations"):  Handler(nodes.set_affiliations, refuse=replies.unchanged),
    ("get", _O, f"{_o} subscriptions"): Handler(nodes.get_subscriptions, replies.node_subscriptions, accompanied=True),
    ("set", _O, f"{_o} subscriptions"): Handler(nodes.set_subscriptions, refuse=replies.standing),

    ("set", f"{_X} touch", ""):        Handler(queue.touch, replies.touched),
    ("set", f"{_X} redrive", ""):      Handler(queue.redrive, replies.redriven),
    ("set", f"{_X} signal", ""):       Handler(queue.signal, replies.signaled),
    ("set", f"{_X} signal-link", ""):  Handler(queue.signal_link, replies.signal_link),
    ("set", f"{_X} close-join", ""):   Handler(queue.close_join),
    ("set", f"{_X} commit", ""):       Handler(queue.commit, replies.committed),
    ("set", f"{_X} abort", ""):        Handler(queue.abort),
    ("get", f"{_X} txn", ""):          Handler(queue.ask, replies.last_version),
    ("get", f"{_X} transactions", ""): Handler(queue.records, replies.transactions),
    ("get", f"{_X} events", ""):       Handler(reading.events, pages.events),
    ("get", f"{_X} items", ""):        Handler(reading.read_items, pages.items),
    ("get", f"{_X} nodes", ""):        Handler(reading.nodes, pages.nodes),

    ("get", f"{ns.DISCO_INFO} query", ""):  Handler(handler.disco_info, disco.node_info),
    ("get", f"{ns.DISCO_ITEMS} query", ""): Handler(handler.disco_items, disco.items),
    ("get", f"{ns.PING} ping", ""):         _constant(str),  # XEP-0199: the result is empty
    ("get", f"{ns.VERSION} query", ""):     _constant(replies.software_version),
    ("get", f"{ns.TIME} time", ""):         Handler(_time),
    ("set", f"{ns.COMMANDS} command", ""):  Handler(handler.step),
    ("get", f"{ns.COMMANDS} command", ""):  Handler(lambda _iq: bad_request(text="a command must be an IQ of type set")),
}
# fmt: on

STRICT: Final = {key: verb for key, verb in VERBS.items() if not verb.lax}
"""The table without the `get`s that change something."""

_UNKNOWN: Final = Handler(
    lambda _iq: bad_request(text="this is not a request of XEP-0060 or XEP-0254"), accompanied=True
)
_NOT_SERVED: Final = Handler(lambda _iq: SERVICE_UNAVAILABLE)
_BESIDE: Final = Handler(lambda _iq: bad_request(text="the stanza contains another request"))


def find(verbs: Mapping[Key, Handler], kind: str, child: Element) -> Handler:
    """Return the row for a request, or a row that refuses unknown requests."""
    if child.tag not in {_P, _O}:
        return verbs.get((kind, child.tag, ""), _NOT_SERVED)
    grandchildren = child.children
    tag = grandchildren[0].tag if grandchildren else ""
    verb = verbs.get((kind, child.tag, tag), _UNKNOWN)
    return verb if verb.accompanied or len(grandchildren) == 1 else _BESIDE
