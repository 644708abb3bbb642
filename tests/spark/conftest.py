"""One server, one Spark session; what lives in them runs on a loop in a thread of its own.

Spark's calls block, so nothing that they wait for may share the test's thread.
"""

import os
import sys
import warnings
from types import SimpleNamespace

import pytest
from harness.background import Background
from harness.fake import fake_component
from harness.program import Program, write_config
from harness.queue_script import QueueScript
from pyspark.sql import SparkSession

from pubqueue.demo.java import java_home
from pubqueue.demo.prosody import Prosody

PASSWORD = "hunter2hunter2"


@pytest.fixture(scope="session")
def background():
    background = Background()
    yield background
    background.close()


@pytest.fixture(scope="session")
def prosody(background):
    server = Prosody()
    background.run(server.__aenter__())
    background.run(server.account("etl", PASSWORD))
    yield server
    background.run(server.__aexit__(None, None, None))


@pytest.fixture
def script(background, prosody):
    """A scripted queue behind the server, instead of the component."""
    script = QueueScript()
    component = fake_component(prosody.component_port, script, secret=prosody.secret)
    background.run(component.__aenter__())
    yield script
    background.run(component.__aexit__(None, None, None))


NODES = """
[[node]]
name = "jobs"
queueing = true
owners = ["boss@localhost"]
publishers = ["etl@localhost"]
[[node]]
name = "private"
queueing = true
owners = ["boss@localhost"]
[node.options]
"pubsub#publish_model" = "publishers"
[[node]]
name = "small"
queueing = true
owners = ["boss@localhost"]
publishers = ["etl@localhost"]
[node.options]
"pubsub#max_items" = 10
"""


@pytest.fixture
def component(background, prosody, tmp_path):
    """The component itself, `pubqueue serve`, with an empty store."""
    place = SimpleNamespace(
        domain=prosody.component,
        secret=prosody.secret,
        host=prosody.host,
        port=prosody.component_port,
    )
    program = Program(write_config(tmp_path, place, NODES))
    background.run(program.__aenter__())
    program.store = tmp_path / "pubqueue.db"
    yield program
    background.run(program.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def connection(prosody):
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
def java(tmp_path_factory):
    """The environment in which Spark finds a Java and this Python."""
    return os.environ | {
        "JAVA_HOME": str(java_home(tmp_path_factory.mktemp("java"))),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@pytest.fixture(scope="session")
def spark(tmp_path_factory, java):
    """The session of all Spark tests: a task may fail twice before its job does (local[2,3])."""
    folder = tmp_path_factory.mktemp("spark")
    patch = pytest.MonkeyPatch()
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        patch.setenv(name, java[name])
    with warnings.catch_warnings():
        # PySpark 4.3 says so of pandas 3, which it then does not use.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        session = _session(folder)
    yield session
    session.stop()
    patch.undo()


def _session(folder):
    builder = SparkSession.builder.master("local[2,3]").appName("pubqueue tests")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.python.unix.domain.socket.enabled": "true",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("FATAL")
    return session
