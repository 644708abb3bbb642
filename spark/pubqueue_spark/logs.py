"""Where our lines go: Spark's Python workers have no handler for them."""

from __future__ import annotations

import logging
import sys
from typing import Final

NAME: Final = __name__.partition(".")[0]


def make_audible() -> None:
    """Let this package's lines reach standard error, unless logging is configured already.

    Python drops information by default; and in a worker of Spark logging cannot be configured.
    """
    logger = logging.getLogger(NAME)
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
