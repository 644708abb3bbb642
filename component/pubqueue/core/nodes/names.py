"""Names that are not for whoever comes first: each space of names belongs to the account that the name says, or to the operator.

A node below `replies/` has what was answered to an account, so it is that account's whoever made it: it alone, and administrators,
make and manage such a node, and that another account is its owner counts for nothing. All other names are for whoever may
make nodes; those that the configuration file declares are the operator's (`core.nodes.declare`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.core.decision import Refusal, Refused
from pubqueue.core.model import Affiliation

if TYPE_CHECKING:
    from pubqueue.core.model import Jid, NodeName, Principal

OF_ACCOUNTS: Final = ("replies/",)
"""What names begin with that belong to the account which follows."""


def of_account(name: NodeName) -> str | None:
    """Return the account to which the name belongs, None if it belongs to nobody yet."""
    for space in OF_ACCOUNTS:
        if name.startswith(space):
            return name[len(space) :]
    return None


def taken(by: Principal, name: NodeName) -> Refused | None:
    """Refuse to let somebody make a node under a name that belongs to another."""
    account = of_account(name)
    if account is None or by.admin or account == by.account:
        return None
    return Refused(Refusal.FORBIDDEN, f"{name!r} is for {account} alone to make")


def standing(name: NodeName, account: Jid, stored: Affiliation) -> Affiliation:
    """Return what an account is to a node, given what is stored: whom the name belongs to owns it, and nobody else does."""
    belongs_to = of_account(name)
    if belongs_to is None:
        return stored
    if belongs_to == account:
        return Affiliation.OWNER
    return Affiliation.NONE if stored is Affiliation.OWNER else stored
