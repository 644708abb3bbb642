"""Requests of HTTP to the broker of this process: their bodies, where they come from, the time they have."""

from __future__ import annotations

import asyncio
import math
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

from aiohttp import web
from multidict import MultiDict

from pubqueue.faces import checks
from pubqueue.faces.http import host
from pubqueue.faces.http.host import MAX_BODY_BYTES, REQUEST, is_same_origin, split
from pubqueue.model.decision import Refusal, Refused
from pubqueue.operations.table import performed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.broker import Broker
    from pubqueue.faces.checks import Networks
    from pubqueue.model.decision import Reply, Request
    from pubqueue.model.entities import Principal
    from pubqueue.operations.model import Given, Operation


# Sends the requests of HTTP to the broker of this process; a response comes in time, or an error names the reason.

TIMEOUT: Final = 10.0
"""Seconds that the store has to respond."""


AT_REST: Final = "This process does not serve at present."


class SilentError(Exception):
    """The store, or the process that does the work, does not respond; the message names which."""


class RefusedError(Exception):
    """The core refused; the reply has the reason."""

    def __init__(self, reply: Refused, node: str = "") -> None:
        words = reply.refusal.name.lower().replace("_", " ")
        if node and reply.refusal is Refusal.NODE_NOT_FOUND:
            words = f"there is no node {node}"
        super().__init__(reply.reason or words)
        self.reply = reply


class Asking:
    """Submits requests. `broker_of` returns the broker, or None while there is none."""

    def __init__(self, broker_of: Callable[[], Broker | None]) -> None:
        self._broker_of = broker_of
        self._performing: set[asyncio.Task[Reply]] = set()

    async def __call__(self, request: Request) -> Reply:
        """Submit a request and return its reply.

        Raises:
            SilentError: the service does not respond now.
            RefusedError: the request was refused.

        """
        broker = self._broker_of()
        if broker is None:
            raise SilentError(AT_REST)
        try:
            async with asyncio.timeout(TIMEOUT):
                reply = await broker.handle(request)
        except TimeoutError:
            raise SilentError("The store does not answer.") from None
        if isinstance(reply, Refused):
            if reply.refusal is Refusal.STORE_FAILED:
                raise SilentError(reply.reason or "The store does not answer.")
            raise RefusedError(reply, getattr(request, "node", None) or "")
        return reply

    async def perform(
        self, operation: Operation, by: Principal, given: Given, *, remote: str
    ) -> Reply:
        """Do an operation and log it, also if the client disconnects meanwhile: an operation that was done has to be in the audit log.

        Raises:
            SilentError, RefusedError: as a call.

        """
        task = asyncio.create_task(self._performed(operation, by, given, remote), name="operation")
        self._performing.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    async def _performed(
        self, operation: Operation, by: Principal, given: Given, remote: str
    ) -> Reply:
        reply = await self(operation.ask(by, given))
        performed(operation, by, given, remote=remote)
        return reply

    def _over(self, task: asyncio.Task[Reply]) -> None:
        self._performing.discard(task)
        if not task.cancelled():
            task.exception()  # the client may have disconnected


# Reads the bodies of requests for the page and for operations.

FORM: Final = "application/x-www-form-urlencoded"

MAX_FIELDS: Final = 1_000
"""Maximum number of fields in a form of the page."""


async def body_of(request: web.Request, most: int = MAX_BODY_BYTES) -> bytes:
    """Return the body, of up to `most` bytes.

    Raises:
        web.HTTPException: it is too large, takes too long, or cannot be read.

    """
    try:
        return await host.read(request, most, REQUEST)
    except host.BodyError as problem:
        raise _refusal(problem.status, most) from None


def _refusal(status: int, most: int) -> web.HTTPException:
    match status:
        case 413:
            why = f"The body has more than {most} bytes."
            return web.HTTPRequestEntityTooLarge(most, reason=why)
        case 408:
            return web.HTTPRequestTimeout(reason="The body took too long.")
        case _:
            return web.HTTPBadRequest(reason="The body cannot be read.")


async def form_of(request: web.Request) -> MultiDict[str]:
    """Return the fields of a form, which has the type that browsers send forms of the page with, in UTF-8.

    Raises:
        web.HTTPException: it is no such form.

    """
    if request.content_type != FORM:
        raise web.HTTPUnsupportedMediaType(reason=f"A form is sent as {FORM}.")
    body = await body_of(request)
    try:
        fields = parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError:
        raise web.HTTPBadRequest(reason="The form cannot be read.") from None
    return MultiDict(fields)


# Where a request comes from, and the page to which a login returns.

PLACES: Final = frozenset(
    {
        *("./", "queue", "items", "item", "reasons", "dead", "ask"),
        *("members", "settings", "schedules", "users"),
    }
)
"""Pages to which a login returns."""

MAX_PLACE_LENGTH: Final = 4_000
"""Maximum number of characters of an address to which a login returns."""


def place_of(request: web.Request) -> str:
    """Return the requested page, as a link from any other page has it; the first page if the address is not a page."""
    page = request.path.rpartition("/")[2] or "./"
    query = request.rel_url.raw_query_string
    return known_place(f"{page}?{query}" if query else page)


def referring(request: web.Request) -> str:
    """Return our page from which a form was sent; the first page if the request does not name one."""
    there = split(request.headers.get("Referer", ""))
    if there is None or there.netloc != request.host:
        return "./"
    page = there.path.rpartition("/")[2]
    return known_place(f"{page}?{there.query}" if there.query else page)


def known_place(text: str) -> str:
    """Return the page to which a login returns: one of ours, else the first one; never a page of another site."""
    page, _, query = text.partition("?")
    fits = page in PLACES and len(text) <= MAX_PLACE_LENGTH and re.fullmatch(r"[!-~]*", query)
    return text if fits else "./"


def login_from(place: str) -> str:
    """Return the address of the login page, from which the user returns to this page."""
    return "login" if place == "./" else f"login?{urlencode({'to': place})}"


def after_too_many(wait: float) -> tuple[str, dict[str, str]]:
    """Return why a password is not checked: there were too many wrong ones; and the header that says when it is again."""
    seconds = math.ceil(wait)
    why = f"There were too many wrong attempts from your address. Try again in {seconds} s."
    return why, {"Retry-After": str(seconds)}


def is_from_here(request: web.Request) -> bool:
    """Return whether a form was sent from a page of this host, by the headers of the browser."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
        return False
    origin = request.headers.get("Origin")
    return origin is None or is_same_origin(origin, request.host)


def is_private(request: web.Request) -> bool:
    """Return whether the browser's connection uses TLS, to a proxy or to us."""
    return request.secure or request.headers.get("X-Forwarded-Proto", "") == "https"


def is_guarded(request: web.Request, proxies: Networks) -> bool:
    """Return whether this connection may carry a password: with TLS, from this host, or from a configured proxy."""
    return request.secure or checks.is_trusted(request.remote or "", proxies)


BY_PROXIES: Final = ("Forwarded", "X-Forwarded-For", "Via")
"""Fields of a request that a proxy has passed on."""


def is_here(request: web.Request) -> bool:
    """Return whether a program on this machine has sent the request, and no proxy has passed it on."""
    return checks.is_trusted(host.client()) and not any(
        name in request.headers for name in BY_PROXIES
    )
