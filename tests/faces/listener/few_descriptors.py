"""A program that listens with few file descriptors: it takes all that are left when it reads `take`, and frees them at `free`."""

from __future__ import annotations

import asyncio
import os
import resource
import sys

import uvloop

from pubqueue import logs
from pubqueue.faces.listener import Bounds, ClientConnection, Listener, Place

LIMIT = 200


class Repeater(asyncio.Protocol):
    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def data_received(self, data: bytes) -> None:
        self.connection.write(data)


async def serve() -> None:
    logs.configure("info")
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    listener = Listener("echo", Repeater, Bounds(login=0))
    await listener.open([Place("127.0.0.1", 0)])
    print(listener.addresses[0][1], flush=True)
    taken: list[int] = []

    def command() -> None:
        match os.read(0, 100).strip():
            case b"take":
                take(taken)
            case b"free":
                while taken:
                    os.close(taken.pop())
            case _:
                ended.set()
                return
        print("done", flush=True)

    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, command)
    await ended.wait()
    await listener.stop()


def take(taken: list[int]) -> None:
    while True:
        try:
            taken.append(os.dup(0))
        except OSError:
            return


{"uvloop": uvloop.run, "asyncio": asyncio.run}[sys.argv[1]](serve())
