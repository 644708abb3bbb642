"""Operations on messages of assured service that are held until their senders ask for the delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.management.cells import Cell
from pubqueue.app.management.model import (
    AFTER,
    MAX_ROWS,
    Answer,
    Column,
    Operation,
    Parameter,
    ParameterKind,
)
from pubqueue.app.management.words import count
from pubqueue.model.entities import Jid
from pubqueue.model.replies import Power
from pubqueue.rules.messages import DropMessages, ListMessages

if TYPE_CHECKING:
    from pubqueue.app.management.given import Given
    from pubqueue.app.rules import Request
    from pubqueue.model.entities import Principal
    from pubqueue.model.records import KeptMessages, MessagesEnded

USUAL: Final = 100
"""Rows of a page, unless the caller wants fewer or more."""


def _ask(by: Principal, given: Given) -> Request:
    most = given.one("max")
    return ListMessages(by, given.one("after"), int(most) if most else USUAL)


def _listed(page: KeptMessages, given: Given) -> Answer:
    rows = tuple((one.account, one.messages, one.byte_count, one.until) for one in page.accounts)
    held = f"{count(page.messages, 'message')} with {count(page.byte_count, 'byte')}"
    note = f"{held} held, {count(page.remembered, 'answer')} remembered."
    most = given.one("max")
    more = bool(rows) and len(rows) >= (int(most) if most else USUAL)
    return Answer(note, rows, page.accounts[-1].account if more else "", more=more)


KEPT: Final = Operation(
    "kept-messages",
    "List the accounts of which messages are held",
    "Assured messages are held from when they are received until their sender asks for the delivery. Lists the accounts that have any.",
    Power.SERVICE,
    (AFTER, MAX_ROWS),
    (
        Column("account", "Account"),
        Column("messages", "Messages", Cell.COUNT),
        Column("bytes", "Bytes", Cell.COUNT),
        Column("until", "First held until", Cell.MOMENT),
    ),
    _ask,
    _listed,
    place="account",
)


def _ask_drop(by: Principal, given: Given) -> Request:
    return DropMessages(by, Jid(given.one("account")))


def _dropped(reply: MessagesEnded, given: Given) -> Answer:
    note = f"{count(reply.count, 'message')} of {given.one('account')} dropped."
    return Answer(note, ((reply.count,),))


DROP: Final = Operation(
    "drop-kept-messages",
    "Drop the messages that are held of an account",
    "The messages that were received and not delivered are gone. Their sender gets an error when it asks for the delivery.",
    Power.SERVICE,
    (Parameter("account", ParameterKind.JID, "Account", required=True),),
    (Column("count", "Messages dropped", Cell.COUNT),),
    _ask_drop,
    _dropped,
    single=True,
    changes=True,
)

OPERATIONS: Final = (KEPT, DROP)
