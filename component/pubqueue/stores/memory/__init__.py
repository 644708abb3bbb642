"""The store in memory: for tests, trials and the demo. What it keeps is gone with the process."""

from pubqueue.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
