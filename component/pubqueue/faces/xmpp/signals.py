"""Stanzas that are not requests: presence, and rosters of owners (XEP-0144, XEP-0321) for two access models."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.faces.xmpp import bounces
from pubqueue.faces.xmpp.receiver import asked, is_behind, publish_in, write_message_error
from pubqueue.faces.xmpp.render.disco import capabilities
from pubqueue.faces.xmpp.stream.reader import REFUSED
from pubqueue.faces.xmpp.xml.refusals import SERVICE_UNAVAILABLE, StanzaError, behind, busy, words
from pubqueue.faces.xmpp.xml.stanza import attribute, new_id
from pubqueue.model.decision import Doubted, FeaturesWanted, Refused
from pubqueue.model.entities import Contact, Jid, account_of
from pubqueue.rules.presence import Arrive, Leave
from pubqueue.rules.publication import Publish
from pubqueue.rules.staging import StagePublish
from pubqueue.rules.subscribers import Answer
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from pubqueue.accounts.credentials import Principals
    from pubqueue.engine.admission import Load
    from pubqueue.faces.xmpp.deliveries import Deliveries
    from pubqueue.faces.xmpp.link import Link
    from pubqueue.faces.xmpp.receiver import Asked
    from pubqueue.faces.xmpp.xml.stanza import Element, Stanza
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Principal
    from pubqueue.rules.presence import Bounce

    OnContacts = Callable[[tuple[Contact, ...]], None]


class Signals:
    """Submits the contents of such stanzas to the broker; each counts against its sender."""

    def __init__(
        self,
        link: Link,
        rosters: Rosters,
        deliveries: Deliveries,
        features: Callable[[Principal], tuple[str, ...]],
        doubt: Callable[[Iterable[Jid]], None],
    ) -> None:
        self._doubt = doubt
        self._jid, self._broker, self._write = link.jid, link.broker, link.write
        self._admission, self._principal = link.admission, link.principal
        self._rosters, self._deliveries, self._features = rosters, deliveries, features

    def take_message(self, stanza: Stanza) -> None:
        """Handle a bounce of a delivery (XEP-0060 12.4), a publish (7.1) and an owner's answer (8.6); ignore other messages."""
        top = stanza.top
        sender = top.get("from")
        if sender is None:
            return
        self._admission.charge(self._principal(Jid(sender)), stanza.cost)
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
        why = self._admission.beyond(by) if is_publish else ""
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
            load = self._admission.take(by, len(stanza.raw), request)
            self._broker.submit(request, partial(self._was_published, load, stanza))

    def _was_published(self, load: Load, stanza: Stanza, reply: Reply) -> None:
        self._admission.done(load)
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
                self._submit(Arrive(jid, self._broker.now()), stanza)
            case "unavailable":
                self._submit(Leave(jid, self._broker.now()), stanza)
            case "subscribe":
                self._send_presence(account_of(jid), "subscribed")
                self._send_presence(account_of(jid))
            case "probe":
                self._send_presence(jid)
            case _:
                pass

    def _submit(self, request: Arrive | Leave | Bounce | Answer, stanza: Stanza) -> None:
        by = self._principal(Jid(stanza.top.attributes["from"]))
        load = self._admission.take(by, len(stanza.raw))

        def done(reply: Reply) -> None:
            self._admission.done(load)
            if isinstance(reply, FeaturesWanted):
                self._deliveries.ask_features(by.jid)
            elif isinstance(reply, Doubted):
                self._doubt(reply.jids)

        self._broker.submit(request, done)

    def _send_presence(self, to: Jid, kind: str = "") -> None:
        """Send our presence, which announces what the service is (XEP-0115), or an answer to a presence stanza."""
        start = f'<presence from="{attribute(self._jid)}" to="{attribute(to)}"'
        if kind:
            self._write(f'{start} type="{kind}"/>'.encode())
            return
        announced = capabilities(self._features(self._principal(to)))
        self._write(f"{start}>{announced}</presence>".encode())


# Reads rosters of owners for the access models presence and roster, if a server lets the service do so (XEP-0356).
#
# At the start of every stream a server sends its grants, for its own domain. The service requests a roster when access depends on whether
# an account is a contact of an owner. It uses the roster for that request only, and does not store it.

log = structlog.get_logger(__name__)

TIMEOUT: Final = 10.0
"""Seconds to wait for a roster. Then the requester does not count as a contact."""

MAX_OPEN: Final = 1000
"""Maximum number of open queries; beyond it requests are refused with `wait`."""

MAX_OF_ONE: Final = 20
"""Maximum number of open queries of one account, and of queried owners of a node."""

MAX_OF_A_SERVER: Final = 200
"""Maximum number of open queries of the accounts of one remote server."""

MAX_DOMAINS: Final = 100
"""Maximum number of domains with a remembered grant; any server may send one for its own accounts."""

_MARK: Final = "roster-"


class _Question:
    """A query to the rosters of some owners about one account."""

    def __init__(self, by: Principal, names: set[str], answer: OnContacts) -> None:
        self.account = by.account
        self.payers = _payers(by)
        self.names = names
        self.found: list[Contact] = []
        self.answer = answer


class Rosters:
    """Keeps the grants of servers and the open queries. `write` sends bytes on the stream."""

    def __init__(
        self, service: str, write: Callable[[bytes], bool], principals: Principals
    ) -> None:
        self._service = service
        self._write = write
        self._principals = principals
        self._granted: set[str] = set()
        self._open: dict[str, tuple[Jid, _Question]] = {}
        self._of: Counter[str] = Counter()
        self._count = 0

    def forget(self) -> None:
        """Drop all grants and answer the open queries, because the stream is lost."""
        self._granted.clear()
        self._principals.grant(())
        for name in list(self._open):
            self._answered(name, ())

    def take_grant(self, sender: str | None, message: Element) -> bool:
        """Note a server's grant, if the message is one."""
        privileges = [message.find(ns.tag(space, "privilege")) for space in ns.PRIVILEGE]
        grants = [one for one in privileges if one is not None]
        if not grants or sender is None or "@" in sender or "/" in sender:
            return bool(grants)
        reads = any(
            perm.get("access") == "roster" and perm.get("type") in {"get", "both"}
            for one in grants
            for perm in one.children
        )
        if reads and len(self._granted) < MAX_DOMAINS:
            self._granted.add(sender)
        elif not reads:
            self._granted.discard(sender)
        self._principals.grant(self._granted)
        log.info("rosters.granted" if reads else "rosters.withheld", domain=sender)
        return True

    def ask(
        self,
        by: Principal,
        owners: tuple[Jid, ...],
        answer: OnContacts,
        loop: asyncio.AbstractEventLoop,
    ) -> bool:
        """Request the account's entry in the owners' rosters; call `answer` once, after all answers or `TIMEOUT`.

        Return false if too many queries are open. Then nothing is sent, and `answer` is not called.
        """
        asked = [owner for owner in owners if owner.rpartition("@")[2] in self._granted]
        asked = asked[:MAX_OF_ONE]
        if not asked:
            answer(())
            return True
        question = _Question(by, set(), answer)
        busy = any(self._of[who] + len(asked) > most for who, most in question.payers.items())
        if busy or len(self._open) + len(asked) > MAX_OPEN:
            return False
        for who in question.payers:
            self._of[who] += len(asked)
        names = {owner: f"{_MARK}{self._count + at}" for at, owner in enumerate(asked)}
        self._count += len(asked)
        question.names.update(names.values())
        for owner, name in names.items():
            self._open[name] = owner, question
            self._write(
                f'<iq type="get" id="{name}" from="{attribute(self._service)}" to="{attribute(owner)}">'
                f'<query xmlns="{ns.ROSTER}"/></iq>'.encode()
            )
        for name in names.values():
            loop.call_later(TIMEOUT, partial(self._answered, name, ()))
        return True

    def awaits(self, iq: Element) -> bool:
        """Return whether the stanza is an owner's answer to an open query."""
        asked = self._open.get(iq.get("id") or "")
        return asked is not None and iq.get("from") == asked[0]

    def take_answer(self, iq: Element) -> bool:
        """Handle the stanza if it is the answer of a queried owner, and return whether it is. An error counts as an empty roster."""
        name = iq.get("id") or ""
        if not self.awaits(iq):
            return False
        _, question = self._open[name]
        query = iq.find(ns.tag(ns.ROSTER, "query")) if iq.get("type") == "result" else None
        items = () if query is None else query.children
        self._answered(name, tuple(one for one in items if one.get("jid") == question.account))
        return True

    def _answered(self, name: str, items: tuple[Element, ...]) -> None:
        asked = self._open.pop(name, None)
        if asked is None:
            return
        _, question = asked
        self._of.subtract(question.payers.keys())
        self._of = +self._of
        question.found += [_contact(item) for item in items]
        question.names.discard(name)
        if not question.names:
            question.answer(tuple(question.found))


def _payers(by: Principal) -> dict[str, int]:
    """Return the budgets that a query uses: the account's, and that of its server if it is remote."""
    if by.local:
        return {by.account: MAX_OF_ONE}
    return {by.account: MAX_OF_ONE, "@" + by.account.rpartition("@")[2]: MAX_OF_A_SERVER}


def _contact(item: Element) -> Contact:
    groups = (one.text for one in item.children if one.tag == ns.tag(ns.ROSTER, "group"))
    return Contact(item.get("subscription") in {"from", "both"}, tuple(groups))
