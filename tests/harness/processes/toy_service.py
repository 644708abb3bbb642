"""`python -m harness.processes.toy_service STORE CONNECTIONS [CERTIFICATE KEY]`: the toy face as a service of its own.

The wiring runs it, as it runs the faces of the component. It prints its port when it is ready, and ends at SIGTERM.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Final

import msgspec
import uvloop
from harness.batches.toy_face import WORD
from harness.batches.toy_lines import ServedLines
from harness.servers.users import RIGHT

from pubqueue import logs
from pubqueue.accounts import credentials
from pubqueue.config.settings import Settings
from pubqueue.faces.listener import Bounds, Place, Tls, TlsFiles
from pubqueue.faces.table import Row
from pubqueue.model.entities import Jid
from pubqueue.wiring import faces, serving

HOST: Final = "127.0.0.1"
NAME: Final = "etl"


def settings(store: str) -> Settings:
    """Return settings with a user and a queue of that user's."""
    service = "queue.localhost"
    user = {"name": NAME, "password": credentials.make(RIGHT).text}
    queue = {"name": "jobs", "queueing": True, "owners": [f"{NAME}@{service}"]}
    found = {"jid": service, "server": "", "store": store, "user": [user], "node": [queue]}
    return msgspec.convert(found, Settings)


async def serve(store: str, connections: int, *files: str) -> None:
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    tls = Tls(TlsFiles(*files), face=WORD) if files else None
    bounds = Bounds(connections=connections, per_peer=connections, per_user=connections)

    def made(broker, settings, accounts, on_ready):
        def ready():
            print(face.listener.addresses[0][1], flush=True)
            on_ready()

        face = ServedLines(
            broker,
            accounts,
            [Place(HOST, 0, tls)],
            on_ready=ready,
            service=Jid(settings.jid),
            bounds=bounds,
        )
        return face

    faces.FACES = {WORD: Row(make=made)}
    await serving.serve(settings(store), stop=stop)


if __name__ == "__main__":
    logs.configure("warning")
    uvloop.run(serve(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
