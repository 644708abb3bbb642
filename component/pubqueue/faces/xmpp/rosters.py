"""Rosters of owners, if a server lets us read them (XEP-0356), for the access models presence and roster.

With every stream a server sends what it grants, for its own domain. A roster is requested when an
account asks for something that only contacts of an owner may have, and is not stored: it is used
for that request only.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.core.model import Contact
from pubqueue.faces.xmpp.xml.text import attribute
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from pubqueue.app.principals import Principals
    from pubqueue.core.model import Jid, Principal
    from pubqueue.faces.xmpp.xml.stanza import Element

    OnContacts = Callable[[tuple[Contact, ...]], None]

log = structlog.get_logger(__name__)

TIMEOUT: Final = 10.0
"""Seconds until a roster is given up: the requester then counts as no contact."""

MAX_OPEN: Final = 1000
"""Maximum number of open queries; further requesters are asked to wait."""

MAX_OF_ONE: Final = 20
"""Questions of one account, and owners of a node that are asked at most."""

MAX_OF_A_SERVER: Final = 200
"""Questions of the accounts of one server that is not ours."""

MAX_DOMAINS: Final = 100
"""Domains whose grant is remembered: any server may send one, for its own accounts."""

_MARK: Final = "roster-"


class _Question:
    """What is asked of the rosters of some owners about one account."""

    def __init__(self, by: Principal, names: set[str], answer: OnContacts) -> None:
        self.account = by.account
        self.payers = _payers(by)
        self.names = names
        self.found: list[Contact] = []
        self.answer = answer


class Rosters:
    """The grants of servers, and the open queries. `write` sends bytes on the stream."""

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
        """Let nothing be granted, and answer what is open: the stream is lost."""
        self._granted.clear()
        self._principals.grant(())
        for name in list(self._open):
            self._heard(name, ())

    def hear_grant(self, sender: str | None, message: Element) -> bool:
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
        """Ask for the account's entry in the owners' rosters, and call back once, when all have answered or after a while.

        Returns False if so many queries are open that the account has to wait; then nothing is
        sent, and there is no callback.
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
            loop.call_later(TIMEOUT, partial(self._heard, name, ()))
        return True

    def awaits(self, iq: Element) -> bool:
        """Return whether it is an owner's answer to a query of ours."""
        asked = self._open.get(iq.get("id") or "")
        return asked is not None and iq.get("from") == asked[0]

    def hear_answer(self, iq: Element) -> bool:
        """Take an answer, if it is one, of a queried owner; an error counts as no roster."""
        name = iq.get("id") or ""
        if not self.awaits(iq):
            return False
        _, question = self._open[name]
        query = iq.find(ns.tag(ns.ROSTER, "query")) if iq.get("type") == "result" else None
        items = () if query is None else query.children
        self._heard(name, tuple(one for one in items if one.get("jid") == question.account))
        return True

    def _heard(self, name: str, items: tuple[Element, ...]) -> None:
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
    """Return the budgets in which a query counts: the account's, and its server's if that is a remote one."""
    if by.local:
        return {by.account: MAX_OF_ONE}
    return {by.account: MAX_OF_ONE, "@" + by.account.rpartition("@")[2]: MAX_OF_A_SERVER}


def _contact(item: Element) -> Contact:
    groups = (one.text for one in item.children if one.tag == ns.tag(ns.ROSTER, "group"))
    return Contact(item.get("subscription") in {"from", "both"}, tuple(groups))
