"""Make a work item of each row of a CSV file, with Spark.

    ORDERS_PASSWORD=... python examples/spark_job.py orders.csv \
        service=queue.example.org node=jobs jid=etl@example.org passwordEnv=ORDERS_PASSWORD

The options are those of the format "pubqueue" (spark/README.md). The file has a header. All orders are in
the queue when the job ends, or none; its column `order` names the item, so that running the job again
adds nothing while the items wait (with `txnAppId=orders txnVersion=20261121` it never does).
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from pubqueue_spark import preflight
from pyspark_pubqueue import DefaultSource


def main(path: str, *words: str) -> None:
    spark = SparkSession.builder.master("local[2]").appName("orders").getOrCreate()
    spark.dataSource.register(DefaultSource)  # needs no lookup by name, which may fail
    orders = spark.read.csv(path, header=True)
    fields = [f.lit("urn:example:order").alias("_xmlns"), *orders.columns]  # "_": an attribute
    items = orders.select(
        f.col("order").alias("item_id"),
        f.to_xml(f.struct(*fields), {"rowTag": "order", "indent": ""}).alias("payload"),
    )
    options = dict(word.split("=", 1) for word in words)
    few = items.coalesce(2)  # fat partitions: each task costs Spark some time
    few.write.format("pubqueue").mode("append").options(**options).save()
    print(f"{items.count()} orders are in the queue")
    spark.stop()


if __name__ == "__main__":
    sys.exit(preflight.problem() or main(*sys.argv[1:]))
