"""Names of topics and subscriptions, and the nodes that have them: total in both directions, and pure.

`projects/P/topics/T` is the node of the same name. Each other node has a name in the project `xmpp`, where its NodeID is
percent-encoded. So a node has one name as a topic and one as a subscription.
"""

from __future__ import annotations

import re
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote_to_bytes

from pubqueue.model.entities import NodeName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.model.entities import Node

BRIDGE: Final = "xmpp"
"""The project of the nodes that have no name of the form of Pub/Sub. It is too short to be a project of Google's."""

MAX_BRIDGED: Final = 255
"""The maximum characters of an encoded NodeID."""

DELETED: Final = "_deleted-topic_"
"""The topic of a subscription whose topic is gone."""

_PROJECT: Final = r"[a-z0-9][a-z0-9.:-]{0,62}"
_ID: Final = r"(?!goog)[A-Za-z][A-Za-z0-9_.~+%-]{2,254}"
_BRIDGED: Final = re.compile(r"(?:[A-Za-z0-9_.~+-]|%[0-9A-F]{2})+")
_AS_IT_IS: Final = "~+"
"""Characters that are not encoded, in addition to letters, digits, `_`, `.` and `-`."""


class BadNameError(ValueError):
    """A text that is not a name; the message says what is expected."""


@unique
class ResourceKind(StrEnum):
    """The kind of resource of a name."""

    TOPIC = "topics"
    SUBSCRIPTION = "subscriptions"

    @property
    def word(self) -> str:
        """The kind in the singular."""
        return self.value[:-1]


_FORMS: Final[Mapping[ResourceKind, re.Pattern[str]]] = {
    kind: re.compile(f"projects/(?P<project>{_PROJECT})/{kind.value}/(?P<id>{_ID})")
    for kind in ResourceKind
}
_BRIDGES: Final[Mapping[ResourceKind, str]] = {
    kind: f"projects/{BRIDGE}/{kind.value}/" for kind in ResourceKind
}
_TECH: Final = re.compile(r"/?(?:(?P<kind>topics|subscriptions)/)?(?P<project>[^/]+)/(?P<id>[^/]+)")


def node_of(name: str, kind: ResourceKind) -> NodeName:
    """Return the node that has the name.

    Raises:
        BadNameError: the text is not the name of something of this kind.

    """
    if name.startswith(_BRIDGES[kind]):
        return _bridged(name, kind)
    if _FORMS[kind].fullmatch(name) is None:
        raise BadNameError(
            f"Invalid {kind.word} name: (name={name[:MAX_BRIDGED]!r}); expected projects/PROJECT/{kind.value}/NAME, where NAME is a"
            " letter and 2 to 254 letters, digits and -_.~+%, not beginning with goog"
        )
    return NodeName(name)


def name_of(node: NodeName, kind: ResourceKind) -> str:
    """Return the name of a node as something of this kind."""
    if _is_own(node, kind):
        return node
    return _BRIDGES[kind] + quote(node.encode("utf-8", "surrogatepass"), safe=_AS_IT_IS)


def topic_of(queue: Node) -> str:
    """Return the name of the topic of a subscription: a queue of another protocol that no node feeds is its own topic."""
    if queue.config.source:
        return name_of(NodeName(queue.config.source), ResourceKind.TOPIC)
    own = name_of(queue.name, ResourceKind.SUBSCRIPTION)
    return name_of(queue.name, ResourceKind.TOPIC) if is_bridged(own) else DELETED


def project_of(name: str) -> str:
    """Return the project in a name of either kind."""
    return name.split("/", 2)[1]


def is_project(text: str) -> bool:
    """Return whether a project can have that name."""
    return re.fullmatch(_PROJECT, text) is not None


def is_bridged(name: str) -> bool:
    """Return whether the name is of a node that has no name of the form of Pub/Sub."""
    return project_of(name) == BRIDGE


def _is_own(node: str, kind: ResourceKind) -> bool:
    found = _FORMS[kind].fullmatch(node)
    return found is not None and found["project"] != BRIDGE


def _bridged(name: str, kind: ResourceKind) -> NodeName:
    text = name.removeprefix(_BRIDGES[kind])
    if _BRIDGED.fullmatch(text) is None or len(text) > MAX_BRIDGED:
        raise BadNameError(
            f"Invalid {kind.word} name: in the project {BRIDGE} it is a NodeID of 1 to {MAX_BRIDGED} characters, in which each byte"
            " but letters, digits and -_.~+ is %XX"
        )
    try:
        node = unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise BadNameError(f"Invalid {kind.word} name: the NodeID must be UTF-8") from None
    if name_of(NodeName(node), kind) != name:
        raise BadNameError(
            f"Invalid {kind.word} name: the name of this node is {name_of(NodeName(node), kind)}"
        )
    return NodeName(node)


def of_tech(name: str, kind: ResourceKind) -> str:
    """Return a name of `tech.pubsub` in the form of v1: `/topics/P/T`, `/subscriptions/P/S` or `P/S`; others unchanged."""
    found = None if name.startswith("projects/") else _TECH.fullmatch(name)
    if found is None or (found["kind"] or kind.value) != kind.value:
        return name
    if found["kind"] is None and (kind is ResourceKind.TOPIC or name.startswith("/")):
        return name
    return f"projects/{found['project']}/{kind.value}/{found['id']}"


def to_tech(name: str, kind: ResourceKind) -> str:
    """Return a name of v1 in the form of `tech.pubsub`; the topic that is gone unchanged."""
    if name == DELETED:
        return name
    _, project, _, rest = name.split("/", 3)
    return f"/topics/{project}/{rest}" if kind is ResourceKind.TOPIC else f"{project}/{rest}"
