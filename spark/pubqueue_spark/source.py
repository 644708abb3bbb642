"""The data source that Spark finds under the name "pubqueue"."""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from pyspark.sql.datasource import DataSource
except ModuleNotFoundError as problem:
    sentence = f"the Spark format needs pip install 'pubqueue[spark]' (no module {problem.name})"
    raise ImportError(sentence) from None

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class PubqueueDataSource(DataSource):
    """Writes the rows of a DataFrame or a stream as items of a work queue, and reads queues.

    >>> (
    ...     df.select("item_id", "payload")
    ...     .write.format("pubqueue").mode("append")
    ...     .options(service="queue.example.org", node="jobs", jid="etl@example.org")
    ...     .option("passwordFile", "/run/secrets/etl")
    ...     .save()
    ... )  # doctest: +SKIP

    The column `payload` holds the work: in each row one XML element, JSON, text, or a struct. The columns `item_id`,
    `node`, `priority`, `delay`, `not_before`, `ttl`, `headers` and `content_type` are optional. When `save()` returns,
    every row is in its queue exactly once.

    ===================  ============  =============================================================
    option               default       meaning
    ===================  ============  =============================================================
    ``service``          one of these  the pubqueue service, such as queue.example.org
    ``services``                       several, separated by commas, each with its share of the rows
    ``node``                           the queue; a column `node` overrides it row by row
    ``jid``              required      the account of the pipeline
    ``password``         one of these  its password (it travels with the tasks)
    ``passwordFile``                   the file that holds it, on the driver and on every executor
    ``passwordEnv``                    the environment variable that holds it, there too
    ``host``             by DNS        the XMPP server
    ``port``             5222          its client port
    ``tls``              required      or direct, or off (loopback hosts only)
    ``tlsCaFile``        the system's  certificate authorities to trust
    ``visibility``       commit        or immediate: items appear one by one, not all at the commit
    ``txnAppId``         random        with txnVersion: a batch committed before is not written again
    ``txnVersion``                     an increasing number; a stream has its own
    ``onReplay``         skip          or fail, for a batch that was committed before
    ``payloadFormat``    auto          or xml, json, text
    ``contentType``                    or: payloads are sent as they are, with this type
    ``onError``          fail          or skip, deadletter, for a row that cannot become an item
    ``deadLetterNode``                 the node that gets such rows
    ``maxErrors``        0             the most such rows in a task before it fails; 0 is no limit
    ``maxInFlight``      256           publishes in flight, for each task
    ``maxRatePerTask``                 items per second
    ``itemsPerRequest``  25            the most items in a publish, with visibility=commit
    ``progressTimeout``  30            seconds without any answer until the stream counts as lost
    ``retries``          5             for postponed publishes, and for lost streams
    ``retryBackoff``     0.5-30        seconds: shortest and longest pause before that
    ``extraColumns``     error         or ignore
    ``allowPurge``       false         nothing else
    ===================  ============  =============================================================

    Reading never consumes work: `spark.read` returns the current rows, and `spark.readStream` follows `events` and
    `deadletters`.

    >>> done = (
    ...     spark.read.format("pubqueue").option("table", "events")
    ...     .options(service="queue.example.org", jid="etl@example.org")
    ...     .option("passwordFile", "/run/secrets/etl")
    ...     .load().where("event = 'completed'")
    ... )  # doctest: +SKIP

    In addition to the options for service or services, account, server, progressTimeout, retries and retryBackoff:

    =======================  ========  =============================================================
    option of a read         default   meaning
    =======================  ========  =============================================================
    ``table``                items     or deadletters, events, transactions, nodes
    ``node``                 all       names or patterns, separated by commas
    ``startingOffsets``                earliest, latest, or {"seq":N}: the number after which to start
    ``startingTimestamp``              or: the time from which to start
    ``endingOffsets``                  the number up to which a batch reads
    ``maxEventsPerTrigger``            the most numbers in a micro-batch
    ``numPartitions``                  how many ranges of numbers a read is split into
    ``includePayload``       true      whether payloads are read
    ``includeData``          false     whether to add columns `data`, `type` and `json`
    ``failOnDataLoss``       true      or false: only warn about events that are already deleted
    =======================  ========  =============================================================
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "pubqueue"

    def schema(self) -> StructType:
        """Return the columns of the table to read."""
        from pubqueue_spark.read import options, tables  # noqa: PLC0415

        table = options.table(self.options)
        data, service = options.data(self.options), options.has_service(self.options)
        return tables.schema(table, data=data, service=service)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a batch reader; check options and service, once and on the driver."""
        from pubqueue_spark.read import open_read  # noqa: PLC0415

        return open_read.batch(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's
        """Check the same for a stream."""
        from pubqueue_spark.read import open_read  # noqa: PLC0415

        return open_read.stream(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001  Spark's
        """Return a batch writer; check options, columns and the service, once and on the driver."""
        # Spark imports this module in every session to look up the format, so it imports as little as possible.
        from pubqueue_spark.write import open_write  # noqa: PLC0415

        return open_write.batch(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        """Check the same for a stream. Every output mode but complete is a stream of new rows."""
        from pubqueue_spark.write import open_write  # noqa: PLC0415

        return open_write.stream(self.options, schema, overwrite=overwrite)
