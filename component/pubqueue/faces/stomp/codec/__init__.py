"""The frames of STOMP, without I/O: bytes in and frames out, frames in and bytes out.

`FrameReader` reads the bytes of one side of a connection, within bounds; `write` writes a frame. Tables define the versions
(`versions`) and the commands (`commands`). Bytes that are not STOMP are a `Fault`, a value that names the cause. Nothing here
knows destinations, subscriptions or the states of a connection: those belong to the caller.
"""

from pubqueue.faces.stomp.codec.bounds import FrameBounds
from pubqueue.faces.stomp.codec.commands import COMMANDS, Command, Side, commands_of
from pubqueue.faces.stomp.codec.faults import Cause, Fault
from pubqueue.faces.stomp.codec.frame import Frame
from pubqueue.faces.stomp.codec.heart_beats import BEAT, HeartBeats, heart_beats_of
from pubqueue.faces.stomp.codec.reader import FrameReader
from pubqueue.faces.stomp.codec.versions import V10, V11, V12, VERSIONS, Version, best_of
from pubqueue.faces.stomp.codec.writer import write

__all__ = [
    "BEAT",
    "COMMANDS",
    "V10",
    "V11",
    "V12",
    "VERSIONS",
    "Cause",
    "Command",
    "Fault",
    "Frame",
    "FrameBounds",
    "FrameReader",
    "HeartBeats",
    "Side",
    "Version",
    "best_of",
    "commands_of",
    "heart_beats_of",
    "write",
]
