"""A server, a component with an empty store for each test, a cluster and its drivers."""

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import pytest
from harness.background import Background
from harness.patience import TIMEOUT
from harness.processes.program import Program, write_config
from harness.servers.live import JOBS, listener

from proof.spark_cluster.driver import Driver
from proof.spark_cluster.standalone import SPARK_HOME, Standalone
from proof.spark_cluster.trial import Trial
from pubqueue_demo.java import java_home
from pubqueue_demo.prosody import Prosody

PASSWORD = "hunter2hunter2"
STARTING = 3 * TIMEOUT
"""Seconds: a cluster starts three programs, one after the other."""
ROOT = Path(__file__).parents[2]

SESSION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.cores.max": "4",  # of the cluster's 8: there may be another driver
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.python.unix.domain.socket.enabled": "true",
}


@pytest.fixture(scope="session")
def background():
    background = Background()
    yield background
    background.close()


@pytest.fixture(scope="session")
def enter(background):
    """Enter an async context in the background, as `with enter(context) as value`."""

    @contextmanager
    def enter(context):
        value = background.run(context.__aenter__(), STARTING)
        try:
            yield value
        finally:
            background.run(context.__aexit__(None, None, None))

    return enter


@pytest.fixture(scope="session")
def prosody(background, enter):
    with enter(Prosody()) as server:
        background.run(server.account("etl", PASSWORD))
        yield server


@pytest.fixture
def configuration(prosody, tmp_path):
    """The configuration of a component with an empty store, pubqueue.db beside it."""
    return write_config(tmp_path, listener(prosody), JOBS)


@pytest.fixture
def component(enter, configuration):
    with enter(Program(configuration)) as program:
        program.store = configuration.with_name("pubqueue.db")
        yield program


@pytest.fixture(scope="session")
def options(prosody):
    """The options that lead to the server."""
    return {
        "service": "queue.localhost",
        "jid": "etl@localhost",
        "password": PASSWORD,
        "host": prosody.host,
        "port": str(prosody.c2s_port),
        "tls": "off",
    }


@pytest.fixture(scope="session")
def scratch():
    """A folder whose name is short: the path of a Unix socket has at most 107 bytes."""
    with TemporaryDirectory(prefix="pq-") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def env(scratch):
    """What drivers and workers are started with: Java, Spark, Python, and these jobs to import."""
    return os.environ | {
        "JAVA_HOME": str(java_home(scratch)),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(scratch),
    }


@pytest.fixture(scope="session")
def cluster(enter, scratch, env):
    """The standalone cluster of all tests."""
    folder = scratch / "cluster"
    folder.mkdir()
    with enter(Standalone(folder, env)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def driver_on(background, env, scratch):
    """Start a driver: `with driver_on(master) as driver`, or `driver_on(remote=url)` (Connect)."""

    def driver_on(master=None, *, remote=None, python=Path(sys.executable), **conf):
        folder = Path(mkdtemp(prefix="driver-", dir=scratch))
        java = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={folder}"
        own = SESSION | {
            "spark.master": master,
            "spark.local.dir": str(folder),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.driver.extraJavaOptions": java,
            "spark.executor.extraJavaOptions": java,
        }
        return Driver(
            background,
            folder,
            env | {"PYSPARK_PYTHON": str(python)},
            {"spark.remote": remote} if remote else own | conf,
            python=python,
        )

    return driver_on


@pytest.fixture
def trial(background, options, configuration, tmp_path):
    return Trial(background, options, tmp_path, configuration.with_name("pubqueue.db"))
