"""What a companion can use apart from the request: the rows, the time, the service's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.limits.allowance import Allowance
from pubqueue.core.limits.quotas import DEFAULTS as QUOTAS
from pubqueue.core.limits.quotas import Quotas
from pubqueue.core.model import Jid, Principal, digest
from pubqueue.core.nodes.access import AutoCreation
from pubqueue.core.nodes.subscriptions.subscribe import MAX_SUBSCRIPTIONS
from pubqueue.core.reading.summaries import UNKNOWN, About, Round
from pubqueue.core.transactions.model import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.working_set.working_set import WorkingSet
    from pubqueue.core.model import Millis, NodeName
    from pubqueue.core.nodes.access import CreationPolicy
    from pubqueue.core.transactions.model import Limits


SERVICE: Final = Principal(Jid("pubqueue"), admin=True)
"""The service itself, where it has no address."""


class Context(Struct, frozen=True):
    """`same_payload` and `fingerprint` know the payloads' language, of which nothing below the faces does."""

    rows: WorkingSet
    now: Millis
    policy: CreationPolicy
    same_payload: Callable[[bytes, bytes], bool]
    limits: Limits = DEFAULTS
    fingerprint: Callable[[bytes], bytes] = digest
    max_subscriptions: int = MAX_SUBSCRIPTIONS
    auto_creation: AutoCreation = AutoCreation.NEVER
    is_behind: Callable[[NodeName], bool] = lambda _node: False
    """Whether so many notices of a node wait that no more may be added."""
    rate: Callable[[NodeName], float] = lambda _node: 0.0
    """How many items of a node were done per minute recently."""
    came: Callable[[Jid], tuple[Jid, ...]] = lambda _account: ()
    """Full JIDs of an account that sent presence recently, whether it is known here or not."""
    failing: Callable[[NodeName], float] = lambda _node: 0.0
    """How many items of a node failed per minute recently."""
    about: Callable[[], About] = lambda: UNKNOWN
    """What process this is, at this moment."""
    rounds: Callable[[], tuple[Round, ...]] = tuple
    """When its tasks last came round."""
    service: Principal = SERVICE
    """The service itself, in whose name schedules publish."""
    operators: frozenset[Jid] = frozenset()
    """The accounts that administer the service."""
    space_of: Callable[[bytes], str] = lambda _payload: ""
    """The namespace of a payload."""
    quotas: Quotas = QUOTAS

    def allowance(self, account: Jid) -> Allowance | None:
        """Return the account's storage and its limits; None for the service and its administrators."""
        if account in self.operators or account == self.service.account:
            return None
        return Allowance(self.rows.holding(account), self.quotas.of(account))
