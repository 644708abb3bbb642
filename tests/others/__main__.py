"""Prints the table, or with --write puts it into README.md."""

from __future__ import annotations

import asyncio
import sys

from others.table import table, written

if __name__ == "__main__":
    made = asyncio.run(table())
    if "--write" in sys.argv:
        written(made)
    print(made)
