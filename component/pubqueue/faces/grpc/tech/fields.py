"""The fields of a subscription of `tech.pubsub`, and the settings of its queue: one mapping in both directions. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.grpc.pubsub import marks
from pubqueue.faces.grpc.pubsub.settling import MAX_DEADLINE
from pubqueue.faces.grpc.push import configs, endpoints
from pubqueue.faces.grpc.tech import queries
from pubqueue.faces.grpc.wire.messages import tech
from pubqueue.faces.grpc.wire.names import ResourceKind, name_of, to_tech, topic_of
from pubqueue.faces.grpc.wire.statuses import invalid
from pubqueue.model.entities import AtExpiry
from pubqueue.rules.room import truncates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.model.entities import Node, NodeConfig
    from pubqueue.rules.nodeconfig import Value

MAX_AGE: Final = 366 * 86_400
"""Seconds of the longest age of messages."""

MAX_UNUSED: Final = 100 * 365 * 86_400
"""The maximum seconds after which an unused subscription is deleted."""

USUAL_DEADLINE: Final = 10
"""Seconds of the ack deadline of a subscription that names none."""


def settings(given: tech.Subscription, push_to: Iterable[str]) -> dict[str, Value]:
    """Return the settings of a new subscription.

    Raises:
        CallError: a field is invalid, or is not supported.

    """
    deadline = given.ack_deadline_seconds or USUAL_DEADLINE
    if not 0 < deadline <= MAX_DEADLINE:
        raise invalid(f"ack_deadline_seconds must be from 1 to {MAX_DEADLINE}")
    if given.garbage_collect_seconds < 0 or given.garbage_collect_seconds > MAX_UNUSED:
        raise invalid(f"garbage_collect_seconds must be from 0 to {MAX_UNUSED}")
    return {
        "unused_expire": given.garbage_collect_seconds or "",
        **_truncation(given.truncation_policy),
        **push(given.push_config.push_endpoint, push_to, None),
        "lock_timeout": deadline,
        "lock_longest": MAX_DEADLINE,
        "filter": queries.filter_of(given.query),
    }


def _truncation(policy: tech.Subscription.TruncationPolicy) -> dict[str, Value]:
    """Return the settings of a truncation policy: the age at which messages are deleted."""
    match policy.WhichOneof("policy"):
        case "max_age_seconds":
            age = policy.max_age_seconds
            if not 0 < age <= MAX_AGE:
                raise invalid(f"truncation_policy.max_age_seconds must be from 1 to {MAX_AGE}")
            return {"item_expire": age, "expired": "truncate"}
        case "max_bytes":
            if policy.max_bytes <= 0:
                raise invalid("truncation_policy.max_bytes must be above 0")
            return {"max_bytes": policy.max_bytes, "expired": "truncate"}
        case _:
            return {}


def push(endpoint: str, push_to: Iterable[str], before: NodeConfig | None) -> dict[str, Value]:
    """Return the setting with a push endpoint, or without one.

    Raises:
        CallError: the endpoint is invalid, or may not be called.

    """
    labels = "" if before is None else before.labels
    mark = configs.checked(endpoint, {}, push_to)
    return {"labels": marks.with_mark(labels, endpoints.PUSH, mark)}


def shown(node: Node) -> tech.Subscription:
    """Return a subscription with the settings of its queue."""
    config = node.config
    found = tech.Subscription(
        name=to_tech(name_of(node.name, ResourceKind.SUBSCRIPTION), ResourceKind.SUBSCRIPTION),
        topic=to_tech(topic_of(node), ResourceKind.TOPIC),
        query=queries.query_of(config.filter) or None,
        ack_deadline_seconds=min(config.lock_timeout, MAX_DEADLINE),
        garbage_collect_seconds=config.unused_expire or None,
    )
    if truncates(config) and config.max_bytes is not None:
        found.truncation_policy.max_bytes = config.max_bytes
    elif config.item_expire is not None and config.expired is not AtExpiry.DEAD:
        found.truncation_policy.max_age_seconds = config.item_expire
    if (kept := endpoints.kept(config)) is not None:
        found.push_config.push_endpoint = kept.endpoint
    return found
