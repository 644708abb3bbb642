"""What has been taken and is not answered yet: when that is enough, nothing more is read from the server.

What waits then waits in the server's sockets, and its senders notice. So a crowd that publishes faster than the disk
can take it costs a bounded amount of memory here, however long it goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.rules import READS
from pubqueue.core.queue.publish import Publish
from pubqueue.core.queue.settle import Settle
from pubqueue.core.transactions.staging import StagePublish
from pubqueue.faces.xmpp.room import LARGEST_ANSWER

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.rules import Request
    from pubqueue.core.model import NodeName

MOST: Final = 1024
"""Requests that wait at most: two full batches, so that one gathers while the other is made durable."""

MOST_OCTETS: Final = 4 << 20
"""Bytes that they may have, at most; one more request is taken if any are left."""


def weight(request: Request, octets: int) -> int:
    """Return what a request of so many bytes counts, together with its answer; that of one that reads may be large."""
    return octets + LARGEST_ANSWER if type(request) in READS else octets


def told_of(request: object) -> NodeName | None:
    """Return the node whose subscribers may hear of the request as soon as it is done."""
    if isinstance(request, StagePublish):
        return request.publish.node if request.mark.immediate else None
    return request.node if isinstance(request, Publish | Settle) else None


class Intake:
    """Counts what waits. `on_full` is called when it is enough, `on_room` when half of it is done."""

    def __init__(self, on_full: Callable[[], None], on_room: Callable[[], None]) -> None:
        self._on_full = on_full
        self._on_room = on_room
        self.count = 0
        self.octets = 0
        self.is_full = False

    def take(self, octets: int) -> None:
        """Count a request that has been taken."""
        self.count += 1
        self.octets += octets
        if not self.is_full and (self.count >= MOST or self.octets >= MOST_OCTETS):
            self.is_full = True
            self._on_full()

    def done(self, octets: int) -> None:
        """Count it as answered."""
        self.count -= 1
        self.octets -= octets
        if self.is_full and self.count <= MOST // 2 and self.octets <= MOST_OCTETS // 2:
            self.is_full = False
            self._on_room()
