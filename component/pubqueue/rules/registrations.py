"""Register where items are pushed to; list, work on and end registrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import DropRow, PutRow
from pubqueue.model.decision import Decision, Read, Refusal, Request, refuse
from pubqueue.model.entities import Affiliation, Millis, later
from pubqueue.model.records import (
    MAX_OF_ACCOUNT,
    MAX_PULLED,
    PushedNodes,
    Registration,
    Registrations,
)
from pubqueue.rules import access
from pubqueue.rules.damage import ROW_DAMAGED

if TYPE_CHECKING:
    from pubqueue.model.entities import Jid, Node, NodeName, Principal


# Register where items are pushed to, list and end registrations; and, for the service itself, work on one.
#
# A registering account needs the right to subscribe. A registration belongs to its account; owners of the node see it and may end
# it. One instance at a time works on a registration: it claims it for a while, again and again, so that another takes over soon
# after its death.

LEASE: Final = Millis(3_500)
"""The time of a claim, which is renewed before; after an instance dies, another takes over within less than 5 s."""

MAX_ERROR = 500
"""The maximum characters of a stored error."""


class Register(Request, frozen=True, gc=False):
    """Store a registration of the principal's account."""

    by: Principal
    registration: Registration

    @property
    def node(self) -> NodeName:
        """The node whose items are pushed."""
        return self.registration.node


class Unregister(Request, frozen=True, gc=False):
    """End a registration of the node."""

    by: Principal
    node: NodeName
    name: str


class Enable(Request, frozen=True, gc=False):
    """Disable a registration of the node, or enable it again."""

    by: Principal
    node: NodeName
    name: str
    disabled: bool


class Claim(Request, frozen=True, gc=False):
    """Claim a registration for `LEASE`; only the service itself does."""

    by: Principal
    name: str
    runner: str


class NotePush(Request, frozen=True, gc=False):
    """Record the result of a push; only the service itself does, and only the instance that works on the registration."""

    by: Principal
    name: str
    runner: str
    failures: int = 0
    error: str = ""
    disabled: bool = False
    position: int = 0
    following: str = ""
    ended: bool = False
    until: Millis = Millis(0)
    """Until when one that is pulled is in use, if later than before."""
    latest: Millis | None = None
    """The latest such time that can be, if that is known: a later one is from a clock that was ahead."""


class RegisterFacts(Struct, frozen=True, gc=False):
    """The node, the account's affiliation, the registration of the name, and how many of its kind the account has."""

    node: Node | None
    affiliation: Affiliation
    known: Registration | None
    count: int = 0


class NamedFacts(Struct, frozen=True, gc=False):
    """The registration of the name, and the account's affiliation with its node."""

    known: Registration | None
    affiliation: Affiliation = Affiliation.NONE


class ClaimFacts(Struct, frozen=True, gc=False):
    """The registration of the name, and whether its account may still have items of the node."""

    now: Millis
    known: Registration | None
    node: Node | None = None
    affiliation: Affiliation = Affiliation.NONE


def objection(
    by: Principal, node: Node | None, affiliation: Affiliation, *, queueing: bool
) -> Refusal | None:
    """Return why items of the node may not be pushed to the account, None if they may."""
    if node is None:
        return Refusal.NODE_NOT_FOUND
    standing = access.standing_of(by, affiliation)
    if (closed := access.barred(standing, node)) is not None:
        return closed
    if node.config.queueing is not queueing:
        return Refusal.NODE_NOT_FOUND
    return None if access.may(standing, access.Action.SUBSCRIBE, node) else Refusal.FORBIDDEN


def register(request: Register, facts: RegisterFacts) -> Decision:
    """Store the registration, if the account may subscribe; one of the same name is replaced."""
    row, by = request.registration, request.by
    no = objection(by, facts.node, facts.affiliation, queueing=row.queueing)
    if no is not None:
        return refuse(no)
    known = facts.known
    if known is not None and known.damaged:
        return ROW_DAMAGED
    if row.account != by.account or (known is not None and known.account != by.account):
        return refuse(Refusal.FORBIDDEN)
    most = MAX_PULLED if row.is_pulled else MAX_OF_ACCOUNT
    if known is None and facts.count >= most:
        return refuse(Refusal.TOO_MANY_SUBSCRIPTIONS, limit=most)
    return _put(replace(row, revision=1 if known is None else known.revision + 1))


def unregister(request: Unregister, facts: NamedFacts) -> Decision:
    """End the registration."""
    if (row := _visible(request.by, request.node, facts)) is None:
        return refuse(Refusal.ITEM_NOT_FOUND)
    return Decision(Registrations((row,)), (DropRow(Registration, row.name),))


def enable(request: Enable, facts: NamedFacts) -> Decision:
    """Disable the registration, or enable it, with its failures reset."""
    if (row := _visible(request.by, request.node, facts)) is None:
        return refuse(Refusal.ITEM_NOT_FOUND)
    return ROW_DAMAGED if row.damaged else _put(_next(row, disabled=request.disabled, failures=0))


def claim(request: Claim, facts: ClaimFacts) -> Decision:
    """Return the registration: its `runner` is the requester, unless another instance works on it, or it is disabled or useless."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN)
    if (row := facts.known) is None:
        return refuse(Refusal.ITEM_NOT_FOUND)
    node = facts.node
    if row.damaged:
        return Decision(Registrations((row,)))
    if node is None or node.config.queueing is not row.queueing:
        return Decision(Registrations(()), (DropRow(Registration, row.name),))
    if row.disabled or is_worked_on(row, request.runner, facts.now):
        return Decision(Registrations((row,)))
    return _put(_next(row, runner=request.runner, until=later(facts.now, LEASE)))


def is_worked_on(row: Registration, runner: str, now: Millis) -> bool:
    """Return whether another instance works on the registration. A time that no claim gives is from a clock that was ahead."""
    return row.runner not in {"", runner} and now < row.until <= later(now, LEASE)


def note_push(request: NotePush, facts: NamedFacts) -> Decision:
    """Store the result."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN)
    if (row := facts.known) is None:
        return refuse(Refusal.ITEM_NOT_FOUND)
    if row.damaged or row.runner != request.runner:
        return refuse(Refusal.LOCK_LOST)
    if request.ended:
        return Decision(Registrations((row,)), (DropRow(Registration, row.name),))
    known = row.until if request.latest is None else min(row.until, request.latest)
    after = _next(
        row,
        failures=request.failures,
        error=request.error[:MAX_ERROR],
        disabled=row.disabled or request.disabled,
        position=max(row.position, request.position),
        following=request.following,
        until=max(known, request.until),
    )
    return _put(after)


def may_see(by: Principal, row: Registration, affiliation: Affiliation) -> bool:
    """Return whether the principal may see and end the registration."""
    return by.admin or row.account == by.account or affiliation is Affiliation.OWNER


def _visible(by: Principal, node: NodeName, facts: NamedFacts) -> Registration | None:
    row = facts.known
    if row is not None and row.damaged and by.admin:
        return row
    if row is None or row.node != node or not may_see(by, row, facts.affiliation):
        return None
    return row


def _next(row: Registration, **values: object) -> Registration:
    return replace(row, revision=row.revision + 1, **values)


def _put(row: Registration) -> Decision:
    return Decision(Registrations((row,)), (PutRow(row),))


class ListRegistrations(Read, frozen=True, gc=False):
    """Request the registrations of a node that the principal may see, after a name, or the one of a `name`; the service requests those of all nodes."""

    node: NodeName | None = None
    after: str = ""
    most: int = 100
    name: str | None = None


class ListRegistrationsFacts(Struct, frozen=True, gc=False):
    """The registrations, one more than requested if there are more, and whether the principal may see all of the node."""

    entries: tuple[Registration, ...]


def whose(request: ListRegistrations, affiliation: Affiliation) -> Jid | None:
    """Return the account whose registrations are listed, None for all."""
    if request.by.admin or affiliation is Affiliation.OWNER:
        return None
    return request.by.account


def list_registrations(request: ListRegistrations, facts: ListRegistrationsFacts) -> Decision:
    """Return a page of registrations."""
    if request.name is not None and not facts.entries:
        return refuse(Refusal.ITEM_NOT_FOUND)
    more = len(facts.entries) > request.most
    return Decision(Registrations(facts.entries[: request.most], more))


# List the nodes whose items are pushed to an endpoint in their labels: for the workers that push.


class ListPushed(Read, frozen=True, gc=False):
    """Request nodes with the label `labels.PUSHED`, up to `most` after a name; only the service itself does."""

    after: NodeName | None = None
    most: int = 500


class ListPushedFacts(Struct, frozen=True, gc=False):
    """The nodes, one more than requested if there are more."""

    nodes: tuple[Node, ...]


def list_pushed(request: ListPushed, facts: ListPushedFacts) -> Decision:
    """Return a page of the nodes."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN)
    more = len(facts.nodes) > request.most
    return Decision(PushedNodes(facts.nodes[: request.most], more))
