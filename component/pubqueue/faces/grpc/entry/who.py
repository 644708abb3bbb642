"""From the metadata of a call, or what else has credentials, to its account."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from grpc import StatusCode

from pubqueue.accounts.accounts import Proven
from pubqueue.accounts.credentials import Bearer, Certificate, Plain
from pubqueue.faces.grpc.calls import Caller
from pubqueue.faces.grpc.entry.certificates import subject_of
from pubqueue.faces.grpc.wire.statuses import UNKNOWN_CALLER, CallError
from pubqueue.model.entities import Jid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.accounts.credentials import Credentials

WORD: Final = "grpc"
"""The word of the face: in addresses, and where users may log in."""

HEADER: Final = "authorization"
CERTIFICATE: Final = "x509_pem_cert"
RESOURCE: Final = f"/{WORD}"
"""The separator between the address of a caller and the resources of pulls."""


class Who:
    """Authenticates calls. Callers without credentials have the account of `anonymous`, if there is one."""

    def __init__(self, accounts: Accounts, service: Jid, anonymous: str = "") -> None:
        self._accounts, self._service, self._anonymous = accounts, service, anonymous

    async def caller(self, given: Credentials | None, peer: str) -> tuple[Caller, Proven | None]:
        """Return the account of a call from the peer at this address, and how it was proven.

        Raises:
            CallError: there are no credentials, or wrong ones.

        """
        if given is None:
            if not self._anonymous:
                raise UNKNOWN_CALLER
            return self._caller(Jid(f"{self._anonymous}@{self._service}"), None), None
        found = await self._accounts.prove(given, face=WORD, peer=peer)
        if isinstance(found, Proven):
            return self._caller(found.account, self._accounts.projects(found)), found
        if found.wait:
            raise CallError(
                StatusCode.UNAVAILABLE, f"Too many wrong attempts: try again in {found.wait:.0f} s."
            )
        raise UNKNOWN_CALLER

    def holds(self, proven: Proven | None) -> bool:
        """Return whether the account may still call."""
        return proven is None or self._accounts.holds(proven)

    def _caller(self, account: Jid, projects: frozenset[str] | None) -> Caller:
        by = self._accounts.principals.of(Jid(account + RESOURCE))
        return Caller(by, projects)


def peer_of(text: str) -> str:
    """Return the address of a peer: of `ipv4:192.0.2.1:80` or `ipv6:[::1]:80` without the port, and percent-decoded."""
    scheme, _, rest = text.partition(":")
    if scheme not in {"ipv4", "ipv6"}:
        return text
    return unquote(rest).rpartition(":")[0].strip("[]")


def credentials_of(
    metadata: Iterable[tuple[str, str | bytes]], auth: Mapping[str, Iterable[bytes]]
) -> Credentials | None:
    """Return the credentials of a call: its header, or else the certificate of its connection."""
    header = next((value for name, value in metadata if name == HEADER), None)
    if header is not None:
        return _of_header(header.decode("latin-1") if isinstance(header, bytes) else header)
    for pem in auth.get(CERTIFICATE, ()):
        return Certificate(subject_of(pem))
    return None


def _of_header(text: str) -> Credentials:
    """Return the credentials in the header; any other text is a token that no user has."""
    scheme, _, rest = text.partition(" ")
    if scheme.lower() == "basic":
        try:
            name, colon, password = b64decode(rest.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return Bearer(rest)
        if colon:
            return Plain(name, password)
    return Bearer(rest.strip())
