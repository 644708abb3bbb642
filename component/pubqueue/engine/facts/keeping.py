"""Facts for kept messages, forwarded notices, registrations of pushes and alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pubqueue.engine import listings
from pubqueue.engine.facts.managing import for_answer
from pubqueue.engine.facts.publishing import for_publish
from pubqueue.engine.facts.queue import for_bounce
from pubqueue.engine.facts.transactions import for_stage
from pubqueue.engine.rows import (
    ALERTS,
    FORWARDED,
    KEPT_MESSAGES,
    MESSAGE_TOTALS,
    REGISTRATIONS,
    WATCHES,
)
from pubqueue.model.entities import Affiliation, digest
from pubqueue.model.records import EVERYBODY, MAX_OF_ACCOUNT, MAX_PULLED, MessageTotal, mark_of
from pubqueue.rules import alerts, messages, registrations
from pubqueue.rules.presence import Bounce
from pubqueue.rules.publication import Publish
from pubqueue.rules.staging import StagePublish
from pubqueue.rules.subscribers import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pubqueue.engine.context import Context
    from pubqueue.engine.working_set import WorkingSet
    from pubqueue.model.entities import Jid
    from pubqueue.model.records import Forwarded, KeptMessage


# Facts for messages of assured service.

MAX_ACCOUNTS: Final = 1_000

_SOMETHING: Final = (
    Affiliation.OWNER,
    Affiliation.PUBLISHER,
    Affiliation.PUBLISH_ONLY,
    Affiliation.MEMBER,
)
"""The affiliations of which one makes an account known."""

# fmt: off
FACTS: Final[dict[type, Callable[[Context, Any], object]]] = {
    Publish:      for_publish,
    StagePublish: for_stage,
    Answer:       for_answer,
    Bounce:       for_bounce,
}
"""The facts of what a message can ask."""
# fmt: on


def for_keep_message(context: Context, request: messages.KeepMessage) -> messages.KeepFacts:
    """Return what is known of the message and of its account."""
    rows, by, limits = context.rows, request.by, context.terms.messages
    asks = messages.depends_on_affiliation(by, limits.assured_from)
    affiliated = asks and bool(rows.page(listings.NodesOfAccount(by.account, roles=_SOMETHING)))
    return messages.KeepFacts(
        context.now,
        rows.row(KEPT_MESSAGES, mark_of(by.jid, request.msg_id)),
        _total(rows, by.account),
        _total(rows, EVERYBODY),
        limits,
        affiliated=affiliated,
    )


def for_deliver(context: Context, request: messages.DeliverMessage) -> messages.DeliverFacts:
    """Return the message, and, if it is held as it was read, the facts of what it asks."""
    rows, account = context.rows, request.by.account
    found = rows.row(KEPT_MESSAGES, mark_of(request.by.jid, request.msg_id))
    own, everybody = _total(rows, account), _total(rows, EVERYBODY)
    facts = messages.DeliverFacts(context.now, found, own, everybody, context.terms.messages)
    if rows.lacking:  # what it asks is loaded together with the message
        _inner(context, request)
        return facts
    if not messages.is_due(request, found, context.now):
        return facts
    most = context.terms.messages.remembered_per_account
    oldest: tuple[KeptMessage, ...] = ()
    if own.remembered >= most:
        over = min(own.remembered - most + 1, messages.SLICE)
        oldest = tuple(rows.page(listings.MessagesOf(account, held=False), None, over))
    return messages.DeliverFacts(
        *(context.now, found, own, everybody, context.terms.messages, _inner(context, request)),
        moved=_moved(rows, request.request),
        oldest=oldest,
    )


def _inner(context: Context, request: messages.DeliverMessage) -> object:
    """Return the facts of what the message asks."""
    asked = request.request
    return None if asked is None else FACTS[type(asked)](context, asked)


def _moved(rows: WorkingSet, request: messages.Inner | None) -> str:
    """Return the URI of what has replaced the node of a publish, if it is gone."""
    if not isinstance(request, Publish | StagePublish):
        return ""
    name = request.node if isinstance(request, Publish) else request.publish.node
    if rows.node(name) is not None:
        return ""
    moved = rows.page(listings.MovedTo(name))
    return moved[0] if moved else ""


def for_read(context: Context, request: messages.ReadMessage) -> messages.ReadMessageFacts:
    """Return the message and its bytes."""
    mark = mark_of(request.by.jid, request.msg_id)
    found = context.rows.row(KEPT_MESSAGES, mark)
    message = context.rows.page(listings.MessageBytes(mark))
    if found is not None and message and digest(message[0]) != found.digest:
        return messages.ReadMessageFacts(context.now, None, b"")
    return messages.ReadMessageFacts(context.now, found, message[0] if message else b"")


def for_list_messages(
    context: Context, request: messages.ListMessages
) -> messages.ListMessagesFacts:
    """Return a page of accounts, and the totals."""
    most = max(1, min(request.max, MAX_ACCOUNTS))
    accounts = (
        context.rows.page(listings.MessageAccounts(), request.after, most + 1)
        if request.by.admin
        else ()
    )
    total = _total(context.rows, EVERYBODY)
    return messages.ListMessagesFacts(tuple(accounts[:most]), total, len(accounts) > most)


def for_forget(context: Context, _request: messages.ForgetMessages) -> messages.EndFacts:
    """Return messages and answers whose time is over."""
    return _ending(
        context, context.rows.page(listings.MessagesOver(context.now), None, messages.SLICE)
    )


def for_drop(context: Context, request: messages.DropMessages) -> messages.EndFacts:
    """Return messages that are held of the account."""
    listing = listings.MessagesOf(request.account, held=True)
    return _ending(
        context, context.rows.page(listing, None, messages.SLICE) if request.by.admin else ()
    )


def _ending(context: Context, ending: Sequence[KeptMessage]) -> messages.EndFacts:
    rows = context.rows
    for message in ending:  # so that they are loaded together, for the writes that replace them
        rows.row(KEPT_MESSAGES, message.mark)
    names = {EVERYBODY: None} | dict.fromkeys(message.account for message in ending)
    return messages.EndFacts(
        context.now, tuple(ending), {name: _total(rows, name) for name in names}
    )


def _total(rows: WorkingSet, account: Jid | str) -> MessageTotal:
    return rows.row(MESSAGE_TOTALS, account) or MessageTotal(account)


# Facts for notices that are stored for other instances.


def for_forward(context: Context, request: messages.Forward) -> messages.ForwardFacts:
    """Return those of the bundles that are stored already."""
    return messages.ForwardFacts(_kept(context, (one.mark for one in request.bundles)))


def for_end(context: Context, request: messages.EndForward) -> messages.EndForwardFacts:
    """Return those of the bundles that still exist."""
    return messages.EndForwardFacts(_kept(context, request.marks))


def _kept(context: Context, marks: Iterable[str]) -> tuple[Forwarded, ...]:
    found = [context.rows.row(FORWARDED, mark) for mark in marks]
    return tuple([one for one in found if one is not None])


# Facts for registrations of pushes.

MAX_REGISTRATIONS = 500
"""Registrations in one answer."""


def for_register(context: Context, request: registrations.Register) -> registrations.RegisterFacts:
    """Return the node, the account's affiliation with it, and how many registrations of the kind it has."""
    rows, row, account = context.rows, request.registration, request.by.account
    node, affiliation = rows.node(row.node), rows.affiliation(row.node, account)
    known = rows.row(REGISTRATIONS, row.name)
    found = rows.page(listings.RegistrationsOf(account), "", MAX_OF_ACCOUNT + MAX_PULLED)
    count = sum(one.is_pulled is row.is_pulled for one in found)
    return registrations.RegisterFacts(node, affiliation, known, count)


def for_registration(
    context: Context,
    request: registrations.Unregister | registrations.Enable | registrations.NotePush,
) -> registrations.NamedFacts:
    """Return the registration, and the account's affiliation with its node."""
    known = context.rows.row(REGISTRATIONS, request.name)
    if known is None:
        return registrations.NamedFacts(None)
    return registrations.NamedFacts(known, context.rows.affiliation(known.node, request.by.account))


def for_claim(context: Context, request: registrations.Claim) -> registrations.ClaimFacts:
    """Return the registration and its node."""
    known = context.rows.row(REGISTRATIONS, request.name)
    if known is None:
        return registrations.ClaimFacts(context.now, None)
    return registrations.ClaimFacts(context.now, known, context.rows.node(known.node))


def for_list_registrations(
    context: Context, request: registrations.ListRegistrations
) -> registrations.ListRegistrationsFacts:
    """Return the registrations that the principal may see."""
    rows, node = context.rows, request.node
    affiliation = Affiliation.NONE if node is None else rows.affiliation(node, request.by.account)
    if request.name is not None:
        row = rows.row(REGISTRATIONS, request.name)
        is_there = (
            row is not None
            and node in {None, row.node}
            and registrations.may_see(request.by, row, affiliation)
        )
        return registrations.ListRegistrationsFacts((row,) if row is not None and is_there else ())
    most = max(1, min(request.most, MAX_REGISTRATIONS)) + 1
    which = listings.RegistrationsOf(registrations.whose(request, affiliation), node)
    return registrations.ListRegistrationsFacts(tuple(rows.page(which, request.after, most)))


# Facts for alerts.


def for_watch(context: Context, _request: alerts.WatchAlerts) -> alerts.WatchFacts:
    """Return the watch."""
    return alerts.WatchFacts(context.now, context.rows.row(WATCHES, alerts.WATCH))


def for_note(context: Context, request: alerts.NoteAlerts) -> alerts.NoteFacts:
    """Return the watch, and the alerts that are to be forgotten."""
    rows = context.rows
    for one in request.alerts:
        rows.row(ALERTS, one.name)  # what is written is compared with it
    gone = [rows.row(ALERTS, name) for name in request.gone]
    known = rows.row(WATCHES, alerts.WATCH)
    return alerts.NoteFacts(known, tuple([one for one in gone if one is not None]))


def for_target(context: Context, request: alerts.NoteTarget) -> alerts.TargetFacts:
    """Return what is known of the target."""
    name = alerts.name_of(alerts.Wrong.TARGET, request.target)
    return alerts.TargetFacts(context.now, context.rows.row(ALERTS, name))


def for_alerts(context: Context, request: alerts.ReadAlerts) -> alerts.AlertsFacts:
    """Return the alerts after a name."""
    if not request.by.admin:
        return alerts.AlertsFacts(())
    found = context.rows.page(listings.Alerts(), request.after, alerts.at_most(request) + 1)
    return alerts.AlertsFacts(tuple(found))
