"""Permissions: affiliation x action (XEP-0060 4.1), and the two models that extend it."""

from __future__ import annotations

from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final

from pubqueue.core.decision import Refusal
from pubqueue.core.model import AccessModel, Affiliation, PublishModel
from pubqueue.core.nodes.replies import RostersWanted

if TYPE_CHECKING:
    from pubqueue.core.model import Contact, Jid, Node, Principal


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


def standing(principal: Principal, affiliation: Affiliation) -> Affiliation:
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
    allowed = node.config.roster_groups_allowed.splitlines()
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


def may_create(principal: Principal, policy: CreationPolicy) -> bool:
    """Return whether the service's settings let the principal create nodes."""
    match policy:
        case CreationPolicy.ANYONE:
            return True
        case CreationPolicy.LOCAL:
            return principal.local or principal.admin
        case CreationPolicy.ADMINS:
            return principal.admin
