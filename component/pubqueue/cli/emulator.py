"""`pubqueue emulator`: a service in place of Google's emulator of Pub/Sub, which survives a crash."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from pubqueue import logs
from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, stop
from pubqueue.cli.service import run
from pubqueue.config.settings import Settings
from pubqueue.engine.ports import StoreError
from pubqueue.faces.checks import ConfigError
from pubqueue.faces.grpc.settings import GrpcSettings
from pubqueue.wiring import serving

HOST: Final = "127.0.0.1"
PORT: Final = 8085
"""That of Google's emulator."""

PUSH_TO: Final = ("127.0.0.1:*", "[::1]:*", "localhost:*")
"""Subscriptions may push to programs on this machine."""


@click.command()
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=PORT,
    show_default=True,
    help="Where to listen on the loopback interface.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder that keeps topics, subscriptions and messages; without it they are deleted at the end.",
)
def emulator(port: int, data_dir: Path | None) -> None:
    """Stand in for Google's emulator of Pub/Sub.

    Runs until SIGTERM or SIGINT, and needs no XMPP server, no configuration and no credentials. Only this machine can reach it. When it is ready, it
    prints the line that points the clients at it. Clients create topics and subscriptions, and these may push to programs on this machine. Exits
    with 2 if it cannot listen there, and with 1 if the folder cannot be used.
    """
    logs.configure("warning", "logfmt")
    with ExitStack() as ends:
        folder = data_dir or Path(
            ends.enter_context(tempfile.TemporaryDirectory(prefix="pubqueue-emulator-"))
        )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            run(_serve(settings_of(port, folder)))
        except OSError as problem:
            stop(FAILED, f"{folder} cannot be used ({problem.strerror or problem})")
        except ConfigError as problem:
            stop(ASKED_WRONGLY, problem)
        except StoreError as problem:
            stop(FAILED, f"{folder} cannot be used: {problem}")


def settings_of(port: int, folder: Path) -> Settings:
    """Return the settings of an emulator that keeps its data in this folder."""
    return Settings(
        jid="pubsub.localhost",
        server="",
        store=f"sqlite:///{(folder / 'pubqueue.db').absolute()}",
        grpc=GrpcSettings(listen=f"{HOST}:{port}", anonymous="dev", push_to=PUSH_TO),
    )


async def _serve(settings: Settings) -> None:
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)

    def ready() -> None:
        click.echo(f"export PUBSUB_EMULATOR_HOST={settings.grpc.listen}")

    await serving.serve(settings, stop=ending, on_ready=ready)
