"""Debian's Prometheus, which scrapes services of this machine with the configuration and the rules of the documentation."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import aiohttp
from harness.documents.documented import DOCUMENTED_AT, ROOT, blocks
from harness.patience import until

from pubqueue.loopback import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

PAGE: Final = "docs/operations/monitoring.md"
RULES: Final = ROOT / "packaging" / "prometheus" / "alerts.yml"
PAUSE: Final = 0.05


def configuration(ports: Sequence[int]) -> str:
    """Return the documented one for services at these ports, with a second for its quarter of a minute."""
    (text,) = (one.text for one in blocks("yaml") if one.page == PAGE and DOCUMENTED_AT in one.text)
    targets = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
    return text.replace(f'"{DOCUMENTED_AT}"', targets).replace("15s", "1s")


def _furnish(folder: Path, services: Sequence[int]) -> None:
    folder.mkdir()
    shutil.copy(RULES, folder)
    (folder / "prometheus.yml").write_text(configuration(services))


@asynccontextmanager
async def prometheus(folder: Path, services: Sequence[int]) -> AsyncIterator[int]:
    """Scrape the services within the context; yields the port of its API."""
    _furnish(folder, services)
    (port,) = free_ports(1)
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:

        async def is_ready() -> bool:
            assert process.returncode is None, (folder / "log").read_text()
            return await _is_ready(port)

        await until(is_ready, every=PAUSE)
        yield port
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _is_ready(port: int) -> bool:
    try:
        async with (
            aiohttp.ClientSession() as asking,
            asking.get(f"http://127.0.0.1:{port}/-/ready") as answer,
        ):
            return answer.status == HTTPStatus.OK
    except aiohttp.ClientError:
        return False
