"""What a face is to the rest of the program: how it is run, and how it gets notices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.app.watch.watching import Traffic
    from pubqueue.core.model import Jid, NodeName
    from pubqueue.core.notices import Notice, ToEach


class Face(Protocol):
    """A protocol that is served. It takes requests to the broker, and notices from its outbox.

    The first three are called by the outbox and do not wait; the others by the program.
    """

    def claims(self, address: Jid) -> bool:
        """Return whether addresses of this form are its own, whether it is up or not."""

    def speak(self, notices: Sequence[Notice | ToEach]) -> Sequence[Notice]:
        """Send the notices, in order, and return those that could not be sent.

        Notices to many may follow later, in the order of their node, as there is room for them.
        While too many of them wait, the face calls `Outbox.set_behind`.
        """

    def when_sent(self, node: NodeName, call: Callable[[], None]) -> None:
        """Call, once, when all notices to many of the node so far have left; at once if there are none."""

    async def enter(self, on_waiting: Callable[[], None]) -> None:
        """Return once there is a place to serve at; `on_waiting` is called when another process has it.

        Nothing is begun before: while it waits it has no number, and the store's contents belong to
        the other process.
        """

    async def run(self) -> None:
        """Serve until cancelled, or until what it raises ends the process; PlaceTakenError sends it back to wait."""

    async def stop(self) -> None:
        """Stop deliveries, answer the requests that were read, and close."""

    @property
    def traffic(self) -> Traffic:
        """What has come and gone."""
