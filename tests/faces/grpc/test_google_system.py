"""The system tests of Google's client for Python, as its source package brings them, against the service as its operator runs it.

`make setup` puts them into `.venv/google_pubsub`. What they need of a cloud is two variables and a file with credentials that nobody looks at.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import sys
import tarfile
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from faces.grpc.service import GrpcService
from harness.documents.conformance import GRPC, ROOT
from harness.patience import TIMEOUT

if TYPE_CHECKING:
    from pathlib import Path

THEIRS: Final = ROOT / ".venv" / "google_pubsub"
CREDENTIALS: Final = {
    "type": "authorized_user",
    "client_id": "nobody",
    "client_secret": "none",
    "refresh_token": "none",
}
COUNT: Final = 16
"""Tests that need no cloud."""
WAITING: Final = ("ack_deadline", "max_messages or blocking_shutdown", "async_callbacks")
"""Tests that mostly wait, up to a minute: these parts run side by side, and the others in one more."""


def not_run() -> list[str]:
    """Return the keywords of the tests that the page excepts."""
    _, _, section = GRPC.page.read_text().partition("## Google's own system tests")
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def a_folder(folder: Path) -> Path:
    """Make a folder with what the tests find in it."""
    folder.mkdir()
    (folder / "credentials.json").write_text(json.dumps(CREDENTIALS))
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


async def outcomes(folder: Path, address: str, chosen: str) -> dict[str, str]:
    """Run the tests that are chosen by keywords; return how each ended."""
    report = folder / "report.xml"
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "pytest",
            "-c",
            folder / "pytest.ini",
            "--noconftest",  # ours is above them, in whose environment they are
            "--junitxml",
            report,
            "-k",
            chosen,
        ),
        *("-p", "no:randomly", "-p", "no:xdist", THEIRS / "system.py"),
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(THEIRS / "packages"),
            "PUBSUB_EMULATOR_HOST": address,
            "GOOGLE_CLOUD_PROJECT": "shop",
            "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "credentials.json"),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(), TIMEOUT)
    print(out.decode())  # is shown if the test fails
    return {
        test.attrib["name"]: next((one.tag for one in test if one.tag != "system-out"), "passed")
        for test in ET.parse(report).iter("testcase")
    }


def test_they_are_as_google_has_published_them():  # G50
    (package,) = THEIRS.glob("google_cloud_pubsub-*.tar.gz")
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    assert f"--hash=sha256:{digest}" in (ROOT / "requirements.lock").read_text()
    with tarfile.open(package) as files:
        theirs = files.extractfile(f"{package.name.removesuffix('.tar.gz')}/tests/system.py")
        assert theirs
        assert (THEIRS / "system.py").read_bytes() == theirs.read()


async def test_each_of_them_passes_that_needs_no_cloud(tmp_path):  # G50
    excepted = " or ".join(not_run())
    others = f"not ({' or '.join(WAITING)})"
    async with GrpcService(tmp_path) as service, asyncio.TaskGroup() as running:
        tasks = [
            running.create_task(
                outcomes(
                    a_folder(tmp_path / str(n)),
                    service.address,
                    f"({part}) and not ({excepted})",
                )
            )
            for n, part in enumerate((*WAITING, others))
        ]
        await asyncio.wait(tasks)
    ended = {name: how for task in tasks for name, how in task.result().items()}
    assert set(ended.values()) == {"passed"}, ended
    assert len(ended) == COUNT
