import subprocess
import sys

import pytest
from harness.patience import TIMEOUT
from pyspark.sql.types import StructType

from pubqueue_spark.errors import OptionError, SchemaError
from pubqueue_spark.source import PubqueueDataSource
from pyspark_pubqueue import DefaultSource

OPTIONS = {"service": "queue.localhost", "node": "jobs", "jid": "a@localhost", "password": "x"}
PAYLOAD = StructType().add("payload", "string")


def test_spark_finds_the_source_under_the_name_it_looks_for():
    assert DefaultSource is PubqueueDataSource
    assert DefaultSource.name() == "pubqueue"


def test_looking_the_format_up_imports_no_client_and_starts_nothing():
    probe = (
        "import sys, threading, pyspark_pubqueue;"
        "print(sorted({'slixmpp', 'lxml', 'pyarrow'} & set(sys.modules)), threading.active_count())"
    )
    ran = subprocess.run(
        [sys.executable, "-Ic", probe], capture_output=True, text=True, check=True, timeout=TIMEOUT
    )
    assert ran.stdout.strip() == "[] 1"


def test_overwrite_is_refused_before_anything_is_asked():
    with pytest.raises(OptionError, match=r"^mode 'overwrite' would .*; use mode\('append'\)\.$"):
        PubqueueDataSource(OPTIONS).writer(PAYLOAD, overwrite=True)


def test_options_are_judged_before_columns_and_columns_before_the_network():
    with pytest.raises(OptionError, match="did you mean 'node'"):
        PubqueueDataSource(OPTIONS | {"nodes": "x"}).writer(StructType(), overwrite=False)
    with pytest.raises(SchemaError, match="column payload is missing"):
        PubqueueDataSource(OPTIONS).writer(StructType(), overwrite=False)
