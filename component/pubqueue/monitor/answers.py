"""The page of a link that sends a signal: for those who bear the link, and have no account.

To open the page does nothing, because programs that look through mails open links. Its button sends the signal. Nothing on it comes from a publisher
but names, as text; it has no script and no style, and loads nothing.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from pubqueue.engine.face import proposed_secret
from pubqueue.faces.http.problems import STATUS
from pubqueue.model.decision import Refusal, SecretKept, Signaled
from pubqueue.monitor import asking
from pubqueue.rules.publish_keys import KeepSecret
from pubqueue.rules.signal_links import ANSWER, SECRET, read

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pubqueue.engine.broker import Broker
    from pubqueue.model.entities import Principal
    from pubqueue.rules.signal_links import Link

    Handler = Callable[[web.Request], Awaitable[web.Response]]

MAX_NOTE: Final = 1_000
"""Characters that the bearer may add."""

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}

PAGE: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title></head>
<body><main><h1>{title}</h1>
{body}
</main></body>
</html>
"""

FORM: Final = """<p>Your answer to <b>{item}</b> of <b>{node}</b> will be “{name}”. This link holds for one answer.</p>
<form method="post"><p><label>A note, if you like: <input name="note" maxlength="{most}" autocomplete="off"></label></p>
<p><button>Send “{name}”</button></p></form>"""

NO_LINK: Final = "There is no such link. It may have been cut off: copy all of it."
USED: Final = "This link was used before, and the answer has arrived. You need do nothing."
OVER: Final = "This link is over: the question was answered in another way, or its time has passed."
THANKS: Final = "Thank you. Your answer has arrived."

ENDED: Final = frozenset(
    {
        *(Refusal.ITEM_NOT_FOUND, Refusal.NODE_NOT_FOUND, Refusal.FORBIDDEN),
        *(Refusal.CLOSED_NODE, Refusal.NOT_A_QUEUE, Refusal.MOVED),
    }
)
"""Refusals after which the link will never have an effect: its bearer learns no more than that."""


class Answers:
    """The pages of one process. `broker_of` returns the broker, or None while there is none; `by` is the service."""

    def __init__(self, by: Principal, broker_of: Callable[[], Broker | None]) -> None:
        self._by, self._ask = by, asking.Asking(broker_of)
        self._secret: bytes | None = None

    def add_to(self, app: web.Application) -> None:
        """Answer under `/answer/`."""
        app.router.add_get(f"/{ANSWER}/{{text}}", self._guarded(self._shown))
        app.router.add_post(f"/{ANSWER}/{{text}}", self._guarded(self._sent))

    def _guarded(self, handler: Callable[[web.Request, Link], Awaitable[web.Response]]) -> Handler:
        """Return a handler that finds the link of the address, and answers with a page whatever happens."""

        async def handle(request: web.Request) -> web.Response:
            try:
                link = await self._link(request.match_info["text"])
                response = page(404, NO_LINK) if link is None else await handler(request, link)
            except asking.SilentError:
                response = page(503, "The service cannot take your answer now. Try again later.")
            except asking.RefusedError as problem:
                refusal = problem.reply.refusal
                why = (
                    OVER if refusal in ENDED else "Your answer could not be kept. Try again later."
                )
                response = page(410 if refusal in ENDED else STATUS[refusal], why)
            except web.HTTPException as problem:
                response = page(problem.status, problem.reason)
            response.headers.update(HEADERS)
            return response

        return handle

    async def _link(self, text: str) -> Link | None:
        """Return what the text of a link says, None if the service has not made it. No store is asked for a text that the service has not made."""
        if self._secret is None:
            kept = await self._ask(KeepSecret(self._by, proposed_secret(SECRET)))
            assert isinstance(kept, SecretKept)
            self._secret = kept.value
        return read(text, self._secret)

    async def _shown(self, _request: web.Request, link: Link) -> web.Response:
        item, node, name = (escape(text) for text in (link.item, link.node, link.name))
        return page(200, FORM.format(item=item, node=node, name=name, most=MAX_NOTE), link.name)

    async def _sent(self, request: web.Request, link: Link) -> web.Response:
        form = await asking.form_of(request) if request.can_read_body else {}
        note = form.get("note", "")
        if len(note) > MAX_NOTE:
            raise web.HTTPBadRequest(reason=f"A note has up to {MAX_NOTE} characters.")
        data = msgspec.json.encode(note).decode() if note else ""
        reply = await self._ask(link.signal(data))
        assert isinstance(reply, Signaled)
        return page(410, USED) if reply.again else page(200, THANKS)


def page(status: int, body: str, title: str = "Answer") -> web.Response:
    """Return a page; a body that is no element is a sentence."""
    inner = body if body.startswith("<") else f"<p>{escape(body)}</p>"
    text = PAGE.format(title=escape(title), body=inner)
    return web.Response(status=status, text=text, content_type="text/html")
