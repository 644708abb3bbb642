"""Rosters of owners, where a server lets us ask for them (XEP-0356): what the access models presence and roster need.

A server says with every stream what it grants, for its own domain. A roster is asked for when somebody wants what only
contacts of an owner may have, and is not kept: what it says is for that request.
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
"""Seconds until a roster is not waited for any more: whoever asked counts as no contact."""

MAX_OPEN: Final = 1000
"""Questions that are open at most; whoever comes then is asked to wait."""

MAX_OF_ONE: Final = 20
"""Questions of one account, and owners of a node that are asked at most."""

MAX_OF_A_SERVER: Final = 200
"""Questions of the accounts of one server that is not ours."""

MAX_DOMAINS: Final = 100
"""Domains of which it is remembered that they grant it: anybody's server may say that it does, of its own accounts."""

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
    """What servers grant, and what is asked of them. `write` says something on the stream."""

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
        """Take note of what a server grants, if that is what the message says."""
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
        """Ask what the owners' rosters say of the account, and tell it once, when all have answered or after a while.

        False if so much is open already that the account has to wait; then nothing is asked, nor told.
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
        """Return whether it is the answer of an owner who was asked."""
        asked = self._open.get(iq.get("id") or "")
        return asked is not None and iq.get("from") == asked[0]

    def hear_answer(self, iq: Element) -> bool:
        """Take an answer, if it is one, of the owner who was asked; an error is that of no roster."""
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
    """Return in whose bounds a question counts: the account's, and its server's if that is not ours."""
    if by.local:
        return {by.account: MAX_OF_ONE}
    return {by.account: MAX_OF_ONE, "@" + by.account.rpartition("@")[2]: MAX_OF_A_SERVER}


def _contact(item: Element) -> Contact:
    groups = (one.text for one in item.children if one.tag == ns.tag(ns.ROSTER, "group"))
    return Contact(item.get("subscription") in {"from", "both"}, tuple(groups))
