"""Notices that are stored for another instance, as bytes and back.

Only notices that a face of connections sends are stored. Deliveries are not among them: an item is locked only to a holder that
this process can reach.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, msgpack

from pubqueue.model.entities import Draft, ItemId, Jid, Millis, NodeName, SubscriptionState  # noqa: TC001  # msgspec reads them
from pubqueue.model.notices import (
    NOBODY,
    Announce,
    Deleted,
    Retracted,
    SubscriptionChanged,
    ToEach,
    Unlocked,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.model.notices import Notice

Forwardable = Announce | Retracted | Unlocked | Deleted | SubscriptionChanged
"""The kinds of notices that are stored."""


class _Announced(Struct, array_like=True, tag="announced"):
    node: NodeName
    draft: Draft | None
    publisher: Jid | None
    late: Millis | None


class _Retracted(Struct, array_like=True, tag="retracted"):
    node: NodeName
    ids: tuple[ItemId, ...]


class _Unlocked(Struct, array_like=True, tag="unlocked"):
    node: NodeName
    ids: tuple[ItemId, ...]


class _Deleted(Struct, array_like=True, tag="deleted"):
    node: NodeName
    uri: str


class _Changed(Struct, array_like=True, tag="subscription"):
    node: NodeName
    state: SubscriptionState
    subid: str


_Kept = _Announced | _Retracted | _Unlocked | _Deleted | _Changed


class Bundled(Struct, array_like=True):
    """A notice and its addresses."""

    to: tuple[Jid, ...]
    what: _Kept


_READER: Final = msgpack.Decoder(list[Bundled])
_WRITER: Final = msgpack.Encoder()


def bundled(to: Sequence[Jid], notice: Notice) -> Bundled | None:
    """Return a notice in its stored form; None if connections of other instances do not get notices of its kind."""
    kept = _kept(notice)
    return None if kept is None else Bundled(tuple(to), kept)


def size_of(one: Bundled) -> int:
    """Return approximately how many bytes it has."""
    what = one.what
    payload = len(what.draft.payload) if isinstance(what, _Announced) and what.draft else 0
    return payload + 64 * len(one.to)


def write(notices: Sequence[Bundled]) -> bytes:
    """Return the bytes of a bundle."""
    return _WRITER.encode(notices)


def read(data: bytes) -> list[ToEach | Unlocked]:
    """Return the notices of a bundle, in order.

    Raises: msgspec.DecodeError: another version of the program has written them.
    """
    found: list[ToEach | Unlocked] = []
    for one in _READER.decode(data):
        what = one.what
        if isinstance(what, _Unlocked):
            found += [Unlocked(to, what.node, what.ids) for to in one.to]
        else:
            found.append(ToEach(one.to, _notice(what)))
    return found


def _kept(notice: Notice) -> _Kept | None:
    match notice:
        case Announce():
            return _Announced(notice.node, notice.draft, notice.publisher, notice.late)
        case Retracted():
            return _Retracted(notice.node, notice.ids)
        case Unlocked():
            return _Unlocked(notice.node, notice.ids)
        case Deleted():
            return _Deleted(notice.node, notice.uri)
        case SubscriptionChanged(about=None):
            return _Changed(notice.node, notice.state, notice.subid)
        case _:
            return None


def _notice(what: _Announced | _Retracted | _Deleted | _Changed) -> Any:  # noqa: ANN401  # one of many
    match what:
        case _Announced():
            return Announce(NOBODY, what.node, what.draft, what.publisher, what.late)
        case _Retracted():
            return Retracted(NOBODY, what.node, what.ids)
        case _Deleted():
            return Deleted(NOBODY, what.node, what.uri)
        case _Changed():
            return SubscriptionChanged(NOBODY, what.node, what.state, what.subid)
