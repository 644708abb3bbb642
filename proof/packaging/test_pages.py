"""The pages on attaching, installing, upgrading, backups and the Debian package, typed in line by line, as root, on a machine apart.

`BLOCKS` says of each of their blocks which test types it, or why nobody can.
"""

import asyncio
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing

import pytest
from harness.documents.documented import ROOT, every_block
from harness.documents.typed_pages import (
    CLONE,
    TypedPages,
    lines,
    logging_in,
    machine_to_type_into,
    put_file,
)
from harness.machines.debian import rebuilt
from harness.machines.wheels import INDEX, index
from harness.stores import furnished_then as then

from pubqueue.stores import sqlite
from pubqueue.stores.sql.session import scripts

pytestmark = pytest.mark.e2e

ATTACH = "docs/how-to/attach.md"
INSTALL = "docs/how-to/install.md"
UPGRADE = "docs/operations/upgrade.md"
BACKUP = "docs/operations/backup-and-restore.md"
SERVICE = "docs/operations/install-as-a-service.md"

DEBIAN, PIP, CLIENT = "the Debian package behind Prosody", "pip behind ejabberd", "the client alone"
BLOCKS = {
    (ATTACH, "sh", 1): {DEBIAN, PIP},  # the certificate
    (ATTACH, "lua", 1): {DEBIAN},
    (ATTACH, "sh", 2): {DEBIAN},  # accounts of Prosody
    (ATTACH, "yaml", 1): {PIP},
    (ATTACH, "sh", 3): {PIP},  # Debian's ejabberd.yml
    (ATTACH, "sh", 4): {PIP},  # and accounts of ejabberd
    (ATTACH, "sh", 5): {PIP},
    (ATTACH, "toml", 1): {PIP},
    (ATTACH, "sh", 6): {PIP},
    (ATTACH, "sh", 7): {PIP},  # the first message
    (INSTALL, "sh", 1): {CLIENT},
    (INSTALL, "console", 1): "proof/packaging/test_installed.py has it shown",
    (INSTALL, "sh", 2): {CLIENT},
    (INSTALL, "sh", 3): "half a gigabyte of libraries: tools/setup does the same, for all tests",
    (UPGRADE, "sh", 1): {PIP},
    (UPGRADE, "sh", 2): {DEBIAN},
    (BACKUP, "sh", 1): {DEBIAN},
    (BACKUP, "sh", 2): {DEBIAN},
    (BACKUP, "sh", 3): {DEBIAN},
    (SERVICE, "sh", 1): {DEBIAN},
    (SERVICE, "sh", 2): {PIP},
}
DEB = "pubqueue_0.1.0_amd64.deb"
"""What the pages call it, whatever this machine's architecture."""
CONFIG = """
jid = "queue.example.org"
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@example.org"]
members = ["bot@example.org"]
options = { "x-queueing#lock_timeout" = 600 }
"""
SCHEMA = 15
"""Of SQLite, that of some earlier version: what it has left is upgraded."""
LOOK = "import sqlite3, sys; print(*(row[0] for row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2])))"


def typed_by(name):
    return {block for block, by in BLOCKS.items() if isinstance(by, set) and name in by}


def test_every_block_is_typed_or_gives_the_reason_why_not():
    pages = {page for page, _, _ in BLOCKS}
    there = {(it.page, it.language, it.number) for it in every_block() if it.page in pages}
    assert there == set(BLOCKS)


@pytest.fixture
def machine():
    if os.geteuid() != 0:
        pytest.skip("packages are installed by root")
    with ExitStack() as ends:
        try:
            made = ends.enter_context(machine_to_type_into())
        except OSError as problem:  # not every container may mount
            pytest.skip(str(problem))
        yield made


def asked(machine, file, query):
    """Ask a store of SQLite something, beside whoever serves from it."""
    return machine.does("/usr/bin/python3", "-c", LOOK, file, query).split()


# --- the Debian package, behind Prosody --------------------------------------------------------------


def attach_to_prosody(pages):
    pages.type(ATTACH, 1)
    pages.write("/etc/prosody/conf.d/pubqueue.cfg.lua", pages.text(ATTACH, "lua", 1))
    pages.type(ATTACH, 2)
    said = pages.machine.does("prosodyctl", "check", "config")
    assert "All checks passed" in said


async def test_the_debian_package(built, tmp_path, machine):
    """Attached, installed, backed up with an item in flight, upgraded, restored, removed and purged."""
    pages = TypedPages(machine, "/usr/lib/pubqueue/bin/python3", "pubqueue")
    (deb,) = built.glob("*.deb")
    put_file(machine, f"{CLONE}/build/deb/{DEB}", rebuilt(tmp_path, deb, "0.0.9"))
    attach_to_prosody(pages)
    pages.write("/etc/pubqueue/secret.to-write", "a long secret\n")
    pages.write("/etc/pubqueue/pubqueue.toml.to-write", CONFIG)
    said = await asyncio.to_thread(pages.type, SERVICE, 1)
    assert "queue.example.org" in said
    assert "does not exist yet; the service creates it when it starts" in said
    await asyncio.to_thread(pages.publish, "a", "b")
    await asyncio.to_thread(tls_that_does_not_fit, pages, "pubqueue")
    doctor = ("sh", "-c", "pubqueue doctor --config /etc/pubqueue/pubqueue.toml; :")
    found = await asyncio.to_thread(machine.does, *logging_in("bot", "another-password"), *doctor)
    assert re.search(r"good +store: /var/lib/pubqueue/pubqueue.db is intact", found), found
    assert "secret" not in found

    async with pages.working("hold") as shown:
        ((held, _),) = await lines(shown, 1)
        await asyncio.to_thread(pages.type, BACKUP, 1)
        await asyncio.to_thread(pages.type, BACKUP, 2)
        await asyncio.to_thread(pages.publish, "later")
        put_file(machine, f"{CLONE}/build/deb/{DEB}", deb)
        before = running(machine)
        await asyncio.to_thread(pages.type, UPGRADE, 2)
        assert "Version: 0.1.0\n" in machine.does("dpkg", "-s", "pubqueue")
        assert running(machine) != before, "it was started anew"
        assert asked(
            machine, "/var/lib/pubqueue/pubqueue.db", "SELECT id FROM item WHERE holder NOT NULL"
        ) == [held], "the worker keeps what it holds"
        await asyncio.to_thread(pages.type, BACKUP, 3)
    nightly = machine.does("sh", "-c", "ls /var/backups/pubqueue/*.backup").split()
    (row,) = asked(machine, nightly[0], "SELECT count(*) FROM item")
    assert row == "2"

    async with pages.working("do") as shown:
        done = await lines(shown, 2)
    assert {name for (name,) in done} == {"a", "b"}, "both of the backup, what was held too"

    machine.does("dpkg", "--remove", "pubqueue")
    machine.does("sh", "-c", "! pgrep -f '[p]ubqueue serve'")
    machine.does("test", "-e", "/etc/pubqueue/secret", "-a", "-e", "/var/lib/pubqueue/pubqueue.db")
    machine.does("dpkg", "--purge", "pubqueue")
    for path in ("/etc/pubqueue", "/var/lib/pubqueue", "/usr/lib/pubqueue"):
        machine.does("test", "!", "-e", path)
    assert pages.typed == typed_by(DEBIAN)


def running(machine):
    """Return the process of the service, which there is."""
    (pid,) = machine.does("pgrep", "-f", "[p]ubqueue serve").split()
    return pid


def tls_that_does_not_fit(pages, program):
    """Log in without the certificate and without TLS: it is said at once, by the command and by the doctor."""
    faults = (
        ("port=5222", "the certificate is self-signed. If you trust it, set ca_file"),
        ("tls=off", "example.org at 127.0.0.1:5222 requires TLS: leave tls=off out."),
    )
    for trust, fault in faults:
        for command in ("publish jobs {}", "doctor", "queues"):
            # with its exit code, before half of the time for which a silent server is waited for
            line = f"timeout 15 {program} {command}; echo code $?"
            words = logging_in("etl", "a-long-password", trust)
            said = pages.machine.does(*words, "sh", "-c", line)
            assert fault in said, (trust, command, said)
            assert said.splitlines()[-1] == "code 1"


# --- with pip, behind ejabberd -----------------------------------------------------------------------


def wheel_of(version, folder):
    """Build a wheel of the tree as an earlier version."""
    source = folder / "tree"
    source.mkdir()
    for name in ("component", "xeps", "spark", "demo"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("PACKAGE.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    text = (ROOT / "pyproject.toml").read_text()
    (source / "pyproject.toml").write_text(
        text.replace('version = "0.1.0"', f'version = "{version}"')
    )
    words = ["hatchling", "build", "--target", "wheel", "--directory", folder]
    subprocess.run([sys.executable, "-Im", *words], cwd=source, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def attach_to_ejabberd(pages):
    pages.type(ATTACH, 1)
    pages.write("/etc/ejabberd/pubqueue.yml", pages.text(ATTACH, "yaml", 1))
    pages.type(ATTACH, 3)
    pages.type(ATTACH, 4)


async def served_by_hand(pages):
    """Check, and serve in a terminal as attach.md ends, until an item was done."""
    said = await asyncio.to_thread(pages.type, ATTACH, 5)
    assert "queue.example.org" in said
    pages.write("/etc/pubqueue/pubqueue.toml", pages.text(ATTACH, "toml", 1))
    serve = pages.text(ATTACH, "sh", 6)
    # the shell itself opens the log, so that it is there when it is read
    pages.machine.does("sh", "-c", f"exec > /root/serve.log 2>&1; {serve.strip()} &")
    wait = "tail -n +1 -f /root/serve.log | grep -m 1 -q ^ready:"
    await asyncio.to_thread(pages.machine.does, "timeout", "120", "sh", "-c", wait)
    await asyncio.to_thread(pages.type, ATTACH, 7)
    await asyncio.to_thread(pages.publish, "a")
    async with pages.working("do") as shown:
        assert (await lines(shown, 2))[1] == ["a"]
    await asyncio.to_thread(tls_that_does_not_fit, pages, "/opt/pubqueue/bin/pubqueue")
    stop = "kill $0; tail --pid=$0 -f /dev/null"
    pages.machine.does("sh", "-c", stop, running(pages.machine))


def of_an_earlier_schema(machine, folder):
    """Lay down the store that an earlier version has left, full of rows, as the service's user owns it."""
    file = folder / "earlier.db"
    then.sqlite_of(file, SCHEMA)
    with closing(sqlite3.connect(file)) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    machine.does("sh", "-c", "rm -f /var/lib/pubqueue/*")
    put_file(machine, "/var/lib/pubqueue/pubqueue.db", file)
    machine.does("chown", "-R", "pubqueue:pubqueue", "/var/lib/pubqueue")


async def test_pip_and_the_unit_alone(built, libraries, tmp_path, machine):
    """Attached, served by hand, installed as a service, and upgraded on a store of an earlier version."""
    pages = TypedPages(machine, "/opt/pubqueue/bin/python", "/opt/pubqueue/bin/pubqueue")
    index(machine, libraries, wheel_of("0.0.9", tmp_path))
    attach_to_ejabberd(pages)
    await served_by_hand(pages)

    machine.does("rm", "-r", "/opt/pubqueue", "/etc/pubqueue", "/var/lib/pubqueue")
    pages.write("/etc/pubqueue/secret.to-write", "a long secret\n")
    pages.write("/etc/pubqueue/pubqueue.toml.to-write", CONFIG)
    await asyncio.to_thread(pages.type, SERVICE, 2)
    assert "0.0.9" in machine.does("/opt/pubqueue/bin/pubqueue", "--version")
    machine.does("systemctl", "stop", "pubqueue")
    of_an_earlier_schema(machine, tmp_path)

    (wheel,) = built.glob("*.whl")
    put_file(machine, f"{INDEX}/{wheel.name}", wheel)
    said = await asyncio.to_thread(pages.type, UPGRADE, 1)
    assert "configuration: good, 1 declared node" in said
    assert "0.1.0" in machine.does("/opt/pubqueue/bin/pubqueue", "--version")
    store = "/var/lib/pubqueue/pubqueue.db"
    assert asked(machine, store, "PRAGMA user_version") == [str(len(scripts(sqlite.__name__)))]
    # what becomes of each row is told by tests/stores/test_earlier_schemas.py; its numbers leave no room to serve for long
    assert asked(machine, store, "SELECT count(*) > 0 FROM item") == ["1"]
    assert pages.typed == typed_by(PIP)


async def test_the_client_alone(built, libraries, machine):
    (wheel,) = built.glob("*.whl")
    index(machine, libraries, wheel)
    pages = TypedPages(machine, "", "")
    machine.does("python3", "-m", "venv", "/root/mine")
    await asyncio.to_thread(pages.type, INSTALL, 1, path="/root/mine/bin")
    assert "purge" in machine.does("/root/mine/bin/pubqueue", "--help")
    said = await asyncio.to_thread(pages.type, INSTALL, 2)
    assert said.strip().endswith("pubqueue, version 0.1.0")
    assert pages.typed == typed_by(CLIENT)
