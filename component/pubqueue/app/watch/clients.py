"""The clients that are connected to this process, over any protocol: their accounts, addresses and times.

Each listener attaches itself, and each connection reports its state on request: nothing is counted in advance. A
list is read in other threads too, so values that may change meanwhile are copied in one step.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Protocol

from pubqueue.model.entities import Jid, Millis, NodeName, account_of
from pubqueue.model.replies import ClientState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.rules.inspect import ReadConnections


class Client(Protocol):
    """A connection of a client that has logged in."""

    address: str
    """That of the client, `name@service/word.INSTANCE.NAME`."""
    peer: str

    @property
    def age(self) -> float:
        """Seconds since it was accepted."""

    @property
    def is_private(self) -> bool:
        """Whether it has TLS."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that it is subscribed to, each once, by name."""

    def holding(self) -> tuple[int, int]:
        """Return how many subscriptions it has, and how many items it holds."""

    def dismiss(self) -> None:
        """End it, in the words of its protocol; its items are released."""


class Source(Protocol):
    """Listens for clients of a face."""

    @property
    def face(self) -> str:
        """The word of the face."""

    def clients(self) -> Iterable[Client]:
        """Return those that have logged in."""


class Clients:
    """Those of all faces of a process."""

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def attach(self, source: Source) -> None:
        """Include the clients of this one too."""
        self._sources.append(source)

    def page(
        self, asked: ReadConnections, most: int, now: Millis
    ) -> tuple[tuple[ClientState, ...], int]:
        """Return the next of the requested ones by address; and how many there are of them in total."""
        everybody = [
            (Jid(one.address), source.face, one)
            for source in self._sources
            for one in source.clients()
            if asked.account is None or account_of(Jid(one.address)) == asked.account
            if asked.node is None or asked.node in one.nodes
        ]
        rest = (one for one in everybody if asked.after is None or one[0] > asked.after)
        page = nsmallest(most, rest, key=lambda one: one[0])
        return tuple(_state(face, one, now) for _, face, one in page), len(everybody)

    def is_here(self, address: Jid) -> bool:
        """Return whether a client has this address."""
        return self._find(address) is not None

    def end(self, address: Jid) -> None:
        """End the connection of this address, if it still exists."""
        if (found := self._find(address)) is not None:
            found.dismiss()

    def _find(self, address: Jid) -> Client | None:
        every = (one for source in self._sources for one in source.clients())
        return next((one for one in every if one.address == address), None)


def _state(face: str, one: Client, now: Millis) -> ClientState:
    subscriptions, holds = one.holding()
    since = Millis(now - round(one.age * 1000))
    about = Jid(one.address), face, one.peer, since, one.is_private
    return ClientState(*about, subscriptions, holds, tuple(map(NodeName, one.nodes)))
