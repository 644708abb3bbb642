"""Tries every cell of the tables in this folder on the wire, against the real program."""

import asyncio
import itertools

import pytest
from harness.processes.program import write_config
from harness.processes.warm import WarmProgram
from harness.servers.stub_server import StubServer

from matrix import table
from matrix.asks import ASKS
from matrix.trial import ADMIN, Trial
from matrix.wire import Wire

TOGETHER = 100
TABLES = sorted(path.stem for path in table.FOLDER.glob("*.txt") if path.stem != "outcomes")


def test_tables_name_only_what_exists():
    cells = [case for name in TABLES for case in table.cases(name)]
    assert {case.action for case in cells} == ASKS.keys()
    assert {case.expected for case in cells} <= {*table.outcomes(), table.NOBODY}


@pytest.mark.covers("K-006", "L-002", "R-001")
@pytest.mark.parametrize("name", TABLES)
async def test_every_cell(name, tmp_path):
    words, failures, numbers = table.outcomes(), [], itertools.count(1)
    config = f'admins = ["{ADMIN}"]'
    async with StubServer(validate=lambda _: None) as server:
        async with WarmProgram(write_config(tmp_path, server, config)) as program:
            wire = await Wire(server).opened()

            async def tried(case):
                trial = Trial(wire, case, f"node-{next(numbers)}")
                if failure := await trial.run(words):
                    failures.append(failure)
                await trial.clear()

            cells = table.cases(name)
            for start in range(0, len(cells), TOGETHER):
                some = cells[start : start + TOGETHER]
                await asyncio.gather(*map(tried, some))
        assert "level=error" not in program.log, program.log
    assert not failures, f"{len(failures)} of {len(cells)}:\n" + "\n".join(failures)
