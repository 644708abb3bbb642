"""Stanzas that are not requests: presence, bounces of deliveries, publishes by message, and owners' answers. Only a refused publish is answered."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pubqueue.faces.xmpp import bounces
from pubqueue.faces.xmpp.qos.asking import asked, publish_in
from pubqueue.faces.xmpp.qos.deliveries import is_behind
from pubqueue.faces.xmpp.qos.receiver import write_message_error
from pubqueue.faces.xmpp.refusals import SERVICE_UNAVAILABLE, StanzaError, behind, busy, words
from pubqueue.faces.xmpp.render.disco import capabilities
from pubqueue.faces.xmpp.stream.reader import REFUSED
from pubqueue.faces.xmpp.xml.ids import new_id
from pubqueue.faces.xmpp.xml.text import attribute
from pubqueue.model.decision import FeaturesWanted, Refused
from pubqueue.model.entities import Jid, account_of
from pubqueue.rules.presence import Arrive, Leave
from pubqueue.rules.publication import Publish
from pubqueue.rules.staging import StagePublish
from pubqueue.rules.subscribers import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.flow.intake import Load
    from pubqueue.faces.xmpp.link import Link
    from pubqueue.faces.xmpp.qos.asking import Asked
    from pubqueue.faces.xmpp.qos_deliveries.deliveries import Deliveries
    from pubqueue.faces.xmpp.rosters import Rosters
    from pubqueue.faces.xmpp.xml.stanza import Stanza
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Principal
    from pubqueue.rules.presence import Bounce


class Signals:
    """Submits the contents of such stanzas to the broker; each counts against its sender."""

    def __init__(
        self,
        link: Link,
        rosters: Rosters,
        deliveries: Deliveries,
        features: Callable[[Principal], tuple[str, ...]],
    ) -> None:
        self._jid, self._broker, self._write = link.jid, link.broker, link.write
        self._intake, self._principal = link.intake, link.principal
        self._rosters, self._deliveries, self._features = rosters, deliveries, features

    def take_message(self, stanza: Stanza) -> None:
        """Handle a bounce of a delivery (XEP-0060 12.4), a publish (7.1) and an owner's answer (8.6); ignore other messages."""
        top = stanza.top
        sender = top.get("from")
        if sender is None:
            return
        self._intake.charge(self._principal(Jid(sender)), stanza.cost)
        if top.get("type") != "error":
            self._take_answer(stanza, Jid(sender))
            return
        if (back := bounces.bounce(top)) is not None:
            self._submit(back, stanza)

    def _take_answer(self, stanza: Stanza, sender: Jid) -> None:
        """Handle a publish, and an owner's answer to a subscription request. Only a publish that is refused is answered."""
        top, by = stanza.top, self._principal(sender)
        # of one that was not read it is not known, and a publish must not be dropped without an answer
        is_publish = publish_in(top) is not None or bool(stanza.excess)
        why = self._intake.beyond(by) if is_publish else ""
        if why or stanza.excess == REFUSED:
            self._refuse(stanza, busy(why))
        elif top.get("to") != self._jid:
            if is_publish:
                self._refuse(stanza, SERVICE_UNAVAILABLE)
        elif not self._rosters.take_grant(top.get("from"), top):
            self._do(stanza, asked(stanza, by, new_id))

    def _do(self, stanza: Stanza, request: Asked | StanzaError | None) -> None:
        """Submit what a message asks."""
        if isinstance(request, StanzaError):
            self._refuse(stanza, request)
        elif isinstance(request, Answer):
            self._submit(request, stanza)
        elif isinstance(request, Publish | StagePublish):
            if is_behind(self._broker, request):
                self._refuse(stanza, behind())
                return
            by = request.by if isinstance(request, Publish) else request.publish.by
            load = self._intake.take(by, len(stanza.raw), request)
            self._broker.submit(request, partial(self._was_published, load, stanza))

    def _was_published(self, load: Load, stanza: Stanza, reply: Reply) -> None:
        self._intake.done(load)
        if isinstance(reply, Refused):
            self._refuse(stanza, words(reply))

    def _refuse(self, stanza: Stanza, error: StanzaError) -> None:
        top = stanza.top
        to, name = Jid(top.attributes["from"]), top.get("id") or ""
        write_message_error(self._write, top.get("to") or "", to, name, error)

    def take_presence(self, stanza: Stanza) -> None:
        """Submit available and unavailable presence; answer a subscription request and a probe with our own presence."""
        kind, sender = stanza.top.get("type"), stanza.top.get("from")
        if sender is None or stanza.top.get("to") != self._jid:
            return
        jid = Jid(sender)
        match kind:
            case None:
                self._deliveries.came(jid)
                self._submit(Arrive(jid), stanza)
            case "unavailable":
                self._submit(Leave(jid), stanza)
            case "subscribe":
                self._send_presence(account_of(jid), "subscribed")
                self._send_presence(account_of(jid))
            case "probe":
                self._send_presence(jid)
            case _:
                pass

    def _submit(self, request: Arrive | Leave | Bounce | Answer, stanza: Stanza) -> None:
        by = self._principal(Jid(stanza.top.attributes["from"]))
        load = self._intake.take(by, len(stanza.raw))

        def done(reply: Reply) -> None:
            self._intake.done(load)
            if isinstance(reply, FeaturesWanted):
                self._deliveries.ask_features(by.jid)

        self._broker.submit(request, done)

    def _send_presence(self, to: Jid, kind: str = "") -> None:
        """Send our presence, which announces what the service is (XEP-0115), or an answer to a presence stanza."""
        start = f'<presence from="{attribute(self._jid)}" to="{attribute(to)}"'
        if kind:
            self._write(f'{start} type="{kind}"/>'.encode())
            return
        announced = capabilities(self._features(self._principal(to)))
        self._write(f"{start}>{announced}</presence>".encode())
