"""The settings of the service that requests are judged by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.limits.quotas import DEFAULTS as QUOTAS
from pubqueue.core.limits.quotas import Quotas
from pubqueue.core.model import digest
from pubqueue.core.nodes.access import AutoCreation
from pubqueue.core.nodes.subscriptions.subscribe import MAX_SUBSCRIPTIONS
from pubqueue.core.qos.model import DEFAULTS as MESSAGES
from pubqueue.core.qos.model import MessageLimits
from pubqueue.core.transactions.model import DEFAULTS as LIMITS
from pubqueue.core.transactions.model import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.core.model import Jid
    from pubqueue.core.nodes.access import CreationPolicy


class Terms(Struct, frozen=True):
    """The settings that a reload can change."""

    policy: CreationPolicy
    limits: Limits = LIMITS
    max_subscriptions: int = MAX_SUBSCRIPTIONS
    auto_creation: AutoCreation = AutoCreation.NEVER
    operators: frozenset[Jid] = frozenset()
    """The accounts that administer the service."""
    quotas: Quotas = QUOTAS
    messages: MessageLimits = MESSAGES


class Payloads(Struct, frozen=True):
    """Functions that know the language of payloads, which the layers below the faces do not."""

    same: Callable[[bytes, bytes], bool] = bytes.__eq__
    fingerprint: Callable[[bytes], bytes] = digest
    space_of: Callable[[bytes], str] = lambda _payload: ""
    """Returns the namespace of a payload."""
