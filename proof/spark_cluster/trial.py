"""What a test of a fault works with: where to write, what befalls it, what came of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.patience import LOOK, until, wait_until
from harness.stores.queue_store import staged

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Future
    from pathlib import Path

    from harness.background import Background

TIMEOUT: Final = 120.0
HELD: Final = "hang before commit"
"""The fault of a write that commits when somebody says so."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One test's options, folder and store."""

    background: Background
    options: dict[str, str]
    folder: Path
    store: Path

    def fault(self, name: str) -> dict[str, str]:
        """Return the options of a write that this befalls."""
        return self.options | {"fault": name, "notes": str(self.folder)}

    def happened(self, name: str) -> bool:
        """Whether it has befallen."""
        return (self.folder / name).exists()

    def wait_for(self, name: str) -> None:
        """Wait until it has befallen."""
        wait_until(lambda: self.happened(name), within=TIMEOUT, why=f"{name} has not happened")

    def note(self, name: str) -> None:
        """Let a fault go on that waits for this."""
        (self.folder / name).touch()

    @property
    def notes(self) -> list[str]:
        """Partition and number of each attempt of a task that published all its rows."""
        return (self.folder / "notes").read_text().splitlines()

    @property
    def stream(self) -> dict[str, str]:
        """Where a stream reads three files of 100 numbers each, and keeps its checkpoint."""
        folder = self.folder / "files"
        folder.mkdir(exist_ok=True)
        for file in range(3):
            lines = "".join(f"{n}\n" for n in range(file * 100, file * 100 + 100))
            (folder / f"{file}.txt").write_text(lines)
        return {"files": str(folder), "checkpoint": str(self.folder / "checkpoint")}

    def meanwhile(
        self, accident: Callable[[], Awaitable[None]], *, after: int = 300
    ) -> Future[None]:
        """Begin the accident when so many items are staged; returns what to wait for.

        The write that it befalls is one with the fault `HELD`: who looks late finds the items still staged.
        """

        async def watch() -> None:
            try:
                await until(lambda: staged(self.store) >= after, every=LOOK, within=None)
                await accident()
            finally:
                self.note("go on")

        return asyncio.run_coroutine_threadsafe(watch(), self.background.loop)
