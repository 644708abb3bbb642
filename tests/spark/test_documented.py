"""What the documentation prints for Spark is run as printed, but for where example.org is."""

import pytest
from harness.documents.documented import blocks
from pyspark.sql import functions as f

pytestmark = [pytest.mark.spark, pytest.mark.e2e]
PYTHON = [block for block in blocks("python") if "spark" in block.page]


def at_home(text, connection, folder):
    """Return a snippet that asks the server of this test, with files in a folder of its own."""
    (folder / "password").write_text(connection["password"])
    where = {name: connection[name] for name in ("jid", "host", "port", "tls")}
    words = ", ".join(f"{name}={value!r}" for name, value in where.items())
    pairs = ", ".join(f'"{name}": {value!r}' for name, value in where.items())
    for old, new in {
        'jid="etl@example.org"': words,
        '"jid": "etl@example.org"': pairs,
        "queue-a.example.org, queue-b.example.org": connection["service"],
        "queue.example.org": connection["service"],
        "/run/secrets/etl": str(folder / "password"),
        "/data/checkpoints": str(folder),
        "/data/images": str(folder / "images"),
        "/data/orders": str(folder / "orders"),
    }.items():
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("block", [pytest.param(block, id=block.name) for block in PYTHON])
def test_a_snippet_runs(spark, connection, component, tmp_path, block):
    payload = f.format_string("<job xmlns='urn:example:job' n='%d'/>", "id").alias("payload")
    item_id = f.concat(f.lit("i"), "id").alias("item_id")
    ticks = spark.readStream.format("rate").load().withColumnRenamed("value", "id")
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "seat.png").write_bytes(b"\x89PNG\r\n")
    orders = spark.range(3).selectExpr("id", "id * 1.5 AS total")
    orders.write.parquet(str(tmp_path / "orders"))
    there = {
        "rows": orders.select(item_id, f.to_json(f.struct("id", "total")).alias("payload")),
        "spark": spark,
        "df": spark.range(3).select(item_id, payload),
        "events": ticks.select(item_id, payload),
        "connection": connection,
        **{name: getattr(f, name) for name in ("window", "count", "percentile_approx")},
    }
    try:
        exec(at_home(block.text, connection, tmp_path), there)
    finally:
        for query in spark.streams.active:
            query.stop()
