"""Definitions of nodes: what one is made of, and what has to be done so that the nodes of a service are as they are defined."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # msgspec reads it
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.model.decision import Decision, Read, Refusal, refuse
from pubqueue.model.entities import Affiliation, Jid, NodeConfig, NodeName
from pubqueue.model.replies import DefinitionEntry, DefinitionPage
from pubqueue.rules.nodeconfig import SETTINGS, Settings, configure, written
from pubqueue.rules.read import NodeAccess, owns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# A definition is the whole of what a node is: its kind, its settings, and the affiliations of accounts. A setting that is not
# named has its default, and an account that is not named has no affiliation. There are two exceptions. A node whose definition
# names no owner keeps its owners, because a node needs one. Whether a queue is paused is its state, which an operator switches:
# it is defined only where it is named.

STATES: Final = frozenset({"paused", "publish_paused"})
"""Settings that are the state of a node, not its definition."""

KIND: Final = "queueing"
OPENNESS: Final = "access_model"


class Definition(Struct, frozen=True, gc=False):
    """A node: its settings that differ from the defaults of its kind, as text by their names, and its affiliations."""

    node: NodeName
    settings: Mapping[str, str] = {}
    affiliations: Mapping[Jid, Affiliation] = {}

    @property
    def queueing(self) -> bool:
        """Whether the node is a queue."""
        return self.settings.get(KIND) == "1"

    @property
    def owners(self) -> list[Jid]:
        """The owners that are named."""
        return [jid for jid, is_a in self.affiliations.items() if is_a is Affiliation.OWNER]


class Setting(Struct, frozen=True, gc=False):
    """A setting that changes; `before` is empty for a node that is created."""

    name: str
    before: str
    after: str


class Affiliating(Struct, frozen=True, gc=False):
    """An affiliation that changes."""

    jid: Jid
    before: Affiliation
    after: Affiliation


class Steps(Struct, frozen=True, gc=False):
    """What has to be done to one node, in this order: create it, change settings, change affiliations."""

    node: NodeName
    queueing: bool
    creates: bool = False
    settings: tuple[Setting, ...] = ()
    affiliations: tuple[Affiliating, ...] = ()

    def __bool__(self) -> bool:
        """Return whether anything has to be done."""
        return self.creates or bool(self.settings or self.affiliations)


def defaults(*, queueing: bool) -> dict[str, str]:
    """Return every setting of a new node of this kind, as text."""
    config = configure(NodeConfig(), Settings({KIND: "1" if queueing else "0"}))
    assert isinstance(config, NodeConfig)
    return written(config)


_DEFAULTS: Final = {kind: defaults(queueing=kind) for kind in (False, True)}


def defined(
    node: NodeName, settings: Mapping[str, str], affiliations: Mapping[Jid, Affiliation]
) -> Definition:
    """Return the definition of a node that has these settings, those that are not named by default, and affiliations."""
    usual = _DEFAULTS[settings[KIND] == "1"]
    named = {
        name: value
        for name, value in settings.items()
        if name == KIND or (name not in STATES and value.strip() != usual.get(name))
    }
    people = {jid: is_a for jid, is_a in affiliations.items() if is_a is not Affiliation.NONE}
    return Definition(node, named, people)


def steps(
    wanted: Definition,
    there: Definition | None,
    states: Mapping[str, str] | None = None,
    by: str = "",
) -> Steps:
    """Return what makes the node as it is defined. `there` is its present definition, `states` its present state.

    `by` is the account that does it, or its name before the @: an ownership of its own is given up last.
    """
    if there is None:
        made = [Setting(name, "", value) for name, value in wanted.settings.items() if name != KIND]
        people = _affiliating(wanted, Definition(wanted.node), by)
        return Steps(
            wanted.node, wanted.queueing, creates=True, settings=tuple(made), affiliations=people
        )
    before = _DEFAULTS[there.queueing] | dict(states or {}) | dict(there.settings)
    after = _DEFAULTS[wanted.queueing] | dict(wanted.settings)
    turns = wanted.queueing is not there.queueing
    changed = [
        Setting(name, before[name], after[name])
        for name in SETTINGS
        if (name not in STATES or name in wanted.settings)
        and (before[name].strip() != after[name].strip() or (turns and name == OPENNESS))
    ]
    people = _affiliating(wanted, there, by)
    return Steps(wanted.node, wanted.queueing, settings=tuple(changed), affiliations=people)


def _affiliating(wanted: Definition, there: Definition, by: str) -> tuple[Affiliating, ...]:
    """Return the affiliations that change: first those of new owners, so that the node always has one, and last those of former owners."""
    stays = bool(wanted.owners)
    becomes = dict(wanted.affiliations) | {
        jid: Affiliation.NONE
        for jid, is_a in there.affiliations.items()
        if jid not in wanted.affiliations and (stays or is_a is not Affiliation.OWNER)
    }
    found = [
        Affiliating(jid, there.affiliations.get(jid, Affiliation.NONE), is_a)
        for jid, is_a in becomes.items()
    ]
    mine = by.partition("@")[0]

    def turn(one: Affiliating) -> tuple[bool, bool, bool, str]:
        deposed = one.before is Affiliation.OWNER
        is_mine = one.jid.partition("@")[0] == mine
        return deposed, deposed and is_mine, one.after is not Affiliation.OWNER, one.jid

    return tuple(sorted((one for one in found if one.before is not one.after), key=turn))


# The order in which nodes are brought about: a node after those that its settings name, which are judged when they are set.


def ordered(definitions: Iterable[Definition]) -> list[Definition]:
    """Return the definitions so that each comes after the nodes that it names, as far as they do not name each other in a circle."""
    nodes = {one.node: one for one in definitions}
    begun: set[NodeName] = set()
    done: dict[NodeName, Definition] = {}
    for first in nodes:
        stack = [first]
        while stack:
            name = stack[-1]
            begun.add(name)
            left = [other for other in named(nodes[name]) if other in nodes and other not in begun]
            if left:
                stack.append(left[0])
            else:
                done[name] = nodes[stack.pop()]
    return list(done.values())


def named(one: Definition) -> Iterator[NodeName]:
    """Yield the nodes that the settings of a queue name; those of a plain node have no effect."""
    if one.queueing:
        for setting in ("source", "dead_letter_node"):
            if name := one.settings.get(setting):
                yield NodeName(name)


def without_dead_letter_node(
    definitions: Iterable[Definition], there: Iterable[str]
) -> Iterator[tuple[NodeName, NodeName]]:
    """Yield each queue whose dead-letter node is neither defined nor there, with the name of that."""
    found = list(definitions)
    known = {*there, *(one.node for one in found)}
    for one in found:
        place = one.settings.get("dead_letter_node", "")
        if one.queueing and place and place not in known:
            yield one.node, NodeName(place)


# Many at once: a service with ten thousand nodes is compared in a hundred requests. Each answer is bounded in nodes, in affiliations and in
# bytes, and other readers have their turns between them.

MOST: Final = 100
"""Nodes of one answer."""

EACH: Final = 200
"""Affiliations of a node in an answer; a node that has more is shown without them."""

TOGETHER: Final = 2_000
"""Affiliations of one answer."""

ROOM: Final = 32_768
"""Bytes of settings and addresses in one answer, so that it fits into a stanza however it is escaped there."""

BESIDE: Final = 24
"""Bytes that are counted for each value in addition to its text."""


class ReadDefinitions(Read, frozen=True, gc=False):
    """Request the definitions of the nodes that the principal manages, after the name `after`; of one answer at most `max`.

    `containing`: only those with this in their names, ignoring case. `only`: only this node.
    """

    after: NodeName | None = None
    max: int | None = None
    containing: str = ""
    only: tuple[NodeName, ...] | None = None


class Known(Struct, frozen=True, gc=False):
    """A node, and its affiliations; None if it has more than `EACH`."""

    access: NodeAccess
    affiliations: tuple[tuple[Jid, Affiliation], ...] | None


class DefinitionFacts(Struct, frozen=True, gc=False):
    """The next nodes; `any_node` is one that the principal manages or names, None if there is none.

    `more` nodes may follow `through`.
    """

    any_node: NodeAccess | None
    found: tuple[Known, ...] = ()
    more: bool = False
    through: NodeName | None = None


def read_definitions(request: ReadDefinitions, facts: DefinitionFacts) -> Decision:
    """Decide whether the principal may have the definitions, and how many fit into the answer."""
    by, one = request.by, facts.any_node
    if one is None and request.only is not None:
        return refuse(Refusal.NODE_NOT_FOUND)
    if one is None and not by.admin:
        return refuse(Refusal.FORBIDDEN, "definitions are for the owners of a node")
    if one is not None and not owns(by, one):
        return refuse(Refusal.FORBIDDEN)
    entries: list[DefinitionEntry] = []
    room = ROOM
    for known in facts.found:
        entry = _entry(known)
        room -= _size(entry)
        if entries and room < 0:
            return Decision(DefinitionPage(tuple(entries), True, entries[-1].node))  # noqa: FBT003  # it goes on
        entries.append(entry)
    return Decision(DefinitionPage(tuple(entries), facts.more, facts.through))


def _entry(known: Known) -> DefinitionEntry:
    """Return what defines a node; without its affiliations if they have no room in any answer."""
    node, people = known.access.node, known.affiliations or ()
    usual = _DEFAULTS[node.config.queueing]
    settings = tuple(
        (name, value)
        for name, value in written(node.config).items()
        if name == KIND or value.strip() != usual[name]
    )
    whole = known.affiliations is not None and sum(_bytes(jid) for jid, _ in people) < ROOM
    return DefinitionEntry(node.name, node.items, settings, people if whole else (), whole)


def _size(entry: DefinitionEntry) -> int:
    return (
        _bytes(entry.node)
        + sum(_bytes(name) + _bytes(value) for name, value in entry.settings)
        + sum(_bytes(jid) for jid, _ in entry.affiliations)
    )


def _bytes(text: str) -> int:
    return len(text.encode()) + BESIDE
