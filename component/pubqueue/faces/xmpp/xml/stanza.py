"""A stanza that was read: its upper elements with where their bytes are, and how a piece is cut out of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, final

from pubqueue.faces.xmpp.xml.text import ECHOED, attribute, echo, in_quotes, quoted
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.model.decision import Refused

_NAME_END: Final = re.compile(rb"[\s/>]")
_PREFIX: Final = re.compile(rb"(?<![^\s<>/\"'=:&;])[^\s<>/\"'=:&;]+(?=:)")
FEW: Final = 8
"""Prefixes that are looked for one by one; if there are more, those that are used are."""
_ERROR: Final = ns.tag(ns.COMPONENT, "error")


class Element:
    """An upper-level element, with where its bytes are in its stanza."""

    __slots__ = ("attributes", "children", "declared", "end", "start", "tag", "text")

    def __init__(self, tag: str, attributes: dict[str, str], start: int) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[Element] = []
        self.text = ""
        self.declared: dict[str, str] | None = None
        self.start = start
        self.end = start

    def get(self, name: str) -> str | None:
        """Return an attribute."""
        return self.attributes.get(name)

    def find(self, tag: str) -> Element | None:
        """Return the first child with this tag."""
        for child in self.children:
            if child.tag == tag:
                return child
        return None


@final
class Stanza:
    """A whole stanza: its top element, its bytes, its depth, and how many seconds it took to read.

    `excess` is the reason if its children were skipped, all of them or from some place on.
    """

    __slots__ = ("_declared", "cost", "depth", "excess", "raw", "top")

    def __init__(
        self,
        top: Element,
        raw: bytes,
        depth: int,
        declared: dict[str, str],
        excess: str | Refused = "",
    ) -> None:
        self.top = top
        self.raw = raw
        self.depth = depth
        self.excess = excess
        self.cost = 0.0
        self._declared = declared

    def cut(self, path: list[Element]) -> bytes:
        """Return the bytes of the last element of `path`, as a document of its own.

        `path` leads to it from the top element. Namespace declarations that it takes from its
        ancestors are written into it. Takes time in proportion to these bytes.
        """
        element, base = path[-1], self.top.start
        piece = self.raw[element.start - base : element.end - base]
        around = [one.declared for one in path[-2::-1] if one.declared]
        around.append(self._declared)
        own = element.declared or {}
        missing = [
            (prefix, uri)
            for prefix in _prefixes(piece, around)
            if prefix not in own and (uri := _meaning(prefix, around)) is not None
        ]
        return _declare(piece, missing) if missing else piece

    def narrowed(self, child: Element) -> Stanza:
        """Return the stanza as if this child were its only one."""
        top = Element(self.top.tag, self.top.attributes, self.top.start)
        top.declared, top.children = self.top.declared, [child]
        return Stanza(top, self.raw, self.depth, self._declared, self.excess)

    @property
    def address(self) -> bytes:
        """The attributes of a reply: the request's id, from and to swapped (RFC 6120 8.2.3)."""
        top = self.top
        mine, theirs, own = top.get("to") or "", top.attributes["from"], top.get("id")
        words = "" if own is None else f" id={in_quotes(own)}"
        return f'{words} from="{attribute(mine)}" to="{attribute(theirs)}"'.encode()

    def echo(self) -> bytes:
        """Return the child of the IQ, for an error to repeat."""
        if not self.top.children or self.top.children[0].tag == _ERROR:
            return b""  # an error would be taken for our own
        child = self.top.children[0]
        namespace, _, name = child.tag.rpartition(" ")
        large = child.end - child.start > ECHOED
        return echo(b"" if large else self.cut([self.top, child]), name, namespace, large=large)


def _prefixes(piece: bytes, around: list[dict[str, str]]) -> list[str]:
    """Return what may stand for a namespace of the ancestors in the piece: no prefix, and what a colon follows."""
    if sum(map(len, around)) <= FEW:
        known = {prefix for declared in around for prefix in declared if prefix}
        return ["", *sorted(prefix for prefix in known if prefix.encode() + b":" in piece)]
    return ["", *sorted({found.decode() for found in _PREFIX.findall(piece)})]


def _meaning(prefix: str, around: list[dict[str, str]]) -> str | None:
    """Return the namespace that the prefix has among the ancestors, from the nearest on, if it has one."""
    for declared in around:
        if (uri := declared.get(prefix)) is not None:
            # what a component's own namespace stands for
            return ns.CLIENT if not prefix and uri == ns.COMPONENT else uri
    return None


def _declare(piece: bytes, missing: list[tuple[str, str]]) -> bytes:
    """Write namespace declarations into the start tag."""
    found = _NAME_END.search(piece)
    at = found.start() if found else len(piece)
    words = "".join(
        f' xmlns{":" + prefix if prefix else ""}="{quoted(uri)}"' for prefix, uri in missing
    )
    return piece[:at] + words.encode() + piece[at:]
