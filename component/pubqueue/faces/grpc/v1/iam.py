"""`google.iam.v1.IAMPolicy` for topics and subscriptions: a row for each rpc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from grpc import StatusCode

from pubqueue.faces.grpc.pubsub import marks, subscriptions, topics
from pubqueue.faces.grpc.v1 import policies
from pubqueue.faces.grpc.wire.messages import iam
from pubqueue.faces.grpc.wire.names import ResourceKind
from pubqueue.faces.grpc.wire.statuses import CallError, invalid
from pubqueue.model.entities import Affiliation, domain_of
from pubqueue.model.replies import Described, MyAffiliations
from pubqueue.rules import access
from pubqueue.rules.discovery import Describe, ListMyAffiliations
from pubqueue.rules.nodes import SetAffiliations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.faces.grpc.calls import Call
    from pubqueue.faces.grpc.services import Unary
    from pubqueue.model.entities import Jid, Node

MASKED: Final = frozenset({"bindings", "etag", "version"})
"""Fields of a policy that a mask may name: the whole policy is set in any case."""


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
        return await topics.found(call, resource, "resource")
    return await subscriptions.found(call, resource, "resource")


async def _managed(call: Call, resource: str) -> Node:
    """Return the node of a resource, for its owners alone."""
    node = await _found(call, resource)
    reply = await call.ask(Describe(call.by, node.name, manage=True), resource)
    assert isinstance(reply, Described)
    return reply.node


async def get_policy(call: Call, request: iam.GetIamPolicyRequest) -> iam.Policy:
    """Return the policy as it was set; affiliations that were set over other protocols are not in it."""
    node = await _managed(call, request.resource)
    return policies.shown(policies.kept(node.config))


async def set_policy(call: Call, request: iam.SetIamPolicyRequest) -> iam.Policy:
    """Set the policy: its members get their affiliations, and those that only the former policy had lose theirs."""
    if not set(request.update_mask.paths) <= MASKED:
        raise invalid("update_mask may name bindings, etag and version")
    kind = kind_of(request.resource)
    wanted = policies.read(request.policy, kind)
    node = await _managed(call, request.resource)
    before = policies.kept(node.config)
    if request.policy.etag and request.policy.etag != policies.etag(before):
        raise CallError(StatusCode.ABORTED, "The policy has changed meanwhile: read it again.")
    entries = _entries(node, kind, before, wanted, domain_of(call.account))
    if entries:
        changes = SetAffiliations(call.by, node.name, tuple(entries.items()))
        await call.ask(changes, request.resource)
    text = msgspec.json.encode(wanted).decode() if wanted else None
    labels = marks.with_mark(node.config.labels, policies.POLICY, text)
    configure = topics.configure if kind is ResourceKind.TOPIC else subscriptions.configure
    await configure(call, request.resource, {"labels": labels})
    return policies.shown(wanted)


def _entries(  # two policies of a node
    node: Node,
    kind: ResourceKind,
    before: policies.Bindings,
    wanted: policies.Bindings,
    service: str,
) -> dict[Jid, Affiliation]:
    """Return the affiliations to set. The creator of the node stays its owner."""
    had = policies.granted(before, kind, service)
    gets = policies.granted(wanted, kind, service)
    entries = dict.fromkeys(had, Affiliation.NONE) | gets
    entries.pop(node.creator, None)
    return {account: role for account, role in entries.items() if had.get(account) is not role}


async def test_permissions(
    call: Call, request: iam.TestIamPermissionsRequest
) -> iam.TestIamPermissionsResponse:
    """Return which of these permissions the caller has."""
    node = await _found(call, request.resource)
    known = policies.PERMISSIONS[kind_of(request.resource)]
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
        if (action := known[name]) is policies.SEES or access.may(standing, action, node)
    ]
    return iam.TestIamPermissionsResponse(permissions=has)


RPCS: Final[Mapping[str, Unary]] = {
    "SetIamPolicy": set_policy,
    "GetIamPolicy": get_policy,
    "TestIamPermissions": test_permissions,
}
"""The rpcs of the service."""
