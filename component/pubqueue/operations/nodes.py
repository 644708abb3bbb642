"""Operations on nodes: inspect, create, change and delete them, pause and resume, and affiliations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from pubqueue.model.entities import Affiliation, Jid, NodeName
from pubqueue.model.replies import Page, Power
from pubqueue.operations.model import (
    AFTER,
    MATCH,
    MAX_ROWS,
    NODE,
    Action,
    Answer,
    Cell,
    Column,
    Nodes,
    Of,
    Operation,
    Parameter,
    ParameterKind,
    UnfitError,
    count,
)
from pubqueue.operations.searching import answered, searched, searches
from pubqueue.rules.definitions import ReadDefinitions
from pubqueue.rules.discovery import Describe
from pubqueue.rules.nodeconfig import Settings, written
from pubqueue.rules.nodes import Configure, Create, Delete, GetAffiliations, SetAffiliations
from pubqueue.rules.read import ReadNodes

if TYPE_CHECKING:
    from pubqueue.model.decision import Done, Request
    from pubqueue.model.entities import Node, NodeConfig, Principal
    from pubqueue.model.replies import (
        Affiliations,
        Created,
        DefinitionPage,
        Described,
        NodeEntry,
        NodePage,
    )
    from pubqueue.operations.model import Given, Row


NO_QUEUE, RUNNING, PAUSED, CLOSED = "no queue", "running", "paused", "closed to publishers"


def node_of(given: Given) -> NodeName:
    """Return the node that an operation names."""
    return NodeName(given.one("node"))


# --- queues -------------------------------------------------------------------------------------


def state_of(config: NodeConfig) -> str:
    """Return the current state of a node, in words."""
    if not config.queueing:
        return NO_QUEUE
    words = [PAUSED] if config.paused else []
    words += [CLOSED] if config.publish_paused else []
    return ", ".join(words) or RUNNING


def _read_queues(by: Principal, given: Given, after: str) -> ReadNodes:
    return ReadNodes(
        *(by, NodeName(after) if after else None, given.number("max")),
        managed=True,
        containing=given.one("match"),
    )


def _queues(page: NodePage, _given: Given) -> Answer:
    note = f"{count(len(page.entries), 'node')}{', and there are more' if page.more else ''}."
    note += " Done per minute: by this process, over the last five minutes."
    through = page.through or (page.entries[-1].node.name if page.entries else "")
    return Answer(
        note,
        tuple(map(_queue, page.entries)),
        through,
        more=page.more and bool(through),
        now=page.now,
    )


def _queue(entry: NodeEntry) -> Row:
    config = entry.node.config
    return (
        entry.node.name,
        state_of(config),
        entry.queued,
        entry.delayed,
        entry.locked,
        entry.dead,
        entry.oldest,
        entry.rate,
        entry.node.subscriptions,
        entry.window_free,
        config.dead_letter_node or None,
        config.event_log,
        config.title or None,
        entry.too_large,
        config.source or None,
        config.filter or None,
        len(config.feeds),
        entry.node.done if config.keep_done or entry.node.done else None,
        None if config.left_out is None else config.left_out.items,
        None if config.left_out is None else config.left_out.why,
        entry.node.items,
        entry.held,
    )


QUEUES: Final = Operation(
    "queues",
    "List the queues",
    "The nodes that you manage, by name, with their waiting, delayed, in-flight and dead items.",
    Power.NODES,
    (*searches(ReadNodes, "their names"), AFTER, MAX_ROWS),
    (
        Column("node", "Node"),
        Column("state", "State"),
        Column("depth", "Waiting", Cell.COUNT),
        Column("delayed", "Delayed", Cell.COUNT),
        Column("in_flight", "In flight", Cell.COUNT),
        Column("dead", "Dead", Cell.COUNT),
        Column("oldest", "Oldest waits for", Cell.SINCE),
        Column("rate", "Done per minute", Cell.RATE),
        Column("workers", "Subscribers", Cell.COUNT),
        Column("window_free", "Free slots", Cell.COUNT, more=True),
        Column("dead_letter_node", "Dead items go to", more=True),
        Column("event_log", "Keeps an event log", Cell.FLAG, more=True),
        Column("title", "Title", more=True),
        Column("too_large", "Too large for every worker", Cell.COUNT, more=True),
        Column("source", "Fed by", more=True),
        Column("filter", "Filter", more=True),
        Column("feeds", "Queues that it feeds", Cell.COUNT, more=True),
        Column("done", "Done and kept", Cell.COUNT, more=True),
        Column("left_out", "Left out", Cell.COUNT, more=True),
        Column("left_out_why", "Why the last was left out", more=True),
        Column("items", "Items", Cell.COUNT, more=True),
        Column("held", "Held", Cell.COUNT, more=True),
    ),
    searched(_read_queues, own=frozenset({"match"})),
    answered(_queues),
    place="node",
    manual="List the nodes that you manage.\n\n"
    "Shows for each how many items are waiting, delayed, in flight and dead, how long the oldest has waited, and the recent completion"
    " rate per minute.",
)


# --- stop and go --------------------------------------------------------------------------------


class Switch(NamedTuple):
    """A setting to turn on (1) or off (0), the text of the answer, and that of a form without a node to choose."""

    name: str
    label: str
    setting: str
    value: str
    about: str
    done: str
    none: str
    manual: str
    question: str = ""
    """What the page asks before it; empty: it is not on the page."""


# fmt: off
SWITCHES: Final = (
    Switch("pause", "Pause a queue", "paused", "1",
           "A paused queue delivers nothing. Workers may finish their items, and publishers continue.",
           "{} is paused.", "No queue of yours is running.",
           "Stop delivering items of a queue.\n\nWorkers may finish the items that they hold, and publishers may continue.",
           "Pause deliveries of {} until you resume it?"),
    Switch("resume", "Resume a paused queue", "paused", "0",
           "A resumed queue delivers again.",
           "{} is resumed.", "No queue of yours is paused.",
           "Deliver items of a paused queue again.",
           "Resume deliveries of {}?"),
    Switch("pause-publishing", "Pause publishing to a queue", "publish_paused", "1",
           "Publishes are refused for now, and publishers try again later. Workers continue with the existing items.",
           "{} is closed to publishers.", "All your queues are closed to publishers already.",
           "Stop accepting publishes to a queue.\n\nPublishes are refused for now, and publishers retry later. Workers continue with the existing items."),
    Switch("resume-publishing", "Resume publishing to a queue", "publish_paused", "0",
           "Publishers may publish again.",
           "{} is open to publishers again.", "No queue of yours is closed to publishers.",
           "Accept publishes to a queue again."),
)
# fmt: on


def _switching(switch: Switch) -> Operation:
    def ask(by: Principal, given: Given) -> Request:
        return Configure(by, node_of(given), Settings({switch.setting: switch.value}))

    def answer(_reply: Done, given: Given) -> Answer:
        return Answer(switch.done.format(node_of(given)))

    def fits(node: Node) -> bool:
        is_on: bool = getattr(node.config, switch.setting)
        return node.config.queueing and is_on is (switch.value == "0")

    action = Action(Of.NODE, switch.name.capitalize(), f"Yes, {switch.name} it")
    return Operation(
        *(switch.name, switch.label, switch.about, Power.NODES, (NODE,), (), ask, answer),
        changes=True,
        question=switch.question,
        actions=(action,) if switch.question else (),
        nodes=Nodes(fits, switch.none),
        manual=switch.manual,
    )


SWITCHING: Final = tuple(map(_switching, SWITCHES))


# --- settings -----------------------------------------------------------------------------------

ALSO: Final = {"enabled": "queueing"}
"""Settings that have other names in forms."""

SETTING: Final = Parameter(
    *("settings", ParameterKind.LINES, "Settings, one per line: lock_timeout=60"),
    metavar="SETTING=VALUE",
)


def settings_of(given: Given) -> Settings:
    """Return settings: lock_timeout=60. The name in a form is accepted as well: x-queueing#lock_timeout=60.

    Raises:
        UnfitError: one has no value.

    """
    values: dict[str, str | int | None] = {}
    for line in given.lines("settings"):
        name, equals, value = line.partition("=")
        if not equals:
            raise UnfitError(f"settings: {line} has no value; write {line}=...")
        short = name.strip().rpartition("#")[2]
        values[ALSO.get(short, short)] = value.strip()
    return Settings(values)


CREATE: Final = Operation(
    "create",
    "Create a node",
    "You will own the node. All other settings can be changed later, in its configuration.",
    Power.CREATE,
    (
        Parameter(
            *("name", ParameterKind.NODE, "Name of the node"),
            required=True,
            metavar="NODE",
            is_new=True,
        ),
        SETTING,
    ),
    (),
    lambda by, given: Create(by, NodeName(given.one("name")), settings_of(given)),
    lambda reply, _given: _created(reply),
    changes=True,
    command="node create",
    manual="Create a node that you own.\n\n"
    "The node is a queue, unless you pass --plain. Settings are the fields of the node configuration form, with or without the part before"
    " the #: lock_timeout=60 max_failures=5. `pubqueue node settings` shows them all.",
)


def _created(reply: Created) -> Answer:
    return _answer(f"{reply.node} was created; you own it.", reply.node, reply.missing)


def _answer(note: str, node: NodeName, missing: str) -> Answer:
    """Return an answer that warns if a dead-letter node is missing."""
    if not missing:
        return Answer(note)
    warning = (
        f"Its dead-letter node {missing} does not exist; until it does, dead items stay in {node}."
    )
    return Answer(f"{note} {warning}", warns=True)


def _ask_configure(by: Principal, given: Given) -> Request:
    settings = settings_of(given)
    if not settings.values:
        raise UnfitError("settings: name one at least")
    return Configure(by, node_of(given), settings)


CONFIGURE: Final = Operation(
    "configure",
    "Change settings of a node",
    "Only the settings that you name are changed, one per line: lock_timeout=60.",
    Power.NODES,
    (NODE, replace(SETTING, required=True)),
    (),
    _ask_configure,
    lambda reply, given: _answer(f"{node_of(given)} was updated.", node_of(given), reply.missing),
    changes=True,
    question="Change {}?",
    actions=(Action(Of.SETTINGS, "Change settings", "Yes, change them", by_admins=True),),
    command="node set",
    manual="Change settings of a node.\n\nSettings that you do not name stay as they are.",
)


def _settings(reply: Described, _given: Given) -> Answer:
    rows = tuple(written(reply.node.config).items())
    return Answer(f"The settings of {reply.node.name}.", rows)


SETTINGS: Final = Operation(
    "settings",
    "Show the settings of a node",
    "All settings of a node, by name.",
    Power.NODES,
    (NODE,),
    (Column("setting", "Setting"), Column("value", "Value")),
    lambda by, given: Describe(by, node_of(given), manage=True),
    _settings,
    command="node settings",
    manual="Show all settings of a node.",
)


def _ask_definitions(by: Principal, given: Given) -> Request:
    after, only = (NodeName(given.one(name)) or None for name in ("after", "node"))
    return ReadDefinitions(
        by, after, given.number("max"), given.one("match"), None if only is None else (only,)
    )


def _definitions(page: DefinitionPage, _given: Given) -> Answer:
    note = f"{count(len(page.entries), 'node')}{', and there are more' if page.more else ''}."
    rows = tuple(
        (
            one.node,
            tuple(f"{name}={value}" for name, value in one.settings),
            tuple(f"{role.value} {jid}" for jid, role in one.affiliations),
            one.whole,
            one.items,
        )
        for one in page.entries
    )
    return Answer(note, rows, page.through or "", more=page.more)


DEFINITIONS: Final = Operation(
    "definitions",
    "List the definitions of nodes",
    "The nodes that you manage, by name: their settings that differ from the defaults of their kind, and their affiliations.",
    Power.NODES,
    (replace(NODE, label="Only this node", required=False), MATCH, AFTER, MAX_ROWS),
    (
        Column("node", "Node"),
        Column("settings", "Settings that differ from the defaults", Cell.NAMES),
        Column("affiliations", "Affiliations", Cell.NAMES),
        Column("whole", "With all affiliations", Cell.FLAG, more=True),
        Column("items", "Items", Cell.COUNT, more=True),
    ),
    _ask_definitions,
    _definitions,
    place="node",
    command="node definitions",
)

DELETE: Final = Operation(
    "delete",
    "Delete a node",
    "The node is deleted with everything in it.",
    Power.NODES,
    (NODE,),
    (),
    lambda by, given: Delete(by, node_of(given)),
    lambda _reply, given: Answer(f"{node_of(given)} is deleted."),
    changes=True,
    final=True,
    takes_away=True,
    sure="{} will be deleted with all its items, subscriptions and settings.",
    command="node delete",
    manual="Delete a node and everything in it.",
)


# --- people -------------------------------------------------------------------------------------

ROLES: Final = tuple(
    (role.value, role.value if role is not Affiliation.NONE else "nothing any more")
    for role in Affiliation
)


AFFILIATION: Final = "affiliation"


def _read_members(by: Principal, given: Given, after: str) -> GetAffiliations:
    return GetAffiliations(by, node_of(given), Page(after or None, given.number("max")))


def _members(reply: Affiliations, _given: Given) -> Answer:
    rows = tuple((jid, role.value) for jid, role in reply.entries)
    more = reply.part.more and bool(rows)
    through = reply.entries[-1][0] if rows else ""
    return Answer(f"{count(len(rows), 'account')} of {reply.node}.", rows, through, more=more)


MEMBERS: Final = Operation(
    "members",
    "List the affiliations of a node",
    "Owners, publishers, members and outcasts of a node.",
    Power.NODES,
    (NODE, *searches(GetAffiliations, "their addresses", state=AFFILIATION), AFTER, MAX_ROWS),
    (Column("jid", "Account"), Column("affiliation", "Affiliation")),
    searched(_read_members, state=AFFILIATION),
    answered(_members),
    place="jid",
    command="node members",
    manual="List or change the affiliations of a node.\n\n"
    "An owner manages the node, a publisher may publish, a member may subscribe, an outcast may do nothing.",
)


def _ask_affiliate(by: Principal, given: Given) -> Request:
    role = Affiliation(given.one("affiliation"))
    return SetAffiliations(by, node_of(given), ((Jid(given.one("jid")), role),))


AFFILIATE: Final = Operation(
    "affiliate",
    "Set the affiliation of an account",
    "An owner manages the node, a publisher may publish, a member may subscribe, an outcast may do nothing.",
    Power.NODES,
    (
        NODE,
        Parameter("jid", ParameterKind.JID, "Account", required=True),
        Parameter(
            *("affiliation", ParameterKind.CHOICE, "Affiliation"),
            required=True,
            choices=ROLES,
            usual="member",
        ),
    ),
    (),
    _ask_affiliate,
    lambda _reply, given: Answer(
        f"{given.one('jid')} is {dict(ROLES)[given.one('affiliation')]} to {node_of(given)}."
    ),
    changes=True,
    question="Set {}?",
    actions=(Action(Of.MEMBER, "Set an affiliation", "Yes, set it", by_admins=True),),
)

OPERATIONS: Final = (
    *(QUEUES, *SWITCHING, SETTINGS, DEFINITIONS, CONFIGURE, DELETE, MEMBERS, AFFILIATE, CREATE),
)
