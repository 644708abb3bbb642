"""One handler: a function, its argument types, the items that it matches, and its limits."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_type_hints
from xml.etree.ElementTree import Element

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue_xeps.wire.payloads.payload import Content
    from pubqueue_xeps.worker.handling.handler_match import Criterion
    from pubqueue_xeps.worker.handling.limits import Limits

NOTHING: Final = object()
"""The handler takes only the item."""


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """A function that does a kind of work. `wanted` is the type of its second argument, or NOTHING."""

    name: str
    function: Callable[..., object]
    criterion: Criterion
    limits: Limits
    wanted: Any
    blocking: bool

    def arguments(self, item: Content) -> tuple[object, ...]:
        """Return the function's arguments for an item; raise DecodeError for a payload that does not fit."""
        if self.wanted is NOTHING:
            return (item,)
        if self.wanted is Element:
            return item, item.payload
        return item, item.decode(self.wanted)


def make_handler(
    function: Callable[..., object], name: str | None, criterion: Criterion, limits: Limits
) -> Handler:
    """Make a handler from a function's signature; raise TypeError, in one sentence, if it cannot be called."""
    called = name_of(function)
    called_with = [
        one
        for one in inspect.signature(function).parameters.values()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and one.default is one.empty
    ]
    wanted = NOTHING
    match called_with:
        case [_]:
            pass
        case [_, payload]:
            wanted = _annotation(function, payload.name, called)
        case _:
            raise TypeError(
                f"The handler {called} takes (item) or (item, payload: SomeType), and nothing else."
            )
    return Handler(
        name or called, function, criterion, limits, wanted, blocking=not is_async(function)
    )


def _annotation(function: Callable[..., object], parameter: str, called: str) -> Any:  # noqa: ANN401
    where = function if inspect.isroutine(function) else type(function).__call__
    try:
        hints = get_type_hints(where, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"The handler {called} has an annotation that names {error.name!r}, which is not known at the top"
            " of its module."
        ) from None
    if parameter not in hints:
        raise TypeError(
            f"The handler {called} takes a payload without a type: write {parameter}: SomeType."
        )
    return hints[parameter]


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling it makes a coroutine; for functions wrapped by `functools.wraps`, the innermost counts."""
    inner = inspect.unwrap(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(inner, "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def name_of(function: Callable[..., object]) -> str:
    """Return the name of a function, or of the class of a callable object."""
    return getattr(function, "__name__", type(function).__name__)
