"""The benchmark of the sink runs, with few rows: what it measures is asserted nowhere."""

import re

import pytest
from bench.spark import CASES, main
from click.testing import CliRunner

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


def test_every_kind_of_job_is_measured():
    arguments = ["--rows", "20", "--rounds", "1"]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = re.findall(r"^│ (\w+) +│ +(\d) │ +(\d+) \(", result.output, re.MULTILINE)
    assert [(int(tasks), seen) for seen, tasks, _ in rows] == list(CASES)
    assert all(int(rate) > 0 for _, _, rate in rows)
