"""What drivers are told to do; runs in the driver's process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql import functions as f

import pubqueue_spark
from proof.spark_cluster.faults import FaultySource
from pubqueue_spark.source import PubqueueDataSource
from pyspark_pubqueue import DefaultSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession


def frame(spark: SparkSession, rows: int, partitions: int = 2) -> DataFrame:
    """Return rows that can be told apart by `n`, and that are others whenever they are computed."""
    shuffled = spark.range(0, rows, 1, 2).repartition(partitions, "id")
    return shuffled.select(payload("id"))


def payload(number: str) -> Column:
    """Return the column of payloads. Spark's rand() would be the same again in a second attempt."""
    other = f.reflect(f.lit("java.util.UUID"), f.lit("randomUUID"))
    text = "<job xmlns='urn:example:job' n='%s' other='%s'/>"
    return f.format_string(text, f.col(number).cast("string"), other).alias("payload")


def save(data: DataFrame, options: Mapping[str, str], source: str = "pubqueue") -> None:
    """Write it, patient with a loaded machine."""
    patient = {"node": "jobs", "retries": "30", "retryBackoff": "0.1-0.5"}
    data.write.format(source).mode("append").options(**patient, **options).save()


def write(
    spark: SparkSession, options: Mapping[str, str], *, rows: int, partitions: int = 2
) -> None:
    """Write so many rows, behind a shuffle; with the option `fault`, something happens."""
    save(frame(spark, rows, partitions), options, source(spark, options))


def read(spark: SparkSession, options: Mapping[str, str]) -> int:
    """Return how many items there are in the queue."""
    items = spark.read.format("pubqueue").options(**options, node="jobs", numPartitions="2").load()
    return items.select("seq").distinct().count()


def write_numbered(
    spark: SparkSession, options: Mapping[str, str], *, first: int, rows: int
) -> None:
    """Write rows whose items are called as they are numbered."""
    data = spark.range(first, first + rows, 1, 2)
    save(data.select(f.col("id").cast("string").alias("item_id"), payload("id")), options)


def stream(spark: SparkSession, options: Mapping[str, str], *, files: str, checkpoint: str) -> None:
    """Write what a folder of files has, a batch for each, until there is no more."""
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(files)
    patient = {"node": "jobs", "retries": "30", "retryBackoff": "0.1-0.5"}
    query = (
        lines.select(payload("value"))
        .writeStream.format(source(spark, options))
        .options(**patient, **options)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def source(spark: SparkSession, options: Mapping[str, str]) -> str:
    """Return the name of the format, and register the one with faults if there is a fault."""
    if "fault" not in options:
        return "pubqueue"
    spark.dataSource.register(FaultySource)
    return FaultySource.name()


def register(spark: SparkSession) -> None:
    """Register the format, as one does whose Spark has not found it by its name."""
    spark.dataSource.register(DefaultSource)


def write_by_value(
    spark: SparkSession, options: Mapping[str, str], *, rows: int, partitions: int
) -> None:
    """Write through a class that travels with the job, as one defined in a notebook does."""

    class InANotebook(PubqueueDataSource):
        @classmethod
        def name(cls) -> str:
            return "by_value"

    cloudpickle.register_pickle_by_value(pubqueue_spark)
    spark.dataSource.register(InANotebook)
    save(frame(spark, rows, partitions), options, "by_value")
