"""The stages of a connection, and the action for each frame in each stage: a table that is total."""

from __future__ import annotations

from enum import Enum, auto, unique
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pubqueue.faces.stomp.codec import COMMANDS, Side

if TYPE_CHECKING:
    from collections.abc import Mapping


@unique
class Stage(Enum):
    """The stage of a connection."""

    __hash__ = object.__hash__  # an enumeration's own is a call in Python

    NEW = auto()
    """No client has logged in."""
    PROVING = auto()
    """CONNECT has come, and is not answered."""
    OPEN = auto()
    ENDING = auto()
    """The last frame was sent; received bytes are ignored."""


@unique
class Act(Enum):
    """The action for a frame."""

    CONNECT = auto()
    DO = auto()
    """The session processes it."""
    NOT_CONNECTED = auto()
    ALREADY_CONNECTED = auto()
    NOTHING = auto()
    """It is not read: the stage ends first, or nothing follows it."""


_OPENERS: Final = ("CONNECT", "STOMP")
CLIENTS: Final = tuple(name for name, row in COMMANDS.items() if row.side is Side.CLIENT)
"""All frames of clients."""

ACTS: Final[Mapping[Stage, Mapping[str, Act]]] = MappingProxyType(
    {
        Stage.NEW: {
            name: Act.CONNECT if name in _OPENERS else Act.NOT_CONNECTED for name in CLIENTS
        },
        Stage.PROVING: dict.fromkeys(CLIENTS, Act.NOTHING),
        Stage.OPEN: {
            name: Act.ALREADY_CONNECTED if name in _OPENERS else Act.DO for name in CLIENTS
        },
        Stage.ENDING: dict.fromkeys(CLIENTS, Act.NOTHING),
    }
)
