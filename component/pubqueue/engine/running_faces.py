"""The running faces of a process: each enters and serves by itself, so one that waits does not delay the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from pubqueue.engine.face import PlaceTakenError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.engine.face import Face


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
