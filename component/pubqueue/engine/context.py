"""What a companion can use apart from the request: the rows, the time, the service's settings."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.entities import Jid, Millis, Principal, digest
from pubqueue.model.records import MESSAGE_LIMITS as MESSAGES
from pubqueue.model.records import QUOTAS, MessageLimits, Quotas
from pubqueue.model.replies import UNKNOWN, About, Round
from pubqueue.model.transactions import DEFAULTS as LIMITS
from pubqueue.model.transactions import Limits
from pubqueue.rules.access import AutoCreation
from pubqueue.rules.room import Allowance
from pubqueue.rules.subscribe import MAX_SUBSCRIPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.damage import DamageReports
    from pubqueue.engine.working_set import WorkingSet
    from pubqueue.model.entities import NodeName
    from pubqueue.model.replies import ClientState
    from pubqueue.rules.access import CreationPolicy
    from pubqueue.rules.inspect import ReadConnections


def now() -> Millis:
    """Return the time of the machine."""
    return Millis(time.time_ns() // 1_000_000)


# The settings of the service that requests are judged by.


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


SERVICE: Final = Principal(Jid("pubqueue"), admin=True)
"""The service itself, if it has no address."""


class Context(Struct, frozen=True):
    """The rows and the time of a batch, the settings, and the state of this process."""

    rows: WorkingSet
    now: Millis
    terms: Terms
    payloads: Payloads = Payloads()
    is_behind: Callable[[NodeName], bool] = lambda _node: False
    """Whether so many notices of a node wait that no more may be added."""
    rate: Callable[[NodeName], float] = lambda _node: 0.0
    """How many items of a node were done per minute recently."""
    came: Callable[[Jid], tuple[Jid, ...]] = lambda _account: ()
    """Full JIDs of an account that sent presence recently, whether it is known here or not."""
    waiting: Callable[[Jid], tuple[int, int]] = lambda _account: (0, 0)
    """How many requests for items of an account wait here, and how many in total."""
    failing: Callable[[NodeName], float] = lambda _node: 0.0
    """How many items of a node failed per minute recently."""
    about: Callable[[], About] = lambda: UNKNOWN
    """The facts about this process, at this moment."""
    clients: Callable[[ReadConnections, int, Millis], tuple[tuple[ClientState, ...], int]] = (
        lambda _asked, _most, _now: ((), 0)
    )
    """The clients that are connected to this process, of an account or of all: a number of them after an address; and the total."""
    is_connected: Callable[[Jid], bool] = lambda _address: False
    """Whether this process has the connection of an address."""
    asking: Callable[[Jid, NodeName], int | None] = lambda _address, _node: None
    """How many items a connection of this process holds that asks for items of the node itself; None if there is none of the address."""
    rounds: Callable[[], tuple[Round, ...]] = tuple
    """When its tasks last came round."""
    service: Principal = SERVICE
    """The service itself, in whose name schedules publish."""
    least: Callable[[], int] = lambda: 1 << 62
    """How many bytes of a payload every face can send."""
    largest_of: Callable[[Jid], int] = lambda _address: 1 << 62
    """How many bytes of a payload can be sent to an address."""

    def principal(self, account: Jid) -> Principal:
        """Return an account other than the requester, with its rights by the service's settings."""
        is_admin = account in self.terms.operators or account == self.service.account
        return Principal(account, admin=is_admin)

    def allowance(self, account: Jid) -> Allowance | None:
        """Return the account's storage and its limits; None for the service and its administrators."""
        if account in self.terms.operators or account == self.service.account:
            return None
        return Allowance(self.rows.holding(account), self.terms.quotas.of(account))


class Contexts:
    """Makes the context of each batch and of each read: with its rows, at its time, under the settings of that time."""

    def __init__(self, common: Context, clock: Callable[[], Millis], damage: DamageReports) -> None:
        self._common, self._clock = common, clock
        self.damage = damage

    def adopt(self, terms: Terms) -> None:
        """Use these settings from the next batch on."""
        self._common = replace(self._common, terms=terms)

    def of(self, rows: WorkingSet) -> Context:
        """Return the context of what is decided on these rows now."""
        return replace(self._common, rows=rows, now=self._clock())
