"""The commands that write the definitions of nodes to a file, and bring the nodes of a service to what a file defines."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from pubqueue.admin import definitions
from pubqueue.admin.definitions import Plan, field_of
from pubqueue.admin.session import OperationRefused
from pubqueue.cli import output
from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, plain, stop
from pubqueue.cli.session import answering, confirm, run, sure
from pubqueue.model.entities import Affiliation
from pubqueue.operations.items import NAMED
from pubqueue.operations.model import CANNOT_BE_UNDONE, count, noun
from pubqueue_xeps.errors import ConfigurationError, PubqueueError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pubqueue.admin.connecting import Where
    from pubqueue.admin.session import Link
    from pubqueue.rules.definitions import Steps

MATCH: Final = "Only nodes with this text in their names; upper and lower case are the same."


def _file(*, needed: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.argument(
        *("file",),
        required=needed,
        metavar="FILE" if needed else "[FILE]",
        type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    )


# Writing.


@click.command("export")
@_file(needed=False)
@click.option("--match", help=MATCH)
@answering
def export(where: Where, *, file: Path | None, match: str | None, as_json: bool) -> None:
    """Write the definitions of your nodes to a file.

    Without a file, they go to standard output. Your nodes are those that you manage. A definition is the kind of a node, its options that
    differ from the defaults, and its affiliations; whether a queue is paused is none of it, nor are items, subscriptions and schedules. The
    file has tables [[node]] of TOML, which the configuration of a service takes as they are, or with --json one object per line.
    """
    if file is None or str(file) == "-":
        _export(where, match, lambda text: click.echo(text, nl=False), as_json=as_json)
        return
    written = 0
    try:
        with _replacing(file) as replacing:
            written = _export(where, match, replacing.write, as_json=as_json)
    except OSError as problem:
        stop(FAILED, f"{file} cannot be written: {problem.strerror or problem}")
    click.echo(f"{count(written, 'node')} written to {file}.", err=True)


@contextmanager
def _replacing(file: Path) -> Iterator[TextIO]:
    """Open a file that takes the place of another once it is whole: if the export fails, the former file stays."""
    if file.exists() and not file.is_file():  # a pipe, or a device
        with file.open("w", encoding="utf-8") as there:
            yield there
        return
    new = file.with_name(f".{file.name}.new")
    try:
        with new.open("w", encoding="utf-8") as replacing:
            yield replacing
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def _export(
    where: Where, match: str | None, write: Callable[[str], object], *, as_json: bool
) -> int:
    """Write the definitions one by one; return how many there are."""
    written = 0

    async def work(link: Link) -> None:
        nonlocal written
        async for table in definitions.exported(link, match):
            if as_json:
                write(f"{definitions.as_json(table)}\n")
            else:
                write(f"{'' if written else definitions.HEAD}\n{definitions.as_toml(table)}")
            written += 1

    run(where, work)
    if not written and not as_json:
        write(definitions.HEAD)
    return written


# Applying.


@click.command("apply")
@_file(needed=True)
@click.option("--match", help=MATCH)
@click.option(
    "--prune",
    is_flag=True,
    help="Delete the nodes that the file does not define, with all their items; with --match, only those with the text in their names.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan only, and change nothing.")
@sure
@answering
def apply(
    where: Where,
    *,
    file: Path,
    match: str | None,
    prune: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Bring nodes to the definitions in a file.

    A plan is shown first. Nodes that do not exist are created, and you own them if the file names no owner. Of the others, an option that
    the file leaves out gets its default, and an account that it leaves out loses its affiliation, except for owners where the file names
    none. Other nodes stay, unless --prune is given. Nodes that are as they are defined are not touched. If it fails, what is done stays,
    and the same command completes it.
    """
    try:
        wanted = definitions.read(_text(file), str(file))
    except ConfigurationError as problem:
        stop(ASKED_WRONGLY, problem)
    plan = Plan(())

    async def look(link: Link) -> None:
        nonlocal plan
        plan = await definitions.planned(link, wanted, match=match, prune=prune)

    run(where, look)
    if as_json:
        _write_plan(plan, only_warnings=not dry_run)
    else:
        for line in _lines(plan, str(file)):
            click.echo(plain(line))
    if plan and not dry_run:
        confirm(_question(plan), yes=yes)
        _apply(where, plan, as_json=as_json)


def _text(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        stop(ASKED_WRONGLY, f"{file}: not UTF-8")
    except OSError as problem:
        stop(ASKED_WRONGLY, f"{file} cannot be read: {problem.strerror or problem}")


def _apply(where: Where, plan: Plan, *, as_json: bool) -> None:
    """Do what is planned, and print each node when it is done; a failure is printed with the number of nodes that are done."""
    whole = len(plan.nodes)
    steps = {str(definition.node): one for definition, one in plan.steps}
    done: list[str] = []
    failed: PubqueueError | None = None

    async def work(link: Link) -> None:
        nonlocal failed
        try:
            async for node in definitions.applied(link, plan):
                done.append(node)
                one = steps.get(node) if node not in plan.deleted else None
                if as_json:
                    output.write_json(_as_json(node, one, plan) | {"done": True})
                else:
                    click.echo(plain(f"{node}: {_did(one)}"))
        except PubqueueError as problem:
            failed = problem

    run(where, work)
    if failed is not None:
        wrongly = isinstance(failed, OperationRefused) and failed.wrongly
        stop(
            ASKED_WRONGLY if wrongly else FAILED,
            f"{len(done)} of {count(whole, 'node')} {'is' if whole == 1 else 'are'} done; run it again to complete the others. {failed}",
        )
    if not as_json:
        click.echo(f"{count(whole, 'node')} done.")


def _did(steps: Steps | None) -> str:
    if steps is None:
        return "deleted"
    return "created" if steps.creates else "changed"


# The plan.


def _lines(plan: Plan, file: str) -> Iterator[str]:
    """Yield the plan for people: for each node what is done, what is wrong, and how many there are."""
    for definition, steps in plan.steps:
        kind = "queue" if steps.queueing else "plain node"
        yield f"{'create' if steps.creates else 'change'} {kind} {definition.node}"
        yield from (f"    {line}" for line in _of(steps))
    for node, items in plan.deleted.items():
        yield f"delete {node} with {count(items, 'item')}"
    for node, place in plan.unplaced:
        yield f"warning: {missing(node, place)}"
    same = f"{count(plan.same, 'node')} {noun(plan.same, 'is', 'are')} as {file} has {noun(plan.same, 'it', 'them')}"
    if not plan:
        yield f"Nothing to change: {same}."
        return
    yield f"{_counts(plan)}; {same}."


def missing(node: str, place: str) -> str:
    """Return the warning about a dead-letter node that does not exist."""
    return f"{node}: its dead-letter node {place} does not exist; dead items stay in {node}"


def _of(steps: Steps) -> Iterator[str]:
    for setting in steps.settings:
        name, after = field_of(setting.name), _shown(setting.after)
        yield f"{name}: {after}" if steps.creates else f"{name}: {_shown(setting.before)} → {after}"
    for one in steps.affiliations:
        if one.before is Affiliation.NONE:
            yield f"grant {one.after} to {one.jid}"
        elif one.after is Affiliation.NONE:
            yield f"revoke {one.before} from {one.jid}"
        else:
            yield f"{one.jid}: {one.before} → {one.after}"


def _shown(value: str) -> str:
    return value.replace("\n", "\\n") or "(empty)"


def _counts(plan: Plan) -> str:
    parts = [
        f"{number} to {what}"
        for number, what in (
            (plan.created, "create"),
            (plan.changed, "change"),
            (len(plan.deleted), "delete"),
        )
        if number
    ]
    return ", ".join(parts)


def _question(plan: Plan) -> str:
    """Return the question, with how many nodes of each kind; of those that are deleted also their items and names."""
    parts = [
        f"{count(number, 'node')} will be {what}"
        for number, what in ((plan.created, "created"), (plan.changed, "changed"))
        if number
    ]
    if plan.deleted:
        names = [*list(plan.deleted)[:NAMED], *(["..."] if len(plan.deleted) > NAMED else [])]
        sizes = (
            f"{count(len(plan.deleted), 'node')} with {count(sum(plan.deleted.values()), 'item')}"
        )
        parts.append(f"{sizes} will be deleted: {', '.join(names)}")
    return plain(f"{', '.join(parts)}.{CANNOT_BE_UNDONE if plan.deleted else ''}")


def _write_plan(plan: Plan, *, only_warnings: bool) -> None:
    """Write the plan for programs, an object for each node; what is done is written when it is."""
    if not only_warnings:
        for definition, steps in plan.steps:
            output.write_json(_as_json(definition.node, steps, plan) | {"done": False})
        for node in plan.deleted:
            output.write_json(_as_json(node, None, plan) | {"done": False})
    for node, place in plan.unplaced:
        warning = {"warning": missing(node, place), "dead_letter_node": place}
        output.write_json({"node": node, **warning})


def _as_json(node: str, steps: Steps | None, plan: Plan) -> dict[str, Any]:
    if steps is None:
        return {"node": node, "action": "delete", "items": plan.deleted[node]}
    return {
        "node": node,
        "action": "create" if steps.creates else "change",
        "queueing": steps.queueing,
        "options": {field_of(one.name): [one.before, one.after] for one in steps.settings},
        "affiliations": {one.jid: [one.before, one.after] for one in steps.affiliations},
    }
