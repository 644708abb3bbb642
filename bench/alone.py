"""A service without an XMPP server, in a process of its own, with all protocols and a few users."""

from __future__ import annotations

import base64
import http.client
import os
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc

from pubqueue.accounts import credentials
from pubqueue.loopback import free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping

HOST: Final = "127.0.0.1"
SECRET: Final = "the password of them all"
QUIET: Final = 0.4
MIB: Final = 1 << 20
CONFIG: Final = """
jid = "queue.localhost"
server = ""
store = "sqlite:///{folder}/q.db"
http = "127.0.0.1:{http}"
node_creation = "anyone"
log_level = "error"

[stomp]
listen = "127.0.0.1:{stomp}"
web_socket = "/stomp"

[rest]
listen = "127.0.0.1:{rest}"
max_body = 10485760

[grpc]
listen = "127.0.0.1:{grpc}"
json = "127.0.0.1:{json}"
"""
USER: Final = """
[[user]]
name = "{name}"
password = "{password}"
local = true
"""
HASH: Final = credentials.make(SECRET).text


def basic(name: str) -> str:
    """Return the credentials of a user, as HTTP and gRPC have them."""
    return "Basic " + base64.b64encode(f"{name}:{SECRET}".encode()).decode()


class Service:
    """The running service. `users` are names with further lines of their settings; what is asked is asked by the first one."""

    def __init__(self, folder: Path, users: Mapping[str, str]) -> None:
        self.first = next(iter(users))
        names = ("http", "stomp", "rest", "grpc", "json")
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        text = CONFIG.format(folder=folder, **self.ports)
        text += "".join(
            USER.format(name=name, password=HASH) + more for name, more in users.items()
        )
        config = folder / "pubqueue.toml"
        config.write_text(text)
        config.chmod(0o600)
        program = Path(sys.executable).with_name("pubqueue")
        self._process = subprocess.Popen(
            [program, "serve", "--config", config], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith("ready"):
                break
        while self.ask("rest", "GET", "/rest/") == "503":
            time.sleep(QUIET)
        self.channel = self.channel_of_grpc()

    def channel_of_grpc(self) -> grpc.Channel:
        """Return a channel for large messages."""
        options = [("grpc.max_send_message_length", 32 * MIB)]
        options += [("grpc.max_receive_message_length", 64 * MIB)]
        return grpc.insecure_channel(f"{HOST}:{self.ports['grpc']}", options)

    def stop(self) -> None:
        """End it."""
        self.channel.close()
        self._process.terminate()
        self._process.wait()

    @property
    def resident(self) -> float:
        """Resident memory in MiB."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / MIB

    def used(self) -> float:
        """Return the milliseconds of processor time that the thread of the loop has used."""
        pid = self._process.pid
        text = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text()
        return int(text.split()[0]) / 1e6

    def ask(
        self, port: str, method: str, path: str, body: bytes = b"", by: str = "", **headers: str
    ) -> str:
        """Send a request over HTTP, and return the status of the answer."""
        with closing(http.client.HTTPConnection(HOST, self.ports[port], timeout=300)) as client:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            client.request(method, path, body, {"Authorization": basic(by or self.first), **named})
            answer = client.getresponse()
            answer.read()
            return str(answer.status)

    def call(self, rpc: str, request: Any, kind: Any, by: str = "") -> str:
        """Make a call, and return its status."""
        call = self.channel.unary_unary(
            f"/google.pubsub.v1.{rpc}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=kind.FromString,
        )
        try:
            call(request, timeout=300, metadata=[("authorization", basic(by or self.first))])
        except grpc.RpcError as problem:
            return str(problem.code().name)
        return "OK"

    def frame(self, frame: bytes) -> str:
        """Log in over STOMP, send a frame with a receipt, and return the command of the answer."""
        with closing(socket.create_connection((HOST, self.ports["stomp"]), 300)) as client:
            login = (
                f"CONNECT\naccept-version:1.2\nhost:x\nlogin:{self.first}\npasscode:{SECRET}\n\n\0"
            )
            client.sendall(login.encode())
            client.recv(65_536)
            client.sendall(frame)
            return client.recv(65_536).split(b"\n")[0].decode()
