"""Reads publishes, retracts, unlocks, touches and transactions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from msgspec import structs

from pubqueue.engine.face import proposed_secret
from pubqueue.faces.xmpp.parse.iq import Iq, form_of, ids_of, jid_of, node_of, span_of
from pubqueue.faces.xmpp.xml import fields, payload
from pubqueue.faces.xmpp.xml.payload import DEEPEST
from pubqueue.faces.xmpp.xml.refusals import (
    INVALID_PAYLOAD,
    ITEM_REQUIRED,
    StanzaError,
    bad_request,
)
from pubqueue.model.entities import (
    NO_TIME,
    Awaited,
    Draft,
    Headers,
    ItemId,
    Joined,
    Millis,
    NodeName,
    account_of,
)
from pubqueue.model.transactions import Mark, OnTaken, Totals, key_of
from pubqueue.model.waits import AtDeadline
from pubqueue.rules.commit import CommitVersion, Part
from pubqueue.rules.dead_letters import Redrive
from pubqueue.rules.joins import Close
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Outcome, Settle, Verb
from pubqueue.rules.signal_links import SECRET, USUAL, MakeSignalLink
from pubqueue.rules.staging import AbortVersion, AskLastVersion, ListTransactions, StagePublish
from pubqueue.rules.together import Together
from pubqueue.rules.unlock import Touch
from pubqueue.rules.validity import HIGHEST_NUMBER
from pubqueue.rules.waits import Hold, Signal
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.decision import Request
    from pubqueue.model.entities import Principal
    from pubqueue.rules.nodeconfig import Settings


# Transactions, an extension of ours.
#
# `<txn/>` beside a publish stages its items, `<commit/>` makes the items of its attempts visible, `<abort/>` drops a version or attempts at
# it. In a get, `<txn/>` asks for the last version of an app, and `<transactions/>` for the records.

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
        app, progress = _app(words, iq.by), words.get("progress") in {"1", "true"}
        request = CommitVersion(iq.by, app, version, parts, totals, taken, place, progress)
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


# Reads a publish (XEP-0060 7.1), with our metadata and headers (XEP-0131) beside it.

ITEM_LEVEL: Final = 4

HOLD: Final = ns.tag(ns.PUBQUEUE, "hold")
JOIN: Final = ns.tag(ns.PUBQUEUE, "join")

OPTIONS: Final = ns.tag(ns.PUBSUB, "publish-options")

ANSWER: Final = ns.tag(ns.PUBQUEUE, "answer")
"""The attribute of publish and retract that selects the answer.

For a publish, `short`: empty if the items were accepted; `known`: empty if they are new. For a retract, `known`: the items that were
locked to other accounts.
"""


def answer_wanted(iq: Iq) -> str:
    """Return the requested answer; always the default, "", unless the publisher has named all ids."""
    verb = iq.verb
    return (verb.get(ANSWER) or "") if all(item.get("id") for item in verb.children) else ""


def publish(iq: Iq) -> Publish | StagePublish | StanzaError:
    """Read a publish (XEP-0060 7.1), with our metadata and headers beside it, which apply to all items."""
    node = node_of(iq.verb)
    if isinstance(node, StanzaError):
        return node
    meta = _meta(iq)
    if isinstance(meta, StanzaError):
        return meta
    options = _options(iq)
    if isinstance(options, StanzaError):
        return options
    drafts: list[Draft] = []
    for element in iq.verb.children:
        draft = _draft(iq, iq.verb, element, meta)
        if isinstance(draft, StanzaError):
            return draft
        drafts.append(draft)
    request = Publish(iq.by, node, tuple(drafts), options)
    mark = mark_of(iq)
    if mark is None or isinstance(mark, StanzaError):
        return mark or request
    return StagePublish(request, mark)


@dataclass(frozen=True, slots=True)
class _Meta:
    """The metadata of all items of a request."""

    priority: int = 0
    delay: Millis = NO_TIME
    ttl: Millis | None = None
    headers: Headers = ()
    group: str = ""
    hold: Awaited | None = None
    joins: Joined | None = None


def _meta(iq: Iq) -> _Meta | StanzaError:
    """Read the elements beside `<publish/>`. Unknown ones are refused."""
    found = _Meta()
    for beside in iq.child.children[1:]:
        if beside.tag == TAG:
            continue
        read = _BESIDE.get(beside.tag)
        if read is None:
            return bad_request(text="the publish request contains an unknown element")
        more = read(found, beside)
        if isinstance(more, StanzaError):
            return more
        found = more
    return found


def _with_meta(found: _Meta, meta: Element) -> _Meta | StanzaError:
    try:
        return replace(
            found,
            priority=int(meta.get("priority") or "0"),
            delay=span_of(meta.get("delay")) or NO_TIME,
            ttl=span_of(meta.get("ttl")),
            group=_group(meta),
        )
    except ValueError as problem:
        return bad_request(text=f"meta: {problem}")


def _group(meta: Element) -> str:
    group = meta.get("group")
    if group == "":
        raise ValueError("a group must have a name")
    return group or ""


def _with_headers(found: _Meta, element: Element) -> _Meta | StanzaError:
    if found.headers:
        return bad_request(text="headers occurs twice")
    given = payload.read(element)
    return given if isinstance(given, StanzaError) else replace(found, headers=given)


def _with_hold(found: _Meta, element: Element) -> _Meta | StanzaError:
    """Read what the items wait for from their publish on; an extension of ours."""
    joins = [child for child in element.children if child.tag == JOIN]
    try:
        names, carry = _waits_for(element, JOIN)
        then = AtDeadline(element.get("then") or AtDeadline.DELIVER.value)
        within = span_of(element.get("within"))
    except ValueError as problem:
        return bad_request(text=f"hold: {problem}")
    if carry is not None:
        return bad_request(text="hold: what is published carries its payload")
    is_open = not joins or joins[0].get("closed") not in {"1", "true"}
    return replace(found, hold=Awaited(names, within, then, bool(joins), is_open))


def _with_joins(found: _Meta, element: Element) -> _Meta | StanzaError:
    """Read the join that the items count for; an extension of ours."""
    place = NodeName(element.get("node") or ""), ItemId(element.get("item") or "")
    return replace(found, joins=Joined(*place, last=element.get("last") in {"1", "true"}))


_BESIDE: Final[dict[str, Callable[[_Meta, Element], _Meta | StanzaError]]] = {
    ns.tag(ns.PUBQUEUE, "meta"): _with_meta,
    payload.TAG: _with_headers,
    HOLD: _with_hold,
    ns.tag(ns.PUBQUEUE, "joins"): _with_joins,
    OPTIONS: lambda found, _options: found,  # read by itself
}


def _options(iq: Iq) -> Settings | StanzaError | None:
    """Read the settings that the node must have (XEP-0060 7.1.5)."""
    given = [beside for beside in iq.child.children[1:] if beside.tag == OPTIONS]
    if not given:
        return None
    form = form_of(iq, given[0], ns.PUBLISH_OPTIONS)
    if isinstance(form, StanzaError):
        return bad_request(text=form.text)
    if len(given) > 1 or form is None or form.type == "cancel":
        return bad_request(text="publish-options must be one submitted form")
    return fields.wanted(form.fields)


def _draft(iq: Iq, around: Element, element: Element, meta: _Meta) -> Draft | StanzaError:
    """Read an item in an element of the request's child, and give it the metadata."""
    if element.tag != ns.tag(ns.PUBSUB, "item"):
        return bad_request(text="publish may contain only items")
    given = element.get("id")
    item = iq.new_id() if given is None else given
    if not element.children:
        if element.text.strip():
            return INVALID_PAYLOAD
        return Draft(ItemId(item), b"", *_metadata(meta), "", *_of_queue(meta))
    if len(element.children) > 1 or element.text.strip():
        return INVALID_PAYLOAD
    if iq.stanza.depth - ITEM_LEVEL > DEEPEST:
        return bad_request("invalid-payload", f"elements nest deeper than {DEEPEST}")
    payload = iq.cut(around, element, element.children[0])
    space = element.children[0].tag.rpartition(" ")[0]
    return Draft(ItemId(item), payload, *_metadata(meta), space, *_of_queue(meta))


def _metadata(meta: _Meta) -> tuple[int, Millis, Millis | None, Headers]:
    return meta.priority, meta.delay, meta.ttl, meta.headers


def _of_queue(meta: _Meta) -> tuple[str, Awaited | None, Joined | None]:
    return meta.group, meta.hold, meta.joins


# Reads retract and unlock (XEP-0060 7.2, XEP-0254 2.3 and 2.4), and our extensions touch and redrive.

THEN: Final = ns.tag(ns.PUBQUEUE, "then")

_UNLOCKED: Final = (ns.tag(ns.QUEUEING, "item"), ns.tag(ns.PUBSUB, "item"))

MAX_REASON_LENGTH: Final = 1023
"""Maximum characters of a worker's reason; the rest is cut off."""


def _settle(iq: Iq, verb: Verb, *item_tags: str) -> Settle | StanzaError:
    node = node_of(iq.verb)
    if isinstance(node, StanzaError):
        return node
    ids = ids_of(iq.verb, *item_tags)
    if not ids:
        return ITEM_REQUIRED
    request = Settle(iq.by, node, ids, verb, iq.verb.get("notify") in {"1", "true"})
    return _with_extensions(iq, request) if len(iq.child.children) > 1 else request


def _with_extensions(iq: Iq, request: Settle) -> Settle | StanzaError:
    """Read our extensions beside a retract or unlock: lock token and outcome."""
    for beside in iq.child.children[1:]:
        try:
            if beside.tag == ns.tag(ns.PUBQUEUE, "lock"):
                request = structs.replace(request, token=int(beside.get("token") or ""))
            elif beside.tag == THEN and request.verb is Verb.RETRACT:
                continue  # read by itself
            elif beside.tag == ns.tag(ns.PUBQUEUE, "outcome") and request.verb is Verb.UNLOCK:
                request = structs.replace(
                    request,
                    outcome=Outcome(beside.get("type") or Outcome.RELEASE.value),
                    delay=span_of(beside.get("delay")),
                    reason=(beside.get("reason") or "")[:MAX_REASON_LENGTH],
                )
            else:
                return bad_request(text="the request contains an unknown element")
        except ValueError as problem:
            return bad_request(text=str(problem))
    return request


def retract(iq: Iq) -> Request | StanzaError:
    """Read a retract (XEP-0060 7.2, XEP-0254 2.3), perhaps with follow-ups."""
    return _followed(iq, _settle(iq, Verb.RETRACT, ns.tag(ns.PUBSUB, "item")))


def retract_from_queue(iq: Iq) -> Request | StanzaError:
    """Read a retract in an IQ of type get (XEP-0254 example 6), which is a change only for queues (row 1)."""
    request = retract(iq)
    return structs.replace(request, queue_only=True) if isinstance(request, Settle) else request


def unlock(iq: Iq) -> Request | StanzaError:
    """Read an unlock (XEP-0254 2.4), or with `<hold/>` beside it a hold; the item may be in either namespace (row 6)."""
    wait = [beside for beside in iq.child.children[1:] if beside.tag == HOLD]
    if wait:
        return _followed(iq, _hold(iq, wait[0]))
    return _settle(iq, Verb.UNLOCK, *_UNLOCKED)


def _followed(iq: Iq, end: Settle | Hold | StanzaError) -> Settle | Hold | Together | StanzaError:
    """Read the follow-ups beside the end of an item, which are published in its commit; an extension of ours."""
    named = [beside for beside in iq.child.children[1:] if beside.tag == THEN]
    if isinstance(end, StanzaError) or not named:
        return end
    if iq.stanza.top.get("type") != "set":
        return bad_request(text="then: follow-ups are published by an IQ of type set")
    if len(end.ids) != 1 or end.token is None:
        return bad_request(text="then: follow-ups are of one item, whose lock is named")
    parts: list[Publish] = []
    for number, words in enumerate(named, 1):
        part = _follow_up(iq, words)
        if isinstance(part, StanzaError):
            return replace(part, follow_up=number)
        parts.append(part)
    only_queues = structs.replace(end, queue_only=True) if isinstance(end, Settle) else end
    return Together(iq.by, (only_queues, *parts))


def _follow_up(iq: Iq, words: Element) -> Publish | StanzaError:
    """Read one of them: a node, an item and what else a publish has."""
    node, meta = node_of(words), _with_meta(_Meta(), words)
    items: list[Element] = []
    for child in words.children:
        if isinstance(meta, _Meta) and child.tag == payload.TAG:
            meta = _with_headers(meta, child)
        else:
            items.append(child)
    if isinstance(node, StanzaError):
        return node
    if isinstance(meta, StanzaError):
        return meta
    if len(items) != 1:
        return ITEM_REQUIRED if not items else bad_request(text="then: one item, and its headers")
    draft = _draft(iq, words, items[0], meta)
    return draft if isinstance(draft, StanzaError) else Publish(iq.by, node, (draft,))


def _hold(iq: Iq, wait: Element) -> Hold | StanzaError:
    """Read what an item waits for; an extension of ours."""
    node = node_of(iq.verb)
    if isinstance(node, StanzaError):
        return node
    ids = ids_of(iq.verb, *_UNLOCKED)
    if len(ids) != 1:
        return ITEM_REQUIRED if not ids else bad_request(text="hold: one item at a time")
    try:
        token = _named_lock(iq, wait)
        names, carry = _waits_for(wait)
        then = AtDeadline(wait.get("then") or AtDeadline.DELIVER.value)
        within = span_of(wait.get("within"))
    except ValueError as problem:
        return bad_request(text=f"hold: {problem}")
    return Hold(iq.by, node, ids[0], names, within, then, carry, token)


def _named_lock(iq: Iq, wait: Element) -> int | None:
    """Return the token of the lock that is named beside a hold."""
    token = None
    for beside in iq.child.children[1:]:
        if beside.tag == ns.tag(ns.PUBQUEUE, "lock"):
            token = int(beside.get("token") or "")
        elif beside is not wait and beside.tag != THEN:
            raise ValueError("the request contains an unknown element")
    return token


def _waits_for(wait: Element, beside: str = "") -> tuple[tuple[str, ...], str | None]:
    """Return the names of the signals, and what the item carries; elements of the tag `beside` are read by themselves."""
    names: list[str] = []
    carry = None
    for child in wait.children:
        if child.tag == ns.tag(ns.PUBQUEUE, "signal"):
            names.append(child.get("name") or "")
        elif child.tag == ns.tag(ns.PUBQUEUE, "carry") and carry is None:
            carry = child.text
        elif child.tag != beside:
            raise ValueError("it contains signals, and one carry at most")
    return tuple(names), carry


def signal(iq: Iq) -> Request | StanzaError:
    """Read a signal to an item; an extension of ours. Without an id it is another one each time."""
    words = iq.child
    node = node_of(words)
    if isinstance(node, StanzaError):
        return node
    item, name = words.get("item"), words.get("name") or ""
    if not item:
        return ITEM_REQUIRED
    return Signal(iq.by, node, ItemId(item), name, words.text, words.get("id") or iq.new_id())


def signal_link(iq: Iq) -> Request | StanzaError:
    """Read the request for a link that sends a signal; an extension of ours."""
    words = iq.child
    node = node_of(words)
    if isinstance(node, StanzaError):
        return node
    if not (item := words.get("item")):
        return ITEM_REQUIRED
    try:
        within = span_of(words.get("within"))
    except ValueError as problem:
        return bad_request(text=str(problem))
    return MakeSignalLink(
        *(iq.by, node, ItemId(item), words.get("name") or "", iq.new_id()),
        proposed=proposed_secret(SECRET),
        within=USUAL if within is None else within,
    )


def close_join(iq: Iq) -> Request | StanzaError:
    """Read that a join gets no further members; an extension of ours."""
    words = iq.child
    node = node_of(words)
    if isinstance(node, StanzaError):
        return node
    item = words.get("item")
    return Close(iq.by, node, ItemId(item)) if item else ITEM_REQUIRED


def touch(iq: Iq) -> Request | StanzaError:
    """Read a touch, which extends locks; an extension of ours."""
    node = node_of(iq.child)
    ids = ids_of(iq.child, ns.tag(ns.PUBQUEUE, "item"))
    if isinstance(node, StanzaError):
        return node
    if not ids:
        return ITEM_REQUIRED
    try:
        span = span_of(iq.child.get("seconds"))
    except ValueError as problem:
        return bad_request(text=str(problem))
    return Touch(iq.by, node, ids, span)


def redrive(iq: Iq) -> Request | StanzaError:
    """Read a redrive of dead items; an extension of ours."""
    node = node_of(iq.child)
    if isinstance(node, StanzaError):
        return node
    ids = ids_of(iq.child, ns.tag(ns.PUBQUEUE, "item")) if iq.child.children else None
    if ids == ():
        return ITEM_REQUIRED
    given = iq.child.get("to")
    return Redrive(iq.by, node, ids, None if given is None else NodeName(given))
