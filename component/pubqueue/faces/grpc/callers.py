"""Who calls over gRPC, how many calls of an account may be open, and how many large requests are read at once."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError
from grpc import StatusCode

from pubqueue.accounts.accounts import Proven
from pubqueue.accounts.credentials import Certificate, credentials_in
from pubqueue.faces.grpc.settings import WORD
from pubqueue.faces.grpc.statuses import UNKNOWN_CALLER, CallError
from pubqueue.faces.grpc.wire import is_text
from pubqueue.model.entities import Jid, Principal
from pubqueue.model.limits import share

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from google.protobuf.message import Message

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.accounts.credentials import Credentials


# Large requests are read and done a few at a time, so that others do not wait for all of them.
#
# What a client has sent is bytes until then. Small requests do not wait. Accounts take turns.

LARGE: Final = 256 << 10
"""Bytes of a request that is large."""

ROOM: Final = 16 << 20
"""Bytes of large requests that are done at a time; a larger one is done alone."""

READING: Final = 12 << 20
"""Bytes of large requests that are read or done at a time for an account. What is not read stays with the client, by the flow control of
HTTP/2."""


class Unread:
    """A request as it has come. `size` is its bytes."""

    __slots__ = ("_data", "_kind", "size")

    def __init__(self, kind: type[Message], data: bytes) -> None:
        self._kind, self._data, self.size = kind, data, len(data)

    def read(self) -> Any:  # noqa: ANN401  # of any rpc
        """Return the message, and forget the bytes; None if they are no message."""
        data, self._data = self._data, b""
        try:
            message = self._kind.FromString(data)
        except DecodeError:
            return None
        is_proto2 = self._kind.DESCRIPTOR.full_name.startswith("tech.")
        return None if is_proto2 and not is_text(message) else message


class Turns:
    """Has large requests wait until there is room for them among so many bytes. Accounts take turns.

    No account has more than `each`, by default half of the room. So a client that does not finish what it has begun holds up only its own account.
    """

    def __init__(self, room: int = ROOM, each: int | None = None) -> None:
        self._used, self._size = 0, room
        self.each = each or room // 2
        """Bytes that an account may have, or one request that is larger."""
        self._of: dict[str, int] = {}
        """The bytes that each account uses."""
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        """The requests of each account that wait; the account whose turn is next comes first."""

    @asynccontextmanager
    async def of(self, size: int, account: str) -> AsyncIterator[None]:
        """Wait for the turn of a request of so many bytes; it is over at the end of the body."""
        if size < LARGE:
            yield
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(account, deque()).append((size, turn))
        self._go_on()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(size, account)
            else:
                self._go_on()  # others may have waited for this one
            raise
        try:
            yield
        finally:
            self._leave(size, account)

    def _leave(self, size: int, account: str) -> None:
        self._used -= size
        self._of[account] -= size
        if not self._of[account]:
            del self._of[account]
        self._go_on()

    def _go_on(self) -> None:
        """Let in what there is room for."""
        while (account := self._next()) is not None:
            line = self._waiting.pop(account)
            size, turn = line.popleft()
            self._used += size
            self._of[account] = self._of.get(account, 0) + size
            self._waiting[account] = line  # behind all other accounts
            turn.set_result(None)

    def _next(self) -> str | None:
        """Return the account whose first request may go in. One that has its half is skipped; behind any other one all wait."""
        for account, line in tuple(self._waiting.items()):
            while line and line[0][1].cancelled():
                line.popleft()
            if not line:
                del self._waiting[account]
                continue
            size, mine = line[0][0], self._of.get(account, 0)
            if not mine or mine + size <= self.each:
                has_room = not self._used or self._used + size <= self._size
                return account if has_room else None
        return None


# The calls that are open: each takes memory, also one that only waits.

MAX_CALLS: Final = 2_000
MAX_CALLS_OF_ACCOUNT: Final = MAX_CALLS // 2
"""Calls that may be open in all, and of one account; streams that pull have bounds of their own."""

FEWEST_CALLS: Final = 8
"""Calls that an account may have open however many others have."""

TOO_MANY_CALLS: Final = CallError(
    StatusCode.RESOURCE_EXHAUSTED,
    f"An account may have {MAX_CALLS_OF_ACCOUNT} open calls, and fewer while others have many; try again later.",
)


class OpenCalls:
    """Counts them, by account."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._total = 0

    def enter(self, account: str) -> None:
        """Count a call of the account, until `leave`.

        Raises:
            CallError: it has as many as it may have.

        """
        mine = share(MAX_CALLS_OF_ACCOUNT, MAX_CALLS, MAX_CALLS - self._total)
        if self._open[account] >= max(FEWEST_CALLS, mine):
            raise TOO_MANY_CALLS
        self._open[account] += 1
        self._total += 1

    def leave(self, account: str) -> None:
        """Count a call no more."""
        self._total -= 1
        self._open[account] -= 1
        if not self._open[account]:
            del self._open[account]


# From the metadata of a call, or what else has credentials, to its account.

Subject = tuple[tuple[tuple[str, str], ...], ...]
"""As `subject` of `ssl.SSLSocket.getpeercert`."""

HEADER: Final = "authorization"
RESOURCE: Final = f"/{WORD}"
"""The separator between the address of a caller and the resources of pulls."""


class Who:
    """Authenticates calls. Callers without credentials have the account of `anonymous`, if there is one."""

    def __init__(self, accounts: Accounts, service: Jid, anonymous: str = "") -> None:
        self._accounts, self._service, self._anonymous = accounts, service, anonymous

    async def caller(self, given: Credentials | None, peer: str) -> tuple[Principal, Proven | None]:
        """Return the account of a call from the peer at this address, and how it was proven.

        Raises:
            CallError: there are no credentials, or wrong ones.

        """
        if given is None:
            if not self._anonymous:
                raise UNKNOWN_CALLER
            return self._caller(Jid(f"{self._anonymous}@{self._service}")), None
        found = await self._accounts.prove(given, face=WORD, peer=peer)
        if isinstance(found, Proven):
            return self._caller(found.account), found
        if found.wait:
            raise CallError(
                StatusCode.UNAVAILABLE, f"Too many wrong attempts: try again in {found.wait:.0f} s."
            )
        raise UNKNOWN_CALLER

    def holds(self, proven: Proven | None) -> bool:
        """Return whether the account may still call."""
        return proven is None or self._accounts.holds(proven)

    def _caller(self, account: Jid) -> Principal:
        return self._accounts.principals.of(Jid(account + RESOURCE))


def credentials_of(
    metadata: Iterable[tuple[str, str | bytes]], certificate: Subject
) -> Credentials | None:
    """Return the credentials of a call: its header, or else the subject of the certificate of its connection.

    Raises:
        CallError: it has the header several times, or it cannot be read.

    """
    fields = [value for name, value in metadata if name == HEADER]
    if fields:
        found = credentials_in(
            [one.decode("latin-1") if isinstance(one, bytes) else one for one in fields]
        )
        if found is None:
            raise UNKNOWN_CALLER
        return found
    return Certificate(certificate) if certificate else None
