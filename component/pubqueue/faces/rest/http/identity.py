"""Who sends a request: the account of a user, by Basic (RFC 7617) or Bearer (RFC 6750)."""

from __future__ import annotations

import binascii
import math
from base64 import b64decode
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pubqueue.accounts.accounts import Proven
from pubqueue.accounts.credentials import Bearer, Plain
from pubqueue.faces.http.peers import client_of, is_trusted
from pubqueue.faces.rest.http.problems import ProblemError
from pubqueue.faces.rest.terms import WORD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.faces.rest.terms import RestTerms

CHALLENGES: Final = (
    ("WWW-Authenticate", 'Basic realm="pubqueue", charset="UTF-8"'),
    ("WWW-Authenticate", 'Bearer realm="pubqueue"'),
)

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})

_UNKNOWN: Final = "the credentials are not those of a user"


def unauthorized(detail: str) -> ProblemError:
    """Return the problem of a request without the credentials of a user."""
    return ProblemError(401, "unauthorized", detail, headers=CHALLENGES)


async def identify(
    headers: Mapping[str, str], peer: str, accounts: Accounts, terms: RestTerms, *, is_private: bool
) -> Proven:
    """Return the user whose credentials a request has.

    Raises:
        ProblemError: it has none, or they are wrong, or may have been read by others on their way.

    """
    if not (is_private or terms.plain_http or is_trusted(peer, terms.proxies)):
        raise ProblemError(403, "forbidden", "credentials are accepted only over HTTPS")
    given = _given(headers.get("Authorization"))
    found = await accounts.prove(given, face=WORD, peer=client_of(peer, headers, terms.proxies))
    if isinstance(found, Proven):
        return found
    if found.wait:
        wait = [("Retry-After", f"{math.ceil(found.wait)}")]
        raise ProblemError(429, "too-many", "too many wrong credentials", headers=wait)
    raise unauthorized(_UNKNOWN)


def _given(authorization: str | None) -> Plain | Bearer:
    if not authorization:
        raise unauthorized("the request has no credentials")
    scheme, _, rest = authorization.partition(" ")
    match scheme.lower():
        case "basic":
            try:
                name, colon, password = (
                    b64decode(rest.strip(), validate=True).decode().partition(":")
                )
            except (binascii.Error, ValueError):
                raise unauthorized(_UNKNOWN) from None
            if not colon:
                raise unauthorized(_UNKNOWN)
            return Plain(name, password)
        case "bearer":
            return Bearer(rest.strip())
        case _:
            raise unauthorized("the scheme is Basic or Bearer")


def check_origin(method: str, headers: Mapping[str, str], base: str, terms: RestTerms) -> None:
    """Refuse a request that a page of another site has caused: browsers send Basic credentials by themselves.

    Raises:
        ProblemError: it is one.

    """
    if method in SAFE:
        return
    origin = headers.get("Origin")
    if origin is not None:
        ours = urlsplit(base)
        if origin == f"{ours.scheme}://{ours.netloc}" or origin in terms.cors_origins:
            return
    elif headers.get("Sec-Fetch-Site", "none") != "cross-site":
        return
    raise ProblemError(403, "forbidden", "requests from pages of this origin are not accepted")
