"""Settings of a node that name another node: judged like an action on that one, when they are set and when they are used.

The table gives the action. An account that sets a reference needs the right to it, or the right to
create the node if it does not exist. The owners of the node need the right when the reference is
used (`core.queue.dead_letters`). A name alone proves nothing, because any account may have created
a node under it. So a reference stores which node it means, and another node of that name, made
since by an account that is neither an owner nor an administrator, does not count.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # msgspec reads it
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.decision import Refusal, Refused
from pubqueue.core.model import Affiliation, Node, NodeConfig, NodeName
from pubqueue.core.nodes import access
from pubqueue.core.nodes.access import Action, CreationPolicy

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from pubqueue.core.model import Jid, Principal


class Reference(Struct, frozen=True, gc=False):
    """The effect of a setting on the node that it names, and the field that keeps which node was meant.

    A `source` has no such field: the node itself keeps which queues it feeds (`core.publishing.sources`).
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
        if not _may_name(by, reference.action, other, others.policy):
            words = f"{setting}: you may not {reference.action.name.lower()} to {name!r}"
            return Refused(Refusal.FORBIDDEN, words, setting=setting)
        if reference.meant:
            meant = "" if other.node is None else identity(other.node)
            after = replace(after, **{reference.meant: meant})
    return after


def _may_name(by: Principal, action: Action, other: Other, policy: CreationPolicy) -> bool:
    if other.node is None:
        return access.may_create(by, policy)
    standing = access.standing(by, other.affiliation)
    return access.may(standing, action, other.node, subscribed=other.subscribed)


def identity(node: Node) -> str:
    """Return a value that distinguishes a node from any other that ever has its name."""
    return f"{node.created} {node.creator}"


def is_meant(config: NodeConfig, setting: str, node: Node, trusted: Container[Jid]) -> bool:
    """Return whether the setting means this node: the one that was set, or one created by a trusted account."""
    meant = getattr(config, REFERENCES[setting].meant)
    return bool(meant == identity(node) or node.creator in trusted)
