"""Authenticates the caller of an operation, in each request, and determines its rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from pubqueue.accounts.accounts import Denied
from pubqueue.faces.http.host import CHALLENGES, credentials_of
from pubqueue.faces.http.problems import problem
from pubqueue.model.entities import Jid
from pubqueue.monitor.page.logins import FACE
from pubqueue.monitor.page.places import address_of, is_from_here, is_guarded
from pubqueue.operations.table import hidden, lends

if TYPE_CHECKING:
    from aiohttp import web

    from pubqueue.accounts.accounts import Accounts, Proven
    from pubqueue.config.checks import Networks
    from pubqueue.model.entities import Principal
    from pubqueue.operations.model import Operation

log = structlog.get_logger(__name__)

READING: Final = frozenset({"GET", "HEAD"})
"""Methods that change nothing: a page of another site may send them, and cannot read the response."""

UNGUARDED: Final = "Use HTTPS: this connection would send credentials in plain text. Change those that it has sent."


class Caller(Struct, frozen=True):
    """The principal of a request for an operation, and the columns that are hidden from it."""

    by: Principal
    hidden: frozenset[str] = frozenset()


class Callers:
    """Authenticates requests. `service` is the principal whose rights a role gives."""

    def __init__(self, accounts: Accounts, service: Principal, proxies: Networks) -> None:
        self._accounts, self._service, self._proxies = accounts, service, tuple(proxies)

    async def prove(self, request: web.Request) -> Proven | web.Response:
        """Return the user; or the response, if the request has no user, or if another site may have had the browser send it."""
        if request.method not in READING and not is_from_here(request):
            return problem(403, "forbidden", "This request was sent from a page of another site.")
        given = credentials_of(request.headers.getall("Authorization", []))
        if given is None:
            return _unknown("Log in with Basic or Bearer.")
        if not is_guarded(request, self._proxies):
            return problem(403, "forbidden", UNGUARDED)
        peer = self.address_of(request)
        proven = await self._accounts.prove(given, face=FACE, peer=peer)
        if not isinstance(proven, Denied):
            return proven
        if not proven.wait:
            return _unknown("Wrong name, password or token.")
        seconds = int(proven.wait) + 1
        why = f"There were too many wrong attempts from your address. Try again in {seconds} s."
        return problem(429, "too-many", why, headers={"Retry-After": str(seconds)})

    def caller(self, proven: Proven, operation: Operation) -> Caller:
        """Return the caller, with the rights of the service if a role of the user includes the operation, else with its own rights."""
        roles, jid = self._accounts.roles(proven), Jid(f"{proven.account}/api")
        if lends(roles, operation):
            return Caller(replace(self._service, jid=jid), hidden(roles))
        return Caller(self._accounts.principals.of(jid))

    def address_of(self, request: web.Request) -> str:
        """Return the address of the client."""
        return address_of(request, self._proxies)


def _unknown(why: str) -> web.Response:
    answer = problem(401, "unauthorized", why)
    for challenge in CHALLENGES:
        answer.headers.add("WWW-Authenticate", challenge)
    return answer
