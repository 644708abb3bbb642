"""docs/how-to/without-xmpp.md, followed: its file, the service, its commands, without any server of XMPP."""

import asyncio
import os
import re
import sys
from pathlib import Path

from harness.documents.documented import ROOT, blocks_of
from harness.patience import TIMEOUT

from pubqueue.loopback import free_ports

PAGE = ROOT / "docs" / "how-to" / "without-xmpp.md"
PUBQUEUE = Path(sys.executable).with_name("pubqueue")
DOCUMENTED = (8080, 8600, 61613)


def blocks(language):
    return [block.text for block in blocks_of(PAGE) if block.language == language]


async def printed(*command, folder):
    """Return what a program prints, which ends well and complains of nothing."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(TIMEOUT):
        out, wrong = await process.communicate()
    assert (process.returncode, wrong) == (0, b""), out + wrong
    return out.decode()


async def test_the_page_leads_from_one_file_to_messages_over_two_protocols(tmp_path):
    made = await printed(PUBQUEUE, "user", "password", "--generate", folder=tmp_path)
    plain, hashed = (line.split()[1] for line in made.splitlines())
    ports = dict(zip(DOCUMENTED, free_ports(3), strict=True))

    def here(text):
        for theirs, ours in ports.items():
            text = text.replace(f":{theirs}", f":{ours}")
        return text.replace("its password", plain)

    (configuration,) = blocks("toml")
    text = re.sub(r'(?m)^password = ".*"$', lambda _: f'password = "{hashed}"', configuration)
    (tmp_path / "pubqueue.toml").write_text(here(text))
    service = await asyncio.create_subprocess_exec(
        *(PUBQUEUE, "serve", "--config", "pubqueue.toml"),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        line = await asyncio.wait_for(service.stdout.readline(), TIMEOUT)
        assert line == b"ready: queue.localhost, items in sqlite:pubqueue.db\n"
        publish, take, stomp, more = (here(text) for text in blocks("bash"))
        assert "201 Created" in await printed("bash", "-ec", publish, folder=tmp_path)
        assert await printed("bash", "-ec", take, folder=tmp_path) == "hello"
        assert "receipt-id:1" in await printed("bash", "-ec", stomp, folder=tmp_path)
        assert await printed("bash", "-ec", take, folder=tmp_path) == "hello"
        created = await printed("bash", "-ec", more, folder=tmp_path)
        assert created.count("201 Created") == 2
        page = f"curl -sS http://127.0.0.1:{ports[8080]}/healthz -o /dev/null -w '%{{http_code}}'"
        assert await printed("bash", "-ec", page, folder=tmp_path) == "200"
    finally:
        service.terminate()
        assert await service.wait() == 0
