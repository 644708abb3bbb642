"""Makes commands from operations, for people who fill in forms and for programs."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pubqueue.faces.xmpp.commands.steps import (
    WARN,
    CommandStep,
    CommandTable,
    Field,
    Form,
    Result,
    of,
)
from pubqueue.faces.xmpp.xml.payload import from_text
from pubqueue.faces.xmpp.xml.refusals import StanzaError
from pubqueue.faces.xmpp.xml.stanza import ROOM, escape, jid_of, quoted
from pubqueue.model.entities import NodeName
from pubqueue.operations.model import (
    AFTER,
    NODE,
    OF_PAGES,
    Cell,
    Given,
    ParameterKind,
    Readers,
    UnfitError,
    any_nodes,
    cell_text,
    count,
    fit,
    stamp,
    texts,
)
from pubqueue.rules.discovery import Describe
from pubqueue.rules.inspect import AskPowers
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.faces.xmpp.commands.steps import Command, Shown
    from pubqueue.model.decision import Request
    from pubqueue.model.entities import Node, Principal
    from pubqueue.model.replies import Described, Power, Powers
    from pubqueue.operations.model import Answer, Column, Nodes, Operation, Parameter


# Makes commands from operations: parameters become form fields, and answers become facts or a table.

OTHER: Final = "other_"
"""The prefix of a field for a value that is not in the list. It has precedence over the list."""

SURE: Final = "sure"

READERS: Final = Readers(jid_of, from_text)

IN_WORDS: Final = 20
"""Rows that are also shown as text, for clients without tables."""

_KINDS: Final = {
    ParameterKind.NODE: "text-single",
    ParameterKind.ITEM: "text-single",
    ParameterKind.JID: "text-single",
    ParameterKind.TEXT: "text-single",
    ParameterKind.LINES: "text-multi",
    ParameterKind.COUNT: "text-single",
    ParameterKind.NUMBER: "text-single",
    ParameterKind.PAYLOAD: "text-multi",
    ParameterKind.FLAG: "boolean",
    ParameterKind.CHOICE: "list-single",
}


def parameters_of(operation: Operation, given: Given) -> Given:
    """Return the values of a form as the parameters of an operation."""
    return Given({one.name: _values_of(one, given) for one in operation.parameters})


def _values_of(one: Parameter, given: Given) -> tuple[str, ...]:
    other = given.lines(OTHER + one.name)
    if one.kind is ParameterKind.LINES:
        return (*given.lines(one.name), *other)
    if one.kind is ParameterKind.PAYLOAD:
        return given.get(one.name, ())
    return other[:1] or given.get(one.name, ())[:1]


def field_of(parameter: Parameter) -> Field:
    """Return the form field for a parameter."""
    value = (parameter.usual,) if parameter.usual else ()
    return Field(
        *(parameter.name, _KINDS[parameter.kind], parameter.label, value, parameter.choices),
        required=parameter.required,
        hint=parameter.hint,
    )


def doing(operation: Operation, show: Callable[[Any, Given], Result] | None = None) -> CommandStep:
    """Return the stage that performs the operation; `show` presents the reply, by default as the operation's answer."""

    def ask(by: Principal, given: Given) -> Request | StanzaError:
        try:
            return operation.ask(by, fit(operation, parameters_of(operation, given), READERS))
        except UnfitError as problem:
            return unfit(str(problem))

    def answer(reply: Any, given: Given) -> Result:  # noqa: ANN401  # of the type that the request has
        return shown(operation, operation.answer(reply, parameters_of(operation, given)))

    return CommandStep(ask, show or answer)


def shown(operation: Operation, answer: Answer) -> Result:
    """Return an answer for people: a sentence about a change, facts, or a table."""
    kind = WARN if answer.warns else "info"
    if operation.changes or not operation.columns:
        return Result(answer.note, kind)
    if operation.single:
        return Result(answer.note, kind, operation.label, facts_of(operation, answer))
    words = ((str(row[0]), _in_words(operation, row, answer)) for row in answer.rows)
    return listing(operation, answer, operation.label, words)


def listing(
    operation: Operation, answer: Answer, title: str, words: Iterable[tuple[str, str]]
) -> Result:
    """Return rows as a table; `words` describes each row by its name, for clients without tables."""
    some = enumerate(islice(words, IN_WORDS), 1)
    return Result(
        *(answer.note, WARN if answer.warns else "info", title),
        facts=tuple(fact(f"row{number}", name, text) for number, (name, text) in some),
        table=table_of(operation, answer),
        more={AFTER.name: (answer.through,)} if answer.more else {},
    )


def facts_of(operation: Operation, answer: Answer) -> tuple[Field, ...]:
    """Return the only row of an answer as facts, without empty cells."""
    (row,) = answer.rows
    facts = (
        fact(column.name, column.label, _lines(column, value, answer))
        for column, value in zip(operation.columns, row, strict=True)
        if not column.more
    )
    return tuple(field for field in facts if any(field.value))


def _lines(column: Column, value: Any, answer: Answer) -> str:  # noqa: ANN401  # a cell
    """Return a cell as text of one or more lines."""
    return "\n".join(value) if column.cell is Cell.NAMES else _cell_text(column, value, answer)


def table_of(operation: Operation, answer: Answer) -> CommandTable:
    """Return an answer as a table, with the columns for people."""
    at = [place for place, column in enumerate(operation.columns) if not column.more]
    columns = tuple((operation.columns[place].name, operation.columns[place].label) for place in at)
    rows = tuple(
        tuple(_cell_text(operation.columns[place], row[place], answer) for place in at)
        for row in answer.rows
    )
    return CommandTable(columns, rows)


def _in_words(operation: Operation, row: tuple[Any, ...], answer: Answer) -> str:
    cells = list(zip(operation.columns, row, strict=True))[1:]
    parts = (
        (column.label, _cell_text(column, value, answer))
        for column, value in cells
        if not column.more
    )
    return ", ".join(f"{label}: {text}" for label, text in parts if text)


def _cell_text(column: Column, value: Any, answer: Answer) -> str:  # noqa: ANN401  # a cell
    return cell_text(column.cell, value, answer.now)


# --- whole commands -----------------------------------------------------------------------------


def command_of(operation: Operation, show: Callable[[Any, Given], Result] | None = None) -> Command:
    """Return the command of an operation: its forms, a confirmation if it needs one, and its result.

    A form asks for the node, another for what has to be chosen in it; they have the fields of all other parameters too. An
    operation that needs no parameter has no form.
    """
    offered = next((one for one in operation.parameters if one.offer is not None), None)
    stages = [doing(operation, show)]
    if operation.sure:
        stages = [confirming(operation), sure(operation)]
    if offered is not None:
        stages.insert(0, offering(operation, offered, fields_of(operation)))
    if _nodes(operation) is not None:
        stages.insert(0, node_first(operation, () if offered else fields_of(operation)))
    elif offered is None and any(one.required for one in operation.parameters):
        stages.insert(0, _filling_in(operation))
    return of(operation, *stages)


def _nodes(operation: Operation) -> Nodes | None:
    return operation.nodes or (any_nodes() if operation.parameters[:1] == (NODE,) else None)


def fields_of(operation: Operation) -> tuple[Field, ...]:
    """Return the form fields for the parameters that are not chosen from a list."""
    others = operation.parameters[1:] if _nodes(operation) else operation.parameters
    return tuple(field_of(one) for one in others if not one.offer and one.name not in OF_PAGES)


def node_first(operation: Operation, more: tuple[Field, ...]) -> CommandStep:
    """Return the stage that asks for the node, and for more."""
    nodes = _nodes(operation)
    assert nodes is not None
    title, about = nodes.title or operation.label, nodes.about or operation.about
    choose = choose_node(title, about, fits=nodes.fits, none=nodes.none, more=more)
    return CommandStep(ask_powers(operation.power), choose)


def _filling_in(operation: Operation) -> CommandStep:
    form = Form(operation.label, operation.about, fields_of(operation))
    return CommandStep(ask_powers(operation.power), lambda _powers, _given: form)


def offering(
    operation: Operation, parameter: Parameter, more: tuple[Field, ...] = ()
) -> CommandStep:
    """Return the stage that asks for a value of the parameter, from those that another operation finds, and for more."""
    offer = parameter.offer
    assert offer is not None
    several = parameter.kind is ParameterKind.LINES

    def ask(by: Principal, given: Given) -> Request:
        words = {name: (value,) for name, value in offer.given}
        return offer.operation.ask(by, Given(words | {NODE.name: (node_of(given),)}))

    def show(reply: Any, given: Given) -> Shown:  # noqa: ANN401  # of the type that the request has
        options, cut = tuple(offer.values(reply)), offer.operation.answer(reply, Given()).more
        first = f" These are the first {len(options)}." if cut else ""
        words = {"node": node_of(given), "first": first}
        if not options and not cut:
            return Result(offer.none.format(**words))
        pick = _pick(
            *(parameter.name, offer.label or parameter.label, options),
            several=several,
            required=offer.whole and not cut,
        )
        other = Field(
            OTHER + parameter.name, "text-multi" if several else "text-single", offer.other
        )
        others = (other,) if cut or not offer.whole else ()
        title, about = offer.title or operation.label, offer.about or operation.about
        return Form(title.format(**words), about.format(**words), (*pick, *others, *more))

    return CommandStep(ask, show)


def _pick(
    var: str,
    label: str,
    options: tuple[tuple[str, str], ...],
    *,
    several: bool = False,
    required: bool,
) -> tuple[Field, ...]:
    """Return the field to choose from a list; it begins with the first value. An empty list has none."""
    if not options:
        return ()
    kind, first = ("list-multi", ()) if several else ("list-single", options[0][:1])
    return (Field(var, kind, label, first, options, required=required),)


def confirming(operation: Operation) -> CommandStep:
    """Return the stage that shows what will be deleted, and asks for confirmation."""

    def ask(by: Principal, given: Given) -> Request:
        return Describe(by, node_of(given), manage=True)

    def confirm(reply: Described, _given: Given) -> Shown:
        node = reply.node
        words = f"{node.name} has {count(node.items, 'item')}. {operation.confirmation(node.name)}"
        label = f"Yes, {operation.label.lower().removesuffix(' of a node')}"
        yes = Field(SURE, "boolean", label, ("0",), required=True)
        return Form(operation.label.replace("a node", node.name), words, (yes,))

    return CommandStep(ask, confirm)


def sure(operation: Operation) -> CommandStep:
    """Return the stage that performs a confirmed operation."""
    stage = doing(operation)

    def ask(by: Principal, given: Given) -> Request | Result | StanzaError:
        if not given.says_yes(SURE):
            return Result("Nothing was deleted, because you did not confirm.", WARN)
        return stage.ask(by, given)

    return CommandStep(ask, stage.show)


# Answers for programs: the unformatted cells of an operation, under the names of their columns.
#
# A program executes a command with a form that contains our FORM_TYPE and the parameters of the operation. This takes one step and creates
# no session. The answer is a form of type result: the rows, the service's time (`now`), the
# position up to which they are complete (`through`), whether more rows follow (`more`), and the ends of a log
# (`oldest`, `newest`). A page ends before the stanza becomes too large for servers.

FORM_TYPE: Final = f"{ns.PUBQUEUE}#operation"


def completed(node: str, session: str, operation: Operation, answer: Answer) -> bytes:
    """Return the answer; if not all rows fit, the first ones and the position after them."""
    rows = [_row(operation, row) for row in answer.rows]
    room, count = ROOM, 0
    for row in rows:
        room -= len(row.encode())
        if room < 0 and count:
            break
        count += 1
    through, more = answer.through, answer.more
    if count < len(rows):
        place = [column.name for column in operation.columns].index(operation.place)
        through, more = str(answer.rows[count - 1][place]), True
    inner = _head(operation, answer, through, more=more) + "".join(rows[:count])
    kind = "warn" if answer.warns else "info"
    note = f'<note type="{kind}">{escape(answer.note)}</note>' if answer.note else ""
    words = f'node="{quoted(node)}" sessionid="{quoted(session)}" status="completed" xml:lang="en"'
    x = f'<x xmlns="{ns.DATA}" type="result">{inner}</x>'
    return f'<command xmlns="{ns.COMMANDS}" {words}>{x}{note}</command>'.encode()


def _head(operation: Operation, answer: Answer, through: str, *, more: bool) -> str:
    now = () if answer.now is None else (stamp(answer.now),)
    ends = (("oldest", answer.oldest), ("newest", answer.newest))
    columns = "".join(
        f'<field var="{column.name}" type="{_type(column.cell)}" label="{quoted(column.label)}"/>'
        for column in operation.columns
    )
    return (
        f'<field var="FORM_TYPE" type="hidden"><value>{FORM_TYPE}</value></field>'
        + _field("now", now)
        + _field("through", (through,) if through else ())
        + _field("more", ("1" if more else "0",))
        + "".join(_field(name, (str(end),)) for name, end in ends if end is not None)
        + (f"<reported>{columns}</reported>" if columns else "")
    )


def _type(cell: Cell) -> str:
    match cell:
        case Cell.NAMES:
            return "text-multi"
        case Cell.FLAG:
            return "boolean"
        case _:
            return "text-single"


def _row(operation: Operation, row: tuple[Any, ...]) -> str:
    cells = zip(operation.columns, row, strict=True)
    each = "".join(_field(column.name, texts(column.cell, value)) for column, value in cells)
    return f"<item>{each}</item>"


def _field(var: str, values: tuple[str, ...]) -> str:
    inner = "".join(f"<value>{escape(value)}</value>" for value in values)
    return f'<field var="{var}">{inner}</field>'


# Form fields and facts that commands share.


def fact(var: str, label: str, value: str) -> Field:
    """Return a fact of a result."""
    lines = tuple(value.split("\n"))
    return Field(var, "text-multi" if len(lines) > 1 else "text-single", label, lines)


def ask_powers(power: Power) -> Callable[[Principal, Given], Request]:
    """Return the first request of a command whose first form lists the nodes that the principal may manage."""
    return lambda by, _given: AskPowers(by, power)


def choose_node(
    title: str,
    instructions: str,
    *,
    fits: Callable[[Node], bool] = lambda node: node.config.queueing,
    none: str = "You own no queues.",
    more: tuple[Field, ...] = (),
    var: str = NODE.name,
    form_type: str = "",
) -> Callable[[Powers, Given], Shown]:
    """Return a function that shows the first form: a choice of the nodes that fit, and further fields.

    If there are too many nodes, the form lists the first ones, and has a field for the name of another.
    """

    def show(powers: Powers, _given: Given) -> Shown:
        named = [node for node in powers.nodes if fits(node)]
        if not named and not powers.more:
            return Result(none)
        return Form(title, instructions, _choice(named, powers, more, var), form_type)

    return show


def _choice(
    named: list[Node], powers: Powers, more: tuple[Field, ...], var: str
) -> tuple[Field, ...]:
    options = tuple((node.name, _shown(node)) for node in named)
    pick = _pick(var, "Node", options, required=not powers.more)
    if not powers.more:
        return (*pick, *more)
    hint = f"Only the first {len(powers.nodes)} of your nodes are listed."
    other = Field(OTHER + NODE.name, "text-single", "Or the name of another node", hint=hint)
    return (*pick, other, *more)


def _shown(node: Node) -> str:
    title = node.config.title
    return f"{node.name} ({title})" if title and title != node.name else node.name


def node_of(given: Given, var: str = NODE.name) -> NodeName:
    """Return the chosen node."""
    return NodeName(given.one(OTHER + NODE.name) or given.one(var))


def unfit(text: str) -> StanzaError:
    """Return the error for an invalid field."""
    return StanzaError("modify", "bad-request", "bad-payload", text=text, namespace=ns.COMMANDS)
