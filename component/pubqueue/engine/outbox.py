"""The outbox: sends notices to the face that can reach their address, in commit order.

A face that is down stops only its own deliveries: dispatch asks which holders can be reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.model.notices import ToEach

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from pubqueue.engine.face import Face
    from pubqueue.model.entities import Jid, NodeName
    from pubqueue.model.notices import Notice


log = structlog.get_logger(__name__)

ANY_SIZE: Final = 1 << 62
"""More bytes than any payload has."""


class Outbox:
    """Knows the faces of this process, and which of them are up.

    If several faces claim an address, the first that was attached has it. `on_change` is called when other addresses
    may be reachable than before, and `on_reach` with the address if it is only one.
    """

    def __init__(
        self, on_change: Callable[[], None], on_reach: Callable[[Jid], None] = lambda _address: None
    ) -> None:
        self.faces: list[Face] = []
        self._only: Face | None = None
        self._up: list[Face] = []
        self._beginning: list[Face] = []
        self.behind: dict[object, Container[NodeName]] = {}
        self._on_change, self._on_reach = on_change, on_reach
        self.least = ANY_SIZE
        """The bytes of a payload that every face can send."""

    def attach(self, face: Face, *, waits: bool = False) -> None:
        """Register a face. It counts as down until `set_up(face, up=True)`. One that `waits` for a server or a place may come later than the others."""
        self.faces.append(face)
        if not waits:
            self._beginning.append(face)
        self.least = min(self.least, face.largest)
        self._only = face if len(self.faces) == 1 else None

    def set_up(self, face: Face, *, up: bool) -> None:
        """Set whether the face can send. Repeating a call does no harm."""
        if up and face in self._beginning:
            self._beginning.remove(face)
        if (face in self._up) is not up:
            self._up = [*self._up, face] if up else [one for one in self._up if one is not face]
            self._on_change()

    def reach_changed(self, address: Jid) -> None:
        """Note that an address has become reachable or unreachable; its face knows which."""
        self._on_reach(address)

    @property
    def is_open(self) -> bool:
        """Whether any address can be reached."""
        return bool(self._up)

    @property
    def is_beginning(self) -> bool:
        """Whether a face that waits for nothing has not been up yet."""
        return bool(self._beginning)

    def claims(self, address: Jid) -> bool:
        """Return whether a face of this process has addresses of this form."""
        return self._face_of(address) is not None

    def _face_of(self, address: Jid) -> Face | None:
        return next((face for face in self.faces if face.claims(address)), None)

    def reaches(self, address: Jid) -> bool:
        """Return whether a notice to this address can be sent now."""
        if (only := self._only) is not None:
            return only.reaches(address)
        face = self._face_of(address)
        return face is not None and face.reaches(address)

    def largest_of(self, address: Jid) -> int:
        """Return how many bytes of a payload can be sent to the address; any number if only another process has its face."""
        face = self._only or self._face_of(address)
        return ANY_SIZE if face is None else face.largest

    def when_sent(self, node: NodeName, call: Callable[[], None]) -> None:
        """Call when each face has sent its notices of the node so far, or cannot send them."""
        left = len(self.faces)
        if not left:
            call()
            return

        def done() -> None:
            nonlocal left
            left -= 1
            if not left:
                call()

        for face in self.faces:
            try:
                face.when_sent(node, done)
            except Exception:  # a face that fails here does not delay the others
                log.exception("face.failed", node=node)
                done()

    def set_behind(self, who: object, nodes: Container[NodeName] | None) -> None:
        """Set the nodes of which too many notices wait in `who`, as a function; None: there is room again."""
        if nodes is None:
            self.behind.pop(who, None)
        else:
            self.behind[who] = nodes

    def is_behind(self, node: NodeName) -> bool:
        """Return whether so many notices of the node wait that no more may be added."""
        return bool(self.behind) and any(node in nodes for nodes in self.behind.values())

    def send(self, notices: Sequence[Notice | ToEach]) -> list[Notice]:
        """Send the notices, those of one face in order, and return those that could not be sent."""
        if self._only is not None:
            return _send_by(self._only, notices)
        unsent: list[Notice] = []
        by_face: dict[int, tuple[Face, list[Notice | ToEach]]] = {}
        known: dict[int, list[tuple[Face | None, tuple[Jid, ...]]]] = {}
        for notice in notices:
            for face, part in self._parts(notice, known):
                if face is None:
                    unsent += (
                        () if isinstance(part, ToEach) else (part,)
                    )  # notices without an address
                else:
                    by_face.setdefault(id(face), (face, []))[1].append(part)
        for face, own in by_face.values():
            unsent += _send_by(face, own)
        return unsent

    def _parts(
        self,
        notice: Notice | ToEach,
        known: dict[int, list[tuple[Face | None, tuple[Jid, ...]]]],
    ) -> Iterable[tuple[Face | None, Notice | ToEach]]:
        """Return the part of a notice for each face. `known` are audiences: an audience of many notices is split once."""
        if not isinstance(notice, ToEach):
            return ((self._face_of(notice.to), notice),)
        parts = known.get(id(notice.to))
        if parts is None:
            parts = known[id(notice.to)] = self._by_face(notice.to)
        return [
            (face, ToEach(to, notice.what, notice.fleeting, notice.subids)) for face, to in parts
        ]

    def _by_face(self, audience: tuple[Jid, ...]) -> list[tuple[Face | None, tuple[Jid, ...]]]:
        audiences: dict[int, tuple[Face | None, list[Jid]]] = {}
        for jid in audience:
            face = self._face_of(jid)
            audiences.setdefault(id(face), (face, []))[1].append(jid)
        return [(face, tuple(to)) for face, to in audiences.values()]


def _send_by(face: Face, notices: Sequence[Notice | ToEach]) -> list[Notice]:
    """Let a face send its notices; if it raises, they are lost, as with a stream.

    A delivery among them is not repeated at once, because it would fail again: its lock expires in
    time.
    """
    try:
        return list(face.send_notices(notices))
    except Exception:  # the boundary between this face and all others
        log.exception("face.failed", notices=len(notices))
        return []


# How many bytes of notices to many are waiting: above a bound their nodes accept no more.

MAX_BYTES: Final = 8 << 20
"""Bytes that may wait in one place before their nodes accept no more publishes."""


class Backlog:
    """Counts the bytes that wait in one place.

    `nodes` returns the nodes of the waiting notices. `on_change` is called with it when too many
    bytes wait, and with None when there is room again, so that a publish does not have to ask.
    """

    def __init__(
        self,
        nodes: Container[NodeName],
        on_change: Callable[[Container[NodeName] | None], None],
    ) -> None:
        self._nodes, self._on_change = nodes, on_change
        self._is_over = False
        self.byte_count = 0

    def count(self, byte_count: int) -> None:
        """Count this many more waiting bytes; fewer, if it is below 0."""
        self.byte_count += byte_count
        is_over = self.byte_count > MAX_BYTES
        if is_over is not self._is_over:
            self._is_over = is_over
            self._on_change(self._nodes if is_over else None)
