"""Transactions of the service, as a publisher speaks of them (urn:x-pubqueue:0#transactions).

Items are staged under (app, version, part, attempt) and seen by nobody, until a commit names the
attempts that won; then all of them appear at once, in every node, and the service remembers the
version of the app. What is staged or committed for a version at or below it is skipped. So it does not
matter how often a task ran, nor how often a batch did.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from xml.sax.saxutils import quoteattr

from pubqueue_spark.errors import ServiceError
from pubqueue_spark.payload import MOST
from pubqueue_spark.request import Question
from pubqueue_xeps import ns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

FEATURE: Final = f"{ns.PUBQUEUE}#transactions"
SKIPPED: Final = f".//{{{ns.PUBQUEUE}}}skipped"
COMPACT: Final = 1000
"""Parts of a commit from which on they are one text: a stanza has room for 256 KiB."""
ROOM: Final = 4096
"""Bytes left for what stands around the parts; most of it is the name of the app."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One batch of one application; versions only rise."""

    app: str
    version: int

    def __str__(self) -> str:
        return f"version {self.version} of {self.app!r}"

    @property
    def ids(self) -> str:
        """Return how generated item ids begin: the same for the same batch, and for no other."""
        digest = hashlib.blake2b(self.app.encode(), digest_size=6).hexdigest()
        return f"{digest}-{self.version}"

    @property
    def attributes(self) -> str:
        """Return the words that name it in a stanza."""
        return f"xmlns='{ns.PUBQUEUE}' app={quoteattr(self.app)} version='{self.version}'"

    def beside(self, part: int, attempt: int, visibility: Literal["commit", "immediate"]) -> str:
        """Return what stands beside the publishes of one attempt of a task."""
        seen = " visibility='immediate'" if visibility == "immediate" else ""
        return f"<txn {self.attributes} part='{part}' attempt='{attempt}'{seen}/>"


@dataclass(frozen=True, slots=True)
class Part:
    """A partition, and what the attempt that won has staged."""

    number: int
    attempt: int
    items: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Totals:
    """What the record of a transaction keeps beside its items."""

    skipped: int
    dead_lettered: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Committed:
    """What the service says of a commit."""

    published: int
    known: int
    already: bool


def commit(mark: Mark, parts: Sequence[Part], totals: Totals) -> Question:
    """Ask to make all that these attempts staged visible, and to drop what else was staged."""
    numbers = (
        f"skipped='{totals.skipped}' dead-lettered='{totals.dead_lettered}'"
        f" seconds='{totals.seconds:.3f}'"
    )
    inner = _list(parts) if len(parts) > COMPACT else "".join(map(_element, parts))
    if len(inner) + ROOM > MOST:
        raise ServiceError(
            f"the commit of {mark} with its {len(parts)} tasks is more than a stanza of XMPP can say"
            f" ({MOST} bytes), and nothing of it is visible; coalesce to fewer partitions."
        )
    return Question(
        "set", f"the commit of {mark}", f"<commit {mark.attributes} {numbers}>{inner}</commit>"
    )


def abort(mark: Mark) -> Question:
    """Ask to drop all that is staged; what is committed stays."""
    return Question("set", f"the abort of {mark}", f"<abort {mark.attributes}/>")


def last(app: str) -> Question:
    """Ask which version of an app was committed last."""
    inner = f"<txn xmlns='{ns.PUBQUEUE}' app={quoteattr(app)}/>"
    return Question("get", f"the question for the last version of {app!r}", inner)


def read_last(answer: Element) -> int | None:
    """Return the version in an answer to `last`; None: the service has committed nothing of it."""
    found = answer.find(f"{{{ns.PUBQUEUE}}}txn")
    version = None if found is None else found.get("version")
    return None if version is None else int(version)


def read_committed(answer: Element) -> Committed:
    """Return what an answer to `commit` says."""
    found = answer.find(f"{{{ns.PUBQUEUE}}}committed")
    assert found is not None, "the result of a commit says what it did"
    return Committed(
        int(found.get("published", "0")),
        int(found.get("known", "0")),
        found.get("already") in {"true", "1"},
    )


def _element(part: Part) -> str:
    return (
        f"<part n='{part.number}' attempt='{part.attempt}' items='{part.items}'"
        f" bytes='{part.bytes}'/>"
    )


def _list(parts: Sequence[Part]) -> str:
    words = (f"{part.number}:{part.attempt}:{part.items}:{part.bytes}" for part in parts)
    return f"<parts>{' '.join(words)}</parts>"
