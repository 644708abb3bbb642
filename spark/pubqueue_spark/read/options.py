"""The options of a read: their table, which of them apply to which table of the service, and the frozen settings.

An option that would have no effect is refused, because its user expects one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from pubqueue_spark.client.option import (
    ACCOUNT_OPTIONS,
    HIGHEST,
    SERVICE,
    SERVICES,
    TIMEOUTS,
    Connection,
    Option,
    chosen,
    one_of,
    parsed,
    way_in,
    within,
)
from pubqueue_spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue_xeps.wire.services import Services

MAX_PARTITIONS: Final = 1000

ReadTable = Literal["items", "deadletters", "events", "transactions", "nodes"]
Bound = int | Literal["earliest", "latest"]
Bounds = Bound | dict[str, int]
"""A bound for all services, or the number of each."""

TABLES: Final[tuple[ReadTable, ...]] = ("items", "deadletters", "events", "transactions", "nodes")
STREAMED: Final[tuple[ReadTable, ...]] = ("events", "deadletters")

# fmt: off
USED_BY: Final[dict[str, tuple[ReadTable, ...]]] = {
    "node":                ("items", "deadletters", "events", "nodes"),
    "startingOffsets":     ("items", "deadletters", "events"),
    "startingTimestamp":   ("deadletters", "events"),
    "endingOffsets":       ("items", "deadletters", "events"),
    "maxEventsPerTrigger": ("deadletters", "events"),
    "numPartitions":       ("items", "deadletters", "events"),
    "includePayload":      ("items", "deadletters"),
    "includeData":         ("items", "deadletters"),
    "failOnDataLoss":      ("events",),
}
"""Options that apply only to some tables."""
# fmt: on


@dataclass(frozen=True, slots=True)
class ReadSettings(Connection):
    """The options of one read, checked. Pickled into every task."""

    table: ReadTable
    nodes: tuple[str, ...]
    """Names and patterns; empty for all nodes that the account may read."""
    start: Bounds | datetime
    end: Bounds
    most: int | None
    """The maximum numbers in a micro-batch."""
    partitions: int | None
    payload: bool
    data: bool
    fail_on_loss: bool
    has_service: bool
    """Whether the rows have the column `service`: the option `services` is given."""

    def of_each(self) -> list[ReadSettings]:
        """Return the settings for each service: its own bounds, and its share of what is limited."""
        count = len(self.services.names)
        return [
            replace(
                one,
                start=_of(one.service, self.start),
                end=_of(one.service, self.end),
                most=None if self.most is None else max(1, self.most // count),
                partitions=None if self.partitions is None else max(1, self.partitions // count),
            )
            for one in self.each()
        ]

    @property
    def begins(self) -> Bound | datetime:
        """Where a read of one service starts."""
        assert not isinstance(self.start, dict), "these are the settings of one service"
        return self.start

    @property
    def ends(self) -> Bound:
        """Where a read of one service ends."""
        assert not isinstance(self.end, dict), "these are the settings of one service"
        return self.end

    @property
    def streamed(self) -> bool:
        """Whether the numbers of this table increase, so that a stream can follow them."""
        return self.table in STREAMED


def _nodes(value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(","))
    if not all(names):
        raise ValueError(value)
    return names


B = TypeVar("B")


def _of(service: str, bound: B | dict[str, int]) -> B | int:
    return bound[service] if isinstance(bound, dict) else bound


def _bound(value: str) -> Bounds:
    word = value.strip().lower()
    if word in {"earliest", "latest"}:
        return cast("Bound", word)
    offset = json.loads(value)
    if not isinstance(offset, dict) or not all(type(it) is int for it in offset.values()):
        raise ValueError(value)
    offset = {name: within(it, 0, HIGHEST) for name, it in offset.items()}
    return offset["seq"] if set(offset) == {"seq"} else offset


def _timestamp(value: str) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError(value)
    return moment


def _positive(value: str) -> int:
    return within(int(value), 1, HIGHEST)


def _partitions(value: str) -> int:
    return within(int(value), 1, MAX_PARTITIONS)


def _truth(value: str) -> bool:
    return one_of("true", "false")(value) == "true"


OFFSET: Final = 'earliest, latest, or {"seq":N}; with services {"queue-a.example.org":N, ...}'
# fmt: off
OPTIONS: Final = (
    SERVICE,
    SERVICES,
    Option("table", one_of(*TABLES), ", ".join(TABLES[:-1]) + f" or {TABLES[-1]}", "items", "the table to read"),
    Option("node", _nodes, "names or patterns (* ? [..]), separated by commas", None,
           "the nodes to read; by default, all that the account may read"),
    Option("startingOffsets", _bound, OFFSET, None,
           "the number after which to start; a stream with a checkpoint continues from there"),
    Option("startingTimestamp", _timestamp, "time with its zone such as 2026-11-21T03:00:00Z", None,
           "or: the time from which to start"),
    Option("endingOffsets", _bound, OFFSET, None, "the number up to which a batch reads (inclusive)"),
    Option("maxEventsPerTrigger", _positive, "whole number", None,
           "the maximum numbers in a micro-batch; events of other nodes count too"),
    Option("numPartitions", _partitions, f"whole number from 1 to {MAX_PARTITIONS}", None,
           "how many ranges of numbers a read is split into"),
    Option("includePayload", _truth, "true or false", "true", "whether payloads are read"),
    Option("includeData", _truth, "true or false", "false",
           "whether to add columns `data`, `type` and `json`: the content of payloads as bytes, its content type, and JSON as text"),
    Option("failOnDataLoss", _truth, "true or false", "true",
           "whether events that the service has already deleted fail the read; false only warns"),
    *ACCOUNT_OPTIONS,
    *TIMEOUTS,
)
# fmt: on


def table(options: Mapping[str, str]) -> ReadTable:
    """Return the chosen table; raise OptionError if there is no such table."""
    return cast("ReadTable", _alone("table", options))


def data(options: Mapping[str, str]) -> bool:
    """Return whether columns `data`, `type` and `json` are wanted; raise OptionError for an invalid value."""
    return cast("bool", _alone("includeData", options))


def has_service(options: Mapping[str, str]) -> bool:
    """Return whether rows have the column `service`; raise OptionError for an invalid list."""
    return _alone("services", options) is not None


def _alone(name: str, options: Mapping[str, str]) -> object:
    """Return one option, without checking the others."""
    given = {it: value for it, value in options.items() if it.lower() == name.lower()}
    only = [option for option in OPTIONS if option.name == name]
    return parsed(only, chosen(only, given))[name]


def settings(options: Mapping[str, str], *, stream: bool) -> ReadSettings:
    """Check the options of a read; raise OptionError with one sentence for the first that is wrong."""
    given = chosen(OPTIONS, options)
    value = parsed(OPTIONS, given)
    connection = way_in(value, given)
    _check_use(value["table"], given)
    _check_bounds(value, given, value["services"])
    _check_stream(value) if stream else _check_batch(value)
    if value["includeData"] and not value["includePayload"]:
        raise OptionError(
            "option includeData: data is read from payloads; leave includePayload out."
        )
    first = "latest" if stream else "earliest"
    return ReadSettings(
        **connection,
        table=value["table"],
        nodes=value["node"] or (),
        start=_first_of(value["startingTimestamp"], value["startingOffsets"], first),
        end=_first_of(value["endingOffsets"], "latest"),
        most=value["maxEventsPerTrigger"],
        partitions=value["numPartitions"],
        payload=value["includePayload"],
        data=value["includeData"],
        fail_on_loss=value["failOnDataLoss"],
        has_service=value["services"] is not None,
    )


def _first_of(*values: Any) -> Any:  # noqa: ANN401  whatever the option is
    """Return the first that is not None."""
    return next(value for value in values if value is not None)


def patterned(name: str) -> bool:
    """Return whether this is a pattern rather than a name."""
    return re.search(r"[*?\[]", name) is not None


def _check_use(of: ReadTable, given: Mapping[str, str]) -> None:
    for name, tables in USED_BY.items():
        if name in given and of not in tables:
            raise OptionError(
                f"option {name} has no effect with table={of}; it goes with {', '.join(tables)}."
            )
    if {"startingOffsets", "startingTimestamp"} <= set(given):
        raise OptionError("options startingOffsets, startingTimestamp: give one of them at most.")


def _check_bounds(
    value: Mapping[str, Any], given: Mapping[str, str], services: Services | None
) -> None:
    """Check that a bound has the number of the only service, or of each of several."""
    for name in ("startingOffsets", "endingOffsets"):
        bound = value[name]
        wanted = {"seq"} if services is None else set(services.names)
        found = (
            {"seq"} if isinstance(bound, int) else set(bound) if isinstance(bound, dict) else wanted
        )
        if found != wanted:
            takes = (
                f'{{"seq":N}} ({name} of one service)'
                if services is None
                else f"the number of each service: {', '.join(services.names)}"
            )
            raise OptionError(f"option {name}: {given[name]!r} cannot be used; it takes: {takes}.")


def _check_stream(value: Mapping[str, Any]) -> None:
    if value["table"] not in STREAMED:
        raise OptionError(
            f"option table: {value['table']} changes in place and cannot be followed; a stream reads"
            f" {' or '.join(STREAMED)}, and spark.read returns its current rows."
        )
    if value["endingOffsets"] is not None:
        raise OptionError(
            "option endingOffsets: a stream has no end; trigger(availableNow=True) reads up to the current one."
        )


def _check_batch(value: Mapping[str, Any]) -> None:
    if value["maxEventsPerTrigger"] is not None:
        raise OptionError("option maxEventsPerTrigger is for streams; a batch has endingOffsets.")
    if value["startingOffsets"] == "latest":
        raise OptionError("option startingOffsets: a batch that starts at the latest is empty.")
    if value["endingOffsets"] == "earliest":
        raise OptionError("option endingOffsets: a batch that ends at the earliest is empty.")
