"""What all lists can be searched by: a text, a state, a reason, an order."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pubqueue.model.replies import Found
from pubqueue.operations.model import Parameter, ParameterKind, UnfitError
from pubqueue.rules.search import KINDS, LOOKED_AT, Search

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.model.decision import Request
    from pubqueue.model.entities import Principal
    from pubqueue.operations.model import Answer, Given
    from pubqueue.rules.search import Place, Within


ANY: Final = "any"
NAME: Final = "name"


def searches(
    kind: type, of: str, *, state: str = "state", reason: bool = False, order: str = NAME
) -> tuple[Parameter, ...]:
    """Return the parameters by which the list that this request reads is searched. `of` is what the text is a part of.

    `state` is the name of the parameter that selects a state, for lists that have some. `order` is the word for the usual order.
    """
    found = [
        Parameter(
            *("match", ParameterKind.TEXT, f"Only with this in {of}"),
            help=f"Only rows with this text in {of}; upper and lower case are the same.",
        )
    ]
    if states := tuple(KINDS[kind].states):
        found.append(
            Parameter(
                *(state, ParameterKind.CHOICE, f"Only with this {state}"),
                choices=tuple((one, one) for one in (ANY, *states)),
                usual=ANY,
                help=f"Only rows with this {state}: {', '.join(states)}.",
                metavar=state.upper(),
            )
        )
    orders = (order, *KINDS[kind].numbers)
    found.append(
        Parameter(
            *("sort", ParameterKind.CHOICE, "Order"),
            choices=tuple((one, one) for one in orders),
            usual=order,
            help=f"Sort order: {', '.join(orders)}. Up to {LOOKED_AT:,} rows are sorted.",
            metavar="COLUMN",
        )
    )
    if reason:
        found.append(
            Parameter(
                *("reason", ParameterKind.TEXT, "Only with this last error"),
                help="Only rows with this last error; * stands for any text.",
            )
        )
    return tuple(found)


def searched(
    read: Callable[[Principal, Given, str], Within],
    *,
    state: str = "state",
    own: frozenset[str] = frozenset(),
    order: str = NAME,
) -> Callable[[Principal, Given], Request]:
    """Return how a list is asked for: by the request for its page after a name, or by a search in it.

    `own` are the parameters that the request for a page has itself.
    """

    def ask(by: Principal, given: Given) -> Request:
        after, sort = given.one("after"), given.one("sort") or order
        match, wanted, reason = (
            "" if name in own or given.one(name) == ANY else given.one(name)
            for name in ("match", state, "reason")
        )
        words = match, wanted, reason
        if sort == order and not any(words):
            return read(by, given, after)
        within = read(by, given.without("max"), after if sort == order else "")
        if sort == order:
            return Search(by, within, *words, most=given.number("max"))
        return Search(by, within, *words, sort, place_from(after), given.number("max"))

    return ask


def answered(
    answer: Callable[[Any, Given], Answer],
) -> Callable[[Any, Given], Answer]:
    """Return how such a list is answered."""

    def answered_with(reply: Any, given: Given) -> Answer:  # noqa: ANN401  # a page of any list, or what was found in it
        if not isinstance(reply, Found):
            return answer(reply, given)
        known = answer(reply.page, given)
        through = reply.through if isinstance(reply.through, str) else place_in_words(reply.through)
        note = f"{len(known.rows)} found{', and there are more' if reply.more else ''}."
        note += (
            "" if reply.whole else f" Only the first {LOOKED_AT:,} rows of the list were sorted."
        )
        return replace(known, note=note, through=through, more=reply.more)

    return answered_with


# The place of a row in an order, as text.


def place_in_words(place: Place) -> str:
    """Return a place as one text."""
    return f"{place[0]!r}:{place[1]}"


def place_from(text: str) -> Place | None:
    """Return the place that a text represents, None for none.

    Raises:
        UnfitError: it is not a place.

    """
    if not text:
        return None
    number, _, name = text.partition(":")
    try:
        place = float(number)
    except ValueError:
        place = math.nan
    # a count is written as a whole number
    if not name or math.isnan(place) or number not in {repr(place), f"{place:.0f}"}:
        raise UnfitError("after: the place of a row, as the answer has it")
    return place, name
