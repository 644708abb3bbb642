"""The data source that Spark finds under the name "pubqueue"."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pubqueue_spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceWriter
    from pyspark.sql.types import StructType


class PubqueueDataSource(DataSource):
    """Write the rows of a DataFrame as items of a work queue, in batch mode.

    >>> (
    ...     df.select("item_id", "payload")
    ...     .write.format("pubqueue").mode("append")
    ...     .options(service="queue.example.org", node="jobs", jid="etl@example.org")
    ...     .option("passwordFile", "/run/secrets/etl")
    ...     .save()
    ... )  # doctest: +SKIP

    The column `payload` holds one XML element a row; `item_id`, `node`, `priority`, `delay` and
    `ttl` may stand beside it. When `save()` returns, every row was confirmed by the service.

    ===================  ============  =============================================================
    option               default       meaning
    ===================  ============  =============================================================
    ``service``          required      the pubqueue service, such as queue.example.org
    ``node``                           the queue; a column `node` overrides it row by row
    ``jid``              required      the account that publishes
    ``password``         one of these  its password (it travels with the tasks)
    ``passwordFile``                   the file that holds it, on the driver and on every executor
    ``passwordEnv``                    the environment variable that holds it, there too
    ``host``             by DNS        the XMPP server
    ``port``             5222          its client port
    ``tls``              required      or direct, or off (loopback hosts only)
    ``tlsCaFile``        the system's  certificate authorities to trust
    ``maxInFlight``      256           publishes sent and not yet answered, for each task
    ``progressTimeout``  30            seconds without any answer: the stream counts as lost
    ``retries``          5             for publishes asked to wait, and for lost streams
    ``retryBackoff``     0.5-30        seconds: shortest and longest pause before that
    ``extraColumns``     error         or ignore
    ``jobId``            random        start of generated item ids
    ===================  ============  =============================================================
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "pubqueue"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001  Spark's
        """Check options, columns and the service, each once and on the driver."""
        # Looking the format up imports this module, in every session: it costs as little as it can.
        from pubqueue_spark import check, options  # noqa: PLC0415
        from pubqueue_spark.schema import columns  # noqa: PLC0415
        from pubqueue_spark.writer import PubqueueWriter  # noqa: PLC0415

        settings = options.settings(self.options)
        if overwrite:
            raise OptionError(
                "mode 'overwrite' would have to throw away work that waits in the queue, and is not"
                " offered; use mode('append')."
            )
        found = columns(schema, node=settings.node, ignore_extra=settings.ignore_extra_columns)
        check.check(settings)
        return PubqueueWriter(settings, found, settings.job_id or uuid.uuid4().hex)
