"""Forwards notices for connections of other instances, and sends those that other instances have forwarded to this one.

A topic has subscribers that are connected to this process and others that are connected elsewhere. Notices for the latter are
stored (`rules.messages`), many in one commit, in addition to those that are sent here. An instance reads its stored
notices whenever another process has written: at once on PostgreSQL, within a second on SQLite. As for a subscriber here, notices
that were not sent when a process is killed are lost.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog
from msgspec import DecodeError, Struct, msgpack

from pubqueue.engine.listings import ForwardedTo
from pubqueue.engine.outbox import Backlog
from pubqueue.engine.ports import FencedError, StoreError
from pubqueue.model.decision import Done
from pubqueue.model.entities import (
    Draft,  # msgspec reads them
    ItemId,  # msgspec reads them
    Jid,  # msgspec reads them
    Millis,  # msgspec reads them
    NodeName,  # msgspec reads them
    SubscriptionState,  # msgspec reads them
    connection,
)
from pubqueue.model.notices import (
    NOBODY,
    Announce,
    Deleted,
    Deliver,
    Retracted,
    SubscriptionChanged,
    ToEach,
    Unlocked,
)
from pubqueue.model.records import Forwarded
from pubqueue.model.sums import sealed, unsealed
from pubqueue.rules.messages import EndForward, Forward, mark_for, marks_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.engine.outbox import Outbox
    from pubqueue.engine.ports import Store, ThisProcess, Transaction
    from pubqueue.model.decision import Reply
    from pubqueue.model.notices import Notice

    Submit = Callable[[Forward | EndForward, Callable[[Reply], None]], None]


log = structlog.get_logger(__name__)

BUNDLE: Final = 128 << 10
"""Bytes of payloads in a bundle; the last notice may exceed it."""

PAGE: Final = 8
"""Bundles that are written, read or dropped together."""

RETRY: Final = 1.0
"""Seconds until another try after the store has failed."""


class Forwarding:
    """The notices on their way to other instances, and from them."""

    def __init__(
        self, store: Store, outbox: Outbox, process: ThisProcess, service: Jid, submit: Submit
    ) -> None:
        self._store, self._outbox, self._submit = store, outbox, submit
        self._process, self._service = process, service
        self.ending = f"@{service}/"
        """The part of connections' addresses that follows the name of their account."""
        self._word, self._number = secrets.token_hex(6), 0
        self._waiting: dict[int, deque[Bundled]] = {}
        self._nodes: Counter[NodeName] = Counter()
        self._backlog = Backlog(self._nodes, partial(outbox.set_behind, self))
        self._is_writing = self._is_wanted = self._is_stopped = False
        self._reading: asyncio.Task[None] | None = None
        self._sent: set[str] = set()
        """The marks of bundles that were sent and are not dropped yet."""

    # --- out ------------------------------------------------------------------------------------------

    def send(self, notices: Sequence[Notice | ToEach]) -> list[Notice]:
        """Send the notices for this process and forward the others; return those that could not be sent."""
        return self._outbox.send(self.own(notices))

    def own(self, notices: Sequence[Notice | ToEach]) -> Sequence[Notice | ToEach]:
        """Return the notices for addresses that are not connections of another instance, and forward the others."""
        ending = self.ending
        for notice in notices:
            to = notice.to
            if (ending in to) if isinstance(to, str) else any(ending in one for one in to):
                break
        else:
            return notices
        return [mine for notice in notices if (mine := self._own(notice)) is not None]

    def _own(self, notice: Notice | ToEach) -> Notice | ToEach | None:
        """Return the part of a notice that is for this process."""
        if not isinstance(notice, ToEach):
            if isinstance(notice, Deliver) or (there := self._elsewhere(notice.to)) is None:
                return notice
            self._put(there, (notice.to,), notice)
            return None
        mine: list[Jid] = []
        others: dict[int, list[Jid]] = {}
        for jid in notice.to:
            there = self._elsewhere(jid)
            (mine if there is None else others.setdefault(there, [])).append(jid)
        if not others:
            return notice
        for instance, to in others.items():
            self._put(instance, to, notice.what)
        return ToEach(tuple(mine), notice.what, notice.fleeting, notice.subids) if mine else None

    def _elsewhere(self, address: Jid) -> int | None:
        """Return the number of the other instance that has this connection."""
        if self.ending not in address:
            return None
        found = connection(address, self._service)
        return (
            None
            if found is None or found.instance == self._process.instance.number
            else found.instance
        )

    def _put(self, instance: int, to: Sequence[Jid], notice: Notice) -> None:
        one = bundled(to, notice)
        if one is None:
            return
        self._waiting.setdefault(instance, deque()).append(one)
        self._nodes[one.what.node] += 1
        self._backlog.count(size_of(one))
        if not self._is_writing:
            self._is_writing = True
            asyncio.get_running_loop().call_soon(self._write)  # with the others of this commit

    def _write(self) -> None:
        """Store waiting notices, as many as fit into one request."""
        bundles: list[Forwarded] = []
        while self._waiting and len(bundles) < PAGE:
            instance = next(iter(self._waiting))
            self._number += 1
            mark = mark_for(instance, self._word, self._number)
            bundles.append(Forwarded(mark, write(self._take(instance))))
        if not bundles:
            self._is_writing = False
            return
        self._forward(Forward(tuple(bundles)))

    def _take(self, instance: int) -> list[Bundled]:
        """Remove and return the notices of the next bundle for an instance."""
        waiting, taken, size = self._waiting[instance], [], 0
        while waiting and size < BUNDLE:
            one = waiting.popleft()
            taken.append(one)
            size += size_of(one)
            self._nodes[one.what.node] -= 1
            if not self._nodes[one.what.node]:
                del self._nodes[one.what.node]
        if not waiting:
            del self._waiting[instance]
        self._backlog.count(-size)
        return taken

    def _forward(self, request: Forward) -> None:
        def answer(reply: Reply) -> None:
            if isinstance(reply, Done):
                self._write()
                return
            asyncio.get_running_loop().call_later(RETRY, self._forward, request)

        self._submit(request, answer)

    # --- in -------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Send the notices that other instances have forwarded to this one, if there are any."""
        self._is_wanted = True
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read())

    async def stop(self) -> None:
        """Read no more."""
        self._is_stopped = True
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self) -> None:
        try:
            while self._is_wanted:
                self._is_wanted = False
                await self._send_all()
        except FencedError:
            pass  # another task ends the process for it
        except StoreError as problem:
            log.warning("forwarded.not_read", why=str(problem))
            asyncio.get_running_loop().call_later(RETRY, self._look_again)
        finally:
            self._reading = None

    def _look_again(self) -> None:
        if not self._is_stopped:
            self.look()

    async def _send_all(self) -> None:
        page: list[Forwarded] | None = None
        while page is None or len(page) == PAGE:
            page = await self._store.read(partial(_page, self._process.instance.number))
            for bundle in page:
                if bundle.mark not in self._sent:
                    self._sent.add(bundle.mark)
                    self._send(bundle)
            await self._drop(page)
            self._sent.clear()

    def _send(self, bundle: Forwarded) -> None:
        try:
            self._outbox.send(read(bundle.notices))
        except DecodeError:
            log.warning("forwarded.not_understood", byte_count=len(bundle.notices))

    async def drop_all(self, instance: int) -> None:
        """Drop the notices that are stored for an instance that is gone.

        Raises:
            StoreError: the store could not be read.

        """
        while page := await self._store.read(partial(_page, instance)):
            await self._drop(page)

    async def _drop(self, page: Sequence[Forwarded]) -> None:
        """Drop bundles, before others are read.

        Raises:
            StoreError: the store did not accept it.

        """
        if not page:
            return
        done: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def answer(reply: Reply) -> None:
            if not done.done():
                done.set_result(reply)

        self._submit(EndForward(tuple(one.mark for one in page)), answer)
        if not isinstance(await done, Done):
            raise StoreError("forwarded notices could not be dropped")


def _page(instance: int, tx: Transaction) -> list[Forwarded]:
    return tx.page(ForwardedTo(marks_for(instance)), None, PAGE)


# Notices that are stored for another instance, as bytes and back.
#
# Only notices that a face of connections sends are stored. Deliveries are not among them: an item is locked only to a holder that
# this process can reach.


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
    return sealed(_WRITER.encode(notices))


def read(data: bytes) -> list[ToEach | Unlocked]:
    """Return the notices of a bundle, in order.

    Raises: msgspec.DecodeError: another version of the program has written them.
    """
    found: list[ToEach | Unlocked] = []
    for one in _READER.decode(unsealed(data) or b""):
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
