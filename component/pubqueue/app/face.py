"""What a face is to the rest of the program: how it is run, and how it gets notices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.app.watch.watching import Traffic
    from pubqueue.core.model import Jid, NodeName
    from pubqueue.core.notices import Notice, ToEach


class PlaceTakenError(Exception):
    """Another process has the place of a face, of which there is only one."""


class Face(Protocol):
    """A protocol that is served. It takes requests to the broker, and notices from its outbox.

    The first four are called by the outbox and do not wait; the others by the program.
    """

    def claims(self, address: Jid) -> bool:
        """Return whether addresses of this form are its own, whether it is up or not, and whichever instance has them."""

    def reaches(self, address: Jid) -> bool:
        """Return whether this instance can send to the address now, which is one that the face claims.

        Nothing is locked to an address that cannot be reached. After a change the face calls `Outbox.set_up`, or, if it
        is about one address, `Outbox.reach_changed`. It is called from other threads too.
        """

    def speak(self, notices: Sequence[Notice | ToEach]) -> Sequence[Notice]:
        """Send the notices, in order, and return those that could not be sent.

        Notices to many may follow later, in the order of their node, as there is room for them.
        While too many of them wait, the face calls `Outbox.set_behind`.
        """

    def when_sent(self, node: NodeName, call: Callable[[], None]) -> None:
        """Call, once, when all notices to many of the node so far have left; at once if there are none."""

    async def enter(self, on_waiting: Callable[[], None]) -> None:
        """Return once there is a place to serve at; `on_waiting` is called when another process has it.

        While no face has a place, nothing is begun: the process has no number, and the store's
        contents belong to others. A face that waits does not keep the other faces waiting.
        """

    async def run(self) -> None:
        """Serve until cancelled, or until what it raises ends the process; PlaceTakenError sends it back to `enter`."""

    async def stop(self) -> None:
        """Stop deliveries, answer the requests that were read, and close."""

    async def check(self, patience: float) -> str:
        """Return a sentence that it could serve, in place of serving; wait up to `patience` seconds.

        Raises:
            TimeoutError: it cannot be known in that time; the argument, if there is one, says why.

        Raises as well what `enter` raises.

        """

    @property
    def traffic(self) -> Traffic:
        """What has come and gone."""
