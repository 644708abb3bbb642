"""Policies of `google.iam.v1`, and the affiliations that they give: the meanings of roles and of members. Pure."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from pubqueue.faces.grpc.pubsub import marks
from pubqueue.faces.grpc.wire.messages import iam
from pubqueue.faces.grpc.wire.names import ResourceKind
from pubqueue.faces.grpc.wire.statuses import invalid, unimplemented
from pubqueue.model.entities import Affiliation, Jid
from pubqueue.rules.access import Action

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.model.entities import NodeConfig

POLICY: Final = f"{marks.OWN}policy"
"""The mark with the policy of a node, as JSON."""

Bindings = dict[str, list[str]]
"""Members by role."""

_TOPIC, _QUEUE = ResourceKind.TOPIC, ResourceKind.SUBSCRIPTION
_OWNER, _PUBLISHER, _MEMBER = Affiliation.OWNER, Affiliation.PUBLISHER, Affiliation.MEMBER

# fmt: off
ROLES: Final[Mapping[str, Mapping[ResourceKind, Affiliation]]] = {
    "roles/owner":             {_TOPIC: _OWNER,                   _QUEUE: _OWNER},
    "roles/pubsub.admin":      {_TOPIC: _OWNER,                   _QUEUE: _OWNER},
    "roles/pubsub.editor":     {_TOPIC: _PUBLISHER,               _QUEUE: _PUBLISHER},
    "roles/pubsub.publisher":  {_TOPIC: Affiliation.PUBLISH_ONLY, _QUEUE: Affiliation.PUBLISH_ONLY},
    "roles/pubsub.subscriber": {_TOPIC: _MEMBER,                  _QUEUE: _MEMBER},
    "roles/pubsub.viewer":     {_TOPIC: _MEMBER},  # an account that sees a queue as a member can pull from it too
}
"""The affiliation of a role."""

SEES: Final = None
"""A permission of all accounts that may know of the node."""

PERMISSIONS: Final[Mapping[ResourceKind, Mapping[str, Action | None]]] = {
    _TOPIC: {
        "pubsub.topics.get":                SEES,
        "pubsub.topics.publish":            Action.PUBLISH,
        "pubsub.topics.attachSubscription": Action.SUBSCRIBE,
        "pubsub.topics.update":             Action.MANAGE,
        "pubsub.topics.delete":             Action.MANAGE,
        "pubsub.topics.getIamPolicy":       Action.MANAGE,
        "pubsub.topics.setIamPolicy":       Action.MANAGE,
    },
    _QUEUE: {
        "pubsub.subscriptions.get":          SEES,
        "pubsub.subscriptions.consume":      Action.SUBSCRIBE,
        "pubsub.subscriptions.update":       Action.MANAGE,
        "pubsub.subscriptions.delete":       Action.MANAGE,
        "pubsub.subscriptions.getIamPolicy": Action.MANAGE,
        "pubsub.subscriptions.setIamPolicy": Action.MANAGE,
    },
}
"""Permissions, and their actions."""
# fmt: on

_MEMBER_OF: Final = re.compile(
    r"(?:user|serviceAccount):(?P<name>[^\s\x00-\x1f\x7f:/@\"&'<>]+)(?:@(?P<domain>[a-z0-9.-]+))?"
)
_RANKS: Final = (_OWNER, _PUBLISHER, _MEMBER, Affiliation.PUBLISH_ONLY)
"""The strongest first."""


def kept(config: NodeConfig) -> Bindings:
    """Return the policy of a node, as it was set; an empty one at first."""
    text = marks.all_of(config).get(POLICY, "")
    try:
        return msgspec.json.decode(text, type=Bindings) if text else {}
    except msgspec.MsgspecError:
        return {}


def shown(bindings: Bindings) -> iam.Policy:
    """Return a policy in the clients' form."""
    policy = iam.Policy(version=1, etag=etag(bindings))
    for role, members in bindings.items():
        policy.bindings.add(role=role, members=members)
    return policy


def etag(bindings: Bindings) -> bytes:
    """Return the value that distinguishes two policies."""
    return sha256(msgspec.json.encode(bindings, order="sorted")).digest()[:12]


def read(policy: iam.Policy, kind: ResourceKind) -> Bindings:
    """Return the policy that a client sets.

    Raises:
        CallError: it has a role that is not one of this kind of resource, or an unsupported
            field.

    """
    if policy.audit_configs:
        raise unimplemented("policy.audit_configs")
    found: Bindings = {}
    for binding in policy.bindings:
        if binding.HasField("condition"):
            raise unimplemented("policy.bindings.condition")
        if kind not in ROLES.get(binding.role, {}) and binding.role != "roles/pubsub.viewer":
            raise invalid(f"Role {binding.role[:100]!a} is not supported for this resource.")
        mine = found.setdefault(binding.role, [])
        mine += [member for member in binding.members if member not in mine]
    return found


def granted(bindings: Bindings, kind: ResourceKind, service: str) -> dict[Jid, Affiliation]:
    """Return the affiliations of the policy; unknown members get none."""
    roles: dict[Jid, set[Affiliation]] = {}
    for role, members in bindings.items():
        affiliation = ROLES.get(role, {}).get(kind)
        for member in members if affiliation is not None else ():
            account = account_of(member, service)
            if account is not None and affiliation is not None:
                roles.setdefault(account, set()).add(affiliation)
    return {account: _highest(some) for account, some in roles.items()}


def account_of(member: str, service: str) -> Jid | None:
    """Return the account of `user:X` or `serviceAccount:X`: the JID X, or the user X of the service; None for other members."""
    found = _MEMBER_OF.fullmatch(member)
    if found is None:
        return None
    return Jid(f"{found['name'].lower()}@{found['domain'] or service}")


def _highest(some: set[Affiliation]) -> Affiliation:
    """Return the affiliation that allows all that these allow."""
    if {_MEMBER, Affiliation.PUBLISH_ONLY} <= some and _OWNER not in some:
        return _PUBLISHER
    return min(some, key=_RANKS.index)
