"""Between coroutines and threads: methods that block, made from coroutine functions, and blocking functions in threads."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from contextvars import copy_context
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


A = TypeVar("A")
B = TypeVar("B")
P = ParamSpec("P")
R = TypeVar("R")


class Blocking(ABC, Generic[A]):
    """An object without asyncio, in front of one whose methods are coroutine functions.

    Its own methods are made of those:

        class BlockingPublisher(Blocking[Publisher]):
            publish = blocking(Publisher.publish)
    """

    __slots__ = ()

    _twin: A
    """The object that does the work, in an event loop of another thread."""

    @abstractmethod
    def _wait(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in that loop, and return its result."""


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Blocking[A], P], R]:
    """Return a method that blocks until the coroutine has ended; its name, parameters and docstring are those of `method`."""

    @takes(method)
    @wraps(method)
    def call(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._wait(method(self._twin, *args, **kwargs))

    del vars(call)["__wrapped__"]  # `is_async` and others would take it for a coroutine function
    return call


def takes(
    method: Callable[Concatenate[A, P], object],
) -> Callable[[Callable[Concatenate[B, ...], R]], Callable[Concatenate[B, P], R]]:
    """Give the decorated method the parameters of `method`, for type checkers and for `help`."""

    def give(function: Callable[Concatenate[B, ...], R]) -> Callable[Concatenate[B, P], R]:
        vars(function)["__signature__"] = inspect.signature(method)
        return function

    return give


def wait_for(work: Coroutine[Any, Any, R], loop: asyncio.AbstractEventLoop) -> R:
    """Run a coroutine in `loop` and return its result; cancel it if the wait is interrupted."""
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:  # usually an interrupt: no thread waits for it any more
        future.cancel()
        raise


# Each call of a blocking function has a thread of its own.
#
# There is no pool: it would need as many threads as may run at once, and would wait for them at the end of the program.
# These threads are daemons, so a program ends even if one of them hangs; a thread cannot be cancelled.


def in_thread(call: Callable[[], object], name: str) -> asyncio.Future[object]:
    """Call a function in a new thread, with this context's variables; the future gets its result or exception.

    Cancelling the future does not stop the thread.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[object] = loop.create_future()
    context = copy_context()

    def work() -> None:
        try:
            result, error = context.run(call), None
        except BaseException as raised:
            result, error = None, raised
        with suppress(RuntimeError):  # the loop is closed, and no task is waiting
            loop.call_soon_threadsafe(_finish, ended, result, error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return ended


def _finish(ended: asyncio.Future[object], result: object, error: BaseException | None) -> None:
    if ended.cancelled():
        return
    if isinstance(error, StopIteration):  # which no future accepts
        ended.set_exception(RuntimeError("The function raised StopIteration."))
    elif error is not None:
        ended.set_exception(error)
        ended.exception()  # whether a task is waiting or not
    else:
        ended.set_result(result)


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling it makes a coroutine; for functions wrapped by `functools.wraps`, the innermost counts."""
    inner = inspect.unwrap(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(inner, "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def name_of(function: Callable[..., object]) -> str:
    """Return the name of a function, or of the class of a callable object."""
    return getattr(function, "__name__", type(function).__name__)


# After a fork, a parent process's connection is not used, because both would read from it.


class Process:
    """The process in which something was opened."""

    __slots__ = ("_id",)

    def __init__(self) -> None:
        self._id = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether it is the current process."""
        return self._id == os.getpid()

    def check(self) -> None:
        """Raise RuntimeError if this process was forked after that."""
        if not self.is_ours:
            raise RuntimeError(
                "The publisher was opened before this process was forked: open one of its own here."
            )
