"""The interface of a face: how it is run, and how it gets notices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.engine.observe import Traffic
    from pubqueue.model.entities import Jid, NodeName
    from pubqueue.model.notices import Notice, ToEach


class PlaceTakenError(Exception):
    """Another process has the place of a face that only one process can have."""


class Face(Protocol):
    """A protocol that is served. A face submits requests to the broker, and gets notices from its outbox.

    The outbox calls `largest` to `when_sent`, which do not wait; the program calls the others.
    """

    @property
    def largest(self) -> int:
        """The maximum bytes of a stored payload that this face can send. Larger items are not delivered over it. It never changes."""

    def claims(self, address: Jid) -> bool:
        """Return whether addresses of this form belong to this face, up or not, on whichever instance."""

    def reaches(self, address: Jid) -> bool:
        """Return whether this instance can send to the address now. The face claims the address.

        No item is locked to an address that cannot be reached. After a change the face calls `Outbox.set_up`, or
        `Outbox.reach_changed` if it is about one address. This is also called from other threads.
        """

    def send_notices(self, notices: Sequence[Notice | ToEach]) -> Sequence[Notice]:
        """Send the notices, in order, and return those that could not be sent.

        Notices to many addresses may be sent later, in order for each node, when there is room for them.
        If too many of them wait, the face calls `Outbox.set_behind`.
        """

    def when_sent(self, node: NodeName, call: Callable[[], None]) -> None:
        """Call `call` once, after all notices so far to many addresses about the node are sent; at once if none wait."""

    async def enter(self, on_waiting: Callable[[], None]) -> None:
        """Return when the face has its place to serve at; call `on_waiting` if another process has it.

        Until a face has its place, the process does no work: it has no number, and the store's
        contents belong to other processes. A face that waits does not delay the other faces.
        """

    async def run(self) -> None:
        """Serve until cancelled. An exception ends the process, except PlaceTakenError: the program calls `enter` again."""

    async def stop(self) -> None:
        """Stop deliveries, answer the requests that were read, and close."""

    async def check(self, patience: float) -> str:
        """Return a sentence that confirms that the face could serve, without serving; wait up to `patience` seconds.

        Raises:
            TimeoutError: this cannot be determined in that time; the argument, if any, is the reason.

        Also raises what `enter` raises.

        """

    @property
    def traffic(self) -> Traffic:
        """Counters of what was received and sent."""
