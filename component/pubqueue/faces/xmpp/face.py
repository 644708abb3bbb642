"""The face: stanzas in, requests to the broker, replies and notices out.

Each IQ get or set is answered exactly once, whatever is wrong with it. Presence is never answered with
an error, for a server would then stop telling us who leaves.
"""

from __future__ import annotations

import itertools
import re
import time
import uuid
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

import structlog
from msgspec.structs import replace

from pubqueue.core.decision import (
    Affiliations,
    Refusal,
    Refused,
    Retracted,
    Unlocked,
)
from pubqueue.core.expire import Arrive, Leave, Return
from pubqueue.core.manage import SetAffiliations
from pubqueue.core.model import Asker, Jid, Millis, bare
from pubqueue.faces.xmpp import disco, forms, ns, render
from pubqueue.faces.xmpp.component import Component
from pubqueue.faces.xmpp.parse import (
    BY_SET,
    VERBS,
    committing,
    parse,
    reading,
    retrieving,
    settling,
)
from pubqueue.faces.xmpp.parse.words import Iq
from pubqueue.faces.xmpp.refusals import (
    NO_SUCH_COMMAND,
    SERVICE_UNAVAILABLE,
    StanzaError,
    bad_request,
    words,
)
from pubqueue.faces.xmpp.text import attribute, in_quotes, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.app.broker import Broker
    from pubqueue.app.rules import Request
    from pubqueue.core.decision import (
        Notice,
        Reply,
    )
    from pubqueue.faces.xmpp.stream import Element, Stanza

log = structlog.get_logger(__name__)

ECHOED: Final = 4096
"""Bytes of a request that an error repeats (RFC 6120 8.3.1: SHOULD); of a larger one only its child's name."""

LARGEST: Final = 500_000
"""Bytes of what we say at once. Prosody ends the stream of a component that says more than 512 KiB."""

_TOO_LARGE: Final = StanzaError(
    "wait", "resource-constraint", text="the answer would be larger than servers relay"
)

_DELIVERY_ID: Final = re.compile(r"pq-(\d{1,18})-(\d{1,18})")
_OURS: Final[dict[tuple[str, str], Callable[[Iq], Request | StanzaError]]] = {
    ("set", f"{ns.OURS} touch"): settling.touch,
    ("set", f"{ns.OURS} redrive"): settling.redrive,
    ("set", f"{ns.OURS} commit"): committing.commit,
    ("set", f"{ns.OURS} abort"): committing.abort,
    ("get", f"{ns.OURS} events"): reading.events,
    ("get", f"{ns.OURS} items"): reading.items,
    ("get", f"{ns.OURS} nodes"): reading.nodes,
    ("get", committing.TAG): committing.ask,
    ("get", f"{ns.OURS} transactions"): committing.records,
}
_NOT_HERE: Final = {f"{ns.COMMANDS} command": NO_SUCH_COMMAND}
_SMALL: Final[dict[str, Callable[[], str]]] = {
    f"{ns.PING} ping": str,  # XEP-0199: nothing
    f"{ns.VERSION} query": render.software_version,
    f"{ns.TIME} time": lambda: render.entity_time(Millis(time.time_ns() // 1_000_000)),
}
"""Questions that need no queue; slixmpp's answers to them know no bound."""


class XmppFace:
    """Serves the queue on one component stream."""

    def __init__(
        self,
        broker: Broker,
        *,
        jid: str,
        secret: str,
        server: tuple[str, int],
        admins: frozenset[Jid] = frozenset(),
        settle_by_get: bool = True,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._broker = broker
        self._jid = jid
        self._verbs = VERBS if settle_by_get else BY_SET
        self._on_ready = on_ready
        self._asker = _askers(admins, local=jid.partition(".")[2])
        self.component = Component(
            jid,
            secret,
            server,
            on_stanza=self._take,
            on_up=self._up,
            on_down=partial(broker.outbox.set_up, self, up=False),
        )
        self._kinds: dict[str, Callable[[Stanza], None]] = {
            f"{ns.COMPONENT} iq": self._take_iq,
            f"{ns.COMPONENT} message": self._take_message,
            f"{ns.COMPONENT} presence": self._take_presence,
        }
        broker.outbox.attach(self)

    async def run(self) -> None:
        """Serve until cancelled; the stream is kept up."""
        await self.component.run()

    async def stop(self) -> None:
        """Hand out nothing more, answer what was asked, and close the stream."""
        self._broker.outbox.set_up(self, up=False)
        await self._broker.settled()
        await self.component.leave()

    def _up(self) -> None:
        self._broker.outbox.set_up(self, up=True)
        self._on_ready()

    # --- in ---

    def _take(self, stanza: Stanza) -> None:
        self._kinds[stanza.top.tag](stanza)

    def _take_iq(self, stanza: Stanza) -> None:
        top = stanza.top
        kind = top.get("type")
        if kind not in {"get", "set"} or top.get("from") is None:
            return  # an answer to nothing we asked, or from nobody
        if top.get("to") != self._jid:
            self._refuse(stanza, SERVICE_UNAVAILABLE)
            return
        if len(top.children) != 1:
            self._refuse(stanza, bad_request(text="an IQ request has exactly one child"))
            return
        namespace, _, name = top.children[0].tag.rpartition(" ")
        if name == "pubsub" and namespace in {ns.PUBSUB, ns.OWNER}:
            self._ask(stanza, partial(parse, self._verbs, kind, namespace))
        elif kind == "get" and name == "query" and namespace == ns.DISCO_INFO:
            self._take_info(stanza)
        elif kind == "get" and name == "query" and namespace == ns.DISCO_ITEMS:
            self._ask(stanza, retrieving.disco_items)
        elif (own := _OURS.get((kind, top.children[0].tag))) is not None:
            self._ask(stanza, own)
        elif kind == "get" and (small := _SMALL.get(top.children[0].tag)) is not None:
            self._answer(stanza, small())
        else:
            self._refuse(stanza, _NOT_HERE.get(top.children[0].tag, SERVICE_UNAVAILABLE))

    def _take_info(self, stanza: Stanza) -> None:
        if stanza.top.children[0].get("node") is None:
            self._answer(stanza, disco.service_info())
        else:
            self._ask(stanza, retrieving.disco_info)

    def _ask(self, stanza: Stanza, parser: Callable[[Iq], Request | StanzaError]) -> None:
        by = self._asker(Jid(stanza.top.attributes["from"]))
        request = parser(Iq(stanza, by, _new_id))
        if isinstance(request, StanzaError):
            self._refuse(stanza, request)
        else:
            self._broker.submit(request, partial(self._reply, stanza, request))

    def _take_message(self, stanza: Stanza) -> None:
        """Take a bounce of a delivery (XEP-0060 12.4); other messages are not for us."""
        top = stanza.top
        found = _DELIVERY_ID.fullmatch(top.get("id") or "")
        sender = top.get("from")
        if top.get("type") != "error" or found is None or sender is None:
            return
        error = top.find(ns.tag(ns.COMPONENT, "error")) or top.find(ns.tag(ns.CLIENT, "error"))
        back = Return(Jid(sender), int(found[1]), int(found[2]), gone=_is_gone(error), bounced=True)
        log.info("delivery.bounced", to=sender, gone=back.gone)
        self._broker.submit(back, _ignore)

    def _take_presence(self, stanza: Stanza) -> None:
        """Say who comes and goes; answer a subscription request and a probe with our own presence."""
        kind, sender = stanza.top.get("type"), stanza.top.get("from")
        if sender is None or stanza.top.get("to") != self._jid:
            return
        jid = Jid(sender)
        match kind:
            case None:
                self._broker.submit(Arrive(jid), _ignore)
            case "unavailable":
                self._broker.submit(Leave(jid), _ignore)
            case "subscribe":
                self._send_presence(bare(jid), "subscribed")
                self._send_presence(bare(jid))
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
        """Say yes: every JID is this face's; other faces have other forms of address and come first."""
        return bool(address)

    def speak(self, notices: Sequence[Notice]) -> Sequence[Notice]:
        """Send the notices, in order, and return those for which there is no stream."""
        return [what for what in notices if not self._say(what)]

    def _say(self, what: Notice) -> bool:
        message = render.notice(what, self._jid, _new_id)
        if len(message) > LARGEST and isinstance(what, Retracted | Unlocked) and len(what.ids) > 1:
            half = len(what.ids) // 2
            ids = what.ids[:half], what.ids[half:]
            return all(self._say(replace(what, ids=part)) for part in ids)
        return self.component.write(message)

    def _reply(self, stanza: Stanza, request: Request, reply: Reply) -> None:
        if isinstance(reply, Refused):
            self._refuse(stanza, words(reply), _echo_of(stanza, request, reply))
        else:
            self._answer(stanza, render.result(request, reply, self._jid))

    def _answer(self, stanza: Stanza, inner: str | bytes) -> None:
        body = inner.encode() if isinstance(inner, str) else inner
        head = f'<iq type="result"{_address(stanza)}>'.encode()
        if len(head) + len(body) > LARGEST:
            self._refuse(stanza, _TOO_LARGE)
        else:
            self.component.write(head + body + b"</iq>")

    def _refuse(self, stanza: Stanza, error: StanzaError, echo: bytes | None = None) -> None:
        """Answer with an error that repeats the request's child (RFC 6120 8.3.1), or has `echo` there."""
        head = f'<iq type="error"{_address(stanza)}>'.encode()
        if echo is None:
            echo = b"".join(_echo(stanza, child) for child in stanza.top.children[:1])
        self.component.write(head + echo + error.render().encode() + b"</iq>")


def _ignore(_reply: Reply) -> None:
    """Nobody waits for this reply: what matters has happened in the store."""


_PROCESS: Final = uuid.uuid4().hex
_count = itertools.count(1)


def _new_id() -> str:
    """Return an id that no other process and no other call has made; a counter is cheaper than chance."""
    return f"{_PROCESS}-{next(_count):x}"


def _askers(admins: frozenset[Jid], *, local: str) -> Callable[[Jid], Asker]:
    """Return how a JID becomes an asker: what the service's settings say of it, remembered."""

    @lru_cache(maxsize=4096)
    def asker(jid: Jid) -> Asker:
        account = bare(jid)
        domain = account.rpartition("@")[2]
        return Asker(jid, admin=account in admins, local=domain == local)

    return asker


def _address(stanza: Stanza) -> str:
    """Return the attributes of a reply: the request's id, from and to swapped (RFC 6120 8.2.3)."""
    top = stanza.top
    mine, theirs = top.attributes.get("to", ""), top.attributes["from"]
    own = top.get("id")
    words = "" if own is None else f" id={in_quotes(own)}"
    return f'{words} from="{attribute(mine)}" to="{attribute(theirs)}"'


def _echo(stanza: Stanza, child: Element) -> bytes:
    if child.tag == ns.tag(ns.COMPONENT, "error"):
        return b""  # it would be taken for our own
    whole = stanza.cut([stanza.top, child])
    if len(whole) <= ECHOED:
        return whole
    namespace, _, name = child.tag.rpartition(" ")
    bare_child = f'<{name} xmlns="{quoted(namespace)}"/>'.encode()
    return bare_child if len(bare_child) <= ECHOED else b""


def _echo_of(stanza: Stanza, request: Request, reply: Refused) -> bytes | None:
    """Return what a refusal shows in place of the request's child, if it is anything else."""
    if reply.refusal is Refusal.CONFIGURATION_REQUIRED:
        return _wanted(stanza, reply)
    if isinstance(request, SetAffiliations) and reply.unchanged:  # XEP-0060 8.9.2.4
        return render.affiliations(Affiliations(request.node, reply.unchanged)).encode()
    return None


def _wanted(stanza: Stanza, refused: Refused) -> bytes:
    """Return the request's child with the options that a subscription needs (XEP-0254 example 1)."""
    subscribe = stanza.top.children[0].children[0]
    node, jid = attribute(subscribe.get("node") or ""), attribute(subscribe.get("jid") or "")
    form = forms.options_wanted(refused.limit)
    return (
        f'<pubsub xmlns="{ns.PUBSUB}"><subscribe node="{node}" jid="{jid}"/>'
        f'<options node="{node}" jid="{jid}">{form}</options></pubsub>'
    ).encode()


def _is_gone(error: Element | None) -> bool:
    """Say whether the bounce means that nobody is there: type cancel, or gone (XEP-0060 12.4)."""
    if error is None:
        return False
    return error.get("type") == "cancel" or error.find(ns.tag(ns.STANZAS, "gone")) is not None
