"""How a command that fails ends: one sentence on standard error, and an exit code."""

from __future__ import annotations

import sys
from typing import Final, NoReturn

import click

FAILED: Final = 1
ASKED_WRONGLY: Final = 2


def stop(code: int, sentence: object) -> NoReturn:
    """Print the sentence on standard error, and exit with the code."""
    click.echo(f"pubqueue: {sentence}", err=True)
    sys.exit(code)
