"""Permissions, reserved names, and settings of a node that name another node."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # msgspec reads it
from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import (
    AccessModel,
    Affiliation,
    Node,
    NodeConfig,
    NodeName,
    PublishModel,
)
from pubqueue.model.replies import RostersWanted

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from pubqueue.model.entities import Contact, Item, Jid, Principal


# Permissions: affiliation x action (XEP-0060 4.1), and the two models that extend it.


@unique
class Action(Enum):
    """What an affiliation allows or forbids."""

    __hash__ = object.__hash__  # an enumeration's own is a call in Python

    SUBSCRIBE = auto()
    RETRIEVE = auto()
    PUBLISH = auto()
    DELETE_ANY_ITEM = auto()
    MANAGE = auto()
    """Configure, purge, delete, see and set affiliations."""
    OBSERVE = auto()
    """Read the items of a queue, its event log and its counts, without delivery."""


@unique
class CreationPolicy(Enum):
    """Which accounts may create nodes."""

    ANYONE = "anyone"
    LOCAL = "local"
    ADMINS = "admins"


@unique
class AutoCreation(Enum):
    """When a publish creates its node, for accounts that may create nodes (XEP-0060 7.1.4)."""

    ALWAYS = "always"
    WITH_OPTIONS = "with-options"
    """When publish-options describe the node: a mistyped name creates none."""
    NEVER = "never"


_S, _R, _P, _D, _M, _O = Action

# fmt: off
PRIVILEGES: Final[dict[Affiliation, frozenset[Action]]] = {
    Affiliation.OWNER:        frozenset({_S, _R, _P, _D, _M, _O}),
    Affiliation.PUBLISHER:    frozenset({_S, _R, _P, _O}),
    Affiliation.PUBLISH_ONLY: frozenset({_P}),
    Affiliation.MEMBER:       frozenset({_S, _R}),
    Affiliation.NONE:         frozenset(),        # what the node's models allow, below
    Affiliation.OUTCAST:      frozenset(),        # nothing, in all models
}

OPEN_ACCESS: Final = frozenset({_S, _R})

SEEN_BY_ALL: Final = tuple(model for model in AccessModel if model is not AccessModel.WHITELIST)
SEEN_BY_KNOWN: Final = tuple(model for model in AccessModel if model not in SEEN_BY_ALL)
"""Nodes with the first models are visible to all accounts but outcasts, the others only to accounts with an affiliation."""
# fmt: on


def holders_of(action: Action) -> tuple[Affiliation, ...]:
    """Return the affiliations that allow the action in every node."""
    return tuple(affiliation for affiliation, allowed in PRIVILEGES.items() if action in allowed)


def standing_of(principal: Principal, affiliation: Affiliation) -> Affiliation:
    """Return the effective affiliation of the principal: administrators of the service own every node."""
    return Affiliation.OWNER if principal.admin else affiliation


def may(affiliation: Affiliation, action: Action, node: Node, *, subscribed: bool = False) -> bool:
    """Return whether the affiliation allows the action on this node."""
    if affiliation is Affiliation.OUTCAST:
        return False
    if action in PRIVILEGES[affiliation]:
        return True
    if action is Action.PUBLISH:
        return _publish_model_allows(node.config.publish_model, subscribed=subscribed)
    if affiliation is Affiliation.PUBLISH_ONLY:  # XEP-0060 4.1: it may not subscribe
        return False
    return action in OPEN_ACCESS and _access_model_allows(
        node.config.access_model, action, subscribed=subscribed
    )


def _access_model_allows(model: AccessModel, action: Action, *, subscribed: bool) -> bool:
    """Return what strangers may do; with `authorize` a subscription is a request for approval (XEP-0060 6.1.4)."""
    if model is AccessModel.AUTHORIZE:
        return subscribed or action is Action.SUBSCRIBE
    return model is AccessModel.OPEN


OF_ROSTERS: Final[dict[AccessModel, Refusal]] = {
    AccessModel.PRESENCE: Refusal.NO_PRESENCE_SUBSCRIPTION,
    AccessModel.ROSTER: Refusal.NOT_IN_ROSTER_GROUP,
}
"""The access models that owners' rosters decide, and how strangers to these are refused (XEP-0060 6.1.3.2, 6.1.3.3)."""


def stranger(by: Principal, node: Node, owners: tuple[Jid, ...]) -> Refusal | RostersWanted | None:
    """Return why an account without affiliation lacks what the access model grants, or None."""
    model = node.config.access_model
    if model not in OF_ROSTERS:
        return Refusal.FORBIDDEN
    if by.contact is None:
        return RostersWanted(owners)
    return None if any(_admits(node, one) for one in by.contact) else OF_ROSTERS[model]


def _admits(node: Node, contact: Contact) -> bool:
    if node.config.access_model is AccessModel.PRESENCE:
        return contact.sees_presence
    allowed = node.config.roster_groups_allowed.split("\n")
    return any(group in allowed for group in contact.groups)


def needs_approval(affiliation: Affiliation, node: Node) -> bool:
    """Return whether a subscription has to wait for an owner; members, publishers and owners are approved already."""
    asks = node.config.access_model is AccessModel.AUTHORIZE
    return asks and Action.SUBSCRIBE not in PRIVILEGES[affiliation]


def _publish_model_allows(model: PublishModel, *, subscribed: bool) -> bool:
    return model is PublishModel.OPEN or (model is PublishModel.SUBSCRIBERS and subscribed)


def barred(affiliation: Affiliation, node: Node, *, known: bool = False) -> Refusal | None:
    """Return why the principal may not even look at the node, or None.

    `known` is true for subscribers, holders and others whom the node once admitted. XEP-0060
    6.1.3.4, 6.1.3.8.
    """
    if affiliation is Affiliation.OUTCAST:
        return Refusal.FORBIDDEN
    stranger = affiliation is Affiliation.NONE and not known
    if stranger and node.config.access_model not in SEEN_BY_ALL:
        return Refusal.CLOSED_NODE
    return None


def unknown(principal: Principal, node: Node, affiliation: Affiliation) -> Refusal | None:
    """Return why the principal may not know of the node, whatever it has got there before; or None."""
    views = principal.account in node.config.policy.viewers
    return barred(standing_of(principal, affiliation), node, known=views)


def no_way_to_item(
    by: Principal, node: Node | None, affiliation: Affiliation, item: Item | None
) -> Refusal | None:
    """Return why the principal may not signal items of the node, or add members to them; the same whether the item exists or not.

    Owners and publishers may, and the author of the item.
    """
    if node is None:
        return Refusal.NODE_NOT_FOUND
    standing = standing_of(by, affiliation)
    wrote_it = item is not None and item.publisher == by.account
    admitted = Action.PUBLISH in PRIVILEGES[standing] or wrote_it
    if (closed := barred(standing, node, known=admitted)) is not None:
        return closed
    if not admitted:
        return Refusal.FORBIDDEN
    return None if node.config.queueing else Refusal.NOT_A_QUEUE


def may_create(principal: Principal, policy: CreationPolicy) -> bool:
    """Return whether the service's settings let the principal create nodes."""
    match policy:
        case CreationPolicy.ANYONE:
            return True
        case CreationPolicy.LOCAL:
            return principal.local or principal.admin
        case CreationPolicy.ADMINS:
            return principal.admin


# Reserved names: a namespace belongs to the account in the name, to the accounts of a project, or to the operator.
#
# A node below `projects/P/` belongs to the project P: for an account whose projects are named, and P is none of them, it does
# not exist, and it cannot make one. The operator names the projects of users.
#
# A node below `replies/` contains answers to an account, so it belongs to that account, whichever
# account created it: only the account itself and administrators create and manage such a node, and
# another account's ownership has no effect. All other names are free for accounts that may create
# nodes; those that the configuration file declares belong to the operator (`rules.declare`).

OF_ACCOUNTS: Final = ("replies/",)
"""The prefix of names that belong to the account that follows it."""


def of_account(name: NodeName) -> str | None:
    """Return the account to which the name belongs, None if it is free."""
    for space in OF_ACCOUNTS:
        if name.startswith(space):
            return name[len(space) :]
    return None


PROJECTS: Final = "projects/"
"""The prefix of names that belong to the project that follows it."""


def is_hidden(by: Principal, name: NodeName) -> bool:
    """Return whether the name is one of a project that does not exist for the account."""
    if by.projects is None or by.admin or not name.startswith(PROJECTS):
        return False
    project, slash, _ = name[len(PROJECTS) :].partition("/")
    return bool(slash) and project not in by.projects


def taken(by: Principal, name: NodeName) -> Refused | None:
    """Refuse to create a node under a name that belongs to another account."""
    account = of_account(name)
    if account is None or by.admin or account == by.account:
        return None
    return Refused(Refusal.FORBIDDEN, f"{name!r} is for {account} alone to make")


def standing_of_account(name: NodeName, account: Jid, stored: Affiliation) -> Affiliation:
    """Return the effective affiliation, given the stored one: the account to which the name belongs is the only owner."""
    belongs_to = of_account(name)
    if belongs_to is None:
        return stored
    if belongs_to == account:
        return Affiliation.OWNER
    return Affiliation.NONE if stored is Affiliation.OWNER else stored


# Settings of a node that name another node: judged like an action on that one, when they are set and when they are used.
#
# The table gives the action. An account that sets a reference needs the right to it, or the right to
# create the node if it does not exist. The owners of the node need the right when the reference is
# used (`rules.expire`). A name alone proves nothing, because any account may have created
# a node under it. So a reference stores which node it means, and another node of that name, made
# since by an account that is neither an owner nor an administrator, does not count.


class Reference(Struct, frozen=True, gc=False):
    """The effect of a setting on the node that it names, and the field that keeps which node was meant.

    A `source` has no such field: the node itself keeps which queues it feeds (`rules.feed`).
    """

    action: Action
    meant: str = ""


REFERENCES: Final[Mapping[str, Reference]] = {
    "dead_letter_node": Reference(Action.PUBLISH, "dead_letter_meant"),
    "source": Reference(Action.SUBSCRIBE),
}
"""Every setting that names another node."""


class Other(Struct, frozen=True, gc=False):
    """A named node, None if it does not exist, and the principal's affiliation with it."""

    node: Node | None
    affiliation: Affiliation = Affiliation.NONE
    subscribed: bool = False


class Others(Struct, frozen=True, gc=False):
    """The nodes that new settings name, and which accounts may create those that do not exist."""

    nodes: Mapping[NodeName, Other] = {}
    policy: CreationPolicy = CreationPolicy.ADMINS


NOTHING_NAMED: Final = Others()


def named(before: NodeConfig, after: NodeConfig) -> Iterator[tuple[str, NodeName]]:
    """Return each reference that changes, with the node that it names."""
    for setting in REFERENCES:
        name = NodeName(getattr(after, setting))
        if name and name != getattr(before, setting):
            yield setting, name


def bind(
    by: Principal, before: NodeConfig, after: NodeConfig, others: Others
) -> NodeConfig | Refused:
    """Return the settings with the identity of the referenced nodes, or why the principal may not set one of them.

    A reference that does not change is not judged again, and still means the same node.
    """
    for setting, reference in REFERENCES.items():
        if reference.meant and getattr(after, setting) != getattr(before, setting):
            after = replace(after, **{reference.meant: ""})
    for setting, name in named(before, after):
        reference, other = REFERENCES[setting], others.nodes.get(name, Other(None))
        if is_hidden(by, name) or not _may_name(by, reference.action, other, others.policy):
            words = f"{setting}: you may not {reference.action.name.lower()} to {name!r}"
            return Refused(Refusal.FORBIDDEN, words, setting=setting)
        if reference.meant:
            meant = "" if other.node is None else identity(other.node)
            after = replace(after, **{reference.meant: meant})
    return after


def _may_name(by: Principal, action: Action, other: Other, policy: CreationPolicy) -> bool:
    if other.node is None:
        return may_create(by, policy)
    standing = standing_of(by, other.affiliation)
    return may(standing, action, other.node, subscribed=other.subscribed)


def identity(node: Node) -> str:
    """Return a value that distinguishes a node from any other that ever has its name."""
    return f"{node.created} {node.creator}"


def is_meant(config: NodeConfig, setting: str, node: Node, trusted: Container[Jid]) -> bool:
    """Return whether the setting means this node: the one that was set, or one created by a trusted account."""
    meant = getattr(config, REFERENCES[setting].meant)
    return bool(meant == identity(node) or node.creator in trusted)
