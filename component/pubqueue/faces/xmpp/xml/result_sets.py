"""Result sets (XEP-0059): reads the requested page of a list, and describes the returned page.

Pages go forward and backward, without numbers. A list that does not fit into an answer always has a set, so that clients can continue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.faces.xmpp.refusals import StanzaError, bad_request
from pubqueue.faces.xmpp.xml.size_limits import fitting
from pubqueue.faces.xmpp.xml.text import escape
from pubqueue.model.replies import Page
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.replies import Part

SET: Final = ns.tag(ns.RSM, "set")

_DIGITS: Final = 10
_NO_NUMBERS: Final = StanzaError(
    "cancel",
    "feature-not-implemented",
    text="a page is requested with before or after",
)


def page_beside(elements: Sequence[Element]) -> Page | StanzaError | None:
    """Read the page beside a request; refuse other elements."""
    if any(element.tag != SET for element in elements):
        return bad_request(text="the request contains an unknown element")
    return page_among(elements)


def page_among(elements: Sequence[Element]) -> Page | StanzaError | None:
    """Read the requested page, if there is one (XEP-0059 2.1 to 2.3, 2.5)."""
    after: str | None = None
    before: str | None = None
    most: int | None = None
    asked = [element for element in elements if element.tag == SET]
    for word in (word for one in asked for word in one.children):
        if word.tag == ns.tag(ns.RSM, "after"):
            after = word.text or None
        elif word.tag == ns.tag(ns.RSM, "before"):
            before = word.text
        elif word.tag != ns.tag(ns.RSM, "max"):
            return _NO_NUMBERS
        elif not (word.text.isascii() and word.text.isdigit()):
            return bad_request(text="max must be a whole number")
        else:
            most = int(word.text[:_DIGITS])
    return Page(after, most, before) if asked else None


def cut(entries: Sequence[bytes], names: Sequence[str], part: Part) -> tuple[slice, str]:
    """Return the entries that fit, and the set that describes them, if one is needed."""
    shown, count = slice(None), fitting(entries[::-1] if part.backward else entries)
    if count < len(entries):
        part = replace(part, more=True, begins=part.begins and not part.backward)
        shown = slice(-count, None) if part.backward else slice(count)
    return shown, _set(names[shown], part)


def _set(names: Sequence[str], part: Part) -> str:
    if not (part.asked or part.more):
        return ""
    inner = ""
    if names:
        index = ' index="0"' if part.begins else ""
        inner = f"<first{index}>{escape(names[0])}</first><last>{escape(names[-1])}</last>"
    if part.total is not None:
        inner += f"<count>{part.total}</count>"
    return f'<set xmlns="{ns.RSM}">{inner}</set>'
