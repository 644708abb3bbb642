"""A job as a user submits it: `spark-submit --py-files pubqueue.zip submitted.py NAME=VALUE...`.

It prints which of our packages' neighbours a task could import, to show what executors do not need, how many
items it has found in the queue, and how many of them have a content type; or why they can have none.
"""

import importlib.util
import re
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from pyspark_pubqueue import DefaultSource

NOT_NEEDED = ("pubqueue", "lxml", "msgspec", "aiosqlite", "structlog", "uvloop", "click", "pandas")


def importable(_partition):
    return [name for name in NOT_NEEDED if importlib.util.find_spec(name)]


def main(rows, *options):
    spark = SparkSession.builder.appName("submitted").getOrCreate()
    found = spark.sparkContext.parallelize(range(4), 4).mapPartitions(importable).collect()
    print("importable:", *sorted(set(found)), flush=True)
    spark.dataSource.register(DefaultSource)
    data = spark.range(int(rows)).select(
        f.format_string("<job xmlns='urn:example:job' n='%d'/>", "id").alias("payload"),
    )
    given = dict(option.split("=", 1) for option in options)
    data.coalesce(2).write.format("pubqueue").mode("append").options(**given).save()
    there = spark.read.format("pubqueue").options(**given, numPartitions="2").load()
    print("read:", there.select("seq").distinct().count(), flush=True)
    try:
        data.write.format("pubqueue").mode("append").options(**given, contentType="a/b").save()
        there = spark.read.format("pubqueue").options(**given, includeData="true").load()
        print("typed:", there.where("type = 'a/b' AND data LIKE '<job%'").count(), flush=True)
    except PySparkException as refused:
        print("typed:", *re.findall(r"a payload with .* executor", str(refused))[:1], flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
