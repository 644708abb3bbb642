"""A place to try things: a temporary Prosody, the service with a queue, and a shell whose environment names them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import shlex
import signal
import sys
import tempfile
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pubqueue.loopback import free_ports
from pubqueue_demo.instance import Instance
from pubqueue_demo.prosody import Prosody

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

NODE: Final = "jobs"
ACCOUNT: Final = "bot"
PASSWORD: Final = "trial"  # noqa: S105  # of a local account that is removed with the trial

MARK: Final = "(trial) "


class Page(NamedTuple):
    """The address of the page, and its token."""

    port: int
    token: str


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

USER: Final = """
[[user]]
name = "operator"
roles = ["operator"]
token_sha256 = ["{digest}"]
"""


class NoProgramError(Exception):
    """The command cannot be found; the message is a sentence."""


async def try_out(
    command: Sequence[str], note: Callable[[str], None], *, page: bool = False
) -> int:
    """Run a command, or else a shell, with a server and a service; return its exit status.

    Both run as long as it runs, on loopback, with all their files in a temporary folder. Its environment has their
    addresses, in the variables that workers and publishers read. With `page` the service has its page, and the note
    gives its address and token.

    Raises:
        ChildError: the server or the service cannot be started.
        NoProgramError: there is no such command.
        NotInstalledError: there is no Prosody on this machine.

    """
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pubqueue-trial-")))
        server = await stack.enter_async_context(Prosody())
        await server.account(ACCOUNT, PASSWORD)
        site = Page(free_ports(1)[0], secrets.token_urlsafe(24)) if page else None
        service = Instance("the service", _configured(server, folder, site), folder / "log", note)
        stack.push_async_callback(service.stop)
        await service.start()
        keeping = asyncio.create_task(service.supervise())
        stack.callback(keeping.cancel)
        if site is not None:
            note(
                f"the page is at http://127.0.0.1:{site.port}/ ; log in without a name, by the token {site.token}"
            )
        if not command:
            note(
                f"the queue {NODE} is ready at {server.component}; this is a shell, exit ends both"
            )
        return await run_here(command or shell(folder), environment(server) | python_first())


def environment(server: Prosody) -> dict[str, str]:
    """Return the variables that define the server, the service and the account of a client."""
    host, port = server.host, server.c2s_port
    return {
        "PUBQUEUE_URL": f"xmpp://{ACCOUNT}@{server.domain}/{server.component}?host={host}&port={port}&tls=off",
        "PUBQUEUE_PASSWORD": PASSWORD,
    }


def python_first() -> dict[str, str]:
    """Return a PATH with this Python's programs first, because a shell may find another Python."""
    own = str(Path(sys.prefix) / "bin")
    return {"PATH": f"{own}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


def shell(folder: Path) -> list[str]:
    """Return the user's shell, with `(trial)` in its prompt and our Python first on PATH.

    The user's startup files are read first, and may put shims of other Pythons on PATH (pyenv, conda). A shell that
    cannot run further commands after them only gets the environment.
    """
    wanted = os.environ.get("SHELL", "/bin/sh")
    path = shlex.quote(str(Path(sys.prefix) / "bin"))
    if Path(wanted).name == "bash":
        file = folder / "bashrc"
        file.write_text(f'[ -r ~/.bashrc ] && . ~/.bashrc\nPATH={path}:$PATH\nPS1="{MARK}$PS1"\n')
        return [wanted, "--rcfile", str(file)]
    if Path(wanted).name == "zsh":
        ours = shlex.quote(str(folder))
        own = shlex.quote(os.environ.get("ZDOTDIR", str(Path.home())))
        first = 'ZDOTDIR={}\n[ -r "$ZDOTDIR/.zshenv" ] && . "$ZDOTDIR/.zshenv"\nown=$ZDOTDIR ZDOTDIR={}\n'
        (folder / ".zshenv").write_text(
            first.format(own, ours)
        )  # the user's file may set where .zshrc is
        then = 'ZDOTDIR=$own; unset own\n[ -r "$ZDOTDIR/.zshrc" ] && . "$ZDOTDIR/.zshrc"\n'
        (folder / ".zshrc").write_text(f'{then}path=({path} $path)\nPROMPT="{MARK}$PROMPT"\n')
        return ["env", f"ZDOTDIR={folder}", wanted]
    return ["env", f"PS1={MARK}$ ", wanted]


def _configured(server: Prosody, folder: Path, page: Page | None) -> Path:
    """Write the configuration of the service, and return its path."""
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
    text = CONFIG.format(**{name: json.dumps(value) for name, value in values.items()})
    if page is not None:
        digest = hashlib.sha256(page.token.encode()).hexdigest()
        text = f"http = {json.dumps(str(page.port))}\n{text}{USER.format(digest=digest)}"
    path.write_text(text)
    return path


async def run_here(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a command on our terminal, and return its exit status; interrupts that are typed there affect only it.

    Raises:
        NoProgramError: there is no such command.

    """
    with _deaf_to(signal.SIGINT):
        # a child inherits ignored signals, but the shell has to get this one
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=os.environ | variables,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # no threads here
            )
        except FileNotFoundError as problem:
            raise NoProgramError(f"there is no program {problem.filename}") from None
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
