"""The demo's Spark job: select the late flights and write each one as a work item.

A program of its own, `python -Im pubqueue_demo.job`, because it starts a Java process. It is like a user's job, except
for two lines that report to the main process what was written.
"""

from __future__ import annotations

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pubqueue_demo.flights import LATE, NOT_AVAILABLE
from pubqueue_demo.rebook import ELEMENT, NAMESPACE
from pubqueue_demo.report import Published, Selected, emit
from pyspark_pubqueue import DefaultSource

# Two cores, and three attempts for a task: plain local[2] fails a job at its first error.
MASTER = "local[2,3]"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    # halves the cost of a Python task
    "spark.python.unix.domain.socket.enabled": "true",
}


@click.command()
@click.option("--table", required=True, help="The table of flights, a CSV file.")
@click.option("--items", type=click.IntRange(min=1), help="The maximum number of items to write.")
@click.option("--scratch", required=True, help="A folder for Spark's own files.")
@click.option("--service", required=True)
@click.option("--node", required=True)
@click.option("--jid", required=True)
@click.option("--host", required=True)
@click.option("--port", required=True)
def main(table: str, items: int | None, scratch: str, **connection: str) -> None:
    """Write the late flights of the table into a queue; the password is in PUBQUEUE_PASSWORD."""
    spark = _session(scratch)
    spark.dataSource.register(DefaultSource)  # needs no lookup by name, which may fail
    flights = spark.read.csv(table, header=True, nullValue=NOT_AVAILABLE)
    work = work_items(flights, items).persist()
    ids = [row.item_id for row in work.select("item_id").collect()]
    emit(Selected(rows=len(ids), table=flights.count()))
    (
        work.write.format("pubqueue")
        .mode("append")
        .options(**connection, passwordEnv="PUBQUEUE_PASSWORD", tls="off")
        # The workers get the first items while the last ones are written.
        .option("visibility", "immediate")
        # The component may be killed and restarted meanwhile: retry soon, and often.
        .options(retries="30", retryBackoff="0.2-2", progressTimeout="3")
        .save()
    )
    emit(Published(ids=ids))
    spark.stop()


def work_items(flights: DataFrame, most: int | None) -> DataFrame:
    """Return the flights that arrived two hours late or more, as columns item_id and payload."""
    late = flights.where(F.col("arr_delay").cast("int") >= LATE)
    if most is not None:
        # limit() returns one partition; two Python workers should write
        late = late.limit(most).repartition(2)
    # This is unique to each flight, so a second run of the job adds nothing.
    date = F.concat_ws("-", "year", F.lpad("month", 2, "0"), F.lpad("day", 2, "0"))
    item_id = F.concat_ws("-", date, "carrier", "flight", "origin")
    columns = F.struct(F.lit(NAMESPACE).alias("_xmlns"), *flights.columns)
    payload = F.rtrim(F.to_xml(columns, {"rowTag": ELEMENT, "indent": ""}), F.lit("\n"))
    return late.select(item_id.alias("item_id"), payload.alias("payload"))


def _session(scratch: str) -> SparkSession:
    builder = SparkSession.builder.appName("late-flights").master(MASTER)
    builder = builder.config("spark.local.dir", scratch)
    builder = builder.config("spark.sql.warehouse.dir", f"{scratch}/warehouse")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main()
