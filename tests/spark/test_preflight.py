"""What is wrong with a machine is one sentence, and not a trace of Java's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness.patience import TIMEOUT

from pubqueue_spark import preflight

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_job.py"
GOOD = "echo 'openjdk version \"21.0.1\" 2024-10-15' >&2"


def program(path, script):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def env(tmp_path):
    """A machine on which all is well."""
    program(tmp_path / "bin" / "java", GOOD)
    return {"PATH": str(tmp_path / "bin"), "PYSPARK_PYTHON": sys.executable}


def test_a_machine_on_which_all_is_well(env):
    assert preflight.problem(env) is None


def test_there_is_no_java(env, tmp_path):
    (tmp_path / "bin" / "java").unlink()
    assert preflight.problem(env) == (
        "Spark needs Java 17, 21 or 25, and there is none: install one, or set JAVA_HOME to where it is."
    )
    assert f"and JAVA_HOME={tmp_path} has none:" in preflight.problem(
        env | {"JAVA_HOME": str(tmp_path)}
    )


@pytest.mark.parametrize(
    ("script", "said"),
    [("echo 'java version \"11.0.2\"' >&2", "is Java 11:"), ("exit 1", "does not start:")],
)
def test_a_java_that_will_not_do(env, tmp_path, script, said):
    program(tmp_path / "home" / "bin" / "java", script)
    assert said in preflight.problem(env | {"JAVA_HOME": str(tmp_path / "home")})


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (f"echo {sys.version_info[0]} {sys.version_info[1]} False", "which has no pubqueue: set"),
        (
            "echo 2 7 True",
            "which is not Python {}.{}, as this one is: set".format(*sys.version_info),
        ),
        ("exit 1", "which is not Python"),
    ],
)
def test_a_python_that_will_not_do(env, tmp_path, script, said):
    python = program(tmp_path / "bin" / "python3", script)
    reported = preflight.problem({"PATH": env["PATH"]})
    assert reported.startswith(f"Spark would run its tasks with {python}, ")
    assert said in reported
    assert f"PYSPARK_PYTHON={sys.executable}" in reported


def test_a_python_that_is_not_there(env):
    reported = preflight.problem(env | {"PYSPARK_PYTHON": "no-such-python"})
    assert "with no-such-python, which is not there: set" in reported


def test_a_session_with_a_server_needs_nothing_here():
    assert preflight.problem({"SPARK_REMOTE": "sc://host"}) is None


def test_a_job_ends_in_that_sentence(env):
    """The example is such a job."""
    whole = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    ran = subprocess.run(
        [sys.executable, EXAMPLE, "orders.csv"],
        env=whole | {"PATH": env["PATH"], "PYSPARK_PYTHON": "no-such-python"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert line.startswith("Spark would run its tasks with no-such-python")
