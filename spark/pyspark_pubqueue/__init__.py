"""Lets Spark find the format "pubqueue" by name: it looks for DefaultSource in pyspark_*."""

from pubqueue_spark.source import PubqueueDataSource as DefaultSource

__all__ = ["DefaultSource"]
