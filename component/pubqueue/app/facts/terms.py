"""The settings of the service that requests are judged by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.model.entities import digest
from pubqueue.model.records import MESSAGE_LIMITS as MESSAGES
from pubqueue.model.records import QUOTAS, MessageLimits, Quotas
from pubqueue.model.transactions import DEFAULTS as LIMITS
from pubqueue.model.transactions import Limits
from pubqueue.rules.access import AutoCreation
from pubqueue.rules.subscribe import MAX_SUBSCRIPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.model.entities import Jid
    from pubqueue.rules.access import CreationPolicy


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
