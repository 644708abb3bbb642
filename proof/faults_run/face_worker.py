"""What workers of the run have in common that do not speak XMPP: programs of their own, each with the client of its protocol."""

from __future__ import annotations

import random
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from harness.servers.users import RIGHT

from proof.judge.history import History

if TYPE_CHECKING:
    from collections.abc import Callable

USER: Final = ("etl", RIGHT)
AT_ONCE: Final = 8
"""Items that a worker has in hand."""
PATIENCE: Final = 20.0
"""Seconds for which an acknowledgement is repeated."""
MAX_WORK: Final = 0.01


class Rota:
    """Where the instances of the service are; who is cut off goes to the next."""

    def __init__(self, places: list[str]) -> None:
        self._places = places
        self._at = 0

    @property
    def place(self) -> str:
        """The one whose turn it is."""
        return self._places[self._at % len(self._places)]

    def turn(self) -> None:
        """Go to the next."""
        self._at += 1


_idle = threading.Event()


def did_work() -> None:
    """Take as long as the work does."""
    _idle.wait(random.uniform(0, MAX_WORK))


def main(work: Callable[[History, Rota, threading.Event], None]) -> None:
    """Run a worker until SIGTERM."""
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())

    @click.command()
    @click.option("--place", "places", multiple=True, required=True)
    @click.option("--history", "path", required=True, type=click.Path(path_type=Path))
    def run(places: tuple[str, ...], path: Path) -> None:
        """Work on the node `jobs`."""
        work(History(path, path.stem), Rota(list(places)), is_over)

    run()
