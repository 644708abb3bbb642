"""`.venv/bin/python -m bench.peers`: probe all services, print the table; `--write` puts it into docs/explanation/other-services.md."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from bench.peers.report import PAGE, rewritten, table
from bench.peers.run import asked


def main() -> None:
    """Probe all services, print the table, and write it with `--write`."""
    with tempfile.TemporaryDirectory() as folder:
        found = table(asyncio.run(asked(Path(folder))))
    print(found)
    if "--write" in sys.argv[1:]:
        PAGE.write_text(rewritten(PAGE.read_text(), found))


main()
