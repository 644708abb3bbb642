"""Operations on items that wait: send one a signal, make a link that does, close a join."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec

from pubqueue.engine.face import proposed_secret
from pubqueue.model import replies
from pubqueue.model.entities import ItemId, State, seconds
from pubqueue.operations.items import CHOSEN_FROM, ITEMS, that_wait
from pubqueue.operations.model import (
    NODE,
    Action,
    Answer,
    Cell,
    Column,
    Of,
    Offer,
    Operation,
    Parameter,
    ParameterKind,
    UnfitError,
    queues,
    stamp,
)
from pubqueue.operations.nodes import node_of
from pubqueue.rules.joins import Close
from pubqueue.rules.signal_links import SECRET, USUAL, MakeSignalLink
from pubqueue.rules.waits import Signal

if TYPE_CHECKING:
    from pubqueue.model.decision import Done, Request, Signaled, SignalLinkMade
    from pubqueue.model.entities import Principal
    from pubqueue.operations.model import Given


def _ask_signal(by: Principal, given: Given) -> Request:
    item, name = ItemId(given.one("item")), given.one("signal")
    data = _as_json(given.one("data"))
    return Signal(by, node_of(given), item, name, data, given.one("id") or uuid4().hex)


def _as_json(text: str) -> str:
    """Return JSON as it is, and any other text as a string of JSON."""
    try:
        if text:
            msgspec.json.decode(text)
    except msgspec.DecodeError:
        return msgspec.json.encode(text).decode()
    return text


def _signaled(reply: Signaled, given: Given) -> Answer:
    name = given.one("signal")
    if reply.again:
        note = f"{reply.id} had this signal already."
    elif reply.wakes:
        note = f"{reply.id} was held for {name}, and waits for a worker now."
    else:
        note = f"{reply.id} is {reply.state.value}; {name} is kept until it is held for that."
    return Answer(note, ((reply.state.value, reply.wakes, reply.again),))


SIGNAL: Final = Operation(
    "signal",
    "Send a signal to an item",
    "An item that is held for the signal goes to a worker, with the data. Any other one keeps it until it is held for it.",
    replies.Power.NODES,
    (
        NODE,
        Parameter(
            *("item", ParameterKind.ITEM, "Item"),
            required=True,
            offer=Offer(
                *(ITEMS, that_wait, "No item of {node} is held.", "Or the id of another item"),
                given=(CHOSEN_FROM, ("state", State.HELD.value)),
                title="Held items of {node}",
                about="Choose the item, and name the signal.{first}",
            ),
        ),
        Parameter("signal", ParameterKind.TEXT, "Name of the signal", required=True),
        Parameter("data", ParameterKind.TEXT, "Data: JSON, or a text", metavar="JSON"),
        Parameter(
            *("id", ParameterKind.TEXT, "Id of the signal"),
            help="The id of the signal: one that is repeated under its id counts once.",
        ),
    ),
    (
        Column("state", "State"),
        Column("wakes", "It was held for this", Cell.FLAG),
        Column("again", "It had this already", Cell.FLAG),
    ),
    _ask_signal,
    _signaled,
    single=True,
    changes=True,
    question="Send {}?",
    actions=(Action(Of.SIGNAL, "Send", "Yes, send"),),
    nodes=queues(about="Choose the queue."),
    manual="Send a signal to an item.\n\n"
    "An item that is held for this signal goes to a worker, with the data. Any other item keeps the signal until it is held for it."
    " Owners and publishers of the node may send signals, and the publisher of the item. `pubqueue items --state held` shows what items wait for.",
)


def _ask_link(by: Principal, given: Given) -> Request:
    _beginning(given)
    within = given.one("within")
    return MakeSignalLink(
        *(by, node_of(given), ItemId(given.one("item")), given.one("signal"), uuid4().hex),
        proposed=proposed_secret(SECRET),
        within=seconds(float(within)) if within else USUAL,
    )


def _beginning(given: Given) -> str:
    """Return what the link begins with.

    Raises:
        UnfitError: that is not an address of HTTP.

    """
    text = given.one("at")
    parts = urlsplit(text)
    if text and (parts.scheme not in {"http", "https"} or not parts.netloc or parts.query):
        raise UnfitError("at: the address of the service, such as https://queue.example.org")
    return text.rstrip("/")


def _linked(reply: SignalLinkMade, given: Given) -> Answer:
    link = f"{_beginning(given)}{reply.path}"
    note = f"{link} sends {given.one('signal')} to {reply.id} once, until {stamp(reply.until)}."
    return Answer(note, ((link, reply.until),))


SIGNAL_LINK: Final = Operation(
    "signal-link",
    "Make a link that sends a signal",
    "The link sends the signal, once, for anyone who has it: by a page with a button. It is over as soon as the item is woken.",
    replies.Power.NODES,
    (
        NODE,
        Parameter(
            *("item", ParameterKind.ITEM, "Item"),
            required=True,
            offer=Offer(
                *(ITEMS, that_wait, "No item of {node} is held.", "Or the id of another item"),
                given=(CHOSEN_FROM, ("state", State.HELD.value)),
                title="Held items of {node}",
                about="Choose the item, and name the signal.{first}",
            ),
        ),
        Parameter("signal", ParameterKind.TEXT, "Name of the signal", required=True),
        Parameter(
            *("within", ParameterKind.NUMBER, "Seconds for which it holds"),
            hint="Two days, if it is empty; up to 30 days.",
            help="Seconds for which it holds, up to 30 days; two days by default.",
        ),
        Parameter(
            *("at", ParameterKind.TEXT, "Address of the service"),
            hint="Such as https://queue.example.org; without it you get the path alone.",
            help="The address at which people reach the service over HTTP; without it the path alone is printed.",
            metavar="URL",
        ),
    ),
    (Column("link", "Link"), Column("until", "Holds until", Cell.MOMENT)),
    _ask_link,
    _linked,
    single=True,
    changes=True,
    nodes=queues(about="Choose the queue."),
    manual="Make a link that sends an item one signal, once.\n\n"
    "For mails and chats: the link shows a page with a button. It holds for the wait of the item that is now, or comes next, and is over as soon as"
    " the item is woken. An account that may send the signal may make the link. Treat it like a password.",
)


def _closed(_reply: Done, given: Given) -> Answer:
    return Answer(f"{given.one('item')} gets no more members.")


CLOSE_JOIN: Final = Operation(
    "close-join",
    "Close a join",
    "A join that waits for members, and may get more, gets no more: it goes to a worker when those that it has are done.",
    replies.Power.NODES,
    (
        NODE,
        Parameter(
            *("item", ParameterKind.ITEM, "Item"),
            required=True,
            offer=Offer(
                *(ITEMS, that_wait, "No item of {node} is held.", "Or the id of another item"),
                given=(CHOSEN_FROM, ("state", State.HELD.value)),
                title="Held items of {node}",
                about="Choose the join.{first}",
            ),
        ),
    ),
    (),
    lambda by, given: Close(by, node_of(given), ItemId(given.one("item"))),
    _closed,
    changes=True,
    nodes=queues(about="Choose the queue."),
    manual="Add no more members to a join.\n\n"
    "It goes to a worker when the members that it has are done. The publisher of its members does this; do it for one that does not come back,"
    " or to have a join looked at again after you have changed `join_dead` of its queue. Owners and publishers of the node may, and the publisher of the item.",
)

ON_WAITS: Final = (SIGNAL, SIGNAL_LINK, CLOSE_JOIN)
