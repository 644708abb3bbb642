"""The program of a driver: `serve.py ADDRESS NAME=VALUE...`, the latter the session's configuration."""

from __future__ import annotations

import sys
import traceback
from multiprocessing.connection import Listener

from pyspark.sql import SparkSession


def main(address: str, *conf: str) -> None:
    """Start the session, say `ready`, and run the jobs that come over the line."""
    builder = SparkSession.builder.appName("pubqueue tests")
    for setting in conf:
        builder = builder.config(*setting.split("=", 1))
    spark = builder.getOrCreate()
    with Listener(address, "AF_UNIX") as listener:
        print("ready", flush=True)
        with listener.accept() as line:
            while True:
                try:
                    job, args, named = line.recv()
                except EOFError:
                    break
                try:
                    line.send((True, job(spark, *args, **named)))
                except Exception:
                    line.send((False, traceback.format_exc()))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
