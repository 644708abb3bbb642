"""`python late_nodes.py PIPE serve ...`: pubqueue, which makes the declared nodes once something is written to PIPE: till then it is not at work."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from pubqueue.cli import main
from pubqueue.config.nodes import bring_nodes
from pubqueue.wiring import serving


def wait_for(pipe: Path) -> None:
    """Have the nodes wait."""

    async def late(*given: Any) -> None:
        await asyncio.to_thread(pipe.read_bytes)
        await bring_nodes(*given)

    serving.bring_nodes = late  # type: ignore[assignment, attr-defined]  # in its place


if __name__ == "__main__":
    _, name, *command = sys.argv
    wait_for(Path(name))
    main(command)
