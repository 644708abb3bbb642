"""`google.iam.v1.IAMPolicy` for topics and subscriptions, and the affiliations that its policies give."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec
from grpc import StatusCode

from pubqueue.faces.grpc import subscriptions, topics
from pubqueue.faces.grpc.statuses import CallError, invalid
from pubqueue.faces.grpc.wire import ResourceKind, iam
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import Affiliation, Jid, Policy, domain_of
from pubqueue.model.replies import Described, MyAffiliations
from pubqueue.rules import access
from pubqueue.rules.access import Action
from pubqueue.rules.discovery import Describe, ListMyAffiliations
from pubqueue.rules.nodes import SetPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.faces.grpc.calls import Call, Unary
    from pubqueue.model.entities import Node


# `google.iam.v1.IAMPolicy` for topics and subscriptions: a row for each rpc.

MASKED: Final = frozenset({"bindings", "etag", "version"})
"""Fields of a policy that a mask may name: they are set together."""

VERSIONS: Final = frozenset({0, 1, 3})
"""The versions of policies. Without conditions they are the same."""


def kind_of(resource: str) -> ResourceKind:
    """Return the kind of resource of a name.

    Raises:
        CallError: it is neither a topic nor a subscription.

    """
    for kind in ResourceKind:
        if f"/{kind.value}/" in resource:
            return kind
    raise invalid(f"resource {resource[:255]!a} is neither a topic nor a subscription")


async def _found(call: Call, resource: str) -> Node:
    if kind_of(resource) is ResourceKind.TOPIC:
        return await topics.found_topic(call, resource, "resource")
    return await subscriptions.found(call, resource, "resource")


async def _managed(call: Call, resource: str) -> Node:
    """Return the node of a resource, for its owners alone."""
    node = await _found(call, resource)
    reply = await call.ask(Describe(call.by, node.name, manage=True), resource)
    assert isinstance(reply, Described)
    return reply.node


async def get_policy(call: Call, request: iam.GetIamPolicyRequest) -> iam.Policy:
    """Return the policy as it was set; affiliations that were set over other protocols are not in it."""
    _check_version(request.options.requested_policy_version)
    node = await _managed(call, request.resource)
    return shown(node.config.policy)


def _check_version(version: int) -> None:
    if version not in VERSIONS:
        raise invalid("The version of a policy is 0, 1 or 3.")


async def set_policy(call: Call, request: iam.SetIamPolicyRequest) -> iam.Policy:
    """Set the policy: its members get their affiliations, and those that only the former policy had lose theirs."""
    named = set(request.update_mask.paths)
    if not named <= MASKED or (named and "bindings" not in named):
        raise invalid("update_mask names bindings, and may name etag and version")
    _check_version(request.policy.version)
    kind = kind_of(request.resource)
    wanted = read(request.policy, kind)
    node = await _found(call, request.resource)
    text = msgspec.json.encode(wanted).decode() if wanted else ""
    gives = granted(wanted, kind, domain_of(call.account))
    viewers = viewing(wanted, domain_of(call.account))
    policy = Policy(text, tuple(gives.items()), viewers)
    etag = request.policy.etag.decode("latin-1") or None
    asked = SetPolicy(call.by, node.name, policy, etag, node.config.queueing)
    reply = await call.backend.broker.handle_for(call.by, asked)
    if isinstance(reply, Refused) and reply.refusal is Refusal.PRECONDITION_NOT_MET:
        raise CallError(StatusCode.ABORTED, "The policy has changed meanwhile: read it again.")
    if isinstance(reply, Refused):
        raise await call.refusal(reply, node.name, request.resource)
    return shown(policy)


async def test_permissions(
    call: Call, request: iam.TestIamPermissionsRequest
) -> iam.TestIamPermissionsResponse:
    """Return which of these permissions the caller has."""
    node = await _found(call, request.resource)
    known = PERMISSIONS[kind_of(request.resource)]
    for name in request.permissions:
        if name not in known:
            raise invalid(f"permission {name[:100]!a} is none of this resource")
    reply = await call.ask(ListMyAffiliations(call.by, node.name), request.resource)
    assert isinstance(reply, MyAffiliations)
    mine = dict(reply.entries).get(node.name, Affiliation.NONE)
    standing = access.standing_of(call.by, mine)
    has = [
        name
        for name in request.permissions
        if (action := known[name]) is SEES or access.may(standing, action, node)
    ]
    return iam.TestIamPermissionsResponse(permissions=has)


RPCS: Final[Mapping[str, Unary]] = {
    "SetIamPolicy": set_policy,
    "GetIamPolicy": get_policy,
    "TestIamPermissions": test_permissions,
}
"""The rpcs of the service."""


# Policies of `google.iam.v1`, and the affiliations that they give: the meanings of roles and of members. Pure.

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
}
"""The affiliation of a role."""

VIEWER: Final = "roles/pubsub.viewer"
"""The role that gives sight of the node, and no affiliation: a viewer neither attaches a subscription nor pulls."""

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


_BINDINGS: Final = msgspec.json.Decoder(Bindings)


def shown(kept: Policy) -> iam.Policy:
    """Return a policy in the clients' form, as it was set."""
    policy = iam.Policy(version=1, etag=kept.etag.encode())
    bindings = _BINDINGS.decode(kept.text) if kept.text else {}
    for role, members in bindings.items():
        policy.bindings.add(role=role, members=members)
    return policy


def read(policy: iam.Policy, kind: ResourceKind) -> Bindings:
    """Return the policy that a client sets.

    Raises:
        CallError: it has a role that is not one of this kind of resource.

    """
    found: Bindings = {}
    for binding in policy.bindings:
        if kind not in ROLES.get(binding.role, {}) and binding.role != VIEWER:
            raise invalid(f"Role {binding.role[:100]!a} is not supported for this resource.")
        if any("\0" in member for member in binding.members):
            raise invalid("policy.bindings.members: a NUL character is not allowed")
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


def viewing(bindings: Bindings, service: str) -> tuple[Jid, ...]:
    """Return the accounts that may see the node by the policy."""
    found = (account_of(member, service) for member in bindings.get(VIEWER, ()))
    return tuple(dict.fromkeys(account for account in found if account is not None))


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
