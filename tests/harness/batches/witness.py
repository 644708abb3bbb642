"""A store and a face that record events in one list, in their order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from pubqueue.engine.ports import StoreError
from pubqueue.model.notices import singly

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.engine.broker import Broker
    from pubqueue.engine.ports import Store, Transaction
    from pubqueue.model.notices import Notice, ToEach

T = TypeVar("T")


class WatchedStore:
    """A real store that records each commit, can be held up, and fails on demand."""

    def __init__(self, store: Store, log: list[Any]) -> None:
        self.inner = store
        self.instances = store.instances
        self._log = log
        self.failures = 0
        self.asked = asyncio.Event()
        """A batch has come since `hold`."""
        self.may_go = asyncio.Event()
        self.may_go.set()

    def hold(self) -> None:
        """Hold up the next batch; `asked` is set when it has come, and `may_go` lets it continue."""
        self.asked.clear()
        self.may_go.clear()

    async def batch(self, job: Callable[[Transaction], T]) -> T:
        """Run the job, once it may continue."""
        self.asked.set()
        await self.may_go.wait()
        if self.failures:
            self.failures -= 1
            self._log.append("failure")
            raise StoreError("the disk is full")
        result = await self.inner.batch(job)
        self._log.append("commit")
        return result

    async def changes(self) -> bool:
        """Return whether another process has written."""
        return await self.inner.changes()

    async def read(self, job: Callable[[Transaction], T]) -> T:
        """Run the job beside the batches."""
        if self.failures:
            self.failures -= 1
            raise StoreError("the disk is gone")
        return await self.inner.read(job)


class WatchedFace:
    """A face for all addresses that records its notices, except those that it cannot send: it returns them."""

    def __init__(self, broker: Broker, log: list[Any]) -> None:
        self._broker = broker
        self._log = log
        self.silent = False
        self._is_up = False
        broker.outbox.attach(self)

    def up(self) -> None:
        """Be able to send from now on."""
        self._is_up = True
        self._broker.outbox.set_up(self, up=True)

    def down(self) -> None:
        """Be unable to send."""
        self._is_up = False
        self._broker.outbox.set_up(self, up=False)

    largest = 1 << 62

    def claims(self, _address: str) -> bool:
        """Return true."""
        return True

    def reaches(self, _address: str) -> bool:
        """Return whether it can send."""
        return self._is_up

    def send_notices(self, notices: Sequence[Notice | ToEach]) -> Sequence[Notice]:
        """Record the notices."""
        if self.silent:
            return list(singly(notices))
        self._log.extend(singly(notices))
        return ()

    def when_sent(self, _node: str, call: Callable[[], None]) -> None:
        """Call at once: everything is sent."""
        call()
