"""The pages, by their addresses, with the fields of their forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode
from uuid import uuid4

import structlog
from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Struct
from msgspec.structs import replace

from pubqueue.accounts.accounts import Denied
from pubqueue.accounts.credentials import Bearer, Plain
from pubqueue.faces.http.host import check_one_authorization, client, known
from pubqueue.faces.http.problems import STATUS
from pubqueue.model.decision import Refused
from pubqueue.model.entities import ItemId, Jid, NodeName, State, is_number
from pubqueue.monitor import asking
from pubqueue.monitor.page import managing, plots, views
from pubqueue.monitor.page.logins import FACE, HELD
from pubqueue.operations.items import ALL, ITEMS, awaited
from pubqueue.operations.model import Given, Of, UnfitError
from pubqueue.operations.searching import ANY, place_from
from pubqueue.operations.service import worker_state
from pubqueue.operations.table import OPERATIONS
from pubqueue.rules.dead_letters import Order
from pubqueue.rules.survey import Sort

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from importlib.resources.abc import Traversable

    from multidict import MultiDict, MultiMapping

    from pubqueue.engine.broker import Broker
    from pubqueue.faces.checks import Networks
    from pubqueue.model.entities import Node, Principal
    from pubqueue.monitor.page.logins import Login, Logins
    from pubqueue.operations.model import Operation

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


# The pages, by their addresses: who may see them, their contents, and what a form does.

log = structlog.get_logger(__name__)

COOKIE: Final = "pubqueue"

PART: Final = "X-Pubqueue-Part"
"""A header with which the script requests only the part that changes."""

CHANGING: Final = frozenset(
    {"queues.html", "queue.html", "items.html", "item.html", "reasons.html", "dead.html"}
)
"""Pages of which the script updates a part, which is a template of its own."""

LIVE: Final = 5_000
"""Milliseconds after which the script updates a page."""

OFF: Final = (
    "There is no page: no user with a role may log in to it ([[user]] in the configuration).\n"
)

UNGUARDED: Final = "Log in over HTTPS: this connection would send your password in plain text."

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


class Site:
    """The page of one process. `broker_of` returns the broker, or None while there is none."""

    def __init__(
        self,
        logins: Logins,
        by: Principal,
        broker_of: Callable[[], Broker | None],
        *,
        version: str,
        proxies: Networks = (),
    ) -> None:
        self._logins = logins
        self._proxies = tuple(proxies)
        self._by = by
        self.ask = asking.Asking(broker_of)
        self._templates = Environment(
            loader=PackageLoader("pubqueue.monitor.page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        words = {"words": plots, "worker_state": worker_state}
        self._templates.globals |= {"version": version, "every": LIVE, **words}
        self._templates.filters |= {
            "n": plots.number,
            "span": plots.span,
            "moment": plots.moment,
            "awaited": awaited,
        }
        self._files = {name: _file(name) for name in STATIC}

    def add_to(self, app: web.Application) -> None:
        """Answer requests under `/ui/`; as long as no user may log in, explain how to set up the page."""
        app.router.add_get("/", self._to_page)
        app.router.add_get("/ui", self._to_page)
        pages = web.Application(middlewares=[self._guarded])
        pages.router.add_get("/", self._open(self._queues))
        pages.router.add_get("/queue", self._open(self._queue))
        pages.router.add_get("/items", self._open(self._items))
        pages.router.add_get("/reasons", self._open(self._reasons))
        pages.router.add_get("/dead", self._open(self._dead))
        pages.router.add_get("/item", self._open(self._item))
        pages.router.add_get("/members", self._open(self._members))
        pages.router.add_get("/settings", self._open(self._settings))
        pages.router.add_post("/plan", self._open(self._plan))
        pages.router.add_get("/schedules", self._open(self._schedules))
        pages.router.add_get("/users", self._open(self._users))
        pages.router.add_get("/ask", self._open(self._ask))
        pages.router.add_post("/do", self._open(self._do))
        pages.router.add_get("/login", self._login)
        pages.router.add_post("/login", self._log_in)
        pages.router.add_post("/logout", self._open(self._log_out))
        pages.router.add_get("/static/{name}", self._static)
        app.add_subapp("/ui/", pages)

    async def _to_page(self, _request: web.Request) -> web.Response:
        if not self._logins.any:
            return off()
        raise web.HTTPSeeOther("ui/")

    # --- for all pages --------------------------------------------------------------------------

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Add the headers of a closed page to each response; a form from another site is refused."""
        response: web.StreamResponse
        check_one_authorization(request)
        if not self._logins.any:
            return off()
        try:
            if request.method == "POST" and not asking.is_from_here(request):
                response = self._sorry(request, 403, "This form was sent from another page.")
            elif any(map(contains_nul, request.query.values())):
                response = self._sorry(request, 400, NO_SUCH_NAME)
            else:
                response = await handler(request)
        except asking.SilentError as problem:
            response = self._sorry(request, 503, str(problem))
        except asking.RefusedError as problem:
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
        """Return the page to users who are logged in; redirect others to the login."""

        async def shown(request: web.Request) -> web.StreamResponse:
            session = self._session(request)
            if session is None:
                if PART in request.headers or request.method == "POST":
                    raise web.HTTPUnauthorized(reason="Log in again.")
                raise web.HTTPSeeOther(asking.login_from(asking.place_of(request)))
            known(session.proven.account)
            return await page(request, session)

        return shown

    def _session(self, request: web.Request) -> Login | None:
        return self._logins.read(request.cookies.get(COOKIE))

    def _shown(
        self, request: web.Request, template: str, session: Login | None, **facts: object
    ) -> web.Response:
        facts = {"session": session, "note": "", **facts}
        if session is not None:
            note = request.query.get("note", "")
            genuine = self._logins.signed(session, note, request.query.get("mark", ""))
            facts["note"] = note if genuine else ""
        if PART in request.headers and template in CHANGING:
            template = f"live_{template}"
        text = self._templates.get_template(template).render(facts)
        return web.Response(text=text, content_type="text/html")

    def _sorry(self, request: web.Request, status: int, why: str) -> web.Response:
        again = ""
        if status == web.HTTPUnauthorized.status_code:
            again = asking.login_from(asking.referring(request))
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

    # --- login and logout -----------------------------------------------------------------------

    async def _login(self, request: web.Request) -> web.StreamResponse:
        to = asking.known_place(request.query.get("to", ""))
        if self._session(request) is not None:
            raise web.HTTPSeeOther(to)
        return self._at_login(request, to, "")

    def _at_login(self, request: web.Request, to: str, why: str) -> web.Response:
        return self._shown(request, "login.html", None, title="Log in", why=why, to=to)

    async def _log_in(self, request: web.Request) -> web.StreamResponse:
        form = await asking.form_of(request)
        to, address = asking.known_place(form.get("to", "")), client()
        if not asking.is_guarded(request, self._proxies):
            return self._refused(request, to, 403, UNGUARDED)
        if not self._logins.has_secret:
            raise asking.SilentError(asking.AT_REST)
        name, password = form.get("name", "").strip(), form.get("password", "")
        given = Plain(name, password) if name else Bearer(password.strip())
        proven = await self._logins.accounts.prove(given, face=FACE, peer=address)
        if isinstance(proven, Denied):
            if proven.wait:
                return self._slowed(request, to, proven.wait)
            return self._refused(request, to, 403, "Wrong name, password or token.")
        begun = self._logins.begin(proven)
        if begun is None:
            why = "the user has no role"
            log.warning("login.refused", user=proven.name, face=FACE, peer=address, why=why)
            return self._refused(request, to, 403, "This account has no role for the page.")
        session, cookie = begun
        log.info("page.login", user=proven.name, changes=session.may_change, remote=address)
        response = web.HTTPSeeOther(to)
        response.set_cookie(
            *(COOKIE, cookie),
            path="/",
            max_age=HELD,
            httponly=True,
            samesite="Strict",
            secure=asking.is_private(request),
        )
        raise response

    def _refused(self, request: web.Request, to: str, status: int, why: str) -> web.Response:
        response = self._at_login(request, to, why)
        response.set_status(status)
        return response

    def _slowed(self, request: web.Request, to: str, wait: float) -> web.Response:
        """Refuse to check a password: there were too many wrong ones."""
        why, headers = asking.after_too_many(wait)
        response = self._refused(request, to, 429, why)
        response.headers.update(headers)
        return response

    async def _log_out(self, request: web.Request, session: Login) -> web.StreamResponse:
        await self._form(request, session)
        self._logins.end(session)
        response = web.HTTPSeeOther("login")
        response.del_cookie(COOKIE, path="/")
        raise response

    async def _form(self, request: web.Request, session: Login) -> MultiDict[str]:
        """Return a form that this session was given; refuse any other."""
        form = await asking.form_of(request)
        if not views.same(form.get("form", ""), session.form):
            raise web.HTTPForbidden(
                reason="This form has expired or belongs to another login. Go back and try again."
            )
        if any(map(contains_nul, form.values())):
            raise web.HTTPBadRequest(reason=NO_SUCH_NAME)
        return form

    # --- what is shown --------------------------------------------------------------------------

    async def _queues(self, request: web.Request, session: Login) -> web.StreamResponse:
        wanted = request.query.get("q", "").strip()[:200]
        plain = request.query.get("plain") == "1"
        sort = request.query.get("sort") or views.usual(plain=plain)
        try:
            order, after = Sort(sort), place_from(request.query.get("after", ""))
        except ValueError as odd:  # an order, or a place, that no page has a link to
            raise web.HTTPBadRequest(
                reason="There is no such sort order, or no such position in it."
            ) from odd
        state = request.query.get("state") or ANY
        states = managing.states_of("overview", "state")
        if state not in states:
            raise web.HTTPBadRequest(reason="There is no such state.")
        found = await views.overview(
            *(self.ask, self._by, wanted, order, after), plain=plain, state=state
        )
        title = "Plain nodes" if plain else "Queues"
        words = {"title": title, "wanted": wanted, "page": found, "states": states}
        return self._shown(request, "queues.html", session, **words)

    async def _queue(self, request: web.Request, session: Login) -> web.StreamResponse:
        node, hours = node_of(request), 6 if request.query.get("hours") == "6" else 1
        after = request.query.get("after") or None
        page = await views.queue(
            self.ask, self._by, node, hours=hours, after=None if after is None else Jid(after)
        )
        return self._shown(request, "queue.html", session, title=node, page=page, actions=ACTIONS)

    async def _items(self, request: web.Request, session: Login) -> web.StreamResponse:
        node, state = node_of(request), views.state_of(request.query.get("state", ""))
        reason = reason_of(request.query) if state is State.DEAD else ""
        asked = {
            "node": node,
            "state": ALL if state is None else state.value,
            "reason": reason,
            "match": request.query.get("q", "").strip()[:200],
            "sort": request.query.get("sort", ""),
            "after": request.query.get("after", ""),
            "max": str(views.ROWS),
        }
        given = Given({name: (value,) for name, value in asked.items() if value})
        try:
            page = await views.items(self.ask, self._by, managing.fitted(ITEMS, given))
        except UnfitError as odd:
            raise web.HTTPBadRequest(reason="There is no such position.") from odd
        return self._shown(
            *(request, "items.html", session),
            title=f"Items of {node}",
            page=page,
            orders=managing.states_of("items", "sort"),
            actions=OF_STATE[state] if page.queueing else (),
            of_reason=OF_REASON,
            states=views.STATES,
        )

    async def _reasons(self, request: web.Request, session: Login) -> web.StreamResponse:
        node = node_of(request)
        page = await views.reasons(self.ask, self._by, node, request.query.get("after", ""))
        title = f"Reasons of dead items in {node}"
        words = {"title": title, "page": page, "of_reason": OF_REASON}
        return self._shown(request, "reasons.html", session, **words)

    async def _dead(self, request: web.Request, session: Login) -> web.StreamResponse:
        wanted, after = request.query.get("q", "").strip()[:200], number_of(request, "after")
        try:
            order = Order(request.query.get("sort") or Order.COUNT)
        except ValueError as odd:  # an order that no page has a link to
            raise web.HTTPBadRequest(reason="There is no such sort order.") from odd
        page = await views.deaths(self.ask, self._by, order, wanted, after)
        words = {"title": "Dead items", "page": page, "of_reason": OF_REASON}
        return self._shown(request, "dead.html", session, orders=views.ORDERS, **words)

    async def _item(self, request: web.Request, session: Login) -> web.StreamResponse:
        node, item = node_of(request), ItemId(request.query.get("id", ""))
        after = number_of(request, "after")
        page = await views.item(self.ask, self._by, node, item, after, payload=session.may_change)
        actions = OF_STATE[page.item.state] if page.item and page.queueing else ()
        title = f"Item {item} of {node}"
        return self._shown(request, "item.html", session, title=title, page=page, actions=actions)

    # --- what administrators manage -------------------------------------------------------------

    async def _members(self, request: web.Request, session: Login) -> web.StreamResponse:
        node, wanted = node_of(request), searched(request, "affiliation")
        page = await managing.members(self.ask, self._by, node, wanted)
        return self._shown(
            *(request, "members.html", session),
            title=f"Members of {node}",
            node=node,
            page=page,
            roles=managing.ROLES,
            states=managing.states_of("members", "affiliation"),
        )

    async def _settings(self, request: web.Request, session: Login) -> web.StreamResponse:
        node = await views.described(self.ask, self._by, node_of(request))
        return self._at_settings(request, session, node)

    def _at_settings(
        self,
        request: web.Request,
        session: Login,
        node: Node,
        values: Mapping[str, str] | None = None,
        why: str = "",
    ) -> web.Response:
        words = {"title": f"Settings of {node.name}", "node": node, "why": why}
        entries = managing.entries(node, values)
        return self._shown(request, "settings.html", session, entries=entries, **words)

    async def _plan(self, request: web.Request, session: Login) -> web.StreamResponse:
        """Show what a form of settings would change, or what is wrong with it."""
        form = await self._form(request, session)
        asked = asked_action("configure", form, session)
        node = await views.described(self.ask, self._by, asked.node)
        values = {name[4:]: text for name, text in form.items() if name.startswith("set.")}
        found = managing.differences(node, values)
        if isinstance(found, Refused):
            response = self._at_settings(request, session, node, values, found.reason)
            response.set_status(400)
            return response
        if not found:
            return self._at_settings(request, session, node, why="Nothing would change.")
        what = Of.SETTINGS.value.format(settings=plots.count(len(found), "setting"), node=node.name)
        return self._shown(
            *(request, "plan.html", session),
            title="Change settings?",
            question=asked.action.operation.question_about(what),
            action=asked.action,
            node=node.name,
            found=found,
        )

    async def _schedules(self, request: web.Request, session: Login) -> web.StreamResponse:
        only_admins(session)
        page = await managing.schedules(self.ask, self._by, searched(request, "state"))
        words = {"actions": ACTIONS, "states": managing.states_of("schedules", "state")}
        return self._shown(
            request, "schedules.html", session, title="Schedules", page=page, **words
        )

    async def _users(self, request: web.Request, session: Login) -> web.StreamResponse:
        only_admins(session)
        users = managing.users(self._logins.accounts)
        return self._shown(request, "users.html", session, title="Users", users=users)

    # --- what is done ---------------------------------------------------------------------------

    async def _ask(self, request: web.Request, session: Login) -> web.StreamResponse:
        """Ask whether the user means it, and show what the action would do."""
        asked = asked_action(request.query.get("action", ""), request.query, session)
        action, row = asked.action, None
        if action.of is not Of.SCHEDULE:
            found = await views.some(self.ask, self._by, (asked.node,))
            if not found:
                raise web.HTTPNotFound(reason=f"There is no node {asked.node}.")
            row = found[0]
        return self._shown(
            *(request, "ask.html", session),
            title=f"{action.label}?",
            action=action,
            back=asked.back,
            ids=asked.given.get("item", ()),
            given={name: each for name, each in asked.given.items() if name != "data"},
            has_data=action.of is Of.SIGNAL,
            question=action.operation.question_about(asked.what),
            row=row,
        )

    async def _do(self, request: web.Request, session: Login) -> web.StreamResponse:
        """Do it, log it in the audit log, and show the result on the page of the node."""
        form = await self._form(request, session)
        asked = asked_action(str(form.get("action", "")), form, session)
        operation = asked.action.operation
        by = replace(self._by, jid=Jid(f"{session.proven.account}/page"))
        reply = await self.ask.perform(operation, by, asked.given, remote=client())
        note = operation.answer(reply, asked.given).note
        mark = self._logins.sign(session, note)
        more = urlencode({"note": note, "mark": mark})
        raise web.HTTPSeeOther(f"{asked.back}{'&' if '?' in asked.back else '?'}{more}")


def _file(name: str) -> bytes:
    from importlib.resources import files  # noqa: PLC0415

    folder: Traversable = files("pubqueue.monitor.page") / "static"
    return (folder / name).read_bytes()


def off() -> web.Response:
    """Return the response as long as no user may log in."""
    return web.Response(text=OFF, status=404)


# The actions of the page, made from the table of operations, and which of them are offered for what.


class PageAction(Struct, frozen=True):
    """An action on a node or on some of its items."""

    name: str
    operation: Operation
    of: Of
    label: str
    yes: str
    by_admins: bool


def _actions() -> Iterator[PageAction]:
    """Yield all actions; the first of an operation has its name."""
    for operation in OPERATIONS.values():
        for one in operation.actions:
            is_first = one is operation.actions[0]
            name = operation.name if is_first else f"{operation.name}-{one.of.name.lower()}"
            yield PageAction(name, operation, one.of, one.label, one.yes, one.by_admins)


ACTIONS: Final = {action.name: action for action in _actions()}

OF_STATE: Final = {
    State.DEAD: (ACTIONS["redrive-items"], ACTIONS["discard"]),
    State.LOCKED: (ACTIONS["release"], ACTIONS["cancel"]),
    State.QUEUED: (ACTIONS["cancel"],),
    State.DELAYED: (ACTIONS["cancel"],),
    State.DONE: (),
    State.HELD: (ACTIONS["cancel"],),
    None: (ACTIONS["cancel"],),
}
"""The actions on items of a queue in one state, or in any state."""

OF_REASON: Final = (ACTIONS["redrive-reason"], ACTIONS["discard-reason"])
"""The actions on all items that died for one reason."""


# What the addresses and forms of the page contain.


class Exact(Given):
    """Parameters from a generated form: names are used unchanged, including blanks at their ends."""

    def one(self, var: str) -> str:
        """Return the value of a field unchanged; empty if the field is missing."""
        values = self.get(var, ())
        return values[0] if values else ""

    def lines(self, var: str) -> tuple[str, ...]:
        """Return the values of a field unchanged, without duplicates."""
        return tuple(dict.fromkeys(self.get(var, ())))


MAX_REASON_LENGTH: Final = 1_000
"""Maximum number of characters of a reason by which items are selected."""

MAX_CHOSEN: Final = 200
"""Maximum number of items in one form."""

NO_SUCH_NAME: Final = "No queue or item has this name."


FIELDS: Final = {Of.ITEMS: "item", Of.REASON: "reason", Of.WORKER: "worker"}
"""What names the object of an action beside its node."""

PAGES: Final = {Of.MEMBER: "members", Of.SETTINGS: "settings", Of.SCHEDULE: "schedules"}
"""The pages of objects that are not on the page of the node."""


class Asked(Struct, frozen=True):
    """An action, and the parameters of its operation: the node, and what a field of the form names."""

    action: PageAction
    given: Exact

    @property
    def node(self) -> NodeName:
        """The node."""
        return NodeName(self.given.one("node"))

    @property
    def what(self) -> str:
        """What the action is about."""
        words = {name: self.given.one(name) for name in self.given}
        items = plots.count(len(self.given.get("item", ())), "item")
        settings = plots.count(len(self.given.get("settings", ())), "setting")
        return self.action.of.value.format_map(words | {"items": items, "settings": settings})

    @property
    def back(self) -> str:
        """The address of the page that it belongs to."""
        if self.action.of is Of.SIGNAL:
            return f"item?{urlencode({'node': self.node, 'id': self.given.one('item')})}"
        page = PAGES.get(self.action.of, "queue")
        return f"{page}?{urlencode({'node': self.node})}" if self.node else page


def asked_action(name: str, form: MultiMapping[str], session: Login) -> Asked:
    """Return the action and its parameters; refuse users who may only read, and invalid forms."""
    if not session.may_change:
        raise web.HTTPForbidden(reason="This login is read-only.")
    action = ACTIONS.get(name)
    if action is None:
        raise web.HTTPBadRequest(reason="There is no such action.")
    if action.by_admins:
        only_admins(session)
        names = [one.name for one in action.operation.parameters]
        every = Given({name: tuple(form.getall(name, ())) for name in names})
        # a form of settings is not complete before its differences are known
        is_whole = action.of is not Of.SETTINGS or "settings" in form
        fitted = managing.fitted(action.operation, every) if is_whole else every
        return Asked(action, Exact(fitted))
    given = Exact(node=(form.get("node", ""),))
    if action.of is Of.SIGNAL:
        return Asked(action, _signal_in(form, given))
    if (field := FIELDS.get(action.of)) is None:
        return Asked(action, given)
    values = tuple(dict.fromkeys(form.getall(field, ())))
    if action.of is Of.ITEMS and not 0 < len(values) <= MAX_CHOSEN:
        raise web.HTTPBadRequest(reason=f"Choose 1 to {MAX_CHOSEN} items.")
    if action.of is Of.REASON:
        values = (reason_of(form),)
    if not values or not values[0]:
        raise web.HTTPBadRequest(reason=f"Choose a {field}.")
    given[field] = values if action.of is Of.ITEMS else values[:1]
    return Asked(action, given)


def _signal_in(form: MultiMapping[str], given: Exact) -> Exact:
    """Return the parameters of a signal. Its id is made with the question, so the same answer, sent twice, is one signal."""
    for name in ("item", "signal"):
        if not form.get(name):
            raise web.HTTPBadRequest(reason="Choose an item, and a signal.")
        given[name] = (form[name],)
    given["data"] = (form.get("data", ""),)
    given["id"] = (form.get("id") or uuid4().hex,)
    return given


def only_admins(session: Login) -> None:
    """Refuse users without the role of an administrator."""
    if not session.is_admin:
        raise web.HTTPForbidden(reason="This page is for administrators.")


def searched(request: web.Request, state: str) -> managing.Wanted:
    """Return what is searched for in a list, whose states have this name."""
    query = request.query
    text = query.get("q", "").strip()[:200]
    return managing.Wanted(text, query.get(state, ""), query.get("after", ""))


def reason_of(form: MultiMapping[str]) -> str:
    """Return the reason by which items are selected, up to its maximum length."""
    return form.get("reason", "")[:MAX_REASON_LENGTH]


def contains_nul(text: str) -> bool:
    """Return whether the text contains NUL, which XML and some stores cannot contain."""
    return "\0" in text


def node_of(request: web.Request) -> NodeName:
    """Return the node that an address names."""
    return NodeName(request.query.get("node", ""))


def number_of(request: web.Request, name: str) -> int:
    """Return a number in an address; 0 if there is none. Refuse what no page has a link to."""
    text = request.query.get(name, "") or "0"
    if not is_number(text):
        raise web.HTTPBadRequest(reason="There is no such position.")
    return int(text)
