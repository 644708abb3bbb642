"""The contestants: programs that answer the same six stanzas."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.load import NODE, SERVICE
from pubqueue_demo.process import Child, spawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from bench.places import Place

PROGRAMS: Final[Mapping[str, Sequence[str]]] = {
    "pubqueue": ("pubqueue", "serve", "--config", "pubqueue.toml"),
    "lean": ("bench.lean",),
    "same-words": ("bench.same_words",),
    "documented": ("bench.documented",),
}
ANSWER_SHORTLY: Final = frozenset({"pubqueue", "same-words"})
"""The contestants that support short answers, and are asked for them."""
ROOT: Final = Path(__file__).parents[1]
READY: Final = 30.0
MAX_WORKERS: Final = 16
"""How many workers are members of the queue."""

CONFIG: Final = """\
jid = "{jid}"
secret = "{secret}"
server = "127.0.0.1:{port}"
store = "{store}"
{keys}

[[node]]
name = "{node}"
queueing = true
owners = ["boss@localhost"]
publishers = {publishers}
members = {members}
{settings}
"""


@dataclass(frozen=True, slots=True)
class Situation:
    """The state in which the service starts.

    Further settings of the node, a store to copy or the address of one, and further keys of the configuration.
    """

    settings: str = ""
    store: Path | None = None
    address: str | None = None
    keys: str = ""


EMPTY: Final = Situation()


@asynccontextmanager
async def running(
    contestant: str,
    place: Place,
    folder: Path,
    *,
    publishers: Sequence[str],
    requests: int,
    launcher: Sequence[str] = (),
    situation: Situation = EMPTY,
) -> AsyncIterator[Child]:
    """Start a contestant, by default with an empty store; wait until the server has accepted it; stop it at the end.

    `launcher` is a module that runs the contestant's module, and its arguments.
    """
    config = CONFIG.format(
        jid=SERVICE,
        secret=place.secret,
        port=place.component_port,
        store=situation.address or f"sqlite:///{folder}/queue.db",
        node=NODE,
        publishers=json.dumps([f"{name}@localhost" for name in publishers]),
        members=json.dumps([f"worker{number}@localhost" for number in range(MAX_WORKERS)]),
        settings=situation.settings,
        keys=situation.keys,
    )
    if situation.store is not None:
        shutil.copyfile(situation.store, folder / "queue.db")
    (folder / "pubqueue.toml").write_text(config)
    environment = {
        "PYTHONPATH": str(ROOT),
        "PUBQUEUE_JID": SERVICE,
        "PUBQUEUE_SECRET": place.secret,
        "PUBQUEUE_SERVER": f"127.0.0.1:{place.component_port}",
        "BENCH_REQUESTS": str(requests),
    }
    module, *arguments = PROGRAMS[contestant]
    arguments = [str(folder / each) if each.endswith(".toml") else each for each in arguments]
    child = await spawn(
        [sys.executable, "-m", *launcher, module, *arguments],
        name=contestant,
        log=folder / "stderr",
        env=os.environ | environment,
    )
    try:
        await child.wait_line("ready", timeout=READY)
        yield child
    finally:
        await child.stop()
