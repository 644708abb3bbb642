"""The parts of an operation: its parameters, the columns of its answer, its request and its reply."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, Any, Final

from pubqueue.app.management.cells import Cell, Value
from pubqueue.app.management.given import Given

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.rules import Request
    from pubqueue.model.entities import Millis, Principal
    from pubqueue.model.replies import Power

HIGHEST: Final = 10**18
"""Higher than any number that is a valid parameter; a power of ten."""

MAX_SHOWN: Final = 100
"""Characters of an unknown parameter's name that a message has."""


class UnfitError(ValueError):
    """A parameter of an operation is invalid; the message says why, and begins with the parameter."""


@unique
class ParameterKind(Enum):
    """The kind of a parameter."""

    NODE = "node"
    ITEM = "item"
    JID = "jid"
    TEXT = "text"
    LINES = "lines"
    """Any number of texts."""
    COUNT = "count"
    NUMBER = "number"
    """Any number: below 0, or with a fraction."""
    PAYLOAD = "payload"
    """An XML element or JSON, on any number of lines; `fit` returns the element, and its namespace."""
    FLAG = "flag"
    """1 or 0."""
    CHOICE = "choice"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an operation: its name for programs, and its label for people."""

    name: str
    kind: ParameterKind
    label: str
    required: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    """Values to choose from, each with its label."""
    usual: str = ""
    """The default if no value is given; a form begins with it."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an answer. A `more` column is for programs, and for readers that ask for everything."""

    name: str
    label: str
    cell: Cell = Cell.TEXT
    more: bool = False


Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The result: a sentence, and rows whose cells are in the order of the operation's columns.

    `through` is the place up to which the rows are complete; with `more` the operation continues if
    it is called with that as `after`. `now` is the service's time.
    """

    note: str
    rows: tuple[Row, ...] = ()
    through: str = ""
    more: bool = False
    now: Millis | None = None
    warns: bool = False
    """The operation had no effect, which the caller may not expect."""
    oldest: int | None = None
    newest: int | None = None
    """The ends of the log that the rows belong to."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation for operators of queues.

    `ask` makes the core's request from the parameters that `fit` has accepted, and `answer`
    describes the reply.
    """

    name: str
    label: str
    about: str
    """What it does, for a first-time reader."""
    power: Power
    parameters: tuple[Parameter, ...]
    columns: tuple[Column, ...]
    ask: Callable[[Principal, Given], Request]
    answer: Callable[[Any, Given], Answer]
    single: bool = False
    """The answer is one row: facts, not a table."""
    place: str = ""
    """The column by which long answers continue; empty: they have one page."""
    changes: bool = False
    """It changes something, so that the account is logged."""
    sure: str = ""
    """The question to confirm it, because it cannot be undone; `{}` is the node."""

    def parameter(self, name: str) -> Parameter:
        """Return the parameter of that name."""
        return next(one for one in self.parameters if one.name == name)


NODE: Final = Parameter("node", ParameterKind.NODE, "Node", required=True)
AFTER: Final = Parameter("after", ParameterKind.TEXT, "After this row")
NUMBERED_AFTER: Final = Parameter("after", ParameterKind.COUNT, "After this number")
MAX_ROWS: Final = Parameter("max", ParameterKind.COUNT, "Maximum rows")


@dataclass(frozen=True, slots=True)
class Readers:
    """Functions that parse values, supplied by the face."""

    jid_of: Callable[[str], str | None]
    """Returns the normalised JID, or None if the text is not a JID."""
    payload_of: Callable[[str], tuple[bytes, str]]
    """Returns the payload of a text, and its namespace; raises ValueError with a sentence if it is invalid."""


def fit(operation: Operation, given: Given, readers: Readers) -> Given:
    """Return the parameters if they are valid, with JIDs and payloads parsed.

    Raises:
        UnfitError: one is not; the sentence is for the caller.

    """
    known = {parameter.name: parameter for parameter in operation.parameters}
    if unknown := sorted(given.keys() - known.keys()):
        raise UnfitError(f"{unknown[0][:MAX_SHOWN]}: {operation.name} knows no such parameter")
    return Given({name: _fit(one, given, readers) for name, one in known.items()})


def _fit(parameter: Parameter, given: Given, readers: Readers) -> tuple[str, ...]:
    """Return the values of one parameter, none if it is not given; then its default counts."""
    name, text = parameter.name, given.one(parameter.name) or parameter.usual
    if parameter.required and not given.lines(name) and not text:
        raise UnfitError(f"{name}: this has to be given")
    if parameter.kind is ParameterKind.LINES:
        return given.lines(name)
    if parameter.kind is ParameterKind.PAYLOAD:
        return _payload(name, "\n".join(given.get(name, ())), readers)
    if len(given.get(name, ())) > 1:
        raise UnfitError(f"{name}: one value")
    if not text:
        return ()
    if parameter.kind is ParameterKind.JID:
        if (jid := readers.jid_of(text)) is None:
            raise UnfitError(f"{name}: a JID looks like bot@example.org/1")
        return (jid,)
    if wanted := _misses(parameter, text):
        raise UnfitError(f"{name}: {wanted}")
    return (text,)


def _misses(parameter: Parameter, text: str) -> str:
    """Return what the text should be and is not, empty if it is valid."""
    match parameter.kind:
        case ParameterKind.COUNT if not _is_count(text):
            return "a whole number from 0"
        case ParameterKind.NUMBER if not _is_number(text):
            return "a number"
        case ParameterKind.FLAG if text not in {"0", "1", "true", "false"}:
            return "1 or 0"
        case ParameterKind.CHOICE if text not in dict(parameter.choices):
            return f"one of {', '.join(dict(parameter.choices))}"
        case _:
            return ""


def _payload(name: str, text: str, readers: Readers) -> tuple[str, ...]:
    if not text.strip():
        return ()
    try:
        payload, space = readers.payload_of(text)
    except ValueError as problem:
        raise UnfitError(f"{name}: {problem}") from None
    return payload.decode(), space


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < len(str(HIGHEST))


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) < HIGHEST  # False for NaN, too
    except ValueError:
        return False
