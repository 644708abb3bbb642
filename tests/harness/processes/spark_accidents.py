"""The Spark format with accidents in it: something else happens around the actions of a task or the driver.

Classes and functions of this module are sent to Spark's workers by value, because these cannot import
it.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter

from pubqueue_spark.source import PubqueueDataSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Step = Callable[[Any], Any]
    Around = Callable[[Step, Any], Any]

PAUSE: Final = 0.01
"""Seconds between two looks."""


def first(flag: Path) -> bool:
    """Return whether this is the first call about the flag, in whatever process."""
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def waiting_for(flag: Path) -> Around:
    """Return what waits for the flag before it goes on."""

    def wait(go: Step, given: Any) -> Any:
        while not flag.exists():
            time.sleep(PAUSE)
        return go(given)

    return wait


def _as_it_is(go: Step, given: Any) -> Any:
    return go(given)


class _Batch(DataSourceWriter):
    def __init__(self, real: Any, write: Around, commit: Around) -> None:
        self._real, self._write, self._commit = real, write, commit

    def write(self, iterator: Any) -> Any:
        return self._write(self._real.write, iterator)

    def commit(self, messages: Any) -> None:
        self._commit(self._real.commit, messages)

    def abort(self, messages: Any) -> None:
        self._real.abort(messages)


class _Stream(DataSourceStreamWriter):
    def __init__(self, real: Any, write: Around, commit: Around) -> None:
        self._real, self._write, self._commit = real, write, commit

    def write(self, iterator: Any) -> Any:
        return self._write(self._real.write, iterator)

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's
        self._commit(lambda given: self._real.commit(given, batchId), messages)

    def abort(self, messages: Any, batchId: int) -> None:  # noqa: N803
        self._real.abort(messages, batchId)


def source(
    name: str, *, write: Around = _as_it_is, commit: Around = _as_it_is
) -> type[PubqueueDataSource]:
    """Return the format under another name; `write` and `commit` get the function to call, and its arguments."""

    class Accident(PubqueueDataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def writer(self, schema: Any, overwrite: Any) -> Any:
            return _Batch(super().writer(schema, overwrite), write, commit)

        def streamWriter(self, schema: Any, overwrite: Any) -> Any:  # noqa: N802
            return _Stream(super().streamWriter(schema, overwrite), write, commit)

    return Accident
