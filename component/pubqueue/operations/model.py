"""The parts of an operation: parameters, answers, and the plain words of both."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, unique
from typing import TYPE_CHECKING, Any, Final

from pubqueue.model.entities import Millis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pubqueue.model.decision import Request
    from pubqueue.model.entities import Node, Principal
    from pubqueue.model.replies import Power


# Cells of answers: their kinds, and each as text and back, the same in every representation.

Value = str | int | float | bool | tuple[str, ...] | None
"""The value of a cell; None: no value."""


@unique
class Cell(Enum):
    """The kinds of cells. In JSON a moment is text as XEP-0082 writes it, and names are a list."""

    TEXT = "text"
    COUNT = "count"
    """A whole number."""
    RATE = "rate"
    """A number with a fraction."""
    MOMENT = "moment"
    """Milliseconds since 1970."""
    SINCE = "since"
    """A moment, displayed to people as the time since then."""
    FLAG = "flag"
    NAMES = "names"
    """Any number of names, in order."""


MOMENTS = frozenset({Cell.MOMENT, Cell.SINCE})


def stamp(moment: int) -> str:
    """Return milliseconds since 1970 as XEP-0082 writes a moment, in UTC."""
    second, millis = divmod(moment, 1000)
    at = datetime.fromtimestamp(second, UTC).replace(tzinfo=None)
    return f"{at.isoformat()}.{millis:03}Z"


def moment(text: str) -> Millis:
    """Return the milliseconds since 1970 of the text written by `stamp`."""
    at = datetime.fromisoformat(text)
    return Millis(int(at.replace(microsecond=0).timestamp()) * 1000 + at.microsecond // 1000)


def texts(cell: Cell, value: Value) -> tuple[str, ...]:
    """Return a cell as the values of a field."""
    if value is None:
        return ()
    match cell:
        case Cell.MOMENT | Cell.SINCE:
            assert isinstance(value, int)
            return (stamp(value),)
        case Cell.FLAG:
            return ("1" if value else "0",)
        case Cell.NAMES:
            assert isinstance(value, tuple)
            return value
        case _:
            return (str(value),)


def value_of(cell: Cell, values: Sequence[str]) -> Value:
    """Return the cell written by `texts`; raises ValueError if that is impossible."""
    if cell is Cell.NAMES:
        return tuple(values)
    if not values:
        return None
    text = values[0]
    match cell:
        case Cell.COUNT:
            return int(text)
        case Cell.RATE:
            return float(text)
        case Cell.MOMENT | Cell.SINCE:
            return moment(text)
        case Cell.FLAG:
            return text in {"1", "true"}
        case _:
            return text


def json_of(cell: Cell, value: Value) -> Value:
    """Return a cell as it is in JSON."""
    return stamp(value) if cell in MOMENTS and isinstance(value, int) else value


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
    hint: str = ""
    """What a form says beside its field."""
    offer: Offer | None = None
    """Where a form takes values to choose from."""
    help: str = ""
    """What the command line prints about its option; empty: the label."""
    metavar: str = ""
    """What stands for its value there; empty: as usual."""
    option: str = ""
    """Its option there, if that is not its name, or if a necessary parameter or a list is no argument. The option of a flag that
    is usually set means no."""
    whole: bool = False
    """A number without a fraction."""
    is_new: bool = False
    """It names what does not exist yet, so that the command line completes no name."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Values of a parameter that a form offers: those in the answer of another operation.

    In the texts, `{node}` is the node, and `{first}` a sentence if the list is not complete.
    """

    operation: Operation
    values: Callable[[Any], Iterable[tuple[str, str]]]
    """Returns the values in a reply, each with its description."""
    none: str
    """The sentence if there is no value."""
    other: str
    """The label of the field for a value that is not in the list."""
    given: tuple[tuple[str, str], ...] = ()
    """Parameters of the other operation, in addition to the node."""
    label: str = ""
    """The label of the list, if it is not the parameter's."""
    title: str = ""
    """The title of the form, if it is not the operation's label."""
    about: str = ""
    """The instructions of the form, if they are not the operation's."""
    whole: bool = False
    """The list is complete, as a rule: only if it is not, another value may be named."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes that the first form of an operation offers."""

    fits: Callable[[Node], bool]
    none: str
    """The sentence if no node fits."""
    title: str = ""
    """The title of the form, if it is not the operation's label."""
    about: str = ""
    """The instructions of the form, if they are not the operation's."""


def queues(title: str = "", about: str = "") -> Nodes:
    """Return all queues, with the texts of the form."""
    return Nodes(lambda node: node.config.queueing, "You own no queues.", title, about)


def any_nodes(title: str = "", about: str = "") -> Nodes:
    """Return all nodes, with the texts of the form."""
    return Nodes(lambda _node: True, "You own no nodes.", title, about)


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
    """The operation had no effect, or there is something that the caller may not expect; the sentence says what."""
    oldest: int | None = None
    newest: int | None = None
    """The ends of the log that the rows belong to."""


@unique
class Of(Enum):
    """What the page asks about before it performs an operation, in the words of the question."""

    NODE = "{node}"
    DEAD = "the dead items of {node}"
    ITEMS = "{items} of {node}"
    """Named items: how many."""
    REASON = "the dead items of {node} that died of “{reason}”"
    WORKER = "{worker} of {node}"
    MEMBER = "the affiliation of {jid} with {node} to “{affiliation}”"
    SETTINGS = "{settings} of {node}"
    """Settings: how many."""
    SCHEDULE = "the schedule {schedule}"
    SIGNAL = "the signal “{signal}” to {item} of {node}"


@dataclass(frozen=True, slots=True)
class Action:
    """An operation on one kind of object: the label of its button on the page, and the words of assent."""

    of: Of
    label: str
    yes: str
    by_admins: bool = False
    """Only administrators have it: operators look after items and deliveries."""


CANNOT_BE_UNDONE: Final = " This cannot be undone."


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
    final: bool = False
    """It cannot be undone; questions about it say so."""
    takes_away: bool = False
    """It takes away what an account has, or cannot get back: a command asks before it, with how much that is."""
    sure: str = ""
    """What a command and a form say before it is confirmed; `{}` is the node."""
    question: str = ""
    """What the page asks before it; `{}` is what it is about. Empty: it is not on the page."""
    actions: tuple[Action, ...] = ()
    """What it can be about on the page."""
    nodes: Nodes | None = None
    """The nodes that its form offers; None: any node, if the first parameter is one that it needs."""
    command: str = ""
    """Its command on the command line, if that is not its name."""
    manual: str = ""
    """What `--help` prints about that command; empty: the label, and what it does."""
    sums: bool = False
    """The sentence of its answer has totals, which stand above the rows."""

    def parameter(self, name: str) -> Parameter:
        """Return the parameter of that name."""
        return next(one for one in self.parameters if one.name == name)

    def confirmation(self, node: str) -> str:
        """Return what a command and a form say before it is confirmed; empty if it needs no confirmation."""
        return self._with_warning(self.sure.format(node)) if self.sure else ""

    def question_about(self, what: str) -> str:
        """Return what the page asks before it."""
        return self._with_warning(self.question.format(what))

    def _with_warning(self, sentence: str) -> str:
        return sentence + (CANNOT_BE_UNDONE if self.final else "")


NODE: Final = Parameter("node", ParameterKind.NODE, "Node", required=True)
AFTER: Final = Parameter("after", ParameterKind.TEXT, "After this row")
NUMBERED_AFTER: Final = Parameter("after", ParameterKind.COUNT, "After this number")
MATCH: Final = Parameter(
    *("match", ParameterKind.TEXT, "Only nodes with this in their names"),
    help="Only nodes with this text in their names; upper and lower case are the same.",
)
MAX_ROWS: Final = Parameter("max", ParameterKind.COUNT, "Maximum rows")
OF_PAGES: Final = frozenset({AFTER.name, MAX_ROWS.name, "until"})
"""Parameters that select a page of a long answer; people go from one page to the next."""


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
    if parameter.kind not in {ParameterKind.NODE, ParameterKind.ITEM}:
        text = text.strip()  # of a name a space is a part
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


# The parameters of an operation, as text: each with its values.


class Given(dict[str, tuple[str, ...]]):
    """The values filled in so far, by field."""

    def one(self, var: str) -> str:
        """Return the value of a field as it is: a name may begin with a space. Empty if there is none, or only spaces."""
        values = self.get(var, ())
        return values[0] if values and values[0].strip() else ""

    def lines(self, var: str) -> tuple[str, ...]:
        """Return the lines of a field as they are, each once, without those that are empty or only spaces."""
        return tuple(dict.fromkeys(line for line in self.get(var, ()) if line.strip()))

    def without(self, var: str) -> Given:
        """Return the values without those of a field."""
        return Given({name: values for name, values in self.items() if name != var})

    def says_yes(self, var: str) -> bool:
        """Return whether a boolean was set."""
        return self.one(var).strip() in {"1", "true"}

    def number(self, var: str) -> int | None:
        """Return a whole number; None if there is none. `fit` has checked that it is one."""
        text = self.one(var)
        return int(text) if text else None


# Numbers and spans of time in plain words, the same wherever people read them.

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def span(millis: int) -> str:
    """Return a span in up to two units: 2 d 3 h, 4 min 5 s, 12 s."""
    left, parts = max(0, millis) // 1000, []
    for size, unit in _UNITS:
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
        if len(parts) == 2:  # noqa: PLR2004  # as it says
            return " ".join(parts)
    if left or not parts:
        parts.append(f"{left} s")
    return " ".join(parts)


def ago(now: int, then: int | None) -> str:
    """Return how long ago that was; empty if it never was."""
    return "" if then is None else span(now - then)


def count(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: 1 item, 2 items."""
    return f"{number} {noun(number, one, many)}"


def noun(number: int, one: str, many: str = "") -> str:
    """Return a noun in the form that follows a number."""
    return one if number == 1 else many or f"{one}s"


def cell_text(cell: Cell, value: Value, now: int | None) -> str:
    """Return a cell as text for people; times are relative to `now`."""
    if value is None:
        return ""
    match cell:
        case Cell.SINCE if now is not None and isinstance(value, int):
            return ago(now, value)
        case Cell.MOMENT | Cell.SINCE:
            assert isinstance(value, int)
            return stamp(value)
        case Cell.RATE:
            return f"{value:.1f}"
        case Cell.FLAG:
            return "yes" if value else "no"
        case Cell.NAMES:
            assert isinstance(value, tuple)
            return ", ".join(value)
        case _:
            return str(value)
