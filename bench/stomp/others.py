"""Queues that speak neither STOMP nor a protocol of lines: Redis, by its streams, and Procrastinate, in PostgreSQL."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Self

import procrastinate

from bench.stomp.thin import Calls, Thin

if TYPE_CHECKING:
    from collections.abc import Coroutine

STREAM, GROUP, FIELD = b"jobs", b"workers", b"body"

CONNECTIONS: Final = 10
"""The connections of Procrastinate's publisher to the database."""
LONGEST: Final = 30.0
"""Seconds between two looks of Procrastinate's worker if nothing wakes it; usually it is notified."""


def _command(*words: bytes) -> bytes:
    parts = [b"*%d\r\n" % len(words), *(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)]
    return b"".join(parts)


class RedisClient(Thin):
    """A client of a stream and its group. A worker asks for entries again once it has removed those that it had."""

    end = b"\r\n"

    def __init__(self) -> None:
        super().__init__()
        self._works = False
        self._is_text = self._is_body = False
        self._name = b""
        self._read = b""
        self._left = -1
        """Entries of an answer that have not come yet; below 0 their number has not."""
        self._unanswered = 0

    @classmethod
    async def make_group(cls, port: int) -> None:
        """Make the stream and the group of its workers."""
        client = await cls.to(port)
        await client.ask(_command(b"XGROUP", b"CREATE", STREAM, GROUP, b"$", b"MKSTREAM"))
        await client.close()

    async def work(self, prefetch: int) -> None:
        local = b"%d" % self.transport.get_extra_info("sockname")[1]
        words = (b"COUNT", b"%d" % prefetch, b"BLOCK", b"0", b"STREAMS", STREAM, b">")
        self._works, self._read = True, _command(b"XREADGROUP", b"GROUP", GROUP, local, *words)
        self.said.append(self._read)
        self.flush()

    def publish(self, body: bytes) -> None:
        self.said.append(_command(b"XADD", STREAM, b"*", FIELD, body))

    async def settled(self) -> None:
        """Wait for the answers to all removals. The last question for entries stays open."""
        if self._unanswered:
            await self.ask(b"")

    def hear(self, piece: bytes) -> None:
        if self._is_text:
            self._is_text = False
            self._take(piece)
        elif piece.startswith(b"$"):
            self._is_text = True
        elif piece.startswith(b":"):
            self._unanswered -= 1
            if not self._unanswered:
                self.answered()
        elif piece == b"+OK":
            self.answered()
        elif not piece.startswith(b"*"):
            self.fail(f"an unexpected line: {piece.decode(errors='replace')}")
        elif self._name == STREAM:
            self._left, self._name = int(piece[1:]), b""

    def _take(self, text: bytes) -> None:
        if not self._works:
            self.on_confirmed()
        elif self._is_body:
            self._is_body = False
            self._done(text)
        elif text == FIELD:
            self._is_body = True
        else:  # the stream's, then that of an entry
            self._name = text

    def _done(self, body: bytes) -> None:
        self.said.append(
            _command(b"XACK", STREAM, GROUP, self._name) + _command(b"XDEL", STREAM, self._name)
        )
        self._unanswered += 2
        self._left -= 1
        if not self._left:
            self.said.append(self._read)
        self.on_body(body)


class ProcrastinateClient(Calls):
    """A publisher or a worker in this process, with the library as it comes; a job that is done is deleted."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._pool = procrastinate.PsycopgConnector(conninfo=address, max_size=CONNECTIONS)
        self.app = procrastinate.App(connector=self._pool)
        self._job = self.app.task(name="job", queue="jobs")(self._work)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.ends = AsyncExitStack()

    @classmethod
    async def to(cls, address: str) -> Self:
        """Connect."""
        client = cls(address)
        await client.ends.enter_async_context(client.app.open_async())
        return client

    @classmethod
    async def make_tables(cls, address: str) -> None:
        """Make its tables and functions."""
        client = await cls.to(address)
        await client.app.schema_manager.apply_schema_async()
        await client.ends.aclose()

    async def work(self, prefetch: int) -> None:
        worker = self.app.run_worker_async(
            concurrency=prefetch,
            delete_jobs="successful",
            fetch_job_polling_interval=LONGEST,
            install_signal_handlers=False,
        )
        self._begin(worker)

    def publish(self, body: bytes) -> None:
        self._begin(self._publish(body.decode()))

    async def _publish(self, body: str) -> None:
        await self._job.defer_async(body=body)
        self.on_confirmed()

    async def _work(self, body: str) -> None:
        self.on_body(body.encode())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """Wait until no job is left."""
        manager = self.app.job_manager
        while await manager.list_jobs_async(status="doing"):
            pass

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.ends.aclose()
