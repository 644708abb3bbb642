"""How the format gets onto a cluster: as an installed wheel, as a zip, over Spark Connect."""

import subprocess
import zipfile
from pathlib import Path

import pytest
from harness.machines.pythons import ROOT, build_wheel, install, python_with, required
from harness.stores.queue_store import assert_once, numbers, visible

from proof.spark_cluster import jobs
from proof.spark_cluster.connect import ConnectServer
from proof.spark_cluster.standalone import SPARK_HOME

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

PACKAGES = {"pubqueue", "pubqueue_xeps", "pubqueue_spark", "pyspark_pubqueue"}
SUBMITTED = Path(__file__).with_name("submitted.py")


def packages(archive):
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(archive).namelist()}
    return {top for top in tops if not top.endswith(".dist-info")}


def test_a_wheel_that_is_installed_on_driver_and_executors_is_found_by_name(
    driver_on, component, options, tmp_path
):
    wheel = build_wheel(tmp_path)
    assert packages(wheel) == PACKAGES | {"pubqueue_demo"}
    python = python_with(tmp_path / "venv", *required(), *required("spark"))
    install(wheel, python)
    assert subprocess.run([python.with_name("pubqueue"), "--version"], check=True).returncode == 0
    with driver_on("local-cluster[2,1,1024]", python=python) as driver:
        driver.run(jobs.write, options, rows=1000)
    assert visible(component.store) == numbers(1000)


@pytest.fixture
def py_files(tmp_path):
    """The three packages that executors need, in a zip."""
    path = tmp_path / "pubqueue.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for folder in (ROOT / "spark", ROOT / "xeps"):
            for file in sorted(folder.rglob("*.py")):
                archive.write(file, file.relative_to(folder))
    assert packages(path) == PACKAGES - {"pubqueue"}
    return path


@pytest.fixture
def submit(cluster, env, tmp_path):
    """Run spark-submit on the cluster with a Python that has none of these tests' packages."""
    bare = {name: value for name, value in env.items() if name != "PYTHONPATH"}

    def submit(python, *arguments):
        return subprocess.run(
            [
                SPARK_HOME / "bin" / "spark-submit",
                *("--master", cluster.master, "--driver-memory", "512m"),
                *("--executor-memory", "512m", "--conf", "spark.ui.enabled=false"),
                *("--conf", f"spark.local.dir={tmp_path}"),
                *("--conf", f"spark.sql.warehouse.dir={tmp_path}"),
                *arguments,
            ],
            env=bare | {"PYSPARK_PYTHON": str(python)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return submit


def test_a_zip_and_registration_do_where_only_slixmpp_is_installed(
    submit, component, options, py_files, tmp_path
):
    python = python_with(tmp_path / "venv", "slixmpp", "pyarrow")
    given = [f"{name}={value}" for name, value in options.items()]
    ran = submit(python, "--py-files", py_files, SUBMITTED, "1000", "node=jobs", *given)
    needed = "a payload with a content type needs the Python package msgspec on the driver and on every executor"
    printed = f"importable:\nread: 1000\ntyped: {needed}\n"
    assert (ran.returncode, ran.stdout) == (0, printed), ran.stderr
    assert visible(component.store) == numbers(1000)


def test_payloads_with_content_types_need_only_msgspec_beside_the_zip(
    submit, component, options, py_files, tmp_path
):
    python = python_with(tmp_path / "venv", "slixmpp", "pyarrow", "msgspec")
    given = [f"{name}={value}" for name, value in options.items()]
    ran = submit(python, "--py-files", py_files, SUBMITTED, "100", "node=jobs", *given)
    printed = "importable: msgspec\nread: 100\ntyped: 100\n"
    assert (ran.returncode, ran.stdout) == (0, printed), ran.stderr


@pytest.fixture(scope="module")
def connect_server(enter, scratch, env):
    folder = scratch / "connect"
    folder.mkdir()
    with enter(ConnectServer(folder, env)) as server:
        yield server


@pytest.mark.usefixtures("component")
def test_spark_connect_finds_for_a_batch_what_its_server_has_installed(
    driver_on, connect_server, trial
):
    with driver_on(remote=connect_server.url) as driver:
        driver.run(jobs.write, trial.options, rows=500)
        assert_once(trial.store, 500)
        assert driver.run(jobs.read, trial.options) == 500


@pytest.mark.usefixtures("component")
@pytest.mark.parametrize("registered", [False, True])
def test_spark_connect_streams_with_and_without_registration(
    driver_on, connect_server, trial, registered
):
    with driver_on(remote=connect_server.url) as driver:
        if registered:
            driver.run(jobs.register)
        driver.run(jobs.stream, trial.options, **trial.stream)
        assert_once(trial.store, 300, batches=3)


def test_a_class_pickled_by_value_keeps_the_streams(
    driver_on, cluster, component, options, prosody
):
    def logins():
        return (prosody.folder / "prosody.log").read_text().count("Authenticated as etl@localhost")

    with driver_on(cluster.master) as driver:
        before = logins()
        driver.run(jobs.write_by_value, options, rows=600, partitions=12)
        assert visible(component.store) == numbers(600)
        # two workers with two slots each; on the driver one process checks, and another commits
        assert logins() - before <= 4 + 2
