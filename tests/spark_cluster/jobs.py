"""What drivers are told to do; runs in the driver's process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql import functions as f

import pubqueue_spark
from pubqueue_spark.source import PubqueueDataSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession


def frame(spark: SparkSession, rows: int, partitions: int = 2) -> DataFrame:
    """Return rows that can be told apart: `<job n='17'/>` under the id `order-17`."""
    return spark.range(0, rows, 1, partitions).select(
        f.format_string("<job xmlns='urn:example:job' n='%d'/>", "id").alias("payload"),
        f.format_string("order-%d", "id").alias("item_id"),
    )


def save(data: DataFrame, options: Mapping[str, str], source: str = "pubqueue") -> None:
    """Write it, patient with a loaded machine."""
    patient = {"node": "jobs", "retries": "30", "retryBackoff": "0.1-0.5"}
    data.write.format(source).mode("append").options(**patient, **options).save()


def write(
    spark: SparkSession, options: Mapping[str, str], *, rows: int, partitions: int = 2
) -> None:
    """Write so many rows."""
    save(frame(spark, rows, partitions), options)


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
