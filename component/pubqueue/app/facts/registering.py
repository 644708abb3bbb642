"""Facts for registrations of pushes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.store.listings import RegistrationsOf
from pubqueue.app.store.rows import REGISTRATIONS
from pubqueue.model.entities import Affiliation
from pubqueue.model.records import MAX_OF_ACCOUNT
from pubqueue.rules.registrations import (
    ClaimFacts,
    ListRegistrationsFacts,
    NamedFacts,
    RegisterFacts,
    may_see,
    whose,
)

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.rules.registrations import (
        Claim,
        Enable,
        ListRegistrations,
        NotePush,
        Register,
        Unregister,
    )

MAX_PAGE = 500
"""Registrations in one answer."""


def for_register(context: Context, request: Register) -> RegisterFacts:
    """Return the node, the account's affiliation with it, and its registrations."""
    rows, row, account = context.rows, request.registration, request.by.account
    node, affiliation = rows.node(row.node), rows.affiliation(row.node, account)
    known = rows.row(REGISTRATIONS, row.name)
    count = len(rows.page(RegistrationsOf(account), "", MAX_OF_ACCOUNT))
    return RegisterFacts(node, affiliation, known, count)


def for_named(context: Context, request: Unregister | Enable | NotePush) -> NamedFacts:
    """Return the registration, and the account's affiliation with its node."""
    known = context.rows.row(REGISTRATIONS, request.name)
    if known is None:
        return NamedFacts(None)
    return NamedFacts(known, context.rows.affiliation(known.node, request.by.account))


def for_claim(context: Context, request: Claim) -> ClaimFacts:
    """Return the registration and its node."""
    known = context.rows.row(REGISTRATIONS, request.name)
    if known is None:
        return ClaimFacts(context.now, None)
    return ClaimFacts(context.now, known, context.rows.node(known.node))


def for_list(context: Context, request: ListRegistrations) -> ListRegistrationsFacts:
    """Return the registrations that the principal may see."""
    rows, node = context.rows, request.node
    affiliation = Affiliation.NONE if node is None else rows.affiliation(node, request.by.account)
    if request.name is not None:
        row = rows.row(REGISTRATIONS, request.name)
        is_there = (
            row is not None and node in {None, row.node} and may_see(request.by, row, affiliation)
        )
        return ListRegistrationsFacts((row,) if row is not None and is_there else ())
    most = max(1, min(request.most, MAX_PAGE)) + 1
    which = RegistrationsOf(whose(request, affiliation), node)
    return ListRegistrationsFacts(tuple(rows.page(which, request.after, most)))
