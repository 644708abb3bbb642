"""What a face is to the rest of the program: how it is run, and how it hears of what was done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.app.watch.watching import Traffic
    from pubqueue.core.model import Jid, NodeName
    from pubqueue.core.notices import Notice, ToEach


class Face(Protocol):
    """A protocol that is served. It takes requests to the broker, and notices from its outbox.

    The outbox calls the first three, which do not wait; whoever runs the program the others.
    """

    def claims(self, address: Jid) -> bool:
        """Return whether addresses of this form are its own, whether it is up or not."""

    def speak(self, notices: Sequence[Notice | ToEach]) -> Sequence[Notice]:
        """Send the notices, in order, and return those that could not be sent.

        What is told to many may follow later, in the order of its node, as there is room for it. While too much of it waits,
        the face says so by `Outbox.set_behind`.
        """

    def when_sent(self, node: NodeName, call: Callable[[], None]) -> None:
        """Call, once, when all that is told to many of the node by now has left; at once if there is nothing."""

    async def enter(self, on_waiting: Callable[[], None]) -> None:
        """Return once there is a place to serve at; `on_waiting` is called when another process has it.

        Nothing is begun before: who waits has no number, and what is in the store is the other's.
        """

    async def run(self) -> None:
        """Serve until cancelled, or until what it raises ends the process; PlaceTakenError sends it back to wait."""

    async def stop(self) -> None:
        """Hand out nothing more, answer what was asked, and close."""

    @property
    def traffic(self) -> Traffic:
        """What has come and gone."""
