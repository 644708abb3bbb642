"""Operations on registrations: URLs that the items of a node are pushed to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.management.cells import Cell
from pubqueue.app.management.model import (
    AFTER,
    MAX_ROWS,
    NODE,
    Answer,
    Column,
    Operation,
    Parameter,
    ParameterKind,
)
from pubqueue.app.management.words import count
from pubqueue.model.entities import NodeName
from pubqueue.model.replies import Power
from pubqueue.rules.registrations import Enable, ListRegistrations, Unregister

if TYPE_CHECKING:
    from pubqueue.app.management.given import Given
    from pubqueue.app.management.model import Row
    from pubqueue.app.rules import Request
    from pubqueue.model.entities import Principal
    from pubqueue.model.records import Registration, Registrations

USUAL: Final = 100
"""Rows of a page, unless the caller wants fewer or more."""

ACTIVE: Final = "active"
DISABLED: Final = "disabled"

OF_NODE: Final = Parameter("node", ParameterKind.NODE, "Only of this node")
NAME: Final = Parameter("registration", ParameterKind.TEXT, "Registration", required=True)


def _ask(by: Principal, given: Given) -> Request:
    node, most = given.one("node"), given.one("max")
    return ListRegistrations(
        by,
        NodeName(node) if node else None,
        given.one("after"),
        int(most) if most else USUAL,
    )


def _listed(page: Registrations, _given: Given) -> Answer:
    rows = tuple(map(_row, page.entries))
    note = count(len(rows), "registration")
    note = f"These are {note}; there are more." if page.more else f"{note}."
    return Answer(note, rows, page.entries[-1].name if rows else "", more=page.more)


def _row(one: Registration) -> Row:
    state = DISABLED if one.disabled else ACTIVE
    return one.name, one.node, one.account, state, one.failures, one.error


REGISTRATIONS: Final = Operation(
    "registrations",
    "List the registrations of pushes",
    "Registrations are URLs that the items of a node are pushed to. Lists those of a node that you own, or your own; for an administrator, all. A registration is disabled"
    " after too many failures in a row.",
    Power.NODES,
    (OF_NODE, AFTER, MAX_ROWS),
    (
        Column("registration", "Registration"),
        Column("node", "Node"),
        Column("account", "Account"),
        Column("state", "State"),
        Column("failures", "Failures in a row", Cell.COUNT),
        Column("error", "Last error"),
    ),
    _ask,
    _listed,
    place="registration",
)

_NUMBER: Final = (Column("count", "Registrations", Cell.COUNT),)


def _changing(name: str, label: str, about: str, *, disabled: bool) -> Operation:
    """Return an operation that disables a registration, or enables it."""
    done = "is disabled; its items go to other workers" if disabled else "is active"

    def ask(by: Principal, given: Given) -> Request:
        node = NodeName(given.one("node"))
        return Enable(by, node, given.one("registration"), disabled=disabled)

    def answer(_page: Registrations, given: Given) -> Answer:
        return Answer(f"The registration {given.one('registration')} {done}.", ((1,),))

    return Operation(
        name,
        label,
        about,
        Power.NODES,
        (NODE, NAME),
        _NUMBER,
        ask,
        answer,
        single=True,
        changes=True,
    )


DISABLE: Final = _changing(
    "registration-disable",
    "Disable a registration",
    "Nothing more is pushed to its URL until it is enabled again. Items that are being pushed are requeued within 2 s, without a failure.",
    disabled=True,
)
ENABLE: Final = _changing(
    "registration-enable",
    "Enable a registration",
    "Pushes begin again, with no failure so far.",
    disabled=False,
)


def _ask_end(by: Principal, given: Given) -> Request:
    return Unregister(by, NodeName(given.one("node")), given.one("registration"))


def _ended(_page: Registrations, given: Given) -> Answer:
    return Answer(f"The registration {given.one('registration')} has ended.", ((1,),))


END: Final = Operation(
    "registration-end",
    "End a registration",
    "Nothing more is pushed to its URL. Its account may register again.",
    Power.NODES,
    (NODE, NAME),
    _NUMBER,
    _ask_end,
    _ended,
    single=True,
    changes=True,
)

OPERATIONS: Final = (REGISTRATIONS, DISABLE, ENABLE, END)
