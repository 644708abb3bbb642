"""Sets up logging in Spark's Python workers, which have no handler."""

from __future__ import annotations

import logging
import sys
from typing import Final

NAME: Final = __name__.partition(".")[0]


def make_audible() -> None:
    """Write this package's log to standard error, unless logging is already configured.

    Python drops INFO by default, and a user cannot configure logging in a worker of Spark.
    """
    logger = logging.getLogger(NAME)
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
