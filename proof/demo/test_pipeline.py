"""The pipeline of examples/, small and whole: a table on the screen, and a picture with something in it."""

import asyncio
import re
import sys
from pathlib import Path

import pytest
from PIL import Image

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

FOLDER = Path(__file__).parents[2] / "examples" / "pipeline"
COLOURS = {
    "published": (0x44, 0x77, 0xAA),
    "completed": (0x22, 0x88, 0x33),
    "p99": (0xCC, 0x33, 0x11),
}


async def test_orders_come_are_done_and_are_drawn(tmp_path):
    picture = tmp_path / "pipeline.png"
    options = ("--orders=60", "--files=3", "--workers=1", f"--picture={picture}")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, FOLDER / "run.py", *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=tmp_path,
    )
    try:
        said, complaints = await asyncio.wait_for(process.communicate(), 240)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    assert process.returncode == 0, complaints.decode()
    came, done, last = counted(said.decode())
    assert (came, done, last) == (60, 60, 0)
    with Image.open(picture) as image:
        assert image.format == "PNG"
        assert image.size == (1200, 1080)
        colours = image.convert("RGB").getcolors(image.width * image.height)
    drawn = {colour: count for count, colour in colours}
    assert len(drawn) > 100, "letters and lines have soft edges"
    assert all(drawn.get(colour, 0) > 20 for colour in COLOURS.values())


def counted(table):
    """Return how many orders came, how many were done, and how many the last second leaves."""
    rows = [re.findall(r"[\d,.]+", line) for line in table.splitlines() if line.startswith("│")]
    numbers = [[int(word.replace(",", "")) for word in row[:5]] for row in rows]
    return sum(row[1] for row in numbers), sum(row[2] for row in numbers), numbers[-1][4]
