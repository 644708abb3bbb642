"""The table: a line for each request, a column for each service."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.ejabberd import libraries

import pubqueue as ours
from others.requests import REQUESTS, Pair
from others.services import ejabberd, prosody, pubqueue

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from harness.session import Session

README: Final = Path(__file__).parents[2] / "README.md"
PLACE: Final = re.compile(r"(<!-- others -->\n\n)(.*?)(\n\n<!-- end -->)", re.DOTALL)


async def answers(service: AbstractAsyncContextManager[tuple[Session, Session]]) -> list[str]:
    """Return what came of each request."""
    async with service as (boss, bee):
        pair = Pair(boss, bee)
        return [await probe(pair) for probe in REQUESTS.values()]


async def table() -> str:
    """Ask all services, and return the table."""
    asked = [answers(service()) for service in (pubqueue, prosody, ejabberd)]
    columns = await asyncio.gather(*asked)
    heads = ["request", f"pubqueue {ours.__version__}", *versions()]
    rows = [heads, ["---"] * len(heads)]
    rows += [[name, *cells] for name, *cells in zip(REQUESTS, *columns, strict=True)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def versions() -> list[str]:
    """Return which versions of the others are installed here."""
    said = subprocess.run(["prosodyctl", "about"], capture_output=True, text=True, check=False)
    prosodys = re.search(r"Prosody (\d[\d.]*)", said.stdout)
    ejabberds = next(Path(libraries()).glob("ejabberd-*")).name.partition("-")[2]
    return [f"Prosody {prosodys[1] if prosodys else ''}", f"ejabberd {ejabberds}"]


def shown() -> str:
    """Return the table as README has it."""
    found = PLACE.search(README.read_text())
    assert found, "README.md has no place for the table"
    return found[2]


def written(made: str) -> None:
    """Put the table into README."""
    text = README.read_text()
    README.write_text(PLACE.sub(lambda found: found[1] + made + found[3], text))
