"""Copies the whole contents of a store into another store, which may be of another kind."""

from __future__ import annotations

from pubqueue.stores.copying.copy import Copied, CopyProgress, RefusedError, copy

__all__ = ["Copied", "CopyProgress", "RefusedError", "copy"]
