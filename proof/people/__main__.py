"""`python -m proof.people`: ten thousand questions, with kills; prints what was found, and ends with 1 if anything was wrong."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from harness.servers.ejabberd import Ejabberd

from proof.people.run import run
from pubqueue_demo.prosody import Prosody


async def main(given: argparse.Namespace) -> int:
    """Run it, and return the exit code."""
    servers = {
        "prosody": lambda: Prosody(modules=("mam",)),
        "ejabberd": lambda: Ejabberd(archive=True),
    }
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pubqueue-people-") as folder:
        async with servers[given.server]() as server:
            found = await run(
                server,
                Path(folder),
                questions=given.questions,
                people=given.people,
                window=given.window,
                kills=given.kills,
                seed=given.seed,
            )
    seconds = time.monotonic() - began
    print(
        f"{len(found.completed)} of {given.questions} answered in {seconds:.0f} s, {found.messages} messages"
    )
    print("killed:", ", ".join(f"{name} {count}" for name, count in sorted(found.kills.items())))
    for wrong in found.wrong():
        print(wrong)
    return 1 if found.wrong() else 0


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--window", type=int, default=5)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server", choices=("prosody", "ejabberd"), default="prosody")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(arguments())))
