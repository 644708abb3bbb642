"""The forgetful disk as a test has it: a folder, whose power can be cut and comes back."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from harness.patience import LOOK, TIMEOUT, wait_until

if TYPE_CHECKING:
    from types import TracebackType

ROOT: Final = Path(__file__).parents[2]


class ForgetfulDisk:
    """A context manager: the disk is mounted at `path`. `words` are the options of `forgetful`."""

    def __init__(self, folder: Path, *words: str, seed: int = 1) -> None:
        self.path = folder / "disk"
        self._place, self._log = folder / "synced", folder / "disk.log"
        self._words, self._seed = words, seed
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.path.mkdir(exist_ok=True)
        self.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._unmount()

    def start(self) -> None:
        """Switch it on: what it has is what was left."""
        self._seed += 1
        words = [f"--seed={self._seed}", *self._words, str(self._place), str(self.path)]
        command = [sys.executable, "-m", "proof.disk.forgetful", *words]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        wait_until(self._is_there, every=LOOK, within=TIMEOUT, why="the disk is not mounted")

    def shut_down(self) -> None:
        """Switch it off in order: everything is there afterwards."""
        self._unmount()

    def lose_power(self) -> None:
        """Switch it off; of what was not synced there is some afterwards, or nothing."""
        assert self._process is not None
        with suppress(OSError):
            (self.path / ".power").stat()
        self._gone()

    def kill(self) -> None:
        """Switch it off; nothing that was not synced is there afterwards."""
        assert self._process is not None
        self._process.kill()
        self._gone()

    def _gone(self) -> None:
        assert self._process is not None
        self._process.wait(TIMEOUT)
        self._process = None
        self._unmount()

    def _unmount(self) -> None:
        """Unmount it, whoever has files of it open."""
        subprocess.run(["umount", "--lazy", self.path], check=True)
        if self._process is not None:
            self._process.wait(TIMEOUT)
            self._process = None

    def _is_there(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        return os.path.ismount(self.path)
