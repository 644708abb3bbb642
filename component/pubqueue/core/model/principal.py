"""The entity that makes a request. Values only: nothing here decides anything."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import force_setattr

from pubqueue.core.addresses import Jid, account_of


class Contact(Struct, frozen=True, gc=False):
    """An entry of an owner's roster: whether the contact gets the owner's presence, and its groups."""

    sees_presence: bool
    groups: tuple[str, ...] = ()


class Principal(Struct, frozen=True, gc=False):
    """The entity that makes a request, with its rights by the service's own settings.

    `contact` is its entry in the rosters of the node's owners, None until these have been read.
    `rosters` means that the rosters of its server's accounts can be read. `anonymous` marks an
    account without credentials.
    """

    jid: Jid
    admin: bool = False
    local: bool = False
    rosters: bool = False
    anonymous: bool = False
    contact: tuple[Contact, ...] | None = None
    account: Jid = Jid("")
    """The account of the requester, from its JID."""

    def __post_init__(self) -> None:
        """Find the account once, because each request needs it several times."""
        force_setattr(self, "account", account_of(self.jid))
