"""A connection with little room for unread bytes: its sender soon has to wait."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

HOST: Final = "127.0.0.1"
ROOM: Final = 4096
"""Bytes that the kernel accepts for it, or a few times as many."""


async def connect_slowly(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a port of this machine."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)  # before it connects
    made.settimeout(0)
    await asyncio.get_running_loop().sock_connect(made, (HOST, port))
    return await asyncio.open_connection(sock=made)
