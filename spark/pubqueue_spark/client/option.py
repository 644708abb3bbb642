"""Options: how they are declared and parsed, and those of every read and write that define the connection.

Names are case-insensitive, as in Spark. An unknown name is refused with the nearest known one, so that a misspelt
option is never ignored.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, cast

from pubqueue_spark.client.secret import PASSWORDS, Secret
from pubqueue_spark.errors import OptionError
from pubqueue_xeps.client.connection import services_of
from pubqueue_xeps.wire.services import Services

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pubqueue_xeps.client.xmpp_client import Tls

PORTS: Final = 65535
HIGHEST: Final = 2**63 - 1
ACCOUNT: Final = re.compile(r"[^@/\s]+@[^@/\s]+")


class Backoff(NamedTuple):
    """The pause before a retry in seconds, doubled from `least` up to `most`."""

    least: float
    most: float

    def after(self, failures: int) -> float:
        """Return the pause after this many failures in a row, before jitter."""
        return float(min(self.most, self.least * 2 ** min(failures - 1, 30)))


@dataclass(frozen=True, slots=True)
class Connection:
    """How to connect to a service or several, and how long to try. Pickled into every task.

    With several, `service` names all of them, for messages; requests go to one, by `at`.
    """

    service: str
    services: Services
    jid: str
    secret: Secret
    host: str | None
    port: int
    tls: Tls
    tls_ca_file: str | None
    progress_timeout: float
    retries: int
    backoff: Backoff

    def at(self, service: str) -> Self:
        """Return the same for one of several services."""
        return replace(self, service=service, services=Services((service,)))

    def each(self) -> list[Self]:
        """Return the same for each service, in the order of the list."""
        return [self.at(service) for service in self.services.names]


@dataclass(frozen=True, slots=True)
class Option:
    """One line of the table. `default` is the text for a missing value; None for no default."""

    name: str
    parse: Callable[[str], object]
    kind: str
    default: str | None
    meaning: str
    required: bool = False


def text(value: str) -> str:
    """Accept any text that is not blank."""
    if not value.strip():
        raise ValueError(value)
    return value


def _services(value: str) -> Services:
    return services_of([value])


def _account(value: str) -> str:
    if not ACCOUNT.fullmatch(value):
        raise ValueError(value)
    return value


def _port(value: str) -> int:
    return within(int(value), 1, PORTS)


def _count(value: str) -> int:
    return within(int(value), 0, 1000)


def within(number: int, least: int, most: int) -> int:
    """Accept a number between two others, both included."""
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


def one_of(*words: str) -> Callable[[str], str]:
    """Accept one of these words, in any case."""

    def parse(value: str) -> str:
        if value.lower() not in words:
            raise ValueError(value)
        return value.lower()

    return parse


# fmt: off
SERVICE: Final = Option("service", text, "JID", None, "the pubqueue service, such as queue.example.org")
SERVICES: Final = Option("services", _services, "JIDs, separated by commas", None,
                         "or: several services; queue-b.example.org=draining gets no new items")
ACCOUNT_OPTIONS: Final = (
    Option("jid", _account, "account JID such as etl@example.org", None,
           "the account of the pipeline; one account for each keeps the event log readable",
           required=True),
    Option("password", text, "text", None, "its password (it travels with the tasks)"),
    Option("passwordFile", text, "path", None,
           "or: the file that holds it, on the driver and on every executor"),
    Option("passwordEnv", text, "name", None,
           "or: the environment variable that holds it, there too"),
    Option("host", text, "host name or address", None,
           "the XMPP server; by default, the one in DNS for the account's domain"),
    Option("port", _port, f"whole number from 1 to {PORTS}", "5222", "its client port"),
    Option("tls", one_of("required", "direct", "off"), "required, direct or off", "required",
           "STARTTLS, TLS from the first byte, or none (loopback hosts only)"),
    Option("tlsCaFile", text, "path", None,
           "certificate authorities to trust instead of the system's"),
)
TIMEOUTS: Final = (
    Option("progressTimeout", _seconds, "seconds", "30",
           "seconds without any answer after which the stream counts as lost"),
    Option("retries", _count, "whole number from 0 to 1000", "5",
           "how often a postponed request, or a lost stream, is tried again"),
    Option("retryBackoff", _backoff, "seconds-seconds", "0.5-30",
           "shortest and longest pause before that, doubling, with jitter"),
)
# fmt: on


def chosen(table: Sequence[Option], options: Mapping[str, str]) -> dict[str, str]:
    """Return the given options under the names of the table; raise OptionError for an unknown one."""
    by_name = {option.name.lower(): option for option in table}
    return {_known(name, by_name).name: value for name, value in options.items()}


def parsed(table: Sequence[Option], given: Mapping[str, str]) -> dict[str, Any]:
    """Return the value of each option of the table; raise OptionError for the first invalid one."""
    return {option.name: _value(option, given.get(option.name)) for option in table}


def way_in(value: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of Connection."""
    services = _destinations(value["service"], value["services"])
    return {
        "service": str(services),
        "services": services,
        "jid": value["jid"],
        "secret": _secret(given),
        "host": value["host"],
        "port": value["port"],
        "tls": value["tls"],
        "tls_ca_file": value["tlsCaFile"],
        "progress_timeout": value["progressTimeout"],
        "retries": value["retries"],
        "backoff": value["retryBackoff"],
    }


def _destinations(service: str | None, services: Services | None) -> Services:
    if service is not None and services is not None:
        raise OptionError("options service, services: give one of them.")
    if services is not None:
        return services
    if service is None:
        raise OptionError(f"option {SERVICE.name} is missing: {SERVICE.meaning}.")
    return Services((service,))


def _known(name: str, by_name: Mapping[str, Option]) -> Option:
    option = by_name.get(name.lower())
    if option is not None:
        return option
    near = difflib.get_close_matches(name.lower(), by_name, n=1, cutoff=0.5)
    if near:
        raise OptionError(f"option {name!r} is unknown; did you mean {by_name[near[0]].name!r}?")
    raise OptionError(
        f"option {name!r} is unknown; the options are {', '.join(o.name for o in by_name.values())}."
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
