"""Answers for programs: the unformatted cells of an operation, under the names of their columns.

A program executes a command with a form that contains our FORM_TYPE and the parameters of the operation. This takes one step and creates
no session. The answer is a form of type result: the rows, the service's time (`now`), the
position up to which they are complete (`through`), whether more rows follow (`more`), and the ends of a log
(`oldest`, `newest`). A page ends before the stanza becomes too large for servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pubqueue.faces.xmpp.xml.size_limits import ROOM
from pubqueue.faces.xmpp.xml.text import escape, quoted
from pubqueue.operations.model import Cell, stamp, texts
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.operations.model import Answer, Operation

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
