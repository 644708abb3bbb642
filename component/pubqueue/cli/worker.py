"""`pubqueue worker`: a handler of yours in one process or several, which restart when the program changes."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import sys
import traceback
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from slixmpp.jid import JID

from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, stop
from pubqueue.cli.session import SERVICE
from pubqueue_xeps.client.connection import URL, read_url
from pubqueue_xeps.errors import ConfigurationError, PubqueueError
from pubqueue_xeps.handlers import Handlers
from pubqueue_xeps.worker.worker import REQUESTS, Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence


# Several worker processes as one, and workers that restart when the program changes.


async def supervise(words: Sequence[Sequence[str]], folder: Path | None) -> int:
    """Run a process of `pubqueue` with each of these words until SIGTERM, SIGINT or the end of one; return the exit code for all.

    Then all processes get SIGTERM and are awaited. When Python files in `folder` change, they are stopped in the same
    way and restarted, including those that have ended before. A second signal kills them. If the supervisor itself is killed,
    they stop as after SIGTERM (`pubqueue.cli.dev_reload`).
    """
    with _lifeline() as pipe:
        start = (sys.executable, "-m", "pubqueue.cli.dev_reload", str(pipe))
        return await _supervise([(*start, *each) for each in words], pipe, folder)


@contextmanager
def _lifeline() -> Iterator[int]:
    """Yield the reading end of a pipe that is closed when this process ends, in whatever way."""
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(reading)
        os.close(writing)


async def _supervise(commands: Sequence[Sequence[str]], pipe: int, folder: Path | None) -> int:
    asked = asyncio.Event()
    children: list[asyncio.subprocess.Process] = []

    def caught() -> None:
        if asked.is_set():
            send_signal(children, signal.SIGKILL)
        asked.set()

    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, caught)
    stop = asyncio.create_task(asked.wait())
    changes = None if folder is None else _changes(folder)
    try:
        while True:
            changed = None if changes is None else asyncio.create_task(_next(changes))
            await asyncio.sleep(0)  # it watches before a child has read a file
            try:
                children += [
                    await asyncio.create_subprocess_exec(*command, pass_fds=(pipe,))
                    for command in commands
                ]
                await _over(children, stop, changed)
            finally:
                send_signal(children, signal.SIGTERM)
                codes = [await child.wait() for child in children]
                children.clear()
            if changed is None or asked.is_set():
                return _code(codes)
            click.echo(f"pubqueue: {await changed}, restarting", err=True)
    finally:
        stop.cancel()


async def _over(
    children: Sequence[asyncio.subprocess.Process],
    stop: asyncio.Task[bool],
    changed: asyncio.Task[str] | None,
) -> None:
    """Return at a request to stop, when files have changed, or, if files are not watched, when a child has ended."""
    if changed is not None:
        await asyncio.wait({stop, changed}, return_when=asyncio.FIRST_COMPLETED)
        if not changed.done():
            changed.cancel()
        return
    ends = {asyncio.create_task(child.wait()) for child in children}
    await asyncio.wait({stop, *ends}, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()


def send_signal(children: Sequence[asyncio.subprocess.Process], number: signal.Signals) -> None:
    """Send a signal to those that run. Their own method would collect the exit code of one that has just ended; asyncio then reports 255."""
    for child in children:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(child.pid, number)


def _code(codes: Sequence[int]) -> int:
    """Return the worst of the exit codes; a process that a signal has ended has failed."""
    return max(FAILED if code < 0 else code for code in codes)


async def _changes(folder: Path) -> AsyncIterator[str]:
    """Yield a sentence each time that Python files change."""
    from watchfiles import PythonFilter, awatch  # noqa: PLC0415  # an extra

    async for found in awatch(folder, watch_filter=PythonFilter()):
        names = sorted({path.rpartition("/")[2] for _, path in found})
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{names[0]}{more} changed"


async def _next(changes: AsyncIterator[str]) -> str:
    return await anext(changes)


# `pubqueue worker`.


@click.command()
@click.argument("target", metavar="MODULE:NAME")
@click.option("--url", help="Account and service: xmpp://bot@example.org/queue.example.org.")
@SERVICE
@click.option(
    "--node",
    multiple=True,
    help="The queue to work for; repeatable. By default those that the handlers name.",
)
@click.option(
    "--weight",
    "weights",
    metavar="NODE=N",
    multiple=True,
    help="The share of a queue while several have work (default: 1); repeatable.",
)
@click.option(
    "--requests",
    type=click.IntRange(1),
    default=REQUESTS,
    show_default=True,
    help="Number of items of each queue that a process takes at a time.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    help="Number of items that a process works on at a time (default: as many as it takes).",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of processes.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=30,
    show_default=True,
    help="Seconds for the current items to finish on exit.",
)
@click.option(
    "--level",
    metavar="LEVEL",
    help="How deliveries are sent (urn:xmpp:qos): unacknowledged, acknowledged or assured.",
)
@click.option(
    "--no-schedules",
    is_flag=True,
    help="Neither create nor change the schedules that the handlers declare.",
)
@click.option(
    "--metrics",
    metavar="PORT",
    type=click.IntRange(1, 65535),
    help="Serve metrics for Prometheus at this port of 127.0.0.1; further processes at the next ones.",
)
@click.option(
    "--reload", is_flag=True, help="Restart when a Python file of this directory changes."
)
@click.option("--quiet", is_flag=True, help="Print only warnings.")
def worker(
    *,
    target: str,
    url: str | None,
    services: tuple[str, ...],
    node: tuple[str, ...],
    weights: tuple[str, ...],
    requests: int,
    concurrency: int | None,
    processes: int,
    grace: float,
    level: str | None,
    no_schedules: bool,
    metrics: int | None,
    reload: bool,
    quiet: bool,
) -> None:
    """Run a worker until SIGTERM or SIGINT.

    MODULE:NAME is a function that takes an item, or Handlers; modules are searched in the current directory
    first. PUBQUEUE_URL is the default of --url; the password is in PUBQUEUE_PASSWORD, or
    in the file that PUBQUEUE_PASSWORD_FILE names. On exit the worker finishes its current items, and exits
    with 0.
    """
    if reload and find_spec("watchfiles") is None:
        stop(ASKED_WRONGLY, "--reload needs pip install 'pubqueue[reload]'")
    if metrics is not None and find_spec("prometheus_client") is None:
        stop(ASKED_WRONGLY, "--metrics needs pip install 'pubqueue[metrics]'")
    if quiet:
        os.environ["PUBQUEUE_QUIET"] = "1"
    # its warnings say what the worker says better; a program's own logging still has them
    logging.getLogger("slixmpp").addHandler(logging.NullHandler())
    supervised = reload or processes != 1
    try:
        settings = {
            "url": url or None,
            "services": services or None,
            "node": node or None,
            "requests": requests,
            "weights": _weights(weights),
            "grace": grace,
            "level": level,
            "schedules": not no_schedules,
            "metrics": metrics,
        }
        made = _worker(None, settings)  # a wrong flag runs nothing of the user's module
        if not supervised:
            made = _worker(load(target), settings)
        else:
            _check_processes(processes, url or os.environ[URL], metrics)
    except (ValueError, TargetError) as problem:
        stop(ASKED_WRONGLY, _uncapitalized(problem))
    if made is not None and not supervised:
        try:
            return asyncio.run(made.run(concurrency=concurrency))
        except ConfigurationError as problem:
            stop(ASKED_WRONGLY, _uncapitalized(problem))
        except PubqueueError as problem:
            stop(FAILED, _uncapitalized(problem))
    given = {
        "url": url,
        "requests": requests,
        "concurrency": concurrency,
        "grace": grace,
        "level": level,
    }
    flags = [f"--{name}={value}" for name, value in given.items() if value is not None]
    flags += [f"--service={name}" for name in services]
    flags += [f"--node={name}" for name in node] + [f"--weight={weight}" for weight in weights]
    flags += ["--no-schedules"] if no_schedules else []
    folder = Path.cwd() if reload else None
    served = [[] if metrics is None else [f"--metrics={metrics + at}"] for at in range(processes)]
    words = [["worker", target, *flags, *own] for own in served]
    sys.exit(asyncio.run(supervise(words, folder)))


def _worker(handlers: Handlers | None, settings: Mapping[str, Any]) -> Worker | None:
    """Make the worker, to check its settings too; None if its nodes are those of its handlers, and these are not known yet."""
    try:
        return Worker(handlers=handlers, **settings)
    except ConfigurationError as problem:
        if (
            handlers is None
            and settings["node"] is None
            and problem.argument in {"node", "weights"}
        ):
            return None
        raise


def _weights(given: Sequence[str]) -> dict[str, int]:
    weights = {}
    for one in given:
        node, _, weight = one.rpartition("=")
        if not node or not (weight.isascii() and weight.isdigit()):
            raise ValueError(f"--weight {one!r} is not of the form NODE=N, such as urgent=3")
        weights[node] = int(weight)
    return weights


def _check_processes(processes: int, url: str, metrics: int | None) -> None:
    if metrics is not None and metrics + processes > 65536:  # noqa: PLR2004  # after the last port
        raise ValueError(f"There are not {processes} ports from {metrics} on.")
    if processes > 1 and JID(read_url(url).jid).resource:
        raise ValueError(
            "Each of several processes chooses its own resource: remove the resource from the URL."
        )


def _uncapitalized(problem: Exception) -> str:
    """Return a sentence as it continues after the program's name."""
    sentence = str(problem).rstrip(".")
    first, _, rest = sentence.partition(" ")
    return f"{first.lower()} {rest}" if first.istitle() and rest else sentence


# The target of `pubqueue worker MODULE:NAME`: handlers, or a function that is one.


class TargetError(Exception):
    """The target cannot be run; the message is one sentence. Fact: `target`, or its module."""

    def __init__(self, message: str, target: str) -> None:
        super().__init__(message)
        self.target = target


def load(target: str) -> Handlers:
    """Import the target, from the current directory too, as Python's own tools do.

    A function becomes the handler of all items. Raises TargetError; for a broken module, the traceback is
    printed as well.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise TargetError(f"{target!r} is not of the form module:function", target)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    found: object = _module(module_name, here)
    for part in name.split("."):
        if not hasattr(found, part):
            raise TargetError(f"the module {module_name} has no {name}", target)
        found = getattr(found, part)
    return _handlers(found, target)


def _module(name: str, here: str) -> object:
    try:
        return import_module(name)
    except ModuleNotFoundError as problem:
        missing = problem.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise TargetError(
                f"there is no module {missing}, neither in {here} nor installed", name
            ) from None
        raise TargetError(
            f"the module {name} needs {missing}, which is not installed", name
        ) from None
    except ImportError as problem:
        raise TargetError(f"the module {name} cannot be imported: {problem}", name) from None
    except Exception as problem:
        traceback.print_exc()
        kind = type(problem).__name__
        raise TargetError(f"the module {name} cannot be imported ({kind})", name) from None


def _handlers(found: object, target: str) -> Handlers:
    if isinstance(found, Handlers):
        if not len(found):
            raise TargetError(f"{target} has no handlers", target)
        return found
    if inspect.isclass(found) or not callable(found):
        raise TargetError(f"{target} is neither a function nor Handlers", target)
    handlers = Handlers()
    try:
        handlers.handler()(found)
    except TypeError as problem:
        raise TargetError(str(problem).rstrip("."), target) from None
    return handlers
