"""What the addresses and forms of the page contain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import web

from pubqueue.model.entities import ItemId, NodeName
from pubqueue.monitor.page.actions import ACTIONS, Of

if TYPE_CHECKING:
    from multidict import MultiMapping

    from pubqueue.monitor.page.actions import PageAction
    from pubqueue.monitor.page.logins import Login

MAX_REASON_LENGTH: Final = 1_000
"""Maximum number of characters of a reason by which items are selected."""

MAX_CHOSEN: Final = 200
"""Maximum number of items in one form."""

NO_SUCH_NAME: Final = "No queue or item has this name."


def asked_action(
    name: str,
    form: MultiMapping[str],
    session: Login,
) -> tuple[PageAction, NodeName, tuple[ItemId, ...], str]:
    """Return the action, its node, its items and the reason; refuse users who may only read, and invalid forms."""
    if not session.may_change:
        raise web.HTTPForbidden(reason="This login is read-only.")
    action = ACTIONS.get(name)
    if action is None:
        raise web.HTTPBadRequest(reason="There is no such action.")
    node = NodeName(form.get("node", ""))
    ids = tuple(dict.fromkeys(ItemId(one) for one in form.getall("item", ())))
    if action.of is Of.NODE:
        return action, node, (), ""
    if action.of is Of.REASON:
        if not (reason := reason_of(form)):
            raise web.HTTPBadRequest(reason="Choose a reason.")
        return action, node, (), reason
    if not 0 < len(ids) <= MAX_CHOSEN:
        raise web.HTTPBadRequest(reason=f"Choose 1 to {MAX_CHOSEN} items.")
    return action, node, ids, ""


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
    """Return a number in an address; 0 if there is none."""
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0  # noqa: PLR2004  # more no store has
