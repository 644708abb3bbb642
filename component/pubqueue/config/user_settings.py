"""A user, as the configuration has it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from pubqueue.accounts.credentials import Role  # noqa: TC001  # msgspec reads it


class UserSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user of the service itself, for the page and for protocols whose clients log in here ([how to](../operations/users.md))."""

    name: Annotated[str, msgspec.Meta(pattern=r"\A[a-z0-9._-]{1,64}\Z")]
    """The name to log in with: 1 to 64 of the characters a-z, 0-9, `.`, `_` and `-`. The account is `name@` and the service's
    own `jid`; lists of nodes and `[limits.accounts]` name it so."""
    password: str | None = None
    """A scrypt string, as `pubqueue user password` prints it."""
    password_file: str | None = None
    """A file with the scrypt string in its first line, instead of `password`."""
    token_sha256: tuple[str, ...] = ()
    """SHA-256 digests of bearer tokens; `pubqueue user token` makes a token and prints its digest."""
    certificate: str | None = None
    """The subject of a client certificate, such as `CN=etl,O=example`: all of its parts, in any order."""
    roles: tuple[Role, ...] = ()
    """`viewer` may see every queue on the page; `operator` may also change them there, and see payloads; `admin` may do
    everything on every node, as the accounts in `admins`. Without a role, the user may do what the lists of nodes say."""
    local: bool = False
    """Whether the account counts as local for `node_creation`."""
    faces: tuple[str, ...] | None = None
    """Where the user may log in: `page`, `stomp`, `grpc`. Everywhere, if it is not set; nowhere, if it is empty."""
    projects: tuple[str, ...] | None = None
    """Over gRPC: the projects that exist for the user. All, if it is not set."""

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """Return what to show: the name."""
        return [("name", self.name)]

    def __repr__(self) -> str:
        """Show only the name, because the rest is hashes, which tracebacks should not contain."""
        return f"{type(self).__name__}(name={self.name!r})"
