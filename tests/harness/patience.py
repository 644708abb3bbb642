"""How long tests wait for what has to come: as long as no machine is slow; who waits so long has lost it."""

from typing import Final

TIMEOUT: Final = 180
"""Seconds."""
