"""The options of a write: one table, and the frozen settings that it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

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
    text,
    way_in,
    within,
)
from pubqueue_spark.errors import OptionError
from pubqueue_xeps.wire.payloads.content_type import form_of

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_IN_FLIGHT: Final = 4096
MAX_ITEMS: Final = 1000
MAX_RATE: Final = 1e9

Visibility = Literal["commit", "immediate"]
OnReplay = Literal["skip", "fail"]
OnError = Literal["fail", "skip", "deadletter"]
PayloadFormat = Literal["auto", "xml", "json", "text"]


@dataclass(frozen=True, slots=True)
class Settings(Connection):
    """The options of one write, checked. Pickled into every task."""

    node: str | None
    visibility: Visibility
    txn_app: str | None
    txn_version: int | None
    on_replay: OnReplay
    payload_format: PayloadFormat
    content_type: str | None
    on_error: OnError
    dead_letter_node: str | None
    max_errors: int
    max_in_flight: int
    items_per_request: int
    max_rate: float | None
    ignore_extra_columns: bool


def _window(value: str) -> int:
    return within(int(value), 1, MAX_IN_FLIGHT)


def _items(value: str) -> int:
    return within(int(value), 1, MAX_ITEMS)


def _content_type(value: str) -> str:
    form_of(text(value))  # it has only characters that can be sent
    return value


def _version(value: str) -> int:
    return within(int(value), 0, HIGHEST)


def _errors(value: str) -> int:
    return within(int(value), 0, HIGHEST)


def _rate(value: str) -> float:
    number = float(value)
    if not 0 < number <= MAX_RATE:
        raise ValueError(value)
    return number


# fmt: off
OPTIONS: Final = (
    SERVICE,
    SERVICES,
    Option("node", text, "text", None, "the queue; a column `node` overrides it row by row"),
    *ACCOUNT_OPTIONS,
    Option("visibility", one_of("commit", "immediate"), "commit or immediate", "commit",
           "whether items appear all together when the driver commits, or each when it is confirmed"),
    Option("txnAppId", text, "text", None,
           "the name of the writing application; with txnVersion, a batch that was committed before is not written again"),
    Option("txnVersion", _version, "whole number, increasing from batch to batch", None,
           "the number of this batch of txnAppId; a stream has its own"),
    Option("onReplay", one_of("skip", "fail"), "skip or fail", "skip",
           "what to do with a batch that was committed before"),
    Option("payloadFormat", one_of("auto", "xml", "json", "text"), "auto, xml, json or text", "auto",
           "the format of the column payload"),
    Option("contentType", _content_type, "content type such as image/png", None,
           "the type of payloads that are sent as they are; a column `content_type` overrides it row by row"),
    Option("onError", one_of("fail", "skip", "deadletter"), "fail, skip or deadletter", "fail",
           "what to do with a row that cannot become an item"),
    Option("deadLetterNode", text, "text", None, "the node that gets such rows, with onError=deadletter"),
    Option("maxErrors", _errors, "whole number", "0",
           "the most such rows in a task before it fails; 0 is no limit"),
    Option("maxInFlight", _window, f"whole number from 1 to {MAX_IN_FLIGHT}", "256",
           "publishes in flight, for each task"),
    Option("maxRatePerTask", _rate, "items per second", None, "how fast a task may publish"),
    Option("itemsPerRequest", _items, f"whole number from 1 to {MAX_ITEMS}", "25",
           "the most items in a publish, with visibility=commit; otherwise 1 (XEP-0060 7.1)"),
    *TIMEOUTS,
    Option("extraColumns", one_of("error", "ignore"), "error or ignore", "error",
           "what to do with unknown columns"),
    Option("allowPurge", one_of("false"), "false (discarding waiting work is not supported)", "false",
           "whether mode overwrite may discard waiting work"),
)
# fmt: on


def settings(options: Mapping[str, str]) -> Settings:
    """Check the options of a write; raise OptionError with one sentence for the first that is wrong."""
    given = chosen(OPTIONS, options)
    value = parsed(OPTIONS, given)
    connection = way_in(value, given)
    _check_dead_letters(value)
    if value["contentType"] is not None and value["payloadFormat"] != "auto":
        raise OptionError("option payloadFormat has no effect with contentType: give one of them.")
    return Settings(
        node=value["node"],
        **connection,
        visibility=value["visibility"],
        txn_app=value["txnAppId"],
        txn_version=value["txnVersion"],
        on_replay=value["onReplay"],
        payload_format=value["payloadFormat"],
        content_type=value["contentType"],
        on_error=value["onError"],
        dead_letter_node=value["deadLetterNode"],
        max_errors=value["maxErrors"],
        max_in_flight=value["maxInFlight"],
        items_per_request=value["itemsPerRequest"],
        max_rate=value["maxRatePerTask"],
        ignore_extra_columns=value["extraColumns"] == "ignore",
    )


def _check_dead_letters(value: Mapping[str, Any]) -> None:
    wanted, node = value["onError"] == "deadletter", value["deadLetterNode"]
    if wanted and node is None:
        raise OptionError("option deadLetterNode is missing: onError=deadletter needs a node.")
    if node is not None and not wanted:
        raise OptionError("option deadLetterNode has no effect without onError=deadletter.")
