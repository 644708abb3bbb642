"""docs/operations/http-api.md is typed into a shell, with the address and the token of a service."""

import asyncio
import json
import os

from harness.batches.queue_requests import a_queue, publishes
from harness.documents.documented import ROOT, blocks_of
from harness.operators.api_caller import RULE
from harness.patience import TIMEOUT

from pubqueue.model.entities import Jid, NodeName, Principal
from pubqueue.operations.table import CHANGES
from pubqueue.rules.read import ReadItems, ReadNodes

PAGE = ROOT / "docs" / "operations" / "http-api.md"
RULER = Principal(Jid("ruler@queue.example"), admin=True)


async def typed(service, folder, text):
    """Return what a shell says to the commands of a block, which ends with the first that fails."""
    text = text.replace("http://127.0.0.1:9254", service.place).replace("kA1w2V...", RULE)
    shell = await asyncio.create_subprocess_exec(
        *("bash", "-e", "-c", text),
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(TIMEOUT):
        said, wrong = await shell.communicate()
    assert (shell.returncode, wrong) == (0, b""), said + wrong
    return said.decode()


def answers(text):
    """Return the JSON objects of a text, one after the other."""
    found, decoder = [], json.JSONDecoder()
    while text.strip():
        value, end = decoder.raw_decode(text.strip())
        found.append(value)
        text = text.strip()[end:]
    return found


async def test_the_commands_of_the_page_do_what_it_says(service, tmp_path):
    await service.do(a_queue(), publishes("i1", "i2", "i3", "i4", "i5"))
    token, look, pages, change, publish, every = (
        block.text for block in blocks_of(PAGE) if block.language == "bash"
    )
    await typed(service, tmp_path, token)
    overview, items, reasons, peeked = answers(await typed(service, tmp_path, look))
    assert overview["rows"][0]["depth"] == 5
    assert ([row["id"] for row in items["rows"]], items["more"]) == (["i1", "i2"], True)
    assert reasons["rows"] == []
    assert peeked["rows"][0]["payload"]
    await typed(service, tmp_path, pages)
    found = answers((tmp_path / "items.json").read_text())
    assert [row["id"] for page in found for row in page["rows"]] == ["i1", "i2", "i3", "i4", "i5"]
    done = answers(await typed(service, tmp_path, change))
    assert [one["operation"] for one in done] == [
        *("pause", "cancel", "redrive", "create", "schedule-add", "resume")
    ]
    assert done[1]["rows"][0]["count"] == 2
    nodes, left = await service.do(ReadNodes(RULER), ReadItems(RULER, NodeName("jobs"), 0))
    configs = {str(one.node.name): one.node.config for one in nodes.entries}
    assert (configs["thumbnails"].queueing, configs["thumbnails"].max_failures) == (True, 5)
    assert not configs["jobs"].paused
    assert [entry.item.id for entry in left.entries] == ["i3", "i4", "i5"]
    (published,) = answers(await typed(service, tmp_path, publish))
    assert published["results"][0] == {"id": "i1", "duplicate": False}
    assert len(published["results"]) == 2
    listed, *_ = answers(await typed(service, tmp_path, every))
    assert len(listed["operations"]) > 30
    assert json.loads((tmp_path / "openapi.json").read_text())["openapi"].startswith("3.1")


def test_the_page_names_what_operators_may_do():
    (row,) = [
        line for line in PAGE.read_text().splitlines() if line.startswith("| role `operator`")
    ]
    assert {word.strip("`,") for word in row.split() if word.startswith("`")} - {
        "operator"
    } == CHANGES
