"""The open streams: how many each account has, and their list for operators (`app.watch.clients`)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from grpc import StatusCode
from msgspec import Struct

from pubqueue.faces.grpc.wire.statuses import UNKNOWN_CALLER, CallError
from pubqueue.model.entities import NodeName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.accounts.accounts import Proven
    from pubqueue.faces.grpc.pubsub.outstanding import Credit
    from pubqueue.faces.grpc.terms import Terms
    from pubqueue.model.entities import Jid, Principal

DISMISSED: Final = CallError(StatusCode.UNAVAILABLE, "An administrator has ended this stream.")
"""The end of a stream that an administrator ends: clients open another one, unless their user was removed."""


class Origin(Struct, frozen=True):
    """The origin of a call: its client as gRPC names it, whether it has TLS, and its credentials."""

    peer: str = ""
    is_private: bool = False
    proven: Proven | None = None


class OpenStream:
    """A stream of the client at `peer`. All its items are locked to its address."""

    def __init__(self, by: Principal, origin: Origin, peer: str) -> None:
        self.by, self.proven = by, origin.proven
        self.address: str = by.jid
        self.peer, self.is_private = peer, origin.is_private
        self.node = NodeName("")
        """The queue that it takes from, as soon as its client has named it."""
        self.credit: Credit | None = None
        self.problem: CallError | None = None
        """How it has to end."""
        self.changed = asyncio.Event()
        """Set when it has something to do."""
        self._begun = time.monotonic()

    @property
    def age(self) -> float:
        """Seconds since it was opened."""
        return time.monotonic() - self._begun

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        """The queues that it takes from."""
        return (self.node,) if self.node else ()

    def holding(self) -> tuple[int, int]:
        """Return how many subscriptions it has, and how many items it holds."""
        return len(self.nodes), len(self.credit.tokens) if self.credit else 0

    def dismiss(self) -> None:
        """End it; its items are released."""
        self.end(DISMISSED)

    def end(self, problem: CallError) -> None:
        """Have it end."""
        self.problem = problem
        self.changed.set()


class OpenStreams:
    """Those of a face, which is a word of the program."""

    def __init__(self, face: str) -> None:
        self.face = face
        """The word of the face."""
        self._streams: dict[str, OpenStream] = {}
        self._counts: Counter[Jid] = Counter()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._streams)

    def clients(self) -> Iterable[OpenStream]:
        """Return all of them."""
        return tuple(self._streams.values())

    def check(self, account: Jid, terms: Terms) -> None:
        """Check that the account may open another one.

        Raises:
            CallError: there are too many, of all accounts or of this one.

        """
        if len(self) >= terms.streams or self._counts[account] >= terms.streams_per_account:
            raise CallError(
                StatusCode.RESOURCE_EXHAUSTED,
                f"There may be {terms.streams} streams, and {terms.streams_per_account} of one account.",
            )

    def enter(self, stream: OpenStream) -> None:
        """Count a stream."""
        self._streams[stream.address] = stream
        self._counts[stream.by.account] += 1

    def leave(self, stream: OpenStream) -> None:
        """Count a stream no more."""
        account = stream.by.account
        del self._streams[stream.address]
        self._counts[account] -= 1
        if not self._counts[account]:
            del self._counts[account]

    def end_unknown(self, holds: Callable[[Proven | None], bool]) -> None:
        """End the streams of users that were removed, or have another password."""
        for stream in self.clients():
            if not holds(stream.proven):
                stream.end(UNKNOWN_CALLER)
