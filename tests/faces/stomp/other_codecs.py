"""Other codecs of STOMP from PyPI, each as a function from the bytes of one frame to what it reads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

os.environ["STOMP_SKIP_HOSTNAME_SCAN"] = "1"  # or stomp.py asks the network for names

from coilmq.util.frames import FrameBuffer
from stomp import utils
from stompman.frames import HeartbeatFrame
from stompman.serde import COMMANDS_TO_FRAMES, FrameParser, dump_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NAMES: Final = {kind: name.decode() for name, kind in COMMANDS_TO_FRAMES.items()}

Read = tuple[str, dict[str, str], bytes] | None
"""Command, headers and body; None: no frame comes of it."""


def by_stomp_py(stream: bytes) -> Read:
    """Read as stomp.py does what is in front of the NUL; who cuts its frames needs a socket."""
    found = utils.parse_frame(stream.removesuffix(b"\n").removesuffix(b"\0").lstrip(b"\r\n"))
    return found and (found.cmd, dict(found.headers), found.body)


def by_stompman(stream: bytes) -> Read:
    """Read as stompman does."""
    for found in FrameParser().parse_frames_from_chunk(stream):
        if not isinstance(found, HeartbeatFrame):
            return NAMES[type(found)], dict(found.headers), getattr(found, "body", b"")
    return None


def by_coilmq(stream: bytes) -> Read:
    """Read as the server CoilMQ does."""
    buffer = FrameBuffer()
    buffer.append(stream)
    try:
        found = buffer.extract_frame()
    except Exception:  # it has several, and Python's own
        return None
    return found and (found.cmd, dict(found.headers), found.body)


def written_by_stomp_py(command: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """Write as stomp.py does; whoever calls has escaped the headers."""
    return b"".join(utils.convert_frame(utils.Frame(command, dict(headers), body or None)))


def written_by_stompman(command: str, headers: dict[str, Any], body: bytes) -> bytes:
    """Write as stompman does."""
    kind = COMMANDS_TO_FRAMES[command.encode()]
    given = {"body": body} if command in {"SEND", "MESSAGE"} else {}
    return dump_frame(kind(headers=headers, **given))


READERS: Final[dict[str, Callable[[bytes], Read]]] = {
    "stomp.py": by_stomp_py,
    "stompman": by_stompman,
    "CoilMQ": by_coilmq,
}
