"""Where the queue is and who we are there, for programs that log in themselves; `pubqueue_xeps.client.connection` explains it."""

from pubqueue_xeps.client.connection import Connection, Given, connection, read_url

__all__ = ["Connection", "Given", "connection", "read_url"]
