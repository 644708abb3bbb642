"""A face, the task that keeps it running, and the secrets that the store keeps."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from pubqueue.model.decision import SecretKept
from pubqueue.model.records import ServiceSecret
from pubqueue.rules.publish_keys import KeepSecret

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pubqueue.engine.observe import Traffic
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Jid, NodeName, Principal
    from pubqueue.model.notices import Notice, ToEach


# The interface of a face: how it is run, and how it gets notices.


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


# The running faces of a process: each enters and serves by itself, so one that waits does not delay the others.

log = structlog.get_logger(__name__)


class RunningFaces:
    """Lets faces enter and serve. `on_waiting` is called if the only face waits because another process has its place."""

    def __init__(self, faces: Sequence[Face], on_waiting: Callable[[], None]) -> None:
        self.faces = tuple(faces)
        self._on_waiting = on_waiting if len(faces) == 1 else _go_on
        self._entering: dict[Face, asyncio.Task[None]] = {}

    async def entered(self) -> None:
        """Return when one of them has its place; the others continue to wait for theirs.

        Also raises the first exception of a face's `enter`.
        """
        for face in self.faces:
            if face not in self._entering:
                work = face.enter(self._on_waiting)
                self._entering[face] = asyncio.create_task(work, name="entering")
        done, _ = await asyncio.wait(self._entering.values(), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def serve(self, face: Face) -> None:
        """Serve as soon as the face has its place. If it loses the place while others serve, it waits for it again.

        Raises:
            PlaceTakenError: the only face has lost its place.

        """
        await self._entering[face]
        while True:
            try:
                return await face.run()
            except PlaceTakenError:
                if len(self.faces) == 1:
                    raise
                log.warning("face.place_lost")
                await face.enter(self._on_waiting)

    async def stop(self) -> None:
        """Stop all faces. Stopping twice does no harm."""
        for task in self._entering.values():
            task.cancel()
        await asyncio.gather(*self._entering.values(), return_exceptions=True)
        await asyncio.gather(*(face.stop() for face in self.faces))


def _go_on() -> None:
    """Do nothing: the other faces serve."""


# A secret that all instances have, and each life of an instance: the store keeps it.

SECRET_BYTES: Final = 32

RETRY: Final = 1.0
"""Seconds until the store is asked again."""


def proposed_secret(name: str) -> ServiceSecret:
    """Return a new secret of this name, which is kept if there is none yet."""
    return ServiceSecret(name, secrets.token_bytes(SECRET_BYTES))


async def kept_secret(
    handle: Callable[[KeepSecret], Awaitable[Reply]], by: Principal, name: str
) -> bytes:
    """Return the service's secret of this name; the first instance that asks for it makes it. `handle` is the broker's."""
    proposed = proposed_secret(name)
    while True:
        reply = await handle(KeepSecret(by, proposed))
        if isinstance(reply, SecretKept):
            return reply.value
        await asyncio.sleep(RETRY)  # the store does not answer
