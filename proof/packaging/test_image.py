"""The container image as it is built and run: from a base without a registry, killed and started again on the same volume.

The base is a Debian that `debootstrap` makes, with the locked libraries in the place of a package index. podman has its own storage and
settings in a folder of the test.
"""

import json
import os
import resource
import subprocess
from pathlib import Path

import pytest
from harness.patience import wait_until
from harness.servers.users import RIGHT, table

BASE, NAME = "localhost/base:1", "queue"
URL = "http://root@127.0.0.1:9254/"
CONFIGURATION = f"""
jid = "queue.localhost"
server = ""

[stomp]
listen = "127.0.0.1:0"
{table("root", roles=["admin"])}
"""
STORAGE = """
[storage]
driver = "overlay"
graphroot = "{folder}/images"
runroot = "{folder}/running"
"""
SETTINGS = """
[containers]
default_ulimits = ["nofile={open}:{open}", "nproc=4096:4096"]
[engine]
runtime = "runc"
events_logger = "file"
"""


class Podman:
    """podman with a storage of its own."""

    def __init__(self, folder):
        (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
        most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 65_536)
        (folder / "containers.conf").write_text(SETTINGS.format(open=most))
        self.environment = os.environ | {
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
            "CONTAINERS_CONF": str(folder / "containers.conf"),
        }

    def run(self, *words, **more):
        """Return how it ended, and what it said."""
        given = {"env": self.environment, "capture_output": True, "text": True}
        return subprocess.run(["podman", *words], check=False, **given | more)

    def does(self, *words):
        """Run it, and return what it said."""
        done = self.run(*words)
        assert done.returncode == 0, (words, done.stdout + done.stderr)
        return done.stdout.strip()

    def pubqueue(self, *words):
        """Run a command of the image in the container."""
        with_password = "--env", f"PUBQUEUE_PASSWORD={RIGHT}", "--env", f"PUBQUEUE_URL={URL}"
        return self.run("exec", *with_password, NAME, "pubqueue", *words)


def is_debian_of_this_machine():
    lines = Path("/etc/os-release").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)["VERSION_CODENAME"].strip('"')


@pytest.fixture(scope="module")
def podman(tmp_path_factory):
    podman = Podman(tmp_path_factory.mktemp("podman"))
    yield podman
    podman.run("rm", "--force", "--time", "0", NAME)
    podman.run("volume", "rm", "--force", "queues")
    podman.run("rmi", "--all", "--force")


@pytest.fixture(scope="module")
def image(podman, tree, libraries, tmp_path_factory):
    """The image, as `make image` builds it from a clone; the name of its base is given."""
    root = tmp_path_factory.mktemp("base") / "root"
    wanted = "--variant=minbase", "--include=python3,python3-venv,ca-certificates"
    made = subprocess.run(
        ["debootstrap", *wanted, is_debian_of_this_machine(), root],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout[-4_000:] + made.stderr
    (root / "usr/bin/python").symlink_to("python3")
    (root / "libraries").mkdir()
    for wheel in libraries.iterdir():
        (root / "libraries" / wheel.name).write_bytes(wheel.read_bytes())
    archive = root.parent / "base.tar"
    subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
    index = "--change", "ENV PIP_NO_INDEX=1", "--change", "ENV PIP_FIND_LINKS=/libraries"
    podman.does("import", *index, str(archive), BASE)
    built = subprocess.run(
        [tree / "tools" / "image", "--isolation", "chroot", "--pull=never"],
        env=podman.environment | {"BUILDER": "podman", "BASE": BASE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout[-4_000:] + built.stderr[-4_000:]
    return "localhost/pubqueue:latest"


def is_well(podman):
    return podman.run("healthcheck", "run", NAME).returncode == 0


def test_what_was_published_is_there_after_a_kill_and_after_a_stop(podman, image, tmp_path):
    """It runs as the page says: not as root, without capabilities, on a root that is only read, with a volume for the store."""
    given = tmp_path / "pubqueue.toml"
    given.write_text(CONFIGURATION)
    os.chown(given, 5254, 5254)
    given.chmod(0o400)
    podman.does(
        *("run", "--detach", "--name", NAME, "--network", "none"),
        *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--volume", "queues:/var/lib/pubqueue", "--volume", f"{given}:/etc/pubqueue.toml:ro"),
        *(image, "serve", "--config", "/etc/pubqueue.toml"),
    )
    wait_until(lambda: is_well(podman))
    assert podman.does("exec", NAME, "id", "-u") == "5254"
    for words in (("node", "create", "jobs"), ("publish", "jobs", "1", "--id", "a")):
        done = podman.pubqueue(*words)
        assert done.returncode == 0, done.stdout + done.stderr

    podman.does("kill", "--signal", "KILL", NAME)
    wait_until(lambda: podman.does("inspect", "--format", "{{.State.Running}}", NAME) == "false")
    assert podman.does("inspect", "--format", "{{.State.ExitCode}}", NAME) == "137"
    podman.does("start", NAME)
    wait_until(lambda: is_well(podman))
    (line,) = podman.pubqueue("items", "jobs", "--json").stdout.splitlines()
    assert json.loads(line)["id"] == "a"

    podman.does("stop", "--time", "60", NAME)
    assert podman.does("inspect", "--format", "{{.State.ExitCode}}", NAME) == "0"
    podman.does("rm", NAME)
    podman.does(
        *("run", "--detach", "--name", NAME, "--network", "none"),
        *("--volume", "queues:/var/lib/pubqueue", "--volume", f"{given}:/etc/pubqueue.toml:ro"),
        *(image, "serve", "--config", "/etc/pubqueue.toml"),
    )
    wait_until(lambda: is_well(podman))
    assert len(podman.pubqueue("items", "jobs", "--json").stdout.splitlines()) == 1
