"""A place to try things without XMPP: the service with its page, REST, STOMP and Pub/Sub, and a shell with lines to paste."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import secrets
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pubqueue.accounts import credentials
from pubqueue.loopback import free_ports
from pubqueue_demo.instance import Instance
from pubqueue_demo.trial import NODE, python_first, run_here, shell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

USER: Final = "dev"

CONFIG: Final = """\
jid = "queue.localhost"
server = ""
store = {store}
http = {http}

[rest]
listen = {http}

[stomp]
listen = {stomp}
web_socket = "/stomp"

[[user]]
name = {user}
password = {hashed}
roles = ["operator"]
local = true

[[node]]
name = {node}
queueing = true
publishers = [{account}]
members = [{account}]
"""

PUBSUB: Final = """
[grpc]
listen = {grpc}
json = {http}
anonymous = {user}
"""

LINES: Final = """\
the queue {node} is ready; the user is {user}, with the password {password}; this is a shell, exit ends the service
page     http://{http}/
publish  curl -u {user}:{password} -i -d hello http://{http}/rest/queues/{node}/messages
take     curl -u {user}:{password} -X POST -i http://{http}/rest/queues/{node}/consumer
done     curl -u {user}:{password} -d acknowledge=true 'URL'  # the header msg-acknowledgement of what you took
STOMP    printf 'STOMP\\naccept-version:1.2\\nhost:localhost\\nlogin:{user}\\npasscode:{password}\\n\\n\\0\
SEND\\ndestination:/queue/{node}\\n\\nhello\\0DISCONNECT\\nreceipt:1\\n\\n\\0' | curl -sS telnet://{stomp}
         at {stomp}, and for pages at ws://{http}/stomp"""

PUBSUB_LINES: Final = """
Pub/Sub  export PUBSUB_EMULATOR_HOST={grpc}  # this shell has it
         python3 -c "from google.cloud import pubsub_v1 as p; print(p.PublisherClient().publish('projects/xmpp/topics/{node}', b'hello').result())"
in JSON  curl -d '{{"topic": "/topics/xmpp/{node}", "message": {{"data": "aGVsbG8="}}}}' http://{http}/v1beta1a/topics/publish"""

NO_PUBSUB: Final = "\nPub/Sub  needs pip install 'pubqueue[grpc]'"


@dataclass(frozen=True, slots=True)
class Places:
    """Where it is served, and the password. `grpc` is None if the libraries of gRPC are not installed."""

    http: str
    stomp: str
    grpc: str | None
    password: str

    def lines(self) -> str:
        """Return what a shell begins with."""
        words = {"http": self.http, "stomp": self.stomp, "password": self.password}
        text = LINES + (NO_PUBSUB if self.grpc is None else PUBSUB_LINES)
        return text.format(**words, grpc=self.grpc, user=USER, node=NODE)

    def environment(self) -> dict[str, str]:
        """Return the variables for programs of the shell."""
        found = {
            "PUBQUEUE_URL": f"http://{USER}@{self.http}/",
            "PUBQUEUE_PASSWORD": self.password,
        }
        return found if self.grpc is None else found | {"PUBSUB_EMULATOR_HOST": self.grpc}


async def try_out_http(
    command: Sequence[str], note: Callable[[str], None], *, page: bool = False
) -> int:
    """Run a command, or else a shell, with a service without an XMPP server; return its exit status.

    The service runs as long as it, on loopback, with all its files in a temporary folder. Lines to paste are noted for a
    shell, and for a command with `page`.

    Raises:
        ChildError: the service cannot be started.
        NoProgramError: there is no such command.

    """
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pubqueue-trial-")))
        places = _places()
        service = Instance("the service", _configured(folder, places), folder / "log", note)
        stack.push_async_callback(service.stop)
        await service.start()
        keeping = asyncio.create_task(service.supervise())
        stack.callback(keeping.cancel)
        if page or not command:
            note(places.lines())
        return await run_here(command or shell(folder), places.environment() | python_first())


def _places() -> Places:
    http, stomp, grpc = (f"127.0.0.1:{port}" for port in free_ports(3))
    has_grpc = all(importlib.util.find_spec(name) for name in ("grpc", "grpc_health"))
    return Places(http, stomp, grpc if has_grpc else None, secrets.token_hex(8))


def _configured(folder: Path, places: Places) -> Path:
    """Write the configuration of the service, and return its path."""
    values = {
        "store": f"sqlite:///{folder / 'pubqueue.db'}",
        "http": places.http,
        "stomp": places.stomp,
        "grpc": places.grpc,
        "user": USER,
        "account": f"{USER}@queue.localhost",
        "hashed": credentials.make(places.password).text,
        "node": NODE,
    }
    path = folder / "pubqueue.toml"
    path.touch(mode=0o600)
    text = CONFIG if places.grpc is None else CONFIG + PUBSUB
    # a JSON string is a TOML string
    path.write_text(text.format(**{name: json.dumps(value) for name, value in values.items()}))
    return path
