"""The commands that manage queues, made from the table of operations: each asks the service, and prints the answer."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from pubqueue.admin.session import changed_schedule
from pubqueue.cli import definitions, output
from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, Suggesting, plain, stop
from pubqueue.cli.session import NODE, answering, confirm, each_of, each_service, run, sure, words
from pubqueue.model.decision import Cancelled
from pubqueue.model.entities import ItemId, NodeName
from pubqueue.operations.clients import CONNECTIONS, KEPT
from pubqueue.operations.dead import DEAD, DEATHS, DISCARD, REASONS, REDRIVE
from pubqueue.operations.items import CANCEL, NAMED, OTHERS_GET_THEM
from pubqueue.operations.model import (
    CANNOT_BE_UNDONE,
    OF_PAGES,
    Given,
    ParameterKind,
    count,
    noun,
)
from pubqueue.operations.nodes import AFFILIATE, CREATE, DELETE, MEMBERS, QUEUES, ROLES, SETTINGS
from pubqueue.operations.schedules import CHANGE
from pubqueue.operations.service import WORKERS
from pubqueue.operations.table import OPERATIONS
from pubqueue.operations.waits import SIGNAL
from pubqueue.rules.dead_letters import DEATHS_LOOKED_AT
from pubqueue.rules.nodeconfig import SETTINGS as OF_NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.admin.connecting import Where
    from pubqueue.admin.session import Link
    from pubqueue.operations.model import Operation, Parameter, Value

    Decorator = Callable[[Callable[..., None]], Callable[..., None]]
    Asked = tuple[str, Callable[[], str]]
    """A question, and what returns it with the numbers that the service has."""


# A command from its operation: parameters become arguments and options, and the answer is printed as its kind is.


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a command."""

    where: Where
    given: dict[str, tuple[str, ...]]
    """The parameters, as the operation takes them."""
    as_json: bool
    most: int | None
    """Maximum rows of a list."""
    yes: bool
    """Confirmed in advance."""

    @property
    def node(self) -> str:
        """The node, empty if there is none."""
        return self.one("node")

    def one(self, name: str) -> str:
        """Return the value of a parameter, empty if there is none."""
        return "".join(self.given.get(name, ()))


def perform(operation: Operation, call: Call) -> None:
    """Perform an operation, after a confirmation if it needs one, and print its result."""
    if (question := question_of(operation)) is not None:
        ask(call, *question(operation, call))
    if _is_list(operation):
        write_list(operation, call)
        return
    if operation.single and not operation.changes:
        each_service(call.where, partial(_write_facts, operation, call))
        return

    async def work(link: Link) -> None:
        page = await link.perform(operation, call.given)
        output.done(operation, page, for_programs=call.as_json)

    run(call.where, work)


def _write_facts(operation: Operation, call: Call, where: Where, service: str) -> None:
    async def work(link: Link) -> None:
        page = await link.perform(operation, call.given)
        _head(call, service)
        output.facts(operation, page, for_programs=call.as_json, service=service)

    run(where, work)


def _head(call: Call, service: str) -> None:
    """Write above what a person reads which of several services it is of."""
    if service and not call.as_json:
        click.echo(plain(f"{service}:"))


def ask(call: Call, sentence: str, counted: Callable[[], str]) -> None:
    """Ask for confirmation, on a terminal with the numbers that the service has; without a terminal --yes is required."""
    if not call.yes:
        confirm(counted() if sys.stdin.isatty() else sentence, yes=False)


def _contents(call: Call) -> str:
    """Return how many items a node has, in a sentence; empty if the service does not say."""
    node = call.node
    after = node[:-1] if node[:-1].strip() else None
    found = _nodes(call.where, words(match=node, after=after), exactly=node)
    return f"{call.node} has {count(found[call.node], 'item')}. " if call.node in found else ""


def _nodes(where: Where, given: dict[str, tuple[str, ...]], *, exactly: str = "") -> dict[str, int]:
    """Return the nodes that are listed with these parameters, each with the number of its items; with `exactly`, look no further than it."""
    found: dict[str, int] = {}

    async def work(link: Link) -> None:
        async for page in link.pages(QUEUES, given):
            found.update({str(row["node"]): int(str(row["items"])) for row in page.rows})
            if exactly in found:
                return

    run(where, work)
    return found


def _is_list(operation: Operation) -> bool:
    return not operation.changes and not operation.single


def command_of(
    operation: Operation,
    do: Callable[..., None] = perform,
    *options: Decorator,
    needed: bool = True,
    left_out: str = "",
) -> click.Command:
    """Return the command of an operation. `do` gets the operation, the call, and the values of further options.

    If its options are not `needed`, each may be left out; of its arguments, the parameter `left_out`.
    """

    def called(
        where: Where,
        *,
        as_json: bool,
        most: int | None = None,
        yes: bool = False,
        **values: Any,  # noqa: ANN401  # as click has read them
    ) -> None:
        known = [one for one in operation.parameters if one.name in values]
        for one in known:  # a service that is older than a choice needs no word of it
            if not operation.changes and one.choices and values[one.name] == one.usual:
                values[one.name] = None
        given = words(**{one.name: _value(one, values.pop(one.name)) for one in known})
        do(operation, Call(where, given, as_json, most, yes), **values)

    own = [one for one in operation.parameters if one.name not in OF_PAGES]
    own.sort(key=_is_needed, reverse=True)
    decorators = [
        *(_taking(one, operation, needed=needed, left_out=one.name == left_out) for one in own),
        *options,
    ]
    decorators += [sure] if question_of(operation) is not None else []
    decorators += [paging] if operation.place and _is_list(operation) else []
    command: Callable[..., None] = answering(called)
    for decorator in reversed(decorators):
        command = decorator(command)
    about = operation.manual or f"{operation.label}.\n\n{operation.about}"
    return click.command(_path(operation)[-1], help=about)(command)


def _path(operation: Operation) -> list[str]:
    """Return the words of a command: its name, or those of its group and of itself."""
    return (operation.command or operation.name).split()


def _is_needed(parameter: Parameter) -> bool:
    return parameter.required and not parameter.usual


def _taking(
    parameter: Parameter, operation: Operation, *, needed: bool, left_out: bool
) -> Decorator:
    """Return what gives a command the parameter: as an argument if it is necessary or a list, otherwise as an option."""
    several, needs = parameter.kind is ParameterKind.LINES, _is_needed(parameter)
    if not parameter.option and (needs or several or left_out):
        metavar = parameter.metavar or parameter.name.upper()
        if several:
            metavar = f"{metavar}..." if needs else f"[{metavar}]..."
        count = -1 if several else 1
        metavar = f"[{metavar}]" if left_out else metavar
        return click.argument(
            parameter.name,
            type=_type(parameter),
            nargs=count,
            required=needs and not left_out,
            metavar=metavar,
        )
    more: dict[str, Any] = {}  # what click takes as given, whatever its value is
    if parameter.kind is ParameterKind.FLAG:
        more["is_flag"] = True
    elif parameter.kind is ParameterKind.CHOICE and not operation.changes:
        # a list displays what it begins with; a change leaves to the service what is not given
        more |= {"default": parameter.usual, "show_default": True}
    return click.option(
        *(parameter.option or f"--{parameter.name}", parameter.name),
        type=_type(parameter),
        multiple=several,
        required=needs and needed,
        metavar=parameter.metavar or None,
        help=parameter.help or f"{parameter.label}.",
        **more,
    )


def _type(parameter: Parameter) -> click.ParamType[Any] | type[int] | None:
    match parameter.kind:
        case ParameterKind.NODE if not parameter.is_new:
            return NODE
        case ParameterKind.TEXT if parameter.option == "--node":  # the API takes any text there
            return NODE
        case ParameterKind.CHOICE:
            return click.Choice([value for value, _ in parameter.choices])
        case ParameterKind.COUNT:
            return int
        case _:
            return int if parameter.whole else None


def _value(parameter: Parameter, value: Any) -> Any:  # noqa: ANN401  # as click has read it
    """Return the value for the operation. A payload of - is read from standard input; the option of what is usual means no."""
    if parameter.kind is ParameterKind.PAYLOAD and value == "-":
        return sys.stdin.read()
    means_no = parameter.kind is ParameterKind.FLAG and parameter.usual == "1"
    return not value if means_no else value


# Long lists, page by page.

FOR_PEOPLE: Final = 100
"""Rows that people get without `--max`."""


def paging(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of long lists."""
    most = click.option(
        *("--max", "most"),
        type=click.IntRange(1),
        help=f"Maximum rows (default {FOR_PEOPLE}; all with --json).",
    )
    after = click.option("--after", help="Continue after this row, as printed below a list.")
    return most(after(command))


def write_list(operation: Operation, call: Call) -> None:
    """Write a list page by page, and how to continue if there are more rows; a sentence with totals comes first.

    Of several services, the lists follow each other.
    """
    if call.given.get("after") and len(each_of(call.where)) > 1:
        stop(ASKED_WRONGLY, "--after continues the list of one service: give --service once")
    each_service(call.where, partial(_write_list, operation, call))


def _write_list(operation: Operation, call: Call, where: Where, service: str) -> None:
    for_programs = call.as_json
    limit = call.most if for_programs or call.most is not None else FOR_PEOPLE

    async def work(link: Link) -> None:
        left, any_rows = limit, False
        _head(call, service)
        async for page in link.pages(operation, call.given, limit):
            if operation.sums and not any_rows and page.rows and not for_programs:
                click.echo(plain(page.note))
            any_rows = any_rows or bool(page.rows)
            output.rows(operation, page, for_programs=for_programs, service=service)
            left = None if left is None else left - len(page.rows)
        if for_programs:
            return
        if not any_rows:
            click.echo(page.note)
        elif page.more:
            click.echo(f"There are more: continue with --after {page.through}", err=True)

    run(where, work)


# Questions before something is taken away: with the numbers of what is named, and on a terminal with those that the service has.


def question_of(operation: Operation) -> Callable[[Operation, Call], Asked] | None:
    """Return what a command asks before it, None for nothing."""
    return QUESTIONS.get(operation.name, _sized if operation.sure else None)


def _sized(operation: Operation, call: Call) -> Asked:
    sentence = operation.confirmation(call.node)
    return sentence, lambda: f"{_contents(call)}{sentence}"


def _stated(sentence: str) -> Asked:
    """Return a question that has its numbers from what is named."""
    return sentence, lambda: sentence


def _named_items(call: Call) -> str:
    items = tuple(dict.fromkeys(call.given.get("item", ())))
    return f"{count(len(items), 'named item')} of {call.node}"


def _to_cancel(_operation: Operation, call: Call) -> Asked:
    what = f"{_named_items(call)} will be removed, including those that workers hold."
    return _stated(f"{what}{CANNOT_BE_UNDONE}")


def _to_release(_operation: Operation, call: Call) -> Asked:
    return _stated(f"{_named_items(call)} will be unlocked. {OTHERS_GET_THEM}")


def _schedule(_operation: Operation, call: Call) -> Asked:
    name = call.one("schedule")
    return _stated(f"1 schedule will be removed: {name}.{CANNOT_BE_UNDONE}")


def _registration(_operation: Operation, call: Call) -> Asked:
    return _stated(f"1 registration of {call.node} will end: {call.one('registration')}.")


def _worker(_operation: Operation, call: Call) -> Asked:
    jid, keeps = call.one("worker"), call.one("release") == "0"
    sentence = f"The subscription of {jid} to {call.node} will end."
    sentence += "" if keeps else " Other workers get what it holds."
    given = words(node=call.node, match=jid)
    return sentence, lambda: f"{_held(call, WORKERS, given, ('jid', jid), 'in_flight')}{sentence}"


def _connection(_operation: Operation, call: Call) -> Asked:
    address = call.one("connection")
    sentence = f"The connection {address} will end. Other workers get what it holds."
    given = words(match=address)
    return (
        sentence,
        lambda: f"{_held(call, CONNECTIONS, given, ('address', address), 'holds')}{sentence}",
    )


def _messages(_operation: Operation, call: Call) -> Asked:
    account = call.one("account")
    end = f"of {account} will be dropped.{CANNOT_BE_UNDONE}"

    def counted() -> str:
        given = words(match=account)
        row = _row(call, KEPT, given, ("account", account))
        return f"{count(int(str(row['messages'])) if row else 0, 'message')} {end}"

    return f"All messages that are held {end}", counted


def _held(
    call: Call,
    operation: Operation,
    given: dict[str, tuple[str, ...]],
    which: tuple[str, str],
    column: str,
) -> str:
    """Return how many items a worker holds, in a sentence; empty if the service does not know it."""
    row = _row(call, operation, given, which)
    return f"{which[1]} holds {count(int(str(row[column])), 'item')}. " if row else ""


def _row(
    call: Call, operation: Operation, given: dict[str, tuple[str, ...]], which: tuple[str, str]
) -> Mapping[str, Value] | None:
    """Return the row with this value in a column, None if there is none."""
    found: list[Mapping[str, Value]] = []

    async def work(link: Link) -> None:
        async for page in link.pages(operation, given):
            found.extend(row for row in page.rows if row[which[0]] == which[1])
            if found:
                return

    run(call.where, work)
    return found[0] if found else None


# By hand: dead items may be too many for one request, and which ones are meant decides about the confirmation.


def _redrive(operation: Operation, call: Call) -> None:
    if not call.given.get("item"):
        sentence = f"All dead items of {call.node}{_of(call)} will be requeued."
        ask(call, sentence, lambda: f"{_all_dead(call)} will be requeued.")

    async def work(link: Link) -> None:
        count = (await link.to_the_end(operation, call.given))["count"]
        if call.as_json:
            note = f"{count} dead items of {call.node} requeued."
            output.write_json({"done": operation.name, "count": count, "note": note})
        else:
            click.echo(f"{count} dead item{'' if count == 1 else 's'} of {call.node} requeued.")

    run(call.where, work)


def _asked_about_dead(_operation: Operation, call: Call) -> Asked:
    items = call.given.get("item", ())
    named = f"{count(len(items), 'named dead item')} of {call.node}"
    sentence = f"{named if items else f'All dead items of {call.node}{_of(call)}'} will be deleted."
    return sentence, lambda: sentence if items else f"{_all_dead(call)} will be deleted."


def _of(call: Call) -> str:
    reason = "".join(call.given.get("reason", ()))
    return f" that died of {reason!r}" if reason else ""


def _all_dead(call: Call) -> str:
    """Return how many dead items there are, with the reason if one is given."""
    reason = "".join(call.given.get("reason", ()))
    found = 0

    async def work(link: Link) -> None:
        nonlocal found
        given = words(node=call.node, reason=reason or None)
        async for page in link.pages(DEATHS, given):
            found += sum(int(str(row["count"])) for row in page.rows)

    run(call.where, work)
    more = " or more" if found >= DEATHS_LOOKED_AT else ""
    return f"{found}{more} {noun(found, 'dead item')} of {call.node}{_of(call)}"


def _take_out(operation: Operation, call: Call) -> None:
    """Remove any number of items, after a confirmation; print how many were removed, and which were not found."""
    ask(call, *QUESTIONS[operation.name](operation, call))
    missing: list[str] = []

    async def work(link: Link) -> None:
        found = await link.to_the_end(operation, call.given)
        missing.extend(found["missing"])
        reply = Cancelled(
            *(NodeName(call.node), found["count"], found["in_flight"] or 0),
            tuple(map(ItemId, missing)),
        )
        answer = operation.answer(reply, Given())
        if call.as_json:
            sums = {"count": found["count"], "in_flight": found["in_flight"] or 0}
            result = {"done": operation.name, **sums, "missing": missing, "note": answer.note}
            output.write_json(result)
        else:
            click.echo(plain(answer.note))

    run(call.where, work)
    if missing:
        raise SystemExit(FAILED)


# By hand: one command for two operations.


def _dead(
    _operation: Operation, call: Call, *, reasons: bool, sort: str | None, match: str | None
) -> None:
    wanted = (REASONS if reasons else DEAD) if call.node else DEATHS
    orders = [value for value, _ in wanted.parameter("sort").choices]
    if sort and sort not in orders:
        of = "the reasons" if wanted is REASONS else "the dead items"
        of += f" of {call.node}" if call.node else " of all nodes"
        stop(ASKED_WRONGLY, f"--sort: {of} are sorted by {', '.join(orders)}")
    if wanted is REASONS:
        call.given.pop("reason", None)
    call.given.update(words(sort=sort, match=match))
    write_list(wanted, call)


def _members(operation: Operation, call: Call, *, changes: tuple[str, ...]) -> None:
    if not changes:
        write_list(operation, call)
        return
    wanted = [change.rpartition("=") for change in changes]
    for jid, _, role in wanted:
        if not jid or role not in dict(ROLES):
            stop(ASKED_WRONGLY, f"--set takes JID=AFFILIATION, one of {', '.join(dict(ROLES))}")

    async def work(link: Link) -> None:
        for jid, _, role in wanted:
            given = words(node=call.node, jid=jid, affiliation=role)
            page = await link.perform(AFFILIATE, given)
            output.done(AFFILIATE, page, for_programs=call.as_json)

    run(call.where, work)


# By hand: many nodes at once, of which the question has the numbers.


def _delete(operation: Operation, call: Call, *, match: str | None, state: str | None) -> None:
    several = match or state
    if bool(call.node) is bool(several):
        stop(
            ASKED_WRONGLY,
            "name a node, or --match a part of the names of several, or their --state",
        )
    if not several:
        perform(operation, call)
        return
    found = _nodes(call.where, words(match=match, state=state))
    if not found:
        which = [f"has {match!r} in its name"] if match else []
        which += [f"is {state}"] if state else []
        stop(FAILED, f"No node that you manage {' and '.join(which)}.")
    names = ", ".join([*sorted(found)[:NAMED], *(["..."] if len(found) > NAMED else [])])
    sizes = f"{count(len(found), 'node')} with {count(sum(found.values()), 'item')}"
    confirm(f"{sizes} will be deleted: {names}.{CANNOT_BE_UNDONE}", yes=call.yes)

    async def work(link: Link) -> None:
        for node in sorted(found):
            page = await link.perform(operation, words(node=node))
            output.done(operation, page, for_programs=call.as_json)

    run(call.where, work)


# By hand: the kind of the node is one of its settings, and has an option.


def _create(operation: Operation, call: Call, *, plain: bool) -> None:
    kind = f"queueing={0 if plain else 1}"
    call.given["settings"] = (kind, *call.given.get("settings", ()))
    perform(operation, call)


# By hand: for programs the settings are one object, with values of their types.


def _settings(operation: Operation, call: Call) -> None:
    async def work(link: Link) -> None:
        page = await link.perform(operation, call.given)
        if call.as_json:
            output.write_json({str(row["setting"]): _typed(row) for row in page.rows})
        else:
            output.rows(operation, page, for_programs=False)

    run(call.where, work)


def _typed(row: Mapping[str, Value]) -> object:
    """Return the value of a setting by its type: a number, a truth value, null for none, otherwise text.

    Settings of a later version of the service are text.
    """
    name, text = str(row["setting"]), str(row["value"] or "")
    known = OF_NODES.get(name)
    if not text:
        return None
    return text if known is None else known.read(text)


# By hand: what is left out stays, so the command asks for what stands.


def _change(operation: Operation, call: Call) -> None:
    async def work(link: Link) -> None:
        page = await link.perform(operation, await changed_schedule(link, call.given))
        output.done(operation, page, for_programs=call.as_json)

    run(call.where, work)


# All commands.

QUESTIONS: Final[Mapping[str, Callable[[Operation, Call], Asked]]] = {
    "cancel": _to_cancel,
    "delete": _sized,
    "discard": _asked_about_dead,
    "drop-kept-messages": _messages,
    "end-connection": _connection,
    "end-subscription": _worker,
    "purge": _sized,
    "registration-end": _registration,
    "release": _to_release,
    "schedule-remove": _schedule,
}
"""What is asked before each operation that takes something away."""

BOTH: Final = frozenset({"sort", "match"})
"""Parameters that the operations of one command have differently."""


DELETED_BY: Final = ("running", "paused", "closed", "plain")
"""States of nodes that are deleted; not those that are empty, because one may have items again when it is deleted."""


def _orders(*operations: Operation) -> list[str]:
    """Return the orders that these lists have, each once."""
    found = [value for one in operations for value, _ in one.parameter("sort").choices]
    return list(dict.fromkeys(found))


BY_HAND: Final[Mapping[str, click.Command]] = {
    "cancel": command_of(CANCEL, _take_out),
    "create": command_of(
        *(CREATE, _create),
        click.option(
            "--plain",
            is_flag=True,
            help="Create a plain node, which notifies its subscribers, instead of a queue.",
        ),
    ),
    "dead": command_of(
        replace(DEAD, parameters=tuple(one for one in DEAD.parameters if one.name not in BOTH)),
        *(_dead, click.option("--reasons", is_flag=True, help="Count them by reason instead.")),
        click.option(
            "--sort",
            type=click.Choice(_orders(DEATHS, DEAD, REASONS)),
            metavar="COLUMN",
            help=f"Sort order, of all nodes: {', '.join(_orders(DEATHS))}; of one: {', '.join(_orders(DEAD))};"
            f" with --reasons: {', '.join(_orders(REASONS))}.",
        ),
        click.option(
            "--match",
            help="Of all nodes: only those with this text in their names; of one: only items with it in their ids, publishers or"
            " holders; with --reasons: only reasons with it.",
        ),
        left_out="node",
    ),
    "delete": command_of(
        *(DELETE, _delete),
        click.option("--match", help="Delete all nodes with this text in their names."),
        click.option(
            "--state",
            type=click.Choice(DELETED_BY),
            metavar="STATE",
            help=f"Delete all nodes in this state: {', '.join(DELETED_BY)}; with --match, those of them.",
        ),
        left_out="node",
    ),
    "discard": command_of(DISCARD, _take_out),
    "members": command_of(
        *(MEMBERS, _members),
        click.option(
            *("--set", "changes"),
            multiple=True,
            metavar="JID=AFFILIATION",
            help=f"Set the affiliation of an account: {', '.join(dict(ROLES))}; repeatable.",
        ),
    ),
    "redrive": command_of(REDRIVE, _redrive, sure),
    "schedule-change": command_of(CHANGE, _change, needed=False),
    "signal": command_of(SIGNAL, left_out="data"),
    "settings": command_of(SETTINGS, _settings),
}
"""Commands by the names of their operations."""

ELSEWHERE: Final = frozenset({"affiliate", "deaths", "definitions", "events", "reasons"})
"""Operations that `node members`, `node export`, `events` and `dead` perform."""

GROUPS: Final = {
    "messages": "Look after the assured messages that are held.",
    "node": "Manage nodes, their settings and affiliations.",
    "registration": "Look after the URLs that items are pushed to.",
    "schedule": "Publish items at set times; for administrators.",
}


BESIDE: Final[Mapping[str, tuple[click.Command, ...]]] = {
    "node": (definitions.export, definitions.apply),
}
"""Commands of groups that perform many operations."""


def _commands() -> dict[str, click.Command]:
    groups = {name: Suggesting(name, help=about) for name, about in GROUPS.items()}
    found: dict[str, click.Command] = {**groups}
    for group, commands in BESIDE.items():
        for command in commands:
            groups[group].add_command(command)
    for name in OPERATIONS.keys() - ELSEWHERE:
        operation = OPERATIONS[name]
        command = BY_HAND.get(name) or command_of(operation)
        match _path(operation):
            case [group, _]:
                groups[group].add_command(command)
            case _:
                found[name] = command
    return found


COMMANDS: Final[Mapping[str, click.Command]] = _commands()
