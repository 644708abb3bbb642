"""A separate machine, on which pages are typed in line by line: as root, with the printed ports, folders and packages.

Three programs are replaced (`stand_ins`); everything else is Debian's and ours.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

from harness.documents.documented import ROOT, blocks
from harness.machines.copied_machine import CopiedMachine
from harness.patience import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

STAND_INS: Final = {
    "systemctl": "a test has no init: it runs the ExecStart= of the unit as the unit's user, and awaits that it is ready",
    "sudo": "the test is root: it becomes the user who is named, and no other",
    "editor": "nobody sits there: it writes into each file what the test has laid beside it",
}
CLONE: Final = "/root/pubqueue"
"""Where the pages are followed: a clone, if they need one."""

DOMAIN: Final = "example.org"
AUTHORITY: Final = f"/etc/ssl/{DOMAIN}.crt"
"""The certificate that docs/how-to/attach.md makes."""

WORKER: Final = """
import asyncio, os, sys
from pubqueue import Worker

async def main(what):
    async with Worker(node="jobs", requests=1, signals=()) as worker:
        async for item in worker:
            if what == "hold":
                print(item.id, os.getpid(), flush=True)
                await asyncio.Event().wait()
            async with item:
                pass
            print(item.id, flush=True)

asyncio.run(main(sys.argv[1]))
"""


class TypedPages:
    """Types blocks of pages into a machine, and remembers which."""

    def __init__(self, machine: CopiedMachine, python: str, program: str) -> None:
        """`python` and `program` are the places where the page that is followed puts them."""
        self.machine, self._python, self._program = machine, python, program
        self.typed: set[tuple[str, str, int]] = set()

    def text(self, page: str, language: str, number: int) -> str:
        """Return a block, which counts as typed."""
        (text,) = [
            block.text for block in blocks(language) if (block.page, block.number) == (page, number)
        ]
        self.typed.add((page, language, number))
        return text

    def type(self, page: str, number: int, *, path: str = "") -> str:
        """Type a block into a shell that ends at the first failure; return its output. `path` is searched first."""
        given = self.text(page, "sh", number)
        where = f"cd {CLONE}; PATH={path}:$PATH" if path else f"cd {CLONE}"
        return self.machine.does("sh", "-c", f"{where}; exec sh -e", given=given)

    def write(self, path: str, content: str | bytes) -> None:
        """Make a file."""
        self.machine.does("sh", "-c", 'mkdir -p "$(dirname "$0")"; cat > "$0"', path, given=content)

    def publish(self, *names: str) -> None:
        """Publish as the account of the pages; it returns when the service has it on disk."""
        for name in names:
            self.machine.does(
                *logging_in("etl", "a-long-password"),
                *(self._program, "publish", "jobs", '{"n": 1}', "--id", name),
            )

    @asynccontextmanager
    async def working(self, what: str) -> AsyncIterator[asyncio.StreamReader]:
        """Run a worker that does each item, or holds the first (`hold`), and prints each; kill it at the end."""
        self.write("/root/work.py", WORKER)
        process = await asyncio.create_subprocess_exec(
            *self.machine.inside,
            *logging_in("bot", "another-password"),
            *(self._python, "-I", "/root/work.py", what),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        )
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            self.machine.does("sh", "-c", "kill -9 $(pgrep -f '[/]root/work.py')")
            await process.wait()


def logging_in(name: str, password: str, trust: str = f"ca_file={AUTHORITY}") -> list[str]:
    """Return the words before a command that is to be run as an account."""
    url = f"xmpp://{name}@{DOMAIN}/queue.{DOMAIN}?host=127.0.0.1&{trust}"
    return ["env", f"PUBQUEUE_URL={url}", f"PUBQUEUE_PASSWORD={password}"]


async def lines(shown: asyncio.StreamReader, count: int) -> list[list[str]]:
    """Return the words of the next lines that a worker prints."""
    found = []
    async with asyncio.timeout(TIMEOUT):
        while len(found) < count:
            line = (await shown.readline()).decode()
            assert line, "the worker has ended"
            found.append(line.split())
    return found


@contextmanager
def machine_to_type_into() -> Iterator[CopiedMachine]:
    """Start a machine with a network of its own and the stand-ins, on which nothing of ours is set up.

    Raises:
        OSError: it cannot be mounted here.

    """
    with CopiedMachine(apart=True) as machine:
        for name in STAND_INS:
            program = (ROOT / "tests" / "harness" / "documents" / "stand_ins" / name).read_bytes()
            put(machine, f"/usr/bin/{name}", program)
            machine.does("chmod", "755", f"/usr/bin/{name}")
        machine.does("rm", "-f", "/usr/sbin/policy-rc.d")  # of containers, where nothing is started
        machine.does("mkdir", "-p", "/run/systemd/system", f"{CLONE}/build/deb")
        machine.does("cp", "-r", str(ROOT / "packaging"), CLONE)
        yield machine


def put(machine: CopiedMachine, path: str, content: bytes) -> None:
    """Replace a file."""
    machine.does("sh", "-c", 'rm -f "$0"; cat > "$0"', path, given=content)


def put_file(machine: CopiedMachine, path: str, file: Path) -> None:
    """Copy a file of the test."""
    put(machine, path, file.read_bytes())
