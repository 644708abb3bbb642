"""What nobody says twice: who comes, who goes, and which delivery came back.

A request that the store could not take is refused, and its asker tries again. Servers never repeat presence, nor a
bounce: these are kept here, and tried again until the store takes them. Of each address they are decided in the order
in which they came, and before anything that the address asks for later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.core.queue.expire import Arrive, Bounce, Leave

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Reply
    from pubqueue.core.model import Jid

    Taken = tuple[Request, Callable[[Reply], None]]
    Word = Arrive | Leave | Bounce

log = structlog.get_logger(__name__)

MOST: Final = 50_000
"""Words that are kept at most: anybody can send presence. The addresses first heard of are given up first."""


class Unrepeated:
    """The words that wait for the store; `is_due` says that it is time to try them again, until one has failed."""

    def __init__(self) -> None:
        self._of: dict[Jid, list[Word]] = {}
        self._count = 0
        self.is_due = False

    def __bool__(self) -> bool:
        """Say whether any are kept."""
        return bool(self._of)

    def __len__(self) -> int:
        """Return how many are kept."""
        return self._count

    def keep(self, word: Word) -> None:
        """Keep a word behind those of its address, merged with them where it says the same in the end."""
        self.is_due = False
        address = word.to if isinstance(word, Bounce) else word.jid
        words = self._of.setdefault(address, [])
        before = len(words)
        _merge(words, word)
        self._count += len(words) - before
        while self._count > MOST:
            oldest = next(iter(self._of))
            log.error("unrepeated.given_up", address=oldest)
            self._count -= len(self._of.pop(oldest))

    def some(self, most: int) -> list[Taken]:
        """Return so many of the words or a few more, to be tried now; those that fail are to be kept again."""
        found: list[Taken] = []
        while self._of and len(found) < most:
            found += self._take(next(iter(self._of)))
        self.is_due = bool(self._of)
        return found

    def before(self, requests: list[Taken]) -> list[Taken]:
        """Return the requests, in front of each what is kept of its asker."""
        found: list[Taken] = []
        for taken in requests:
            address = _address_of(taken[0])
            if address in self._of:
                found += self._take(address)
            found.append(taken)
        return found

    def _take(self, address: Jid) -> Iterable[Taken]:
        words = self._of.pop(address)
        self._count -= len(words)
        return [(word, _ignore) for word in words]


def _merge(words: list[Word], word: Word) -> None:
    """Add a word. Of presence the last two suffice: that it left, and that it is here again, or the reverse."""
    if isinstance(word, Bounce):
        if word not in words:
            words.append(word)
        return
    presence = [at for at, known in enumerate(words) if not isinstance(known, Bounce)]
    if presence and type(words[presence[-1]]) is type(word):
        return
    words.append(word)
    if len(presence) > 1:
        del words[presence[0]]


def _address_of(request: Request) -> Jid | None:
    """Return who asks, None if it is the service itself."""
    if isinstance(request, Arrive | Leave):
        return request.jid
    if isinstance(request, Bounce):
        return request.to
    by = getattr(request, "by", None)
    return None if by is None else by.jid


def _ignore(_reply: Reply) -> None:
    """Nobody waits any more: who said it was answered when it was kept."""
