"""Several services behind one server, each a component of its own with a store of its own."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest_asyncio
from harness.processes.program import Program, write_config
from harness.servers.live import listener

from pubqueue_demo.prosody import Prosody

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

SERVICES: Final = tuple(f"queue-{letter}.localhost" for letter in "abcd")
"""The services that a server of `for_several` has room for."""


def for_several(*accounts: str) -> Any:
    """Return the fixture of a module with a server for all of `SERVICES`, and these accounts."""

    @pytest_asyncio.fixture(scope="module", loop_scope="module")
    async def server():
        async with Prosody(component=SERVICES[0], more_components=SERVICES[1:]) as started:
            for name in accounts:
                await started.account(name, "secret")
            yield started

    return server


@asynccontextmanager
async def several(
    server: Prosody, folder: Path, extra: str, names: Sequence[str] = SERVICES[:2]
) -> AsyncIterator[dict[str, Program]]:
    """Serve these addresses, each from a folder of its own; `extra` goes into the configuration of each."""
    async with AsyncExitStack() as stack:
        programs = {}
        for name in names:
            programs[name] = await stack.enter_async_context(one_of(server, folder, extra, name))
        yield programs


@asynccontextmanager
async def one_of(server: Prosody, folder: Path, extra: str, name: str) -> AsyncIterator[Program]:
    """Serve one of the addresses."""
    own = folder / name
    own.mkdir()
    config = write_config(own, replace(listener(server), domain=name), extra)
    async with Program(config) as program:
        yield program
