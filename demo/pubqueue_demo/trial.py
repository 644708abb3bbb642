"""A place to try things in: a throw-away Prosody, the service with a queue, and a shell that knows where they are."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pubqueue_demo.instance import Instance
from pubqueue_demo.prosody import Prosody

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

NODE: Final = "jobs"
ACCOUNT: Final = "bot"
PASSWORD: Final = "trial"  # noqa: S105  # of an account that nobody else can reach, and that goes with the trial

CONFIG: Final = """\
jid = {jid}
secret_file = {secret_file}
server = {server}
store = {store}
admins = {people}

[[node]]
name = {node}
queueing = true
publishers = {people}
members = {people}
"""


async def try_out(command: Sequence[str], note: Callable[[str], None]) -> int:
    """Run a command, or without one a shell, beside a server and a service; return its exit status.

    Both live for as long as it runs, on loopback, with all their files in a folder that goes with them. Its
    environment says where they are, in the variables that workers and publishers read.

    Raises:
        ChildError: the server or the service cannot be started.
        NotInstalledError: there is no Prosody on this machine.

    """
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pubqueue-trial-")))
        server = await stack.enter_async_context(Prosody())
        await server.account(ACCOUNT, PASSWORD)
        service = Instance("the service", _configured(server, folder), folder / "log", note)
        stack.push_async_callback(service.stop)
        await service.start()
        keeping = asyncio.create_task(service.supervise())
        stack.callback(keeping.cancel)
        if not command:
            note(
                f"the queue {NODE} is ready at {server.component}; this is a shell, exit ends both"
            )
        return await _run(command or [os.environ.get("SHELL", "/bin/sh")], environment(server))


def environment(server: Prosody) -> Mapping[str, str]:
    """Return the variables from which a client knows the server, the service, and itself."""
    host, port = server.host, server.c2s_port
    return {
        "PUBQUEUE_URL": f"xmpp://{ACCOUNT}@{server.domain}/{server.component}?host={host}&port={port}&tls=off",
        "PUBQUEUE_PASSWORD": PASSWORD,
    }


def _configured(server: Prosody, folder: Path) -> Path:
    """Write the configuration of the service, and return where it is."""
    secret = folder / "secret"
    secret.touch(mode=0o600)
    secret.write_text(server.secret)
    values = {
        "jid": server.component,
        "secret_file": str(secret),
        "server": f"{server.host}:{server.component_port}",
        "store": f"sqlite:///{folder / 'pubqueue.db'}",
        "people": [f"{ACCOUNT}@{server.domain}"],
        "node": NODE,
    }
    path = folder / "pubqueue.toml"
    # a JSON string is a TOML string, and a list of them a list
    path.write_text(CONFIG.format(**{name: json.dumps(value) for name, value in values.items()}))
    return path


async def _run(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run it on our terminal; what is typed there to interrupt it is for it alone."""
    with _deaf_to(signal.SIGINT):
        # a signal that is ignored stays so in what is run: the shell has to hear it
        process = await asyncio.create_subprocess_exec(
            *command,
            env=os.environ | variables,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # no threads here
        )
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _deaf_to(number: signal.Signals) -> Iterator[None]:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)
