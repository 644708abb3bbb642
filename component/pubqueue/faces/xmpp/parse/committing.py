"""Transactions, an extension of ours.

`<txn/>` beside a publish stages its items, `<commit/>` makes the items of its attempts visible, `<abort/>` drops a version or attempts at
it. In a get, `<txn/>` asks for the last version of an app, and `<transactions/>` for the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.parse.iq import jid_of
from pubqueue.faces.xmpp.refusals import StanzaError, bad_request
from pubqueue.model.entities import NodeName, account_of
from pubqueue.model.transactions import Mark, OnTaken, Totals, key_of
from pubqueue.rules.commit import CommitVersion, Part
from pubqueue.rules.staging import AbortVersion, AskLastVersion, ListTransactions
from pubqueue.rules.validity import HIGHEST_NUMBER
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.parse.iq import Iq
    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.entities import Principal

TAG: Final = ns.tag(ns.PUBQUEUE, "txn")

_PIECES: Final = 4
_DIGITS: Final = 19
"""Digits of a number that is beyond every limit; more are not read."""


def number(text: str | None, what: str) -> int:
    """Return a whole number from 0. It may be too large; the core checks the limits.

    Raises:
        ValueError: the text is not a whole number.

    """
    if text is None or not (text.isascii() and text.isdigit()):
        raise ValueError(f"{what} has to be a whole number from 0")
    return min(int(text.lstrip("0")[:_DIGITS] or "0"), HIGHEST_NUMBER + 1)


def _app(element: Element, by: Principal) -> str:
    """Return the key of the principal's app of this name. The core checks the name."""
    return key_of(by.account, element.get("app") or "")


def _app_of(element: Element, by: Principal) -> str:
    """Return the key of an app of the principal, or of the account in the request: administrators may name other accounts."""
    account = jid_of(element.get("account") or by.account)
    if account is None:
        raise ValueError("account is not a valid JID")
    return key_of(account_of(account), element.get("app") or "")


def mark_of(iq: Iq) -> Mark | StanzaError | None:
    """Read the transaction of a publish, if it has one."""
    found = [beside for beside in iq.child.children[1:] if beside.tag == TAG]
    if len(found) > 1:
        return bad_request(text="a publish belongs to one transaction")
    try:
        return _mark(found[0], iq.by) if found else None
    except ValueError as problem:
        return bad_request(text=f"txn: {problem}")


def _mark(element: Element, by: Principal) -> Mark:
    visibility = element.get("visibility") or "commit"
    if visibility not in {"commit", "immediate"}:
        raise ValueError("visibility must be commit or immediate")
    return Mark(
        _app(element, by),
        number(element.get("version"), "version"),
        number(element.get("part") or "0", "part"),
        number(element.get("attempt") or "0", "attempt"),
        immediate=visibility == "immediate",
    )


def commit(iq: Iq) -> CommitVersion | StanzaError:
    """Read the attempts that count, which are one element each or one list."""
    words = iq.child
    try:
        parts = _parts(words)
        totals = Totals(
            _count(words, "skipped"), _count(words, "dead-lettered"), _seconds(words.get("seconds"))
        )
        version = number(words.get("version"), "version")
        taken = _on_taken(words.get("on-taken"))
        aside = words.get("dead-letter-node")
        place = None if aside is None else NodeName(aside)
        request = CommitVersion(iq.by, _app(words, iq.by), version, parts, totals, taken, place)
    except ValueError as problem:
        return bad_request(text=f"commit: {problem}")
    return request


def _on_taken(text: str | None) -> OnTaken:
    try:
        return OnTaken(text or "fail")
    except ValueError:
        raise ValueError("on-taken must be fail, skip or dead-letter") from None


def _parts(words: Element) -> tuple[Part, ...]:
    if [child.tag for child in words.children] == [ns.tag(ns.PUBQUEUE, "parts")]:
        return tuple(_listed(entry) for entry in words.children[0].text.split())
    parts: list[Part] = []
    for child in words.children:
        if child.tag != ns.tag(ns.PUBQUEUE, "part"):
            raise ValueError("commit contains either part elements or one list in parts")
        parts.append(_part(*(child.get(name) for name in ("n", "attempt", "items", "bytes"))))
    return tuple(parts)


def _listed(entry: str) -> Part:
    pieces = entry.split(":")
    if len(pieces) != _PIECES:
        raise ValueError("an entry of parts must be n:attempt:items:bytes")
    return _part(*pieces)


def _part(n: str | None, attempt: str | None, items: str | None, size: str | None) -> Part:
    """Return a part. Its bytes are the writer's count, because servers in between may rewrite the payloads."""
    number(size or "0", "bytes")
    return Part(number(n, "n"), number(attempt or "0", "attempt"), number(items, "items"))


def _count(words: Element, name: str) -> int | None:
    given = words.get(name)
    return None if given is None else number(given, name)


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    span = float(text)
    if not 0 <= span <= 1e9:  # noqa: PLR2004  # thirty years; also refuses NaN
        raise ValueError("seconds has to be a number from 0")
    return span


def abort(iq: Iq) -> AbortVersion | StanzaError:
    """Read the version to drop, or the attempts at it, in the form of a commit."""
    words = iq.child
    try:
        named = tuple((part.number, part.attempt) for part in _parts(words))
        version = number(words.get("version"), "version")
        return AbortVersion(
            iq.by, _app_of(words, iq.by), version, named if words.children else None
        )
    except ValueError as problem:
        return bad_request(text=f"abort: {problem}")


def ask(iq: Iq) -> AskLastVersion | StanzaError:
    """Read a request for the last version of an app."""
    try:
        return AskLastVersion(iq.by, _app_of(iq.child, iq.by))
    except ValueError as problem:
        return bad_request(text=f"txn: {problem}")


def records(iq: Iq) -> ListTransactions | StanzaError:
    """Read a request for records."""
    words = iq.child
    state = words.get("state") or "committed"
    if state not in {"committed", "open"}:
        return bad_request(text="transactions: state is committed or open")
    try:
        return ListTransactions(
            iq.by,
            state == "open",
            None if words.get("app") is None else _app_of(words, iq.by),
            number(words.get("after") or "0", "after"),
            max(1, number(words.get("max") or "100", "max")),
        )
    except ValueError as problem:
        return bad_request(text=f"transactions: {problem}")
