"""Publishing items and asking for replies, with asyncio or without it."""

from pubqueue_xeps.publisher.publisher import Publisher

__all__ = ["Publisher"]
