"""Reserved names: a namespace belongs to the account in the name, or to the operator.

A node below `replies/` contains answers to an account, so it belongs to that account, whichever
account created it: only the account itself and administrators create and manage such a node, and
another account's ownership has no effect. All other names are free for accounts that may create
nodes; those that the configuration file declares belong to the operator (`core.nodes.declare`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.core.decision import Refusal, Refused
from pubqueue.core.model import Affiliation

if TYPE_CHECKING:
    from pubqueue.core.model import Jid, NodeName, Principal

OF_ACCOUNTS: Final = ("replies/",)
"""The prefix of names that belong to the account that follows it."""


def of_account(name: NodeName) -> str | None:
    """Return the account to which the name belongs, None if it is free."""
    for space in OF_ACCOUNTS:
        if name.startswith(space):
            return name[len(space) :]
    return None


def taken(by: Principal, name: NodeName) -> Refused | None:
    """Refuse to create a node under a name that belongs to another account."""
    account = of_account(name)
    if account is None or by.admin or account == by.account:
        return None
    return Refused(Refusal.FORBIDDEN, f"{name!r} is for {account} alone to make")


def standing(name: NodeName, account: Jid, stored: Affiliation) -> Affiliation:
    """Return the effective affiliation, given the stored one: the account to which the name belongs is the only owner."""
    belongs_to = of_account(name)
    if belongs_to is None:
        return stored
    if belongs_to == account:
        return Affiliation.OWNER
    return Affiliation.NONE if stored is Affiliation.OWNER else stored
