"""Two streams of one Spark job: from files of orders into a queue, and from the queue's event log into a picture.

    PIPELINE_PASSWORD=... python streams.py orders/ pipeline.png 3000 \
        service=queue.example.org node=orders jid=etl@example.org

It ends when this many orders are done. If you stop it before that and start it again, it continues from its
checkpoints: each line becomes an item once, and each event is counted once.
"""

import sys
from pathlib import Path
from threading import Event

from picture import draw, show
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

from pyspark_pubqueue import DefaultSource

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.unix.domain.socket.enabled": "true",  # halves the cost of a Python task
}


def ingest(spark: SparkSession, folder: Path, connection: dict[str, str]) -> StreamingQuery:
    """Publish each line of each file as an item, once."""
    orders = (
        spark.readStream.schema("order string, customer string, total double")
        .option("maxFilesPerTrigger", 4)
        .json(str(folder))
    )
    items = orders.select(f.col("order").alias("item_id"), f.struct("*").alias("payload"))
    return (
        items.writeStream.format("pubqueue")
        .options(**connection)
        .option("checkpointLocation", f"{folder}/.checkpoints/ingest")
        .trigger(processingTime="1 second")
        .start()
    )


def by_second(events: DataFrame) -> DataFrame:
    """Count the events of each second, and the age of the orders that were done in it."""

    def count(*kinds: str) -> f.Column:
        return f.count_if(f.col("event").isin(*kinds))

    ages = f.when(f.col("event") == "completed", f.col("age_ms") / 1000)
    second = f.window("at", "1 second").start.cast("long").alias("second")
    return events.groupBy(second).agg(
        count("published").alias("published"),
        count("completed").alias("completed"),
        count("unlocked", "expired").alias("given_back"),
        f.percentile_approx(ages, [0.5, 0.95, 0.99]).alias("ages"),
    )


def main(folder: str, picture: str, wanted: str, *options: str) -> None:
    spark = SparkSession.builder.master("local[2,3]").appName("pipeline").config(map=SETTINGS)
    spark = spark.getOrCreate()
    spark.dataSource.register(DefaultSource)
    connection = dict(option.split("=", 1) for option in options)
    connection["passwordEnv"] = "PIPELINE_PASSWORD"
    seconds, finished = [], Event()

    def take(batch: DataFrame, _number: int) -> None:
        seconds[:] = batch.orderBy("second").collect()
        if sum(it.completed for it in seconds) >= int(wanted):
            finished.set()

    events = spark.readStream.format("pubqueue").options(**connection)
    queries = [
        ingest(spark, Path(folder), connection),
        by_second(events.options(table="events", startingOffsets="earliest").load())
        .writeStream.outputMode("complete")
        .foreachBatch(take)
        .option("checkpointLocation", f"{folder}/.checkpoints/events")
        .trigger(processingTime="1 second")
        .start(),
    ]
    print("ready for orders", flush=True)
    while not finished.wait(1):
        for query in queries:
            if failure := query.exception():
                raise failure
    for query in queries:
        query.stop()
    spark.stop()
    show(seconds)
    draw(seconds, picture)
    print(f"the picture is {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
