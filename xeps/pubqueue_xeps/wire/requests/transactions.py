"""Transactions of the service, in the publisher's requests (urn:x-pubqueue:0#transactions).

Items are staged under (app, version, part, attempt) and stay invisible until a commit names the attempts that won. Then
all of their items appear at once, in every node, and the service records the version of the app. Items that are staged
or committed for this version or a lower one are skipped. So tasks and batches may run any number of times.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pubqueue_xeps.wire import ns
from pubqueue_xeps.wire.requests import IqRequest
from pubqueue_xeps.wire.xml_text import attributes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

FEATURE: Final = f"{ns.PUBQUEUE}#transactions"
PROGRESS: Final = f"{ns.PUBQUEUE}#commit-progress"
"""The feature of a service that reports how far a commit is."""
COMPACT: Final = 1000
"""From this many parts on, a commit lists them as one text, because a stanza has room for only 256 KiB."""
MAX_COMMIT_BYTES: Final = 256 * 1024 - 4096
"""Bytes for the parts; the rest of a stanza is for the elements around them, mostly the name of the app."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One batch of one application; versions only increase."""

    app: str
    version: int

    def __str__(self) -> str:
        return f"version {self.version} of {self.app!r}"

    @property
    def ids(self) -> str:
        """Return the prefix of generated item ids, unique to this batch."""
        digest = hashlib.blake2b(self.app.encode(), digest_size=6).hexdigest()
        return f"{digest}-{self.version}"

    def words(self, name: str, inner: str = "", **more: object) -> str:
        """Return an element that names the batch."""
        given = attributes(app=self.app, version=self.version, **more)
        opening = f"<{name} xmlns='{ns.PUBQUEUE}'{given}"
        return f"{opening}>{inner}</{name}>" if inner else f"{opening}/>"

    def beside(
        self,
        part: int | None,
        attempt: int,
        visibility: Literal["commit", "immediate"] = "commit",
    ) -> str:
        """Return the element beside the publishes of one attempt of a part."""
        seen = None if visibility == "commit" else visibility
        return self.words("txn", part=part, attempt=attempt, visibility=seen)


@dataclass(frozen=True, slots=True)
class Part:
    """A partition, and the items that its winning attempt has staged."""

    number: int
    attempt: int
    items: int
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """The figures in the record of a transaction, in addition to its items."""

    skipped: int
    dead_lettered: int
    seconds: float

    @property
    def facts(self) -> dict[str, object]:
        """Return the figures as attributes."""
        return {
            "skipped": self.skipped,
            "dead_lettered": self.dead_lettered,
            "seconds": f"{self.seconds:.3f}",
        }


@dataclass(frozen=True, slots=True)
class OnTaken:
    """What a commit does with staged items whose ids are taken.

    An id is taken if its item is locked, or dead with another payload. fail: the commit is refused, with an error that
    names the ids. skip: the items are left out. dead-letter: they go to `dead_letter_node`, a queue, under ids that
    begin with their node and id.
    """

    do: Literal["fail", "skip", "dead-letter"] = "fail"
    dead_letter_node: str | None = None

    @property
    def facts(self) -> dict[str, object]:
        """Return the choice as attributes."""
        given = None if self.do == "fail" else self.do
        return {"on_taken": given, "dead_letter_node": self.dead_letter_node}


@dataclass(frozen=True, slots=True)
class TakenId:
    """An id that a staged item could not have, because its item is locked or dead."""

    node: str
    id: str
    state: str


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of a commit: how many items it published, and how many existed or were done before.

    `taken` counts the items whose ids were taken; the first of them are named.
    """

    published: int
    known: int
    already: bool
    taken: int = 0
    named: tuple[TakenId, ...] = ()


@dataclass(frozen=True, slots=True)
class AtWork:
    """How far a commit is: `done` of its items are judged or, once the version is committed, moved to their nodes."""

    moving: bool
    done: int
    of: int

    def __str__(self) -> str:
        what = "committed, and moved to their nodes" if self.moving else "judged"
        return f"{self.done:,} of {self.of:,} items are {what}"


def commit(
    mark: Mark,
    parts: Sequence[Part],
    totals: Totals | None = None,
    on_taken: OnTaken = OnTaken(),
    *,
    progress: bool = False,
) -> IqRequest:
    """Ask to make the items of these attempts visible, and to drop those of all others.

    With `progress`, for a service with the feature PROGRESS, the answer comes soon: it has the result, or how far the
    commit is. Then ask again, with the same arguments. Raises ValueError if a stanza has no room for all parts.
    """
    inner = _list(parts) if len(parts) > COMPACT else "".join(map(_element, parts))
    if len(inner) > MAX_COMMIT_BYTES:
        raise ValueError(
            f"the commit of {mark} with its {len(parts)} tasks does not fit into a stanza of XMPP"
            f" ({MAX_COMMIT_BYTES} bytes), and nothing of it is visible; coalesce to fewer partitions."
        )
    facts = on_taken.facts | ({} if totals is None else totals.facts)
    if progress:
        facts |= {"progress": "true"}
    return IqRequest("set", f"the commit of {mark}", mark.words("commit", inner, **facts))


def abort(mark: Mark, parts: Sequence[Part] | None = None) -> IqRequest:
    """Ask to drop the items that these attempts have staged, or all staged items; committed ones stay."""
    inner = "" if parts is None else _list(parts)
    return IqRequest("set", f"the abort of {mark}", mark.words("abort", inner))


def aborts(mark: Mark, parts: Sequence[Part]) -> list[IqRequest]:
    """Ask to drop the items that these attempts have staged, with as many attempts in a request as fit into a stanza."""
    return [abort(mark, parts[at : at + COMPACT]) for at in range(0, len(parts), COMPACT)]


def last(app: str) -> IqRequest:
    """Ask which version of an app was committed last."""
    inner = f"<txn xmlns='{ns.PUBQUEUE}'{attributes(app=app)}/>"
    return IqRequest("get", f"the question for the last version of {app!r}", inner)


def read_last(answer: Element) -> int | None:
    """Return the version in an answer to `last`; None: the service has committed nothing of it."""
    found = answer.find(f"{{{ns.PUBQUEUE}}}txn")
    version = None if found is None else found.get("version")
    return None if version is None else int(version)


def read_committed(answer: Element) -> Committed:
    """Return the result in an answer to `commit`; raise ValueError if there is none."""
    found = answer.find(f"{{{ns.PUBQUEUE}}}committed")
    if found is None:
        raise ValueError("the result of a commit has no figures")
    return Committed(
        int(found.get("published", "0")),
        int(found.get("known", "0")),
        found.get("already") in {"true", "1"},
        int(found.get("taken", "0")),
        tuple(TakenId(*(it.get(name, "") for name in ("node", "id", "state"))) for it in found),
    )


def read_progress(answer: Element) -> AtWork | None:
    """Return how far a commit is, from an answer to `commit` with progress; None: it is done."""
    found = answer.find(f"{{{ns.PUBQUEUE}}}committing")
    if found is None:
        return None
    done, of = (int(found.get(name, "0")) for name in ("done", "of"))
    return AtWork(found.get("phase") == "moving", done, of)


def _element(part: Part) -> str:
    counts = attributes(n=part.number, attempt=part.attempt, items=part.items, bytes=part.bytes)
    return f"<part{counts}/>"


def _list(parts: Sequence[Part]) -> str:
    words = (f"{part.number}:{part.attempt}:{part.items}:{part.bytes or 0}" for part in parts)
    return f"<parts>{' '.join(words)}</parts>"
