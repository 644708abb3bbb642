"""The Debian package: built, installed, served from, upgraded, removed and purged, on a copy of this machine.

What it starts is what its unit says, as the unit's user, without rights and without writable code, told by a socket of ours.
"""

import asyncio
import os
import re
import shlex
import signal
import socket
import subprocess
from contextlib import ExitStack, asynccontextmanager

import pytest
from harness.clients.crowd import ETL, JOB, PUBSUB
from harness.machines.copied_machine import CopiedMachine
from harness.machines.debian import rebuilt
from harness.patience import TIMEOUT
from harness.servers.stub_server import StubServer

pytestmark = pytest.mark.e2e

CONFIG = """
jid = "queue.localhost"
server = "127.0.0.1:{port}"
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
"""
NO_WRITABLE_CODE = "import ctypes, os, sys; ctypes.CDLL(None).prctl(65, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
"""What MemoryDenyWriteExecute= of a unit does, on Linux 6.3 and newer."""
AS_THE_UNIT = (
    *("setpriv", "--reuid=pubqueue", "--regid=pubqueue", "--clear-groups", "--no-new-privs"),
    *("--bounding-set=-all", "/usr/bin/python3", "-c", NO_WRITABLE_CODE),
)
MAX_BUILDER = 60 << 20
"""Bytes of what is installed to build it; the development environment has 1.9 GB."""

MANUAL_CACHE = "/var/cache/man/*"  # what `man` has shown; it clears that away by itself
CONFIGURED = "--config /etc/pubqueue/pubqueue.toml"
CHECK = f"pubqueue check {CONFIGURED}"
"""What the pages have an operator type."""
FOLDERS = ("/etc", "/usr", "/var", "/lib")
OURS = ["find", *FOLDERS, "-xdev", "-name", "*pubqueue*", "-not", "-path", MANUAL_CACHE]


@pytest.fixture(scope="module")
def package(built, tmp_path_factory):
    """The package, and the same with a higher number and other words in its configuration."""
    (first,) = built.glob("*.deb")
    folder = tmp_path_factory.mktemp("later")
    second = rebuilt(folder, first, "0.1.0+later", more="# a word more\n")
    return first.read_bytes(), second.read_bytes()


def test_it_needs_the_python_that_its_libraries_are_for(built):
    """By the name of its version: the distribution's next Python has none of them."""
    (package,) = built.glob("*.deb")
    listed = subprocess.check_output(["dpkg-deb", "--contents", package], text=True)
    (version,) = set(re.findall(r"/usr/lib/pubqueue/lib/(python3\.\d+)/site-packages/", listed))
    needed = subprocess.check_output(["dpkg-deb", "--field", package, "Depends"], text=True)
    assert version in needed.strip().split(", ")
    assert f"./usr/lib/pubqueue/bin/{version} -> ../../../bin/{version}\n" in listed


def test_it_is_built_without_the_development_environment(built, tree):
    """pip and hatchling are in a small environment of their own, with nothing but what their lock file names."""
    assert not (tree / ".venv").exists()
    assert not (tree / "tests" / "node" / "node_modules").exists()
    builder = tree / "build" / "builder"
    found = {
        it.name.partition("-")[0] for it in builder.glob("lib/python*/site-packages/*.dist-info")
    }
    lock = (tree / "packaging" / "builder.lock").read_text()
    named = {name.replace("-", "_") for name in re.findall(r"(?m)^([a-z-]+)==", lock)}
    assert found - named <= {"pip", "setuptools"}, "what Debian's venv brings along"
    assert named <= found
    size = sum(it.stat().st_size for it in builder.rglob("*") if it.is_file())
    assert size < MAX_BUILDER, size
    assert list(built.glob("*.deb"))


def test_what_its_build_lacks_is_named(tree, tmp_path):
    """Nothing is installed behind the back of who builds."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "dirname").symlink_to("/usr/bin/dirname")
    done = subprocess.run(
        ["/bin/sh", tree / "tools" / "deb"],
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("deb: these packages are needed: dpkg-dev debhelper")


@pytest.fixture
def machine():
    if os.geteuid() != 0:
        pytest.skip("packages are installed by root")
    with ExitStack() as ends:
        try:
            copied = ends.enter_context(CopiedMachine())
        except OSError as problem:  # not every container may mount
            pytest.skip(str(problem))
        yield copied


@pytest.fixture
def systemd():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0pubqueue-{os.getpid()}")
        listening.settimeout(0)
        yield listening


def put(machine, path, content):
    machine.does("sh", "-c", 'cat > "$0"', path, given=content)


def owner_and_mode(machine, path):
    return machine.does("stat", "-c", "%U:%G %a", path).strip()


def start_of_the_unit(machine):
    unit = machine.does("cat", "/lib/systemd/system/pubqueue.service")
    (line,) = (line for line in unit.splitlines() if line.startswith("ExecStart="))
    return shlex.split(line.removeprefix("ExecStart="))


@asynccontextmanager
async def serving(machine, systemd):
    """What the unit starts, until it is told to stop."""
    process = await asyncio.create_subprocess_exec(
        *(*machine.inside, *AS_THE_UNIT, *start_of_the_unit(machine)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "PUBQUEUE_SECRET_FILE": "/run/of-pubqueue/secret",
            "NOTIFY_SOCKET": f"@pubqueue-{os.getpid()}",
        },
    )
    try:
        async with asyncio.timeout(TIMEOUT):
            while "READY=1" not in (await hears(systemd)):
                pass
        yield
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(TIMEOUT):
            said, _ = await process.communicate()
        assert process.returncode == 0, said.decode()
    finally:
        if process.returncode is None:
            process.kill()
            said, _ = await process.communicate()
            print(said.decode())


async def hears(systemd):
    return (await asyncio.get_running_loop().sock_recv(systemd, 4096)).decode()


async def publish(server, name):
    items = f"<item id='{name}'>{JOB}</item>"
    await server.send(
        f"<iq type='set' id='{name}' from='{ETL}' to='queue.localhost'>"
        f"<pubsub xmlns='{PUBSUB}'><publish node='jobs'>{items}</publish></pubsub></iq>"
    )
    while (answer := (await server.receive()).tree).get("id") != name:
        pass
    assert answer.get("type") == "result"


def items_there(machine):
    return machine.does("ls", "/var/lib/pubqueue").strip()


def items(machine):
    look = "import sqlite3; print(*(i for i, in sqlite3.connect('/var/lib/pubqueue/pubqueue.db').execute('SELECT id FROM item')))"
    return machine.does("/usr/bin/python3", "-c", look).split()


async def test_it_is_installed_served_from_upgraded_removed_and_purged(package, machine, systemd):
    first, second = package
    before = machine.does(*OURS)
    put(machine, "/root/first.deb", first)
    put(machine, "/root/second.deb", second)

    machine.does("dpkg", "-i", "/root/first.deb")
    assert machine.does("pubqueue", "--version") == "pubqueue, version 0.1.0\n"
    assert machine.does("dpkg", "-V", "pubqueue") == ""
    assert owner_and_mode(machine, "/etc/pubqueue/pubqueue.toml") == "root:pubqueue 640"
    assert owner_and_mode(machine, "/var/lib/pubqueue") == "pubqueue:pubqueue 700"
    assert machine.does("man", "-w", "pubqueue-serve").startswith("/usr/share/man/")
    machine.does("bash", "-n", "/usr/share/bash-completion/completions/pubqueue")
    assert machine.does("systemd-analyze", "verify", "/lib/systemd/system/pubqueue.service") == ""
    machine.does("sh", "-c", "! /usr/bin/pubqueue serve --config /etc/pubqueue/pubqueue.toml")

    async with StubServer() as server:
        with_settings = CONFIG.format(port=server.port)
        machine.does("tee", "-a", "/etc/pubqueue/pubqueue.toml", given=with_settings)
        machine.does("install", "-d", "-o", "pubqueue", "-m", "500", "/run/of-pubqueue")
        put(machine, "/run/of-pubqueue/secret", f"{server.secret}\n")
        machine.does("chown", "pubqueue", "/run/of-pubqueue/secret")
        # the secret is root's, as the page has it; root checks, and makes nothing
        machine.does("install", "-m", "0600", "/run/of-pubqueue/secret", "/etc/pubqueue/secret")
        said = await asyncio.to_thread(machine.does, "sh", "-c", CHECK)
        assert "does not exist yet; the service creates it when it starts" in said
        assert items_there(machine) == ""
        async with serving(machine, systemd):
            await publish(server, "a")
            said = machine.does("sh", "-c", f"{CHECK} --offline")
            assert said == "configuration: good, 1 declared node\n"
        assert owner_and_mode(machine, "/var/lib/pubqueue/pubqueue.db") == "pubqueue:pubqueue 600"

        config = machine.does("cat", "/etc/pubqueue/pubqueue.toml")
        machine.does("dpkg", "--force-confold", "-i", "/root/second.deb")
        assert "0.1.0+later" in machine.does("dpkg", "-s", "pubqueue")
        assert machine.does("cat", "/etc/pubqueue/pubqueue.toml") == config
        assert owner_and_mode(machine, "/etc/pubqueue/pubqueue.toml") == "root:pubqueue 640"
        assert items(machine) == ["a"]
        async with serving(machine, systemd):
            await publish(server, "b")
        assert items(machine) == ["a", "b"]

    machine.does("dpkg", "--remove", "pubqueue")
    machine.does("test", "!", "-e", "/usr/lib/pubqueue")
    machine.does("test", "!", "-e", "/usr/bin/pubqueue")
    assert machine.does("cat", "/etc/pubqueue/pubqueue.toml") == config
    assert items(machine) == ["a", "b"]

    machine.does("dpkg", "--purge", "pubqueue")
    assert machine.does(*OURS) == before
    machine.does("sh", "-c", "! getent passwd pubqueue && ! getent group pubqueue")
