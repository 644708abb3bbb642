"""The commands of STOMP: which side sends each, whether it has a body, and the headers that each version requires."""

from __future__ import annotations

from enum import Enum, unique
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.stomp.codec.versions import UNAGREED, V10, V11, V12

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.faces.stomp.codec.versions import Version


@unique
class Side(Enum):
    """The side that sends a command."""

    CLIENT = "client"
    SERVER = "server"


class Command(Struct, frozen=True):
    """A command of one version."""

    needs: tuple[str, ...]
    """Required headers."""
    has_body: bool
    is_escaped: bool
    """Whether its headers are written with escapes, if the version has them."""


class _Row(Struct, frozen=True):
    side: Side
    needs: tuple[tuple[str, ...] | None, ...]
    has_body: bool = False
    is_escaped: bool = True


_C, _S = Side.CLIENT, Side.SERVER
_COLUMNS: Final = (V10, V11, V12)

# fmt: off
COMMANDS: Final[Mapping[str, _Row]] = MappingProxyType({
    # None: the version does not have the command. CONNECT comes before a version is agreed upon; clients leave `host` out,
    # and `accept-version` is missing in 1.0, so that neither is needed here.
    #                     1.0                   1.1                                1.2
    "CONNECT":     _Row(_C, ((),                (),                                (),                                ), is_escaped=False),
    "STOMP":       _Row(_C, ((),                (),                                (),                                ), is_escaped=False),
    "SEND":        _Row(_C, (("destination",),  ("destination",),                  ("destination",),                  ), has_body=True),
    "SUBSCRIBE":   _Row(_C, (("destination",),  ("destination", "id"),             ("destination", "id"),             )),
    "UNSUBSCRIBE": _Row(_C, ((),                ("id",),                           ("id",),                           )), # 1.0: id or destination
    "ACK":         _Row(_C, (("message-id",),   ("message-id", "subscription"),    ("id",),                           )),
    "NACK":        _Row(_C, (None,              ("message-id", "subscription"),    ("id",),                           )),
    # an addition of ours, in all versions: a worker extends a lock
    "TOUCH":       _Row(_C, (("message-id",),   ("message-id", "subscription"),    ("id",),                           )),
    "BEGIN":       _Row(_C, (("transaction",),  ("transaction",),                  ("transaction",),                  )),
    "COMMIT":      _Row(_C, (("transaction",),  ("transaction",),                  ("transaction",),                  )),
    "ABORT":       _Row(_C, (("transaction",),  ("transaction",),                  ("transaction",),                  )),
    "DISCONNECT":  _Row(_C, ((),                (),                                (),                                )),
    "CONNECTED":   _Row(_S, ((),                ("version",),                      ("version",),                      ), is_escaped=False),
    "MESSAGE":     _Row(_S, (("destination", "message-id"), ("destination", "message-id", "subscription"), ("destination", "message-id", "subscription")), has_body=True),
    "RECEIPT":     _Row(_S, (("receipt-id",),   ("receipt-id",),                   ("receipt-id",),                   )),
    "ERROR":       _Row(_S, ((),                (),                                (),                                ), has_body=True),
})
# fmt: on
"""All commands of all versions."""

OPENERS: Final = frozenset({"CONNECT", "STOMP"})
"""The first frames of a client. In 1.2 a server handles both in the same way."""


def commands_of(side: Side, version: Version) -> dict[str, Command]:
    """Return the commands that a side sends in a version, by name. Before a version is agreed upon they are those of 1.2."""
    column = _COLUMNS.index(V12 if version is UNAGREED else version)
    return {
        name: Command(needs, row.has_body, row.is_escaped)
        for name, row in COMMANDS.items()
        if row.side is side and (needs := row.needs[column]) is not None
    }
