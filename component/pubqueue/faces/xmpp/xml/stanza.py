"""A stanza that was read, JIDs, ids, and text for the wire with its limits."""

from __future__ import annotations

import itertools
import os
import re
import uuid
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, final
from xml.sax.saxutils import escape as _escape

from slixmpp.jid import JID, InvalidJID

from pubqueue.model.entities import Jid, Millis
from pubqueue_xeps.wire import ns
from pubqueue_xeps.wire.names import is_clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.model.decision import Refused


# A stanza that was read: its upper elements with where their bytes are, and how a piece is cut out of it.

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


# Ids of outgoing stanzas.

_process = uuid.uuid4().hex
_count = itertools.count(1)


def new_id() -> str:
    """Return an id that no other call in any process returns; a counter is cheaper than random numbers.

    The ids of a process are in alphabetical order, in which subscriptions are listed.
    """
    return f"{_process}-{next(_count):08x}"


def _in_a_forked_process() -> None:
    global _process  # noqa: PLW0603 - a forked process counts on from the same number
    _process = uuid.uuid4().hex


os.register_at_fork(after_in_child=_in_a_forked_process)


# Reads and normalises JIDs.

MAX_JID_LENGTH: Final = 3071
"""Maximum characters of a JID: three parts of 1023 bytes, and two separators (RFC 7622 3.1)."""


def jid_of(text: str) -> Jid | None:
    """Return the normalised JID, or None if the text is not a JID."""
    return _jid_of(text) if len(text) <= MAX_JID_LENGTH else None


@lru_cache(maxsize=4096)
def _jid_of(text: str) -> Jid | None:
    """Normalise a JID; cached, because JIDs repeat."""
    try:
        jid = JID(text)
    except InvalidJID:
        return None
    return Jid(jid.full) if jid.domain else None


def is_bare(text: str) -> bool:
    """Return whether the text is a JID without a resource, on one line."""
    jid = jid_of(text)
    return jid is not None and "/" not in jid and is_clean(text)


# Size limits of answers: Prosody and ejabberd refuse stanzas of more than 262,144 bytes from the service or to a client.

MAX_STANZA_BYTES: Final = 500_000
"""Maximum bytes of an outgoing stanza. Prosody ends the stream of a component that sends more than 512 KiB."""

MAX_ANSWER_BYTES: Final = 262_144
"""Maximum bytes of an answer, with the elements around its entries."""

MAX_PAYLOAD_BYTES: Final = 262_144
"""Maximum bytes of a payload; servers would refuse a larger stanza anyway (Prosody and ejabberd: 256 KiB)."""

ROOM: Final = 240_000
"""Maximum bytes of the entries in an answer."""

PAYLOADS: Final = 196_608
"""Maximum bytes of payloads in an answer. The core uses this limit, because it does not know the XML around them."""


def fitting(entries: Sequence[bytes]) -> int:
    """Return the number of entries that fit, at least one."""
    size = 0
    for count, entry in enumerate(entries):
        size += len(entry)
        if size > ROOM and count:
            return count
    return len(entries)


# Text for the wire: escaping and time stamps.

ECHOED: Final = 4096
"""Maximum bytes of a request that an error repeats (RFC 6120 8.3.1: SHOULD); an error for a larger one has only the child's name."""

# attributes may contain `>`, and escaping it could make an answer longer than its request
_IN_ATTRIBUTES: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
)

_ODD: Final = re.compile(r'[&<"\t\n\r]')


def escape(text: str) -> str:
    """Return the text as character data."""
    return _escape(text, {"\r": "&#13;"})


def quoted(text: str) -> str:
    """Return the text escaped for double quotes."""
    return text.translate(_IN_ATTRIBUTES) if _ODD.search(text) else text


def in_quotes(text: str) -> str:
    """Return the text in the kind of quotes that it contains less often, so that it does not become longer."""
    if text.count('"') <= text.count("'"):
        return f'"{quoted(text)}"'
    return "'" + quoted(text).replace("'", "&apos;").replace("&quot;", '"') + "'"


@lru_cache(maxsize=4096)
def attribute(text: str) -> str:
    """Return a name escaped for double quotes. Results are cached, because names repeat.

    Use it only for names of limited length, such as JIDs and NodeIDs, which limits the cache.
    """
    return quoted(text)


@lru_cache(maxsize=1024)
def stamp(moment: Millis) -> str:
    """Return the time in XEP-0082 format, in UTC with milliseconds. Cached, because a batch has one time."""
    second, millis = divmod(moment, 1000)
    return f"{_second(second)}.{millis:03}Z"


_MOMENT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"
)


def moment_of(text: str) -> Millis | None:
    """Return the time in a text in XEP-0082 format, or None if it is not valid."""
    if _MOMENT.fullmatch(text) is None:
        return None
    try:
        return Millis(int(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=1024)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).replace(tzinfo=None).isoformat()


def echo(child: bytes, name: str, namespace: str, *, large: bool = False) -> bytes:
    """Return the part of a request's child that an error repeats: all, or only the name if it is large."""
    if not large and len(child) <= ECHOED:
        return child
    bare = f'<{name} xmlns="{quoted(namespace)}"/>'.encode()
    return bare if len(bare) <= ECHOED else b""
