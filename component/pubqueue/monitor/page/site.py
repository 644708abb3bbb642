"""The pages, by their addresses: who may see them, what stands on them, and what is done when a form is sent."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import structlog
from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from pubqueue.app.management.audit import performed
from pubqueue.app.management.overview import place_from
from pubqueue.core.decision import Refusal, Refused
from pubqueue.core.model import ItemId, Jid, NodeName, State
from pubqueue.core.reading.survey import Sort
from pubqueue.faces.http_status import STATUS
from pubqueue.monitor.page import formats, views
from pubqueue.monitor.page.actions import ACTIONS, OF_REASON, OF_STATE, Of, given
from pubqueue.monitor.page.attempts import Attempts
from pubqueue.monitor.page.logins import HELD, Logins
from pubqueue.monitor.page.places import (
    address_of,
    is_from_here,
    is_private,
    known_place,
    login_from,
    place_of,
    referring,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from importlib.resources.abc import Traversable

    from pubqueue.app.broker import Broker
    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Reply
    from pubqueue.core.model import Principal
    from pubqueue.monitor.page.actions import PageAction
    from pubqueue.monitor.page.logins import Login, Tokens

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = structlog.get_logger(__name__)

COOKIE: Final = "pubqueue"

PART: Final = "X-Pubqueue-Part"
"""A header with which the script asks for the part alone that changes."""

TIMEOUT: Final = 10.0
"""Seconds for the store to answer."""

CHANGING: Final = frozenset(
    {"queues.html", "queue.html", "items.html", "item.html", "reasons.html"}
)
"""Pages of which the script brings a part up to date, which is a template of its own."""

LIVE: Final = 5_000
"""Milliseconds after which the script brings a page up to date."""

MAX_REASON_LENGTH: Final = 1_000
"""Characters of a reason that items are chosen by."""

MAX_CHOSEN: Final = 200
"""Items in one form, at most."""

OFF: Final = (
    "There is no page: set http_token_file (to look) or http_admin_token_file (to change things too),"
    " each a file with a token in its first line.\n"
)

NOBODYS: Final = "No queue or item has this name."

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}

STATIC: Final = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


class SilentError(Exception):
    """The store, or who does the work, does not answer; the message says which."""


class RefusedError(Exception):
    """The core has refused; the reply says why."""

    def __init__(self, reply: Refused) -> None:
        super().__init__(reply.reason or reply.refusal.name.lower().replace("_", " "))
        self.reply = reply


class Site:
    """The page of one process. `broker_of` returns the broker, or None while there is none."""

    def __init__(
        self,
        tokens: Tokens,
        by: Principal,
        broker_of: Callable[[], Broker | None],
        *,
        version: str,
    ) -> None:
        self._tokens = tokens
        self._by = by
        self._broker_of = broker_of
        self._sessions = Logins(tokens, time.time)
        self._attempts = Attempts(time.monotonic)
        self._templates = Environment(
            loader=PackageLoader("pubqueue.monitor.page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals |= {"version": version, "words": formats, "every": LIVE}
        self._templates.filters |= {
            "n": formats.number,
            "span": formats.span,
            "moment": formats.moment,
        }
        self._files = {name: _file(name) for name in STATIC}

    def add_to(self, app: web.Application) -> None:
        """Answer under `/ui/`; without a token, say how to get a page."""
        if not self._tokens.any:
            app.router.add_get("/", _off)
            app.router.add_get("/ui/{rest:.*}", _off)
            return
        app.router.add_get("/", _to_page)
        app.router.add_get("/ui", _to_page)
        pages = web.Application(middlewares=[self._guarded])
        pages.router.add_get("/", self._open(self._queues))
        pages.router.add_get("/queue", self._open(self._queue))
        pages.router.add_get("/items", self._open(self._items))
        pages.router.add_get("/reasons", self._open(self._reasons))
        pages.router.add_get("/item", self._open(self._item))
        pages.router.add_get("/ask", self._open(self._ask))
        pages.router.add_post("/do", self._open(self._do))
        pages.router.add_get("/login", self._login)
        pages.router.add_post("/login", self._log_in)
        pages.router.add_post("/logout", self._open(self._log_out))
        pages.router.add_get("/static/{name}", self._static)
        app.add_subapp("/ui/", pages)

    # --- what holds of all pages ----------------------------------------------------------------

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer with the headers of a closed page, whatever happens; a form from elsewhere is refused."""
        response: web.StreamResponse
        try:
            if request.method == "POST" and not is_from_here(request):
                response = self._sorry(request, 403, "This form was sent from another page.")
            elif any(map(_is_nobodys, request.query.values())):
                response = self._sorry(request, 400, NOBODYS)
            else:
                response = await handler(request)
        except SilentError as problem:
            response = self._sorry(request, 503, str(problem))
        except RefusedError as problem:
            response = self._sorry(request, STATUS[problem.reply.refusal], str(problem))
        except web.HTTPRedirection as elsewhere:
            elsewhere.headers.update(HEADERS)
            raise
        except web.HTTPException as problem:
            response = self._sorry(request, problem.status, problem.reason)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    def _open(self, page: Callable[[web.Request, Login], Awaitable[web.StreamResponse]]) -> Handler:
        """Return the page for those who are logged in; others are sent to log in."""

        async def shown(request: web.Request) -> web.StreamResponse:
            session = self._session(request)
            if session is None:
                if PART in request.headers or request.method == "POST":
                    raise web.HTTPUnauthorized(reason="Log in again.")
                raise web.HTTPSeeOther(login_from(place_of(request)))
            return await page(request, session)

        return shown

    def _session(self, request: web.Request) -> Login | None:
        return self._sessions.read(request.cookies.get(COOKIE))

    def _shown(
        self, request: web.Request, template: str, session: Login | None, **facts: object
    ) -> web.Response:
        facts = {"session": session, "said": "", **facts}
        if session is not None:
            said = request.query.get("said", "")
            genuine = self._sessions.signed(session, said, request.query.get("mark", ""))
            facts["said"] = said if genuine else ""
        if PART in request.headers and template in CHANGING:
            template = f"live_{template}"
        text = self._templates.get_template(template).render(facts)
        return web.Response(text=text, content_type="text/html")

    def _sorry(self, request: web.Request, status: int, why: str) -> web.Response:
        again = ""
        if status == web.HTTPUnauthorized.status_code:
            again = login_from(referring(request))
        response = self._shown(
            *(request, "sorry.html", self._session(request)),
            title="Something went wrong",
            why=why,
            again=again,
        )
        response.set_status(status)
        return response

    async def _static(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._files:
            raise web.HTTPNotFound(reason="There is no such file.")
        response = web.Response(body=self._files[name], content_type=STATIC[name])
        response.charset = "utf-8"
        response.headers["Cache-Control"] = "no-cache"
        return response

    async def ask(self, request: Request) -> Reply:
        """Have a request decided.

        Raises:
            SilentError: the service does not answer now.
            RefusedError: the answer is no.

        """
        broker = self._broker_of()
        if broker is None:
            raise SilentError("This process does not serve at present.")
        try:
            async with asyncio.timeout(TIMEOUT):
                reply = await broker.handle(request)
        except TimeoutError:
            raise SilentError("The store does not answer.") from None
        if isinstance(reply, Refused):
            if reply.refusal is Refusal.STORE_FAILED:
                raise SilentError(reply.reason or "The store does not answer.")
            raise RefusedError(reply)
        return reply

    # --- coming and going -----------------------------------------------------------------------

    async def _login(self, request: web.Request) -> web.StreamResponse:
        to = known_place(request.query.get("to", ""))
        if self._session(request) is not None:
            raise web.HTTPSeeOther(to)
        return self._at_login(request, to, "")

    def _at_login(self, request: web.Request, to: str, why: str) -> web.Response:
        return self._shown(request, "login.html", None, title="Log in", why=why, to=to)

    async def _log_in(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        to, address = known_place(str(form.get("to", ""))), address_of(request)
        if wait := self._attempts.wait(address):
            return self._slowed(request, to, wait)
        begun = self._sessions.begin(str(form.get("token", "")).strip())
        if begun is None:
            self._attempts.was_wrong(address)
            log.warning("page.login_refused", remote=address)
            response = self._at_login(request, to, "Wrong token.")
            response.set_status(403)
            return response
        session, cookie = begun
        log.info("page.login", role=session.role.value, remote=address)
        response = web.HTTPSeeOther(to)
        response.set_cookie(
            *(COOKIE, cookie),
            path="/",
            max_age=HELD,
            httponly=True,
            samesite="Strict",
            secure=is_private(request),
        )
        raise response

    def _slowed(self, request: web.Request, to: str, wait: float) -> web.Response:
        """Refuse to look at a token: there were too many wrong ones."""
        seconds = int(wait) + 1
        why = f"There were too many wrong tokens from your address. Try again in {seconds} s."
        response = self._at_login(request, to, why)
        response.set_status(429)
        response.headers["Retry-After"] = str(seconds)
        return response

    async def _log_out(self, request: web.Request, session: Login) -> web.StreamResponse:
        await self._form(request, session)
        self._sessions.end(session)
        response = web.HTTPSeeOther("login")
        response.del_cookie(COOKIE, path="/")
        raise response

    async def _form(self, request: web.Request, session: Login) -> Any:  # noqa: ANN401  # aiohttp's
        """Return a form that this session was given; any other is refused."""
        form = await request.post()
        if not views.same(str(form.get("form", "")), session.form):
            raise web.HTTPForbidden(
                reason="This form has expired or belongs to another login. Go back and try again."
            )
        if any(_is_nobodys(str(value)) for value in form.values()):
            raise web.HTTPBadRequest(reason=NOBODYS)
        return form

    # --- what is shown --------------------------------------------------------------------------

    async def _queues(self, request: web.Request, session: Login) -> web.StreamResponse:
        wanted = request.query.get("q", "").strip()[:200]
        plain = request.query.get("plain") == "1"
        sort = request.query.get("sort") or views.usual(plain=plain)
        try:
            order, after = Sort(sort), place_from(request.query.get("after", ""))
        except ValueError as odd:  # an order, or a place, that nobody was given
            raise web.HTTPBadRequest(
                reason="There is no such sort order, or no such position in it."
            ) from odd
        found = await views.overview(self.ask, self._by, wanted, order, after, plain=plain)
        title = "Plain nodes" if plain else "Queues"
        return self._shown(request, "queues.html", session, title=title, wanted=wanted, page=found)

    async def _queue(self, request: web.Request, session: Login) -> web.StreamResponse:
        node, hours = _node(request), 6 if request.query.get("hours") == "6" else 1
        after = request.query.get("after") or None
        page = await views.queue(
            self.ask, self._by, node, hours=hours, after=None if after is None else Jid(after)
        )
        return self._shown(request, "queue.html", session, title=node, page=page, actions=ACTIONS)

    async def _items(self, request: web.Request, session: Login) -> web.StreamResponse:
        node, state = _node(request), views.state_of(request.query.get("state", ""))
        reason = _reason(request.query) if state is State.DEAD else ""
        after = _number(request, "after")
        page = await views.items(self.ask, self._by, node, state, after, reason=reason)
        return self._shown(
            *(request, "items.html", session),
            title=f"Items of {node}",
            page=page,
            actions=OF_STATE[state] if page.queueing else (),
            of_reason=OF_REASON,
            states=views.STATES,
        )

    async def _reasons(self, request: web.Request, session: Login) -> web.StreamResponse:
        node = _node(request)
        page = await views.reasons(self.ask, self._by, node, request.query.get("after", ""))
        title = f"Reasons of dead items in {node}"
        words = {"title": title, "page": page, "of_reason": OF_REASON}
        return self._shown(request, "reasons.html", session, **words)

    async def _item(self, request: web.Request, session: Login) -> web.StreamResponse:
        node, item = _node(request), ItemId(request.query.get("id", ""))
        page = await views.item(self.ask, self._by, node, item, payload=session.may_change)
        actions = OF_STATE[page.item.state] if page.queueing else ()
        title = f"Item {item} of {node}"
        return self._shown(request, "item.html", session, title=title, page=page, actions=actions)

    # --- what is done ---------------------------------------------------------------------------

    async def _ask(self, request: web.Request, session: Login) -> web.StreamResponse:
        """Ask whether that is meant, and say what it would do."""
        action, node, ids, reason = _meant(request.query.get("action", ""), request.query, session)
        found = await views.some(self.ask, self._by, (node,))
        if not found:
            raise web.HTTPNotFound(reason=f"There is no node {node}.")
        items = formats.count(len(ids), "item")
        question = action.question.format(node=node, items=items, reason=reason)
        return self._shown(
            *(request, "ask.html", session),
            title=f"{action.label}?",
            action=action,
            node=node,
            ids=ids,
            reason=reason,
            question=question,
            row=found[0],
        )

    async def _do(self, request: web.Request, session: Login) -> web.StreamResponse:
        """Do it, write that into the audit log, and say what came of it on the page of the node."""
        form = await self._form(request, session)
        action, node, ids, reason = _meant(str(form.get("action", "")), form, session)
        operation, meant = action.operation, given(node, ids, reason)
        reply = await self.ask(operation.ask(self._by, meant))
        performed(operation, self._by, meant, remote=address_of(request))
        said = operation.answer(reply, meant).note
        mark = self._sessions.sign(session, said)
        raise web.HTTPSeeOther(f"queue?{urlencode({'node': node, 'said': said, 'mark': mark})}")


def _meant(
    name: str,
    form: Any,  # noqa: ANN401  # a query or a form of aiohttp
    session: Login,
) -> tuple[PageAction, NodeName, tuple[ItemId, ...], str]:
    """Return what is to be done to what, and of what reason; refuses who may only look, and what cannot be meant."""
    if not session.may_change:
        raise web.HTTPForbidden(reason="This token is read-only.")
    action = ACTIONS.get(name)
    if action is None:
        raise web.HTTPBadRequest(reason="There is no such action.")
    node = NodeName(str(form.get("node", "")))
    ids = tuple(dict.fromkeys(ItemId(str(one)) for one in form.getall("item", ())))
    if action.of is Of.NODE:
        return action, node, (), ""
    if action.of is Of.REASON:
        if not (reason := _reason(form)):
            raise web.HTTPBadRequest(reason="Choose a reason.")
        return action, node, (), reason
    if not 0 < len(ids) <= MAX_CHOSEN:
        raise web.HTTPBadRequest(reason=f"Choose 1 to {MAX_CHOSEN} items.")
    return action, node, ids, ""


def _reason(form: Any) -> str:  # noqa: ANN401  # a query or a form of aiohttp
    return str(form.get("reason", ""))[:MAX_REASON_LENGTH]


def _is_nobodys(text: str) -> bool:
    """Say whether no XML can have that in it, and some stores cannot either."""
    return "\0" in text


def _node(request: web.Request) -> NodeName:
    return NodeName(request.query.get("node", ""))


def _number(request: web.Request, name: str) -> int:
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0  # noqa: PLR2004  # more no store has


def _file(name: str) -> bytes:
    from importlib.resources import files  # noqa: PLC0415

    folder: Traversable = files("pubqueue.monitor.page") / "static"
    return (folder / name).read_bytes()


async def _to_page(_request: web.Request) -> web.Response:
    raise web.HTTPSeeOther("ui/")


async def _off(_request: web.Request) -> web.Response:
    return web.Response(text=OFF, status=404)
