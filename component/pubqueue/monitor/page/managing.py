"""The contents of the pages from which nodes, schedules and users are managed: lists of operations, and the form of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import web
from msgspec import Struct

from pubqueue.faces.xmpp.xml.fields import FIELDS, MULTIPLE, VALUES
from pubqueue.faces.xmpp.xml.payload import from_text
from pubqueue.faces.xmpp.xml.stanza import jid_of
from pubqueue.model.decision import Refused
from pubqueue.model.entities import Affiliation
from pubqueue.operations.model import Given, Readers, UnfitError, fit
from pubqueue.operations.nodes import MEMBERS
from pubqueue.operations.schedules import SCHEDULES
from pubqueue.operations.table import OPERATIONS
from pubqueue.rules.nodeconfig import OF_PLAIN_NODES, OF_QUEUES, Settings, configure, written

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.accounts.credentials import User
    from pubqueue.faces.xmpp.xml.fields import Field
    from pubqueue.model.entities import Millis, Node, NodeName, Principal
    from pubqueue.monitor.page.views import Ask
    from pubqueue.operations.model import Operation, Value

READERS: Final = Readers(jid_of, from_text)

KIND: Final = "queueing"
"""The setting that makes a node a queue: it is not changed here."""

ROLES: Final = tuple(role.value for role in Affiliation)


# Lists, as their operations answer them.


class Wanted(Struct, frozen=True):
    """What is searched for in a list: a text, a state, and the place after which it goes on."""

    text: str
    state: str
    after: str


class Listed(Struct, frozen=True):
    """A page of a list: rows by the names of their columns, and where the next page begins."""

    rows: tuple[dict[str, Value], ...]
    note: str
    wanted: Wanted
    through: str


async def members(ask: Ask, by: Principal, node: NodeName, wanted: Wanted) -> Listed:
    """Return a page of the affiliations of a node, of accounts with the text in their addresses."""
    words = Given(node=(node,), affiliation=(wanted.state,))
    return await _listed(ask, by, MEMBERS, wanted, words)


async def schedules(ask: Ask, by: Principal, wanted: Wanted) -> Listed:
    """Return a page of schedules, of those with the text in their names or nodes, in a state."""
    return await _listed(ask, by, SCHEDULES, wanted, Given(state=(wanted.state,)))


async def _listed(
    ask: Ask, by: Principal, operation: Operation, wanted: Wanted, words: Given
) -> Listed:
    given = fitted(operation, Given(words | {"match": (wanted.text,), "after": (wanted.after,)}))
    answer = operation.answer(await ask(operation.ask(by, given)), given)
    names = [column.name for column in operation.columns]
    rows = tuple(dict(zip(names, row, strict=True)) for row in answer.rows)
    return Listed(rows, answer.note, wanted, answer.through if answer.more else "")


def fitted(operation: Operation, given: Given) -> Given:
    """Return valid parameters of an operation; refuse others."""
    try:
        return fit(operation, given, READERS)
    except UnfitError as problem:
        raise web.HTTPBadRequest(reason=str(problem)[:200]) from None


def states_of(operation: str, parameter: str) -> tuple[str, ...]:
    """Return the states by which a list can be narrowed."""
    return tuple(value for value, _ in OPERATIONS[operation].parameter(parameter).choices)


# Settings: a form with a field for each, and the differences before anything is changed.


class Entry(Struct, frozen=True):
    """A setting in the form: its name, what it means, its value; and the values to choose from, each with its label."""

    name: str
    label: str
    value: str
    choices: tuple[tuple[str, str], ...] = ()
    lines: bool = False


class Difference(Struct, frozen=True):
    """A setting that is to be changed."""

    name: str
    label: str
    before: str
    after: str

    @property
    def line(self) -> str:
        """The setting as the operation takes it."""
        return f"{self.name}={self.after}"


YES_OR_NO: Final = (("1", "yes"), ("0", "no"))


def entries(node: Node, values: Mapping[str, str] | None = None) -> tuple[Entry, ...]:
    """Return the settings that a node of its kind has, with these values or with its own."""
    fixed = OF_QUEUES if node.config.queueing else OF_PLAIN_NODES
    now = written(node.config)
    shown = [
        field
        for field in FIELDS
        if field.setting not in fixed
        and field.setting != KIND
        and (node.config.queueing or not field.var.startswith("x-queueing#"))
    ]
    return tuple(_entry(field, (values or now).get(field.setting, "")) for field in shown)


def _entry(field: Field, value: str) -> Entry:
    choices = tuple((one, VALUES.get(one, one)) for one in field.options)
    if field.type == "boolean":
        choices = YES_OR_NO
    return Entry(field.setting, field.label, value, choices, field.type in MULTIPLE)


def differences(node: Node, form: Mapping[str, str]) -> tuple[Difference, ...] | Refused:
    """Return the settings of a form that differ from those of the node, or why one is refused."""
    there = {entry.name: entry for entry in entries(node)}
    found = tuple(
        Difference(name, one.label, one.value, form[name].replace("\r\n", "\n"))
        for name, one in there.items()
        if name in form and form[name].replace("\r\n", "\n").strip() != one.value.strip()
    )
    after = configure(node.config, Settings({one.name: one.after for one in found}))
    return after if isinstance(after, Refused) else found


# Users, as the configuration has them; nothing that could prove one is shown.


class Known(Struct, frozen=True):
    """A user: its roles, how it may log in and where, and when it last has since this process began."""

    name: str
    roles: tuple[str, ...]
    ways: tuple[str, ...]
    faces: tuple[str, ...] | None
    projects: tuple[str, ...] | None
    seen: tuple[Millis, str] | None


def users(accounts: Accounts) -> tuple[Known, ...]:
    """Return the users by their names."""
    found = sorted(accounts.users, key=lambda user: user.name)
    return tuple(_known(user, accounts) for user in found)


def _known(user: User, accounts: Accounts) -> Known:
    tokens = len(user.tokens)
    ways = (
        *(["password"] if user.password is not None else []),
        *([f"{tokens} token{'' if tokens == 1 else 's'}"] if tokens else []),
        *(["certificate"] if user.certificate is not None else []),
    )
    roles = tuple(sorted(role.value for role in user.roles))
    faces, projects = _sorted(user.faces), _sorted(user.projects)
    return Known(user.name, roles, ways, faces, projects, accounts.seen(user.name))


def _sorted(names: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(sorted(names))
