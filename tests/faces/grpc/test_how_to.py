"""The programs of docs/how-to/grpc.md run against the service."""

import asyncio
import os
import sys
from base64 import b64decode

import pytest
from faces.grpc.hooks import a_hook
from faces.grpc.service import SERVED, GrpcService
from harness.documents.documented import ROOT, blocks
from harness.patience import TIMEOUT

PAGE = "docs/how-to/grpc.md"
RUN = {
    "python": (sys.executable, "-u", "-c"),
    "javascript": ("node", "--input-type=module", "-e"),
    "sh": ("sh", "-euc"),
}
DOCUMENTED = "127.0.0.1:8086"


def block(language, number):
    (found,) = (one.text for one in blocks(language) if (one.page, one.number) == (PAGE, number))
    return found


async def begun(language, program, **environment):
    """Start a program; what it prints can be read."""
    return await asyncio.create_subprocess_exec(
        *RUN[language],
        program,
        cwd=ROOT / "tests" / "node",
        env=os.environ | environment,
        stdout=asyncio.subprocess.PIPE,
    )


@pytest.mark.parametrize(
    ("language", "number", "line"),
    [
        ("python", 1, "got order 1"),
        ("javascript", 1, "got order 2"),
        ("python", 4, "again invoice 5"),
    ],
)
async def test_the_program_publishes_and_receives(tmp_path, language, number, line):  # G38, G50
    async with GrpcService(tmp_path) as service, asyncio.timeout(TIMEOUT):
        program = block(language, number)
        process = await begun(language, program, PUBSUB_EMULATOR_HOST=service.address)
        try:
            assert await process.stdout.readline() == f"{line}\n".encode()
        finally:
            process.kill()
            await process.wait()


async def test_the_program_has_a_message_pushed_where_the_operator_allows(tmp_path):  # G27, G50
    configured = next(one.text for one in blocks("toml") if "push_to" in one.text)
    push_to = next(line for line in configured.splitlines() if line.startswith("push_to"))
    async with (
        a_hook() as hook,
        GrpcService(tmp_path, f"{SERVED}\n{push_to}") as service,
        asyncio.timeout(TIMEOUT),
    ):
        program = block("python", 3)
        assert "http://127.0.0.1:8099/parcels" in program
        program = program.replace("http://127.0.0.1:8099/parcels", hook.url)
        process = await begun("python", program, PUBSUB_EMULATOR_HOST=service.address)
        assert await process.wait() == 0
        pushed = await hook.next()
        assert b64decode(pushed["message"]["data"]) == b"parcel 6"


@pytest.mark.parametrize(
    ("language", "number", "says"),
    [
        ("python", 2, b"got order 3\n"),
        ("sh", 1, b'{"name":"/topics/shop/pens"}%s{}order 4{}'),
    ],
)
async def test_the_program_does_it_in_json(tmp_path, language, number, says):  # G49
    made = (
        b'{"name":"/subscriptions/shop/pens","topic":"/topics/shop/pens","ackDeadlineSeconds":10}'
    )
    async with (
        GrpcService(tmp_path, f'{SERVED}\njson = "127.0.0.1:0"') as service,
        asyncio.timeout(TIMEOUT),
    ):
        program = block(language, number)
        assert DOCUMENTED in program
        process = await begun(language, program.replace(DOCUMENTED, service.json))
        said, _ = await process.communicate()
        assert said == says.replace(b"%s", made)
        assert process.returncode == 0
