"""The connection settings, for programs that log in themselves; `pubqueue_xeps.client.connection` explains them."""

from pubqueue_xeps.client.connection import (
    Connect,
    Connection,
    PartialConnection,
    connection,
    read_url,
)

Given = PartialConnection
"""The former name; it is removed in the next release."""

__all__ = ["Connect", "Connection", "Given", "PartialConnection", "connection", "read_url"]
