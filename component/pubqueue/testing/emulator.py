"""Pub/Sub for programs that are configured for Google's emulator: a process that a test may kill and start again.

    def test_an_order_arrives(pubqueue_emulator, pubqueue_project):
        publisher = pubsub_v1.PublisherClient()
        ...
        pubqueue_emulator.kill()
        pubqueue_emulator.start()

The fixtures are in `pubqueue.testing.pytest_plugin`.
"""

from __future__ import annotations

import selectors
import subprocess
import sys
from typing import TYPE_CHECKING, Final, Self

from pubqueue.loopback import free_ports

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

TIMEOUT: Final = 60.0
"""Seconds of the machine's time that it may take to start."""

_TAIL: Final = 15


class Emulator:
    """`pubqueue emulator`, with the same port and the same data after each start. Use it as a context manager, or call `start` and `stop`.

    `folder` has the data and the log of the process. `port` is a free one unless you give it. Needs `pubqueue[grpc]`.
    """

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self._folder = folder
        self._port = free_ports(1)[0] if port is None else port
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        """The value of `PUBSUB_EMULATOR_HOST`."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and return when it is ready. Does nothing if it is running.

        Raises:
            RuntimeError: it could not be started; the message has what it has printed.

        """
        if self._process is not None and self._process.poll() is None:
            return
        self.kill()  # it has ended by itself
        self._folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-Pm", "pubqueue", "emulator", "--port", f"{self._port}"]
        with self._log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603  # our own program
                [*command, "--data-dir", self._folder / "data"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._process = process
        if not _has_line(process, TIMEOUT):
            self.kill()
            text = self._log.read_text(errors="replace").splitlines()[-_TAIL:]
            raise RuntimeError("\n".join(["The emulator could not be started:", *text]))

    def stop(self) -> None:
        """Stop it in order, as SIGTERM does. Does nothing if it is not running."""
        if self._process is not None:
            self._process.terminate()
            self._wait()

    def kill(self) -> None:
        """Kill it (SIGKILL), as a crash would. Does nothing if it is not running."""
        if self._process is not None:
            self._process.kill()
            self._wait()

    def _wait(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        process.wait()
        assert process.stdout is not None
        process.stdout.close()

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _has_line(process: subprocess.Popen[str], seconds: float) -> bool:
    """Wait for the line of a process that is ready; return False if it ends before, or prints none in time."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(seconds):
            return False
    return process.stdout.readline().startswith("export ")
