"""Makes a writer from options and columns; checks everything here, once and on the driver."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from pubqueue_spark.client import check
from pubqueue_spark.errors import OptionError
from pubqueue_spark.write import finish, options, placement
from pubqueue_spark.write.schema import columns
from pubqueue_spark.write.task import Job
from pubqueue_spark.write.writer import PubqueueStreamWriter, PubqueueWriter
from pubqueue_xeps.wire.requests import transactions
from pubqueue_xeps.wire.requests.transactions import Mark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from pubqueue_spark.write.options import Settings

CHECKPOINT: Final = "checkpointlocation"


def batch(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> PubqueueWriter:
    """Return the writer of a DataFrame; raise the first error that is found."""
    settings = options.settings(given)
    if overwrite:
        raise OptionError(
            "mode 'overwrite' would discard work that waits in the queue, and is not"
            " supported; use mode('append')."
        )
    if (settings.txn_app is None) != (settings.txn_version is None):
        raise OptionError(
            "options txnAppId, txnVersion: give both, or neither; the version is a number that rises"
            " with each batch of the application."
        )
    job = _job(settings, schema)
    if settings.txn_app is None or settings.txn_version is None:
        return PubqueueWriter(job, Mark(uuid.uuid4().hex, 0))
    mark = Mark(settings.txn_app, settings.txn_version)
    _check_replay(settings, mark)
    return PubqueueWriter(job, mark)


def stream(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> PubqueueStreamWriter:
    """Return the writer of a query; raise the first error that is found."""
    # Spark passes a schema of its own.
    settings = options.settings({n: it for n, it in given.items() if n.lower() != CHECKPOINT})
    if overwrite:
        raise OptionError(
            "output mode 'complete' would discard work that waits in the queue, and is not"
            " supported; use outputMode('append') or outputMode('update')."
        )
    if settings.txn_version is not None:
        raise OptionError("option txnVersion: a stream has its own, the number of the batch.")
    return PubqueueStreamWriter(_job(settings, schema))


def _job(settings: Settings, schema: StructType) -> Job:
    found = columns(schema, settings)
    features = frozenset.intersection(*(check.check(at) for at in settings.each()))
    transactional = transactions.FEATURE in features
    if not transactional and settings.visibility == "commit":
        raise OptionError(
            f"option visibility: {settings.service} keeps no transactions (feature {transactions.FEATURE}), which"
            " 'commit' needs; with visibility=immediate items appear one by one, and a task that is"
            " tried again may publish twice."
        )
    if not transactional and settings.txn_app is not None:
        raise OptionError(
            f"option txnAppId: {settings.service} keeps no transactions (feature {transactions.FEATURE}), so"
            " it could not recognize the batch."
        )
    return Job(settings, found, transactional, transactions.PROGRESS in features)


def _check_replay(settings: Settings, mark: Mark) -> None:
    """With onReplay=fail, refuse a batch that was committed before, while this is cheap."""
    if settings.on_replay == "skip":
        return
    found = [placement.last_version(at, mark.app) for at in settings.each()]
    last = min((-1 if it is None else it for it in found), default=-1)
    if mark.version <= last:
        raise OptionError(
            f"options txnAppId, txnVersion: {finish.replayed(settings, mark)} The last version is {last}."
        )
