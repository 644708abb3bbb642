"""Definitions of nodes as text, and from one service to another: read from a service or a file, compared, and applied."""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from slixmpp.jid import JID, InvalidJID

from pubqueue.admin.session import OperationRefused
from pubqueue.model.decision import Refused
from pubqueue.model.entities import (
    MAX_ID_LENGTH,
    Affiliation,
    Jid,
    NodeConfig,
    NodeName,
    suggestion,
)
from pubqueue.operations.nodes import (
    AFFILIATE,
    CONFIGURE,
    CREATE,
    DEFINITIONS,
    DELETE,
    MEMBERS,
)
from pubqueue.rules import definitions as rules
from pubqueue.rules.definitions import KIND, STATES, Definition, Steps, defined
from pubqueue.rules.nodeconfig import SETTINGS as OF_NODES
from pubqueue.rules.nodeconfig import Settings, configure
from pubqueue_xeps.errors import ConfigurationError, PubqueueError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping

    from pubqueue.admin.session import Link


# As text: tables `[[node]]` with the words of the service's configuration, so that they can be pasted there; or a line of JSON each.

OF_QUEUES: Final = frozenset(
    {
        *("lock_timeout", "lock_longest", "unused_expire", "expired", "keep_done", "max_failures"),
        *("done_ttl", "done_max", "join_dead"),
        *("dead_letter_node", "dead_ttl", "dead_max", "source", "filter", "backoff_min"),
        *("backoff_max", "backoff_jitter", "dedup_window", "max_queue_requests", "group_limit"),
        *(
            "group_ahead",
            "fair",
            "weights",
            "rate",
            "qos",
            "unsubscribe_on_unavailable",
            "max_bytes",
        ),
        *("paused", "publish_paused", "event_log"),
    }
)
OF_THIS_SERVICE: Final = frozenset({"multi_subscribe", "labels"})
"""Settings by the beginning of the names that their fields have in forms; all others are those of XEP-0060."""

LEAF: Final = "pubsub#node_type"
"""A field with one value, that of every node here."""


def field_of(setting: str) -> str:
    """Return the name that a setting has in the configuration: that of its field in forms."""
    if setting == KIND:
        return "x-queueing#enabled"
    if setting in OF_QUEUES:
        return f"x-queueing#{setting}"
    return f"{'x-pubsub' if setting in OF_THIS_SERVICE else 'pubsub'}#{setting}"


_SETTING_OF: Final = {field_of(setting): setting for setting in OF_NODES}

ROLES: Final = {
    "owners": Affiliation.OWNER,
    "publishers": Affiliation.PUBLISHER,
    "publish_only": Affiliation.PUBLISH_ONLY,
    "members": Affiliation.MEMBER,
    "outcasts": Affiliation.OUTCAST,
}
"""The lists of accounts of a definition, with their affiliations."""


class NodeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A node as the configuration has it (`config.settings.NodeSettings`)."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID_LENGTH)]
    queueing: bool = False
    owners: tuple[str, ...] = ()
    publishers: tuple[str, ...] = ()
    publish_only: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    outcasts: tuple[str, ...] = ()
    options: dict[str, str | int | float | bool] = {}


def table_of(one: Definition) -> NodeTable:
    """Return a definition as a table; names are in alphabetical order, so that two exports of the same nodes are the same text."""
    people = {
        name: tuple(sorted(jid for jid, is_a in one.affiliations.items() if is_a is role))
        for name, role in ROLES.items()
    }
    options = {
        field_of(name): _typed(name, value) for name, value in one.settings.items() if name != KIND
    }
    return NodeTable(one.node, one.queueing, **people, options=dict(sorted(options.items())))


def _typed(setting: str, text: str) -> str | int | float | bool:
    """Return a value by its type; text where there is no number, such as `max`."""
    value = OF_NODES[setting].read(text)
    return value if isinstance(value, bool | int | float) else text


HEAD: Final = """\
# Nodes of a pubqueue service, as its configuration has them. `pubqueue node apply` brings the nodes of a service to these definitions.
"""


def as_toml(table: NodeTable) -> str:
    """Return a table of TOML."""
    lines = ["[[node]]", f"name = {_quoted(table.name)}"]
    if table.queueing:
        lines.append("queueing = true")
    lists = ((name, getattr(table, name)) for name in ROLES)
    lines += [f"{name} = [{', '.join(map(_quoted, jids))}]" for name, jids in lists if jids]
    if table.options:
        lines += ["", "[node.options]"]
        lines += [f"{_quoted(name)} = {_quoted(value)}" for name, value in table.options.items()]
    return "\n".join([*lines, ""])


def _quoted(value: str | float | bool) -> str:  # noqa: FBT001  # what TOML may hold
    """Return a value of TOML, whose strings have the escapes of JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def as_text(tables: Iterable[NodeTable]) -> str:
    """Return tables as the text of a file."""
    return "\n".join([HEAD, *map(as_toml, tables)])


def as_json(table: NodeTable) -> str:
    """Return a table as one line of JSON."""
    return json.dumps(msgspec.to_builtins(table), ensure_ascii=False)


# Back from text. Whatever is wrong is found before anything is done, and named with its file, its node and its field.


def read(text: str, where: str) -> list[Definition]:
    """Return the definitions in a text, TOML or lines of JSON; `where` is its name in errors.

    Raises:
        ConfigurationError: it has an error.

    """
    found = [_definition(table, where, at) for at, table in enumerate(_tables(text, where), 1)]
    name, times = next(iter(Counter(one.node for one in found).most_common(1)), ("", 0))
    if times > 1:
        raise _wrong(where, name, "it is defined twice")
    return found


def _tables(text: str, where: str) -> list[Any]:
    try:
        if text.lstrip().startswith("{"):
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ConfigurationError(f"{where}: not valid TOML: {problem}", argument="file") from None
    except ValueError as problem:
        raise ConfigurationError(
            f"{where}: not lines of JSON: {problem}", argument="file"
        ) from None
    if other := [name for name in found if name != "node"]:
        why = f"{other[0]}: only tables [[node]] are applied"
        raise ConfigurationError(f"{where}: {why}", argument="file")
    tables = found.get("node", [])
    if not isinstance(tables, list):
        raise ConfigurationError(f"{where}: node: write [[node]]", argument="file")
    return tables


def _definition(raw: Any, where: str, at: int) -> Definition:  # noqa: ANN401  # of a file
    name = raw.get("name") if isinstance(raw, dict) else None
    node = name if isinstance(name, str) and name else f"number {at}"
    try:
        table = msgspec.convert(raw, NodeTable)
    except msgspec.ValidationError as problem:
        raise _wrong(where, node, str(problem).replace("`$.", "`")) from None
    affiliations: dict[Jid, Affiliation] = {}
    for words, role in ROLES.items():
        for text in getattr(table, words):
            jid = _bare(text)
            if jid is None:
                why = f"{words}: {text!r} is not a bare JID, such as admin@example.org"
                raise _wrong(where, node, why)
            if affiliations.setdefault(jid, role) is not role:
                raise _wrong(where, node, f"{words}: {text!r} has another affiliation already")
    return Definition(NodeName(table.name), _settings(table, where), affiliations)


def _settings(table: NodeTable, where: str) -> dict[str, str]:
    """Return the settings of a table, as the service writes them, without those that have their defaults."""
    given: dict[str, str] = {KIND: "1" if table.queueing else "0"}
    for name, value in table.options.items():
        text = ("1" if value else "0") if isinstance(value, bool) else str(value)
        if name == LEAF and text == "leaf":
            continue
        if name not in _SETTING_OF:
            why = f"{name}: there is no such option{suggestion(name, _SETTING_OF)}"
            raise _wrong(where, table.name, why)
        given[_SETTING_OF[name]] = text
    config = configure(NodeConfig(), Settings(given))
    if isinstance(config, Refused):
        setting, reason = config.setting, config.reason
        why = field_of(setting) + reason.removeprefix(setting) if setting else reason
        raise _wrong(where, table.name, why)
    usual = rules.defaults(queueing=config.queueing)
    written = {name: OF_NODES[name].write(getattr(config, name)) for name in given}
    return {
        name: value
        for name, value in written.items()
        if name == KIND or name in STATES or value != usual[name]
    }


def _bare(text: str) -> Jid | None:
    try:
        jid = JID(text)
    except InvalidJID:
        return None
    return Jid(jid.bare) if jid.domain and "/" not in text else None


def _wrong(where: str, node: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{where}: node {node!r}: {why}", argument="file", source=where)


# From a service: a page of nodes with each request, so that no answer is long and nobody waits for it.


@dataclass(frozen=True, slots=True)
class Present:
    """A node as it is: what defines it, the settings that are its state, and how many items it has."""

    definition: Definition
    states: Mapping[str, str]
    items: int


_KEPT: Final = msgspec.json.Decoder(NodeTable)


async def exported(link: Link, match: str | None = None) -> AsyncIterator[NodeTable]:
    """Yield the definitions of the nodes that the account manages; `match` is a part of the names of those that are meant.

    Those that are fed by another node come last, because a service creates nodes in the order of its configuration. Both parts are in
    the order of the names. A node that is deleted meanwhile is left out. Of the nodes, only those that are fed are kept in memory, as text.

    Raises:
        OperationRefused: the service refuses.
        ServiceUnavailable: no answer can come.

    """
    fed: list[bytes] = []
    async for one in present_nodes(link, match):
        table = table_of(one.definition)
        if one.definition.settings.get("source"):
            fed.append(msgspec.json.encode(table))
        else:
            yield table
    for text in fed:
        yield _KEPT.decode(text)


async def present_nodes(link: Link, match: str | None = None) -> AsyncIterator[Present]:
    """Yield the nodes that the account manages, by name."""
    async for page in link.pages(DEFINITIONS, {"match": (match,)} if match else {}):
        for row in page.rows:
            if (known := await _present(link, row)) is not None:
                yield known


async def _present(link: Link, row: Mapping[str, Any]) -> Present | None:
    """Return the node of a row; its affiliations are asked for if they are too many for it. None if it has been deleted meanwhile."""
    node = NodeName(str(row["node"]))
    settings = dict(_parts(row["settings"], "="))
    if unknown := sorted(settings.keys() - OF_NODES.keys()):
        raise OperationRefused(
            f"{link.about.service} is of a later version: {node} has the option {unknown[0]}, which this one does not know.",
            *(DEFINITIONS.name,),
            node=node,
        )
    people = {Jid(jid): Affiliation(role) for role, jid in _parts(row["affiliations"], " ")}
    if not row["whole"]:
        try:
            async for page in link.pages(MEMBERS, {"node": (node,)}):
                for one in page.rows:
                    people[Jid(str(one["jid"]))] = Affiliation(str(one["affiliation"]))
        except OperationRefused as refused:
            if refused.condition == "item-not-found":
                return None
            raise
    states = {name: settings[name] for name in STATES & settings.keys()}
    return Present(defined(node, settings, people), states, int(row["items"]))


def _parts(texts: Iterable[str], between: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        first, _, second = text.partition(between)
        yield first, second


# To a service: first a plan, which changes nothing.


@dataclass(frozen=True, slots=True)
class Plan:
    """What has to be done so that the nodes of a service are as they are defined."""

    steps: tuple[tuple[Definition, Steps], ...]
    """The nodes that are created or changed, in the order in which it is done."""
    deleted: Mapping[str, int] = field(default_factory=dict)
    """Nodes to delete, because nothing defines them, each with the number of its items."""
    same: int = 0
    """How many nodes are as they are defined."""
    unplaced: tuple[tuple[str, str], ...] = ()
    """Queues whose dead-letter node neither exists nor is defined, each with its name."""

    def __bool__(self) -> bool:
        """Return whether anything has to be done."""
        return bool(self.steps or self.deleted)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that are created, changed or deleted, in the order in which it is done."""
        return (*(one.node for one, _ in self.steps), *self.deleted)

    @property
    def created(self) -> int:
        """How many nodes are created."""
        return sum(one.creates for _, one in self.steps)

    @property
    def changed(self) -> int:
        """How many nodes are changed."""
        return len(self.steps) - self.created


async def planned(
    link: Link, definitions: Iterable[Definition], *, match: str | None = None, prune: bool = False
) -> Plan:
    """Return what has to be done, and change nothing. With `match` only nodes with this in their names are looked at.

    With `prune` the other nodes that the account manages are to be deleted.

    Raises:
        ConfigurationError: a node that is to be deleted feeds one that is defined.
        OperationRefused: the service refuses.
        ServiceUnavailable: no answer can come.

    """
    wanted = [one for one in definitions if not match or match.lower() in one.node.lower()]
    ordered = {one.node: one for one in rules.ordered(wanted)}
    there: dict[str, int] = {}
    differing: dict[str, Steps] = {}
    async for known in present_nodes(link, match):  # each is compared at once, and not kept
        node = known.definition.node
        there[node] = known.items
        if node in ordered:
            account = link.about.account
            steps = rules.steps(ordered[node], known.definition, known.states, account)
            if steps:
                differing[node] = steps
    for node in ordered.keys() - there.keys():
        differing[node] = rules.steps(ordered[node], None, None, link.about.account)
    found = tuple((one, differing[node]) for node, one in ordered.items() if node in differing)
    deleted = {name: there[name] for name in sorted(there.keys() - ordered.keys()) if prune}
    for one in wanted:
        if (source := one.settings.get("source")) in deleted:
            why = f"{field_of('source')}: {source!r} is not defined, and would be deleted"
            raise ConfigurationError(f"node {one.node!r}: {why}", argument="prune")
    left = there.keys() - deleted.keys()
    unplaced = list(rules.without_dead_letter_node(wanted, left))
    lacking = {
        place
        for place in dict.fromkeys(place for _, place in unplaced)
        if place in deleted or not await _exists(link, place)
    }
    return Plan(
        *(found, deleted, len(ordered) - len(found)),
        tuple((node, place) for node, place in unplaced if place in lacking),
    )


async def _exists(link: Link, node: str) -> bool:
    try:
        await link.perform(DEFINITIONS, {"node": (node,)})
    except OperationRefused as refused:
        return refused.condition != "item-not-found"  # those of others exist, too
    return True


async def applied(link: Link, plan: Plan) -> AsyncIterator[str]:
    """Do what is planned, and yield the name of each node when it is done. What is done stays if another node fails.

    Up to eight nodes are done at the same time, each after those that its settings name. If one fails, those that are begun are done.

    Raises:
        OperationRefused: the service refuses a change; the error begins with the node.
        ServiceUnavailable: no answer can come; what was sent may have been done.

    """
    doing = [
        (one.node, frozenset(rules.named(one)), partial(_do, link, one, steps))
        for one, steps in plan.steps
    ]
    async for node in _side_by_side(doing):
        yield node
    deleting = [
        (NodeName(name), frozenset[NodeName](), partial(link.perform, DELETE, {"node": (name,)}))
        for name in plan.deleted
    ]
    async for node in _side_by_side(deleting):
        yield node


AT_ONCE: Final = 8
"""Nodes that are changed at the same time: a request takes mostly the time of the way there and back."""


async def _side_by_side(
    work: Iterable[tuple[NodeName, frozenset[NodeName], Callable[[], Awaitable[object]]]],
) -> AsyncIterator[NodeName]:
    """Do what is to be done at each node, some at the same time, each after the nodes that it comes after; yield them in order.

    If one fails, no other is begun, and those that are under way are waited for.
    """
    going_on: dict[NodeName, asyncio.Task[None]] = {}
    failed: PubqueueError | None = None
    try:
        for node, after, do in work:
            while failed is None and (len(going_on) == AT_ONCE or not after.isdisjoint(going_on)):
                first, failed = await _first_done(going_on)
                if failed is None:
                    yield first
            if failed is not None:
                break
            going_on[node] = asyncio.create_task(_done_at(node, do()), name="definition")
        while going_on:
            first, problem = await _first_done(going_on)
            if problem is None:
                yield first
            failed = failed or problem
    finally:
        await asyncio.gather(*going_on.values(), return_exceptions=True)
    if failed is not None:
        raise failed


async def _first_done(
    going_on: dict[NodeName, asyncio.Task[None]],
) -> tuple[NodeName, PubqueueError | None]:
    """Wait for the first, and return it with how it failed, if it has."""
    node = next(iter(going_on))
    problem: PubqueueError | None = None
    try:
        await going_on[node]
    except PubqueueError as raised:
        problem = raised
    del going_on[node]
    return node, problem


async def _done_at(node: str, doing: Awaitable[object]) -> None:
    try:
        await doing
    except OperationRefused as refused:
        raise _at(node, refused) from None


def _at(node: str, refused: OperationRefused) -> OperationRefused:
    return OperationRefused(
        f"node {node!r}: {refused}", refused.operation, node=node, condition=refused.condition or ""
    )


async def _do(link: Link, definition: Definition, steps: Steps) -> None:
    """Do the steps of one node. A new node has the account as its owner, so that what is left to do is seen afterwards."""
    node = definition.node
    if steps.creates:
        settings = tuple(f"{name}={value}" for name, value in definition.settings.items())
        await link.perform(CREATE, {"name": (node,), "settings": settings})
        (row,) = (await link.perform(DEFINITIONS, {"node": (node,)})).rows
        present = await _present(link, row)
        if present is None:
            raise OperationRefused("it was deleted meanwhile.", CREATE.name, node=node)
        account = link.about.account
        steps = rules.steps(definition, present.definition, present.states, account)
    if steps.settings:
        settings = tuple(f"{one.name}={one.after}" for one in steps.settings)
        await link.perform(CONFIGURE, {"node": (node,), "settings": settings})
    for one in steps.affiliations:
        words = {"node": (node,), "jid": (one.jid,), "affiliation": (one.after.value,)}
        await link.perform(AFFILIATE, words)
