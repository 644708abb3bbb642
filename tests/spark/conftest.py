"""One server, one Spark session; what lives in them runs on a loop in a thread of its own.

Spark's calls block, so nothing that they wait for may share the test's thread.
"""

import asyncio
import os
import secrets
import sqlite3
import sys
import warnings
from collections import Counter
from contextlib import closing, contextmanager

import harness.processes.doomed
import pytest
from harness.background import Background
from harness.patience import LOOK, TIMEOUT, until, wait_until
from harness.processes import spark_accidents
from harness.servers import live
from harness.servers.queue_script import QueueScript
from harness.servers.scripted_component import fake_component
from harness.stores.queue_store import numbers, visible
from py4j.protocol import Py4JJavaError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from pubqueue_demo.java import java_home
from pubqueue_demo.prosody import Prosody

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
publishers = ["etl@localhost", "other@localhost"]
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
[[node]]
name = "other"
queueing = true
owners = ["boss@localhost"]
publishers = ["etl@localhost"]
[[node]]
name = "bad"
queueing = true
owners = ["boss@localhost"]
publishers = ["etl@localhost"]
"""


@pytest.fixture(scope="session")
def serve(background, prosody):
    """Run the component itself, `pubqueue serve`, with an empty store: `with serve(folder) as program`."""

    @contextmanager
    def serve(folder, server=prosody):
        behind = live.component(server, folder, NODES)
        program = background.run(behind.__aenter__())
        program.store = folder / "pubqueue.db"
        yield program
        background.run(behind.__aexit__(None, None, None))

    return serve


@pytest.fixture
def component(serve, tmp_path):
    with serve(tmp_path) as program:
        yield program


class Sink:
    """The format, patient with a loaded machine, and rows to write."""

    def __init__(self, spark, connection):
        self.spark = spark
        self.options = connection | {"node": "jobs", "retries": "30", "retryBackoff": "0.1-0.5"}

    def frame(self, rows, partitions=2, *, random=False):
        """Rows that can be told apart, without a business key; random ones differ in each attempt."""
        noise = f.rand() if random else f.lit("")
        words = f.format_string("<job xmlns='urn:example:job' n='%d'>%s</job>", "id", noise)
        return self.spark.range(0, rows, 1, partitions).select(words.alias("payload"))

    def save(self, data, source="pubqueue", **options):
        data.write.format(source).mode("append").options(**self.options | options).save()

    def failure(self, data, **options):
        """Return what a job that must fail says."""
        with pytest.raises(PySparkException) as caught:
            self.save(data, **{"retries": "2"} | options)
        assert self.options["password"] not in str(caught.value)
        return str(caught.value)


@pytest.fixture
def sink(spark, connection, component):
    return Sink(spark, connection)


@pytest.fixture
def doomed(component, background):
    """Start the component anew so that it dies at a point of harness.processes.doomed; then it starts as it is.

    Returns what waits until it has died and is back.
    """

    revivals = []

    def doomed(point, passage=1):
        whole = component.command

        async def play():
            await component.stop()
            component.command = (
                sys.executable,
                harness.processes.doomed.__file__,
                point,
                str(passage),
            )
            await component.start()

        async def revive():
            process = component.process
            await process.wait()
            component.process = None
            component.command = whole
            await component.start()
            return process.returncode

        background.run(play())
        revivals.append(asyncio.run_coroutine_threadsafe(revive(), background.loop))
        return lambda: revivals[-1].result(timeout=TIMEOUT)

    yield doomed
    for revival in revivals:
        revival.cancel()  # it has not died, and is not to come back when it ends


@pytest.fixture
def settled(component):
    """What is asserted after every write, good or bad: the items, nothing staged, so many records."""

    def settled(rows, *, records=1, of=component):
        found = rows if isinstance(rows, Counter) else numbers(rows)
        query = "SELECT count(*) FROM txn WHERE committed IS %s NULL"
        with closing(sqlite3.connect(f"file:{of.store}?mode=ro", uri=True)) as store:
            counts = [store.execute(query % word).fetchone()[0] for word in ("", "NOT")]
            assert counts == [0, records], "open transactions, and records of committed ones"
            why = "what nobody wants any more is not swept away"
            staged = "SELECT count(*) FROM staged"
            wait_until(lambda: store.execute(staged).fetchone() == (0,), within=60, why=why)
        assert visible(of.store) == found  # a large commit moves its items in slices

    return settled


@pytest.fixture
def in_the_middle(component, background, accident, tmp_path):
    """Let something happen when so many items are staged; returns the format to write with, and what waits for its end.

    The format commits after it: whoever looks late finds the items still staged.
    """

    def in_the_middle(happen, *, after):
        def staged():
            with closing(sqlite3.connect(f"file:{component.store}?mode=ro", uri=True)) as store:
                return store.execute("SELECT count(*) FROM staged").fetchone()[0]

        async def is_staged():
            return await asyncio.to_thread(staged) >= after

        async def watch():
            try:
                await until(is_staged, every=LOOK, within=None)
                await happen()
            finally:
                over.touch()

        over = tmp_path / "over"
        watching = asyncio.run_coroutine_threadsafe(watch(), background.loop)
        source = accident(commit=spark_accidents.waiting_for(over))
        return source, lambda: watching.result(timeout=TIMEOUT)

    return in_the_middle


@pytest.fixture
def accident(spark):
    """Register the format with accidents, under a name that is returned; see harness.processes.spark_accidents."""
    names = []

    def accident(**steps):
        names.append(f"accident{len(names)}_{secrets.token_hex(4)}")
        spark.dataSource.register(spark_accidents.source(names[-1], **steps))
        return names[-1]

    return accident


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


@pytest.fixture
def spark(spark_session):
    """Return the session of all Spark tests, active: a batch is looked up in the session that is active in its thread."""
    spark_session.createDataFrame([], "n int")  # the public call that makes a session active
    return spark_session


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory, java):
    """One session for all: a task may fail twice before its job does (local[2,3])."""
    folder = tmp_path_factory.mktemp("spark")
    patch = pytest.MonkeyPatch()
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        patch.setenv(name, java[name])
    with warnings.catch_warnings():
        # PySpark 4.3 says so of pandas 3, which it then does not use.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        session = _session_with_the_format(folder)
    # Spark's workers cannot import the harness
    cloudpickle.register_pickle_by_value(spark_accidents)
    yield session
    cloudpickle.unregister_pickle_by_value(spark_accidents)
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
        # what the history server shows: no password may be in it
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(folder),
        "spark.eventLog.compress": "false",
        "spark.python.unix.domain.socket.enabled": "true",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("FATAL")
    return session


def _session_with_the_format(folder):
    """Return a session that has found the format by its name.

    Spark looks once in a session, in a process of its own; if that fails, the format is missing in this session for good.
    """
    session = _session(folder)
    for _ in range(10):
        try:
            session.read.format("pubqueue").load()
        except Py4JJavaError as refused:
            if "DATA_SOURCE_NOT_FOUND" not in str(refused):
                raise
            session = session.newSession()
        else:
            return session
    raise AssertionError("Spark does not find the format in any session")
