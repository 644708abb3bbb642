"""One thread that runs jobs in order, and that a process does not wait for when it ends.

Python waits for the threads of its own pools when it ends. A thread that waits for a server that does not answer would
keep the process alive for as long as that takes.
"""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class OwnThread(Executor):
    """Runs the submitted jobs, one after the other, on a thread of this name."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._has_started = False

    def submit(self, job: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run the job after the earlier ones."""
        if not self._has_started:
            self._has_started = True
            self._thread.start()
        done: Future[T] = Future()
        self._jobs.put((done, partial(job, *args, **kwargs)))
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        """End the thread after the last job; `wait` for that."""
        self._jobs.put(None)
        if wait and self._has_started:
            self._thread.join()

    def _work(self) -> None:
        while (taken := self._jobs.get()) is not None:
            done, job = taken
            if not done.set_running_or_notify_cancel():
                continue
            try:
                result = job()
            except BaseException as problem:
                done.set_exception(problem)
            else:
                done.set_result(result)
            del taken, done, job  # the wait for the next job keeps no objects alive
