"""The options of a write: one table, and the frozen settings that it makes.

Names are case-insensitive, as Spark has it. An unknown name is refused with the nearest known one,
so that a misspelt option never passes for a default.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

from pubqueue_spark.errors import OptionError
from pubqueue_spark.secret import PASSWORDS, Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue_xeps.client import Tls

PORTS: Final = 65535
MOST_IN_FLIGHT: Final = 4096
MOST_RATE: Final = 1e9
HIGHEST: Final = 2**63 - 1
ACCOUNT: Final = re.compile(r"[^@/\s]+@[^@/\s]+")


Visibility = Literal["commit", "immediate"]
OnReplay = Literal["skip", "fail"]
OnError = Literal["fail", "skip", "deadletter"]
PayloadFormat = Literal["auto", "xml", "json", "text"]


class Backoff(NamedTuple):
    """How long to wait before trying again: seconds, doubled from `least` up to `most`."""

    least: float
    most: float

    def after(self, failures: int) -> float:
        """Return the pause after so many failures in a row, before jitter."""
        return float(min(self.most, self.least * 2 ** min(failures - 1, 30)))


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of one write, checked. Pickled into every task."""

    service: str
    node: str | None
    jid: str
    secret: Secret
    host: str | None
    port: int
    tls: Tls
    tls_ca_file: str | None
    visibility: Visibility
    txn_app: str | None
    txn_version: int | None
    on_replay: OnReplay
    payload_format: PayloadFormat
    on_error: OnError
    dead_letter_node: str | None
    max_errors: int
    max_in_flight: int
    max_rate: float | None
    progress_timeout: float
    retries: int
    backoff: Backoff
    ignore_extra_columns: bool


@dataclass(frozen=True, slots=True)
class Option:
    """One line of the table. `default` is the text that stands for a missing value; None is none."""

    name: str
    parse: Callable[[str], object]
    kind: str
    default: str | None
    meaning: str
    required: bool = False


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError(value)
    return value


def _account(value: str) -> str:
    if not ACCOUNT.fullmatch(value):
        raise ValueError(value)
    return value


def _port(value: str) -> int:
    return _within(int(value), 1, PORTS)


def _window(value: str) -> int:
    return _within(int(value), 1, MOST_IN_FLIGHT)


def _count(value: str) -> int:
    return _within(int(value), 0, 1000)


def _version(value: str) -> int:
    return _within(int(value), 0, HIGHEST)


def _errors(value: str) -> int:
    return _within(int(value), 0, HIGHEST)


def _rate(value: str) -> float:
    number = float(value)
    if not 0 < number <= MOST_RATE:
        raise ValueError(value)
    return number


def _within(number: int, least: int, most: int) -> int:
    if not least <= number <= most:
        raise ValueError(number)
    return number


def _seconds(value: str) -> float:
    number = float(value)
    if not 0 < number <= 86400:  # noqa: PLR2004  a day; refuses infinity and not-a-number too
        raise ValueError(value)
    return number


def _backoff(value: str) -> Backoff:
    least, _, most = value.partition("-")
    pause = Backoff(_seconds(least), _seconds(most))
    if pause.least > pause.most:
        raise ValueError(value)
    return pause


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value.lower() not in words:
            raise ValueError(value)
        return value.lower()

    return parse


# fmt: off
OPTIONS: Final = (
    Option("service", _text, "JID", None, "the pubqueue service, such as queue.example.org",
           required=True),
    Option("node", _text, "text", None, "the queue; a column `node` overrides it row by row"),
    Option("jid", _account, "account JID such as etl@example.org", None,
           "the account that publishes; one for each pipeline keeps the audit readable",
           required=True),
    Option("password", _text, "text", None, "its password (it travels with the tasks)"),
    Option("passwordFile", _text, "path", None,
           "or: the file that holds it, on the driver and on every executor"),
    Option("passwordEnv", _text, "name", None,
           "or: the environment variable that holds it, there too"),
    Option("host", _text, "host name or address", None,
           "the XMPP server; without it, what DNS says for the account's domain"),
    Option("port", _port, f"whole number from 1 to {PORTS}", "5222", "its client port"),
    Option("tls", _one_of("required", "direct", "off"), "required, direct or off", "required",
           "STARTTLS, TLS from the first byte, or none (loopback hosts only)"),
    Option("tlsCaFile", _text, "path", None,
           "certificate authorities to trust instead of the system's"),
    Option("visibility", _one_of("commit", "immediate"), "commit or immediate", "commit",
           "whether items appear all together when the driver commits, or each when it is confirmed"),
    Option("txnAppId", _text, "text", None,
           "who writes; with txnVersion, a batch that was committed before is not written again"),
    Option("txnVersion", _version, "whole number, rising from batch to batch", None,
           "which batch of txnAppId this is; a stream has its own"),
    Option("onReplay", _one_of("skip", "fail"), "skip or fail", "skip",
           "what to do with a batch that was committed before"),
    Option("payloadFormat", _one_of("auto", "xml", "json", "text"), "auto, xml, json or text", "auto",
           "what the column payload holds"),
    Option("onError", _one_of("fail", "skip", "deadletter"), "fail, skip or deadletter", "fail",
           "what to do with a row that cannot become an item"),
    Option("deadLetterNode", _text, "text", None, "the node that gets such rows, with onError=deadletter"),
    Option("maxErrors", _errors, "whole number", "0",
           "such rows in a task beyond which it fails all the same; 0 is no limit"),
    Option("maxInFlight", _window, f"whole number from 1 to {MOST_IN_FLIGHT}", "256",
           "publishes sent and not yet answered, for each task"),
    Option("maxRatePerTask", _rate, "items per second", None, "how fast a task may publish"),
    Option("itemsPerRequest", _one_of("1"), "1 (XEP-0060 7.1: a publish has one item)", "1",
           "items in a request"),
    Option("progressTimeout", _seconds, "seconds", "30",
           "no answer at all for so long: the stream counts as lost"),
    Option("retries", _count, "whole number from 0 to 1000", "5",
           "how often a publish that was asked to wait, or a lost stream, is tried again"),
    Option("retryBackoff", _backoff, "seconds-seconds", "0.5-30",
           "shortest and longest pause before that, doubling, with jitter"),
    Option("extraColumns", _one_of("error", "ignore"), "error or ignore", "error",
           "what to do with columns that mean nothing here"),
    Option("allowPurge", _one_of("false"), "false (throwing waiting work away is not offered)", "false",
           "whether mode overwrite may throw away what waits"),
)
# fmt: on
BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}


def settings(options: Mapping[str, str]) -> Settings:
    """Check the options of a write; raises OptionError with one sentence for the first that is wrong."""
    given = {_known(name).name: value for name, value in options.items()}
    value = {option.name: _value(option, given.get(option.name)) for option in OPTIONS}
    secret = _secret(given)
    _check_dead_letters(value)
    return Settings(
        service=cast("str", value["service"]),
        node=cast("str | None", value["node"]),
        jid=cast("str", value["jid"]),
        secret=secret,
        host=cast("str | None", value["host"]),
        port=cast("int", value["port"]),
        tls=cast("Tls", value["tls"]),
        tls_ca_file=cast("str | None", value["tlsCaFile"]),
        visibility=cast("Visibility", value["visibility"]),
        txn_app=cast("str | None", value["txnAppId"]),
        txn_version=cast("int | None", value["txnVersion"]),
        on_replay=cast("OnReplay", value["onReplay"]),
        payload_format=cast("PayloadFormat", value["payloadFormat"]),
        on_error=cast("OnError", value["onError"]),
        dead_letter_node=cast("str | None", value["deadLetterNode"]),
        max_errors=cast("int", value["maxErrors"]),
        max_in_flight=cast("int", value["maxInFlight"]),
        max_rate=cast("float | None", value["maxRatePerTask"]),
        progress_timeout=cast("float", value["progressTimeout"]),
        retries=cast("int", value["retries"]),
        backoff=cast("Backoff", value["retryBackoff"]),
        ignore_extra_columns=value["extraColumns"] == "ignore",
    )


def _known(name: str) -> Option:
    option = BY_NAME.get(name.lower())
    if option is not None:
        return option
    near = difflib.get_close_matches(name.lower(), BY_NAME, n=1, cutoff=0.5)
    if near:
        raise OptionError(f"option {name!r} is unknown; did you mean {BY_NAME[near[0]].name!r}?")
    raise OptionError(
        f"option {name!r} is unknown; the options are {', '.join(o.name for o in OPTIONS)}."
    )


def _value(option: Option, given: str | None) -> object:
    text = option.default if given is None else given
    if text is None:
        if option.required:
            raise OptionError(f"option {option.name} is missing: {option.meaning}.")
        return None
    try:
        return option.parse(text)
    except ValueError:
        shown = "an empty value" if option.name == "password" else repr(text)
        raise OptionError(
            f"option {option.name}: {shown} cannot be used; it takes: {option.kind}"
            f" ({option.meaning})."
        ) from None


def _secret(given: Mapping[str, str]) -> Secret:
    named = [name for name in PASSWORDS if name in given]
    if len(named) != 1:
        found = " and ".join(named) or "none"
        raise OptionError(
            f"options password, passwordFile, passwordEnv: give exactly one of them (found {found})."
        )
    (name,) = named
    return Secret(cast('Literal["password", "passwordFile", "passwordEnv"]', name), given[name])


def _check_dead_letters(value: Mapping[str, object]) -> None:
    wanted, node = value["onError"] == "deadletter", value["deadLetterNode"]
    if wanted and node is None:
        raise OptionError("option deadLetterNode is missing: onError=deadletter needs a node.")
    if node is not None and not wanted:
        raise OptionError("option deadLetterNode is of no use without onError=deadletter.")
