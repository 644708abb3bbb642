"""Hooks of every run: its seed follows from the commit, `long` is left to those who ask for it, and `--report` keeps what happened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from harness.gate import change, long

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[3]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the gate."""
    group = parser.getgroup("gate")
    group.addoption(
        "--part",
        action="append",
        default=[],
        metavar="NAME",
        help="run this part of the set `long`, and nothing else",
    )
    group.addoption(
        "--daily", action="store_true", help="leave out `long` even of files that are named"
    )
    group.addoption(
        "--report",
        type=Path,
        metavar="FILE",
        help="write the cases and their outputs here, as JSON",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Take the seed from the commit, so that every run of it has the same order and the same draws."""
    if config.getoption("randomly_seed", None) == "default":
        config.option.randomly_seed = change.seed(ROOT) or "default"
    if not hasattr(config, "workerinput") and (path := config.getoption("report")):
        config.pluginmanager.register(Report(path))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for: without `--part` that is `long`, except files that are named, and the proofs."""
    parts = [long.BY_NAME[name] for name in config.getoption("part")]
    daily: bool = config.getoption("daily")
    named = {argument.partition("::")[0] for argument in config.args}

    def asked(item: pytest.Item) -> bool:
        file, part = item.nodeid.partition("::")[0], long.part_of(item.nodeid)
        if parts:
            return any(part.has(item.nodeid) for part in parts)
        return not part or (not daily and (file in named or file.startswith("proof/")))

    others = [item for item in items if not asked(item)]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if asked(item)]


class Report:
    """Collects the cases of a run, and writes them at its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, float] = {}
        self._outputs: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a phase of a case."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0) + getattr(
            report, "duration", 0
        )
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be read."""
        if report.failed:
            self._seconds.setdefault(report.nodeid, 0)
            self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            parts: Sequence[tuple[str, Any]] = report.sections
            sections = "".join(f"\n--- {name} ---\n{text}" for name, text in parts)
            output = f"{report.longreprtext or report.outcome}{sections}\n"
            self._outputs[report.nodeid] = self._outputs.get(report.nodeid, "") + output

    def pytest_sessionfinish(self) -> None:
        """Write what was collected."""
        cases = [
            {
                "test": test,
                "seconds": seconds,
                "output": self._outputs.get(test, ""),
                "passed": test not in self._outputs,
            }
            for test, seconds in self._seconds.items()
        ]
        self._path.write_text(json.dumps(cases))
