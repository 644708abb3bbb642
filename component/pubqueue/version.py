"""The version of pubqueue, for the parts of the service: the front door, which has it too, leads to all of them."""

from __future__ import annotations

from importlib.metadata import version

__version__ = version("pubqueue")
