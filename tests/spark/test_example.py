"""The example is run as a user runs it: a program of its own."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_job.py"


def test_the_example_makes_an_item_of_each_line(connection, component, java, tmp_path):
    (tmp_path / "orders.csv").write_text("order,customer,total\nA-1,Ann & Co,12.50\nA-2,Bob,7\n")
    options = {name: value for name, value in connection.items() if name != "password"}
    ran = subprocess.run(
        [
            *(sys.executable, EXAMPLE, "orders.csv", "node=jobs", "passwordEnv=ORDERS_PASSWORD"),
            *(f"{name}={value}" for name, value in options.items()),
        ],
        env=java | {"ORDERS_PASSWORD": connection["password"]},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "2 orders are in the queue\n"
    (line,) = [line for line in ran.stderr.splitlines() if " pubqueue_spark" in line]
    assert " INFO pubqueue_spark.write.finish: version 0 of " in line, "one line for the batch"
    assert " to queue.localhost: 2 items, " in line
    with closing(sqlite3.connect(f"file:{component.store}?mode=ro", uri=True)) as store:
        items = dict(store.execute("SELECT id, payload FROM item"))
    assert items == {
        "A-1": b"<order xmlns='urn:example:order'><order>A-1</order>"
        b"<customer>Ann &amp; Co</customer><total>12.50</total></order>",
        "A-2": b"<order xmlns='urn:example:order'><order>A-2</order>"
        b"<customer>Bob</customer><total>7</total></order>",
    }


def test_the_example_is_short():
    assert len(EXAMPLE.read_text().splitlines()) < 40


READS = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").getOrCreate()
options = dict(option.split("=", 1) for option in sys.argv[1:])
for node in ("jo*", "jobs"):
    spark.read.format("pubqueue").options(**options, table="events", node=node).load().count()
"""


def test_a_read_of_the_log_of_a_node_that_keeps_none_is_refused_with_the_reason(
    connection, component, java
):
    """Java passes on what the planner says, to the standard error that it was started with."""
    ran = subprocess.run(
        [sys.executable, "-c", READS, *(f"{name}={value}" for name, value in connection.items())],
        env=java,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    reported = [line for line in ran.stderr.splitlines() if "keeps no log" in line]
    assert reported, ran.stderr
    assert all("WARNING pubqueue_spark.read.open_read: node 'jobs' at" in line for line in reported)
