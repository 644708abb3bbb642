"""The faces, by name: a new one is a folder and a row here.

A face takes requests to the broker and notices from its outbox. Nothing about a queue is decided in one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from pubqueue.faces import xmpp

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.broker import Broker
    from pubqueue.config import Settings


class Face(Protocol):
    """A protocol that is served."""

    async def run(self) -> None:
        """Serve until cancelled, or until what it raises ends the process."""

    async def stop(self) -> None:
        """Hand out nothing more, answer what was asked, and close."""


FACES: Final[dict[str, Callable[[Broker, Settings, Callable[[], None]], Face]]] = {
    "xmpp": xmpp.face_of,
}
"""Each makes the face of these settings; it calls the last argument whenever it has become ready."""
