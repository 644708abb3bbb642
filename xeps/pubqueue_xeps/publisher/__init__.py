"""Publishing, and asking for replies: with asyncio, or without."""

from pubqueue_xeps.publisher.publisher import Publisher

__all__ = ["Publisher"]
